// What a WebhookAgent remembers: the history of events, and the ids of deliveries it has seen. SQL only.

import type { SqlTag } from "../runtime/database.ts";
import { INBOX_TABLE, REMEMBERED_MS } from "../runtime/deliveries.ts";

/** One row of the history, with exactly these columns. `payload` is serialized JSON, `timestamp` ISO-8601 UTC. */
export type EventRow = {
  id: string;
  type: string;
  action: string | null;
  title: string;
  description: string | null;
  url: string | null;
  actor: string | null;
  payload: string | null;
  timestamp: string;
};
/** `events` newest ones, none older than `days`; zero turns either off. */
export type Retention = { events: number; days: number };
export type Taken = "new" | "again" | "done";
export type History = ReturnType<typeof createHistory>;

const SWEEP_MS = 60_000; // days pass slowly: once a minute is often enough to look for what is too old
const DAY_MS = 86_400_000;

export function createHistory(sql: SqlTag, exec: (query: string) => void) {
  exec(`create table if not exists events (
    id text primary key not null, type text not null, action text, title text not null, description text, url text,
    actor text, payload text, timestamp text not null)`);
  exec("create index if not exists events_timestamp on events (timestamp desc)");
  exec(INBOX_TABLE);
  let stored: number | undefined; // how many events there are; counted when it is not known
  let sweptMs = 0;

  /** Insert first: the id decides, before anything else is written. Runs inside a transaction. */
  function take(row: EventRow, source: string, status: "started" | "done", replay: boolean, keep: Retention): Taken {
    const atMs = Date.parse(row.timestamp);
    const isNew = sql`insert into gatehouse_inbox (source, id, status, attempts, at_ms)
      values (${source}, ${row.id}, ${status}, 1, ${atMs}) on conflict (id, source) do nothing returning 1`;
    if (isNew.length === 0 && !replay) return again(row.id, source, status);
    try {
      store(row, source);
      trim(keep);
    } catch (error) {
      stored = undefined; // whatever was written is taken back
      throw error;
    }
    return "new";
  }

  function again(id: string, source: string, status: "started" | "done"): Taken {
    const [known] = sql<{ status: string }>`
      select status from gatehouse_inbox where id = ${id} and source = ${source}`;
    if (known?.status === "done") return "done";
    sql`update gatehouse_inbox set status = ${status}, attempts = attempts + 1 where id = ${id} and source = ${source}`;
    return "again";
  }

  function store(row: EventRow, source: string): void {
    if (insert(row)) {
      stored = stored === undefined ? undefined : stored + 1;
      return;
    }
    // Two senders may use one id, and the history's key is the id alone: the later one says whose it is.
    const [other] = sql`select 1 from gatehouse_inbox where id = ${row.id} and source <> ${source} limit 1`;
    const id = other ? `${source}:${row.id}` : row.id;
    sql`delete from events where id = ${id}`;
    insert({ ...row, id });
    stored = undefined;
  }

  function insert(row: EventRow): boolean {
    const { id, type, action, title, description, url, actor, payload, timestamp } = row;
    const inserted = sql`
      insert into events (id, type, action, title, description, url, actor, payload, timestamp)
      values (${id}, ${type}, ${action}, ${title}, ${description}, ${url}, ${actor}, ${payload}, ${timestamp})
      on conflict (id) do nothing returning 1`;
    return inserted.length > 0;
  }

  function trim({ events, days }: Retention): void {
    stored ??= sql<{ n: number }>`select count(*) as n from events`[0]?.n ?? 0;
    const over = events > 0 ? stored - events : 0;
    if (over > 0) {
      // One too many is the everyday case, and a third of the cost by a statement of its own.
      if (over === 1)
        sql`delete from events where rowid = (select rowid from events order by timestamp, rowid limit 1)`;
      else sql`delete from events where rowid in (select rowid from events order by timestamp, rowid limit ${over})`;
      stored = events;
    }
    const now = Date.now();
    if (now - sweptMs < SWEEP_MS) return;
    sweptMs = now;
    sql`delete from gatehouse_inbox where status = 'done' and at_ms < ${now - REMEMBERED_MS}`;
    if (days === 0) return;
    sql`delete from events where timestamp < ${new Date(now - days * DAY_MS).toISOString()}`;
    stored = undefined;
  }

  return {
    take,
    finish(id: string, source: string): void {
      sql`update gatehouse_inbox set status = 'done' where id = ${id} and source = ${source}`;
    },
    newest: (limit: number): EventRow[] =>
      sql<EventRow>`select * from events order by timestamp desc, rowid desc limit ${limit}`,
    newestOf: (type: string, limit: number): EventRow[] =>
      sql<EventRow>`select * from events where type = ${type} order by timestamp desc, rowid desc limit ${limit}`,
  };
}
