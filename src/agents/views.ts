// What management shows of agents: rows of the ledger, joined with who is live, and what a thread says about itself.

import { mkdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { type Static, type TSchema, Type as t } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { AppError } from "../platform/errors.ts";
import { toTime } from "../platform/schema.ts";
import type { Agents } from "./agents.ts";
import { readDormant } from "./dormant.ts";
import type { LedgerRow } from "./ledger.ts";
import { type AgentView, type ListQuery, SqlAnswer } from "./model.ts";
import { createSqlBox } from "./sql-box.ts";
import { readVanishing } from "./vanishing-file.ts";

/** What crosses from a thread is checked here: it is user code's neighbour. */
const Summary = t.Object({
  queueLength: t.Integer(),
  schedules: t.Integer(),
  dead: t.Integer(),
  bytes: t.Integer(),
  tables: t.Array(t.String()),
});
const State = t.Object({ state: t.Unknown() });
const QueueItems = t.Array(
  t.Object({
    id: t.String(),
    callback: t.String(),
    payload: t.Unknown(),
    attempts: t.Integer(),
    createdAt: t.Integer(),
  }),
);
const Schedules = t.Array(
  t.Object({
    id: t.String(),
    callback: t.String(),
    payload: t.Unknown(),
    type: t.String(),
    time: t.Integer(),
    attempts: t.Integer(),
    cron: t.Optional(t.String()),
    timezone: t.Optional(t.String()),
    intervalSeconds: t.Optional(t.Number()),
  }),
);
const DeadLetters = t.Array(
  t.Object({
    id: t.String(),
    kind: t.String(),
    callback: t.String(),
    payload: t.Unknown(),
    error: t.String(),
    attempts: t.Integer(),
    diedAt: t.String(),
  }),
);

export function createViews(agents: Agents) {
  const { catalog, ledger, roster } = agents;
  const sqlBox = createSqlBox();
  const exports = join(agents.dataFolder, "exports");
  rmSync(exports, { recursive: true, force: true }); // a crash may have left one half written

  function toView(row: LedgerRow): AgentView {
    const seat = roster.seat(row.class, row.name);
    return {
      class: row.class,
      name: row.name,
      phase: seat?.phase ?? "asleep",
      created_at: toTime(row.created_ms),
      last_active_at: toTime(Math.max(row.active_ms, seat?.host ? seat.activeMs : 0)),
      next_due_at: row.due_ms === null ? null : toTime(row.due_ms),
      connections: seat?.audience.clients.size ?? 0,
      queue_length: row.queue_length,
      bytes: seat?.host ? bytesOnDisk(agents.pathOf(row.class, row.name)) : row.bytes,
    };
  }

  async function overview() {
    await agents.ready();
    const counts = ledger.counts();
    const live = roster.seats().filter((seat) => seat.host !== undefined);
    return {
      classes: catalog.list().map(({ className, file, options, callables }) => ({
        class: className,
        file: file ?? null,
        public: options.public ?? false,
        callables,
        agents: counts.get(className) ?? 0,
        live: live.filter((seat) => seat.className === className).length,
      })),
      broken: catalog.broken().map(({ file, problem, classes }) => ({
        file: problem.file ?? file,
        line: problem.line ?? null,
        column: problem.column ?? null,
        message: problem.message,
        classes,
      })),
      threads: { live: roster.threadCount, live_max: agents.liveMax, spare: roster.spareCount },
    };
  }

  async function list(className: string, query: Static<typeof ListQuery>) {
    await agents.ready();
    const known = catalog.get(className) !== undefined || ledger.counts().has(className);
    if (!known) throw new AppError("agent.class");
    const { prefix = "", cursor = "", limit = 100 } = query;
    const rows = ledger.list(className, { prefix, after: cursor, limit });
    const next = rows.length === limit ? (rows.at(-1)?.name ?? null) : null;
    return { rows: rows.map(toView), next };
  }

  async function detail(className: string, name: string) {
    const { dead, schedules, queueLength, bytes, tables } = await ask(Summary, className, name, "summary");
    const row = ledger.one(className, name);
    if (!row) throw new AppError("agent.unknown");
    return { ...toView(row), queue_length: queueLength, bytes, schedules, dead_letters: dead, tables };
  }

  async function ask<T extends TSchema>(schema: T, className: string, name: string, verb: string): Promise<Static<T>> {
    await agents.ready();
    // Its class does not load, or is gone: what it stored is there all the same.
    const dormant = !agents.canRun(className, name) && agents.exists(className, name);
    const said = dormant
      ? await readDormant(verb, (query) => sql(className, name, query), ledger.one(className, name)?.bytes ?? 0)
      : await agents.house(className, name, verb);
    return Value.Parse(schema, said);
  }

  /** What the agent has committed so far; it is not woken for it. */
  async function sql(className: string, name: string, query: string): Promise<SqlAnswer> {
    await agents.ready();
    if (!agents.exists(className, name)) throw new AppError("agent.unknown");
    return Value.Parse(SqlAnswer, await sqlBox.query(agents.pathOf(className, name), query));
  }

  /** A consistent copy of its database, whether it is live, asleep or broken. */
  async function copy(className: string, name: string): Promise<ReadableStream<Uint8Array>> {
    await agents.ready();
    if (!agents.exists(className, name)) throw new AppError("agent.unknown");
    mkdirSync(exports, { recursive: true });
    const path = join(exports, `${crypto.randomUUID()}.db`);
    await sqlBox.copy(agents.pathOf(className, name), path);
    return readVanishing(path);
  }

  return {
    overview,
    list,
    detail,
    sql,
    copy,
    state: (className: string, name: string) => ask(State, className, name, "state"),
    queue: async (className: string, name: string) =>
      (await ask(QueueItems, className, name, "queue")).map(({ createdAt, ...item }) => ({
        ...item,
        created_at: toTime(createdAt * 1000),
      })),
    schedules: async (className: string, name: string) =>
      (await ask(Schedules, className, name, "schedules")).map(({ time, intervalSeconds, ...one }) => ({
        ...one,
        time: toTime(time * 1000),
        ...(intervalSeconds === undefined ? {} : { interval_seconds: intervalSeconds }),
      })),
    dead: async (className: string, name: string) =>
      (await ask(DeadLetters, className, name, "dead")).map(({ diedAt, ...one }) => ({ ...one, died_at: diedAt })),
  };
}

/** Of one that is live the ledger knows only what it had when it last slept. */
function bytesOnDisk(path: string): number {
  return [path, `${path}-wal`].reduce((sum, file) => sum + (statSync(file, { throwIfNoEntry: false })?.size ?? 0), 0);
}
