// An agent's own database: our tables beside the user's, and the `sql` tag.
import type { Database, SQLQueryBindings, Statement } from "bun:sqlite";
import { openDatabase } from "../../platform/sqlite.ts";

/** As few pages as can be: there may be a hundred thousand of these files on a memory card. */
const MIGRATIONS = [
  `create table gatehouse_state (id integer primary key check (id = 1), state text not null) strict;
   create table gatehouse_queue (
     seq integer primary key,
     id text not null unique,
     callback text not null,
     payload text not null,
     retry text not null,
     attempts integer not null default 0,
     due_ms integer not null,
     created_s integer not null,
     revision integer not null default 0
   ) strict;
   create table gatehouse_schedules (
     id text primary key,
     callback text not null,
     payload text not null,
     type text not null,
     time_ms integer not null,
     due_ms integer not null,
     delay_s real,
     cron text,
     timezone text,
     interval_s real,
     retry text not null,
     attempts integer not null default 0
   ) strict, without rowid;
   create index gatehouse_schedules_due on gatehouse_schedules (due_ms);
   create table gatehouse_dead (
     id text primary key,
     kind text not null,
     callback text not null,
     payload text not null,
     retry text not null,
     error text not null,
     attempts integer not null,
     died_ms integer not null
   ) strict, without rowid;
   create table gatehouse_fibers (
     id text primary key,
     name text not null,
     key text unique,
     status text not null,
     snapshot text,
     metadata text,
     error text,
     attempts integer not null default 0,
     created_ms integer not null,
     updated_ms integer not null
   ) strict, without rowid;`,
];

/** A log that is written over again flushes faster than one that grows, and a thousand agents have one each. */
const CHECKPOINT_PAGES = 100;

export function openAgentDatabase(path: string): Database {
  const db = openDatabase(path, MIGRATIONS, "FULL");
  db.run(`pragma wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
  return db;
}

/** A statement prepared at its first use: a short life needs few of ours, and preparing all is a third of a wake. */
export function held<Row = unknown, Values extends SQLQueryBindings[] = SQLQueryBindings[]>(
  db: Database,
  query: string,
) {
  const prepare = () => db.prepare<Row, Values>(query);
  let statement: ReturnType<typeof prepare> | undefined;
  return (): ReturnType<typeof prepare> => {
    statement ??= prepare();
    return statement;
  };
}

export function bytesOf(db: Database): number {
  const pages = db.query<{ bytes: number }, []>(
    "select page_count * page_size as bytes from pragma_page_count, pragma_page_size",
  );
  return pages.get()?.bytes ?? 0;
}

export type SqlValue = string | number | bigint | boolean | null | Uint8Array;
export type SqlTag = <Row = Record<string, SqlValue>>(strings: TemplateStringsArray, ...values: unknown[]) => Row[];

/** A failed statement, with the text that failed. */
export class SqlError extends Error {
  override readonly name = "SqlError";
  readonly query: string;
  constructor(query: string, cause: unknown) {
    super(`SQL query failed: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.query = query;
  }
}

const STATEMENTS_MAX = 200; // more distinct templates than one agent file holds; the rest are prepared each time

export function createSqlTag(db: Database): SqlTag {
  const held = new Map<string, Statement>();
  return function sql<Row>(strings: TemplateStringsArray, ...values: unknown[]): Row[] {
    const query = strings.join("?");
    try {
      let statement = held.get(query);
      if (!statement) {
        statement = db.prepare(query);
        if (held.size < STATEMENTS_MAX) held.set(query, statement);
      }
      // The row type is the agent author's claim about their own table, as in every SQL tag.
      return statement.all(...values.map(toBinding)) as Row[];
    } catch (error) {
      throw new SqlError(query, error);
    }
  };
}

function toBinding(value: unknown): SqlValue {
  if (value === undefined) return null;
  if (value instanceof Date) return value.toISOString();
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (value === null || value instanceof Uint8Array) return value;
  if (typeof value === "string" || typeof value === "number" || typeof value === "bigint") return value;
  if (typeof value === "boolean") return value ? 1 : 0;
  throw new TypeError(
    "A value in sql`…` must be text, a number, bytes, a boolean or null; use JSON.stringify for objects",
  );
}
