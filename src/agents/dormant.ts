// What management reads of an agent whose class does not load: no thread can become it, but its database can be asked.
import { AppError } from "../platform/errors.ts";
import type { SqlAnswer } from "./model.ts";

type Ask = (query: string) => Promise<SqlAnswer>;
type Row = Record<string, unknown>;

const QUEUE = "select id, callback, payload, attempts, created_s as createdAt from gatehouse_queue order by seq";
const SCHEDULES = `select id, callback, payload, type, time_ms / 1000 as time, attempts, cron, timezone,
  interval_s as intervalSeconds from gatehouse_schedules order by due_ms, id`;
const DEAD = `select id, kind, callback, payload, error, attempts,
  strftime('%Y-%m-%dT%H:%M:%fZ', died_ms / 1000.0, 'unixepoch') as diedAt from gatehouse_dead order by died_ms desc, id desc`;
const COUNTS = `select (select count(*) from gatehouse_queue) as queueLength,
  (select count(*) from gatehouse_schedules) as schedules, (select count(*) from gatehouse_dead) as dead`;
const TABLES = "select name from sqlite_master where type = 'table' order by name";
const STATE = "select state as payload from gatehouse_state";

/** The same answers as the runtime's verbs of these names; the sizes and rows of the SQL box bound them. */
export async function readDormant(verb: string, ask: Ask, bytes: number): Promise<unknown> {
  const read = async (query: string) => toRows(await ask(query));
  if (verb === "queue") return read(QUEUE);
  if (verb === "schedules") return read(SCHEDULES);
  if (verb === "dead") return read(DEAD);
  if (verb === "state") return { state: (await read(STATE))[0]?.payload ?? null };
  if (verb !== "summary") throw new AppError("agent.broken");
  const tables = (await read(TABLES)).map(({ name }) => name);
  return { ...(await read(COUNTS))[0], bytes, tables };
}

function toRows({ columns, rows }: SqlAnswer): Row[] {
  return rows.map((values) => {
    const pairs = columns.map((column, index): [string, unknown] => [column, values[index]]);
    const row = Object.fromEntries(pairs.filter(([, value]) => value !== null));
    return typeof row.payload === "string" ? { ...row, payload: JSON.parse(row.payload) } : row;
  });
}
