// The central ledger's tables and every change that can be made to them: who exists, who is due, whose secrets.
import type { Database } from "bun:sqlite";

export const LEDGER_MIGRATIONS = [
  `create table agents (
     class text not null,
     name text not null,
     created_ms integer not null,
     active_ms integer not null,
     -- Never later than the true time: null is "nothing to do", 0 is "look at once".
     due_ms integer,
     bytes integer not null default 0,
     queue_length integer not null default 0,
     -- Set before its files are removed, so that a crash in between is finished at the next start.
     condemned integer not null default 0,
     primary key (class, name)
   ) strict, without rowid;
   create index agents_due on agents (due_ms) where due_ms is not null;
   create table secrets (
     class text not null,
     name text not null,
     sealed blob not null,
     updated_ms integer not null,
     primary key (class, name)
   ) strict, without rowid;`,
];

export type LedgerEntry =
  | { do: "know"; className: string; name: string; atMs: number }
  | { do: "due"; className: string; name: string; dueMs: number }
  | {
      do: "slept";
      className: string;
      name: string;
      atMs: number;
      dueMs: number | null;
      bytes: number;
      queueLength: number;
    }
  | { do: "condemn"; className: string; name: string }
  | { do: "forget"; className: string; name: string }
  | { do: "secret"; className: string; name: string; sealed: Uint8Array; atMs: number }
  | { do: "unsecret"; className: string; name: string };

export type LedgerRequest =
  | { type: "open"; path: string }
  | { type: "write"; id: number; entry: LedgerEntry }
  | { type: "close" };
export type LedgerReply = { ids: number[]; failure: string | undefined };

export function applyEntry(db: Database, entry: LedgerEntry): void {
  const { className, name } = entry;
  switch (entry.do) {
    case "know":
      db.query(
        `insert into agents (class, name, created_ms, active_ms) values (?1, ?2, ?3, ?3)
         on conflict do update set active_ms = ?3, condemned = 0`,
      ).run(className, name, entry.atMs);
      break;
    case "due":
      db.query("update agents set due_ms = min(coalesce(due_ms, ?3), ?3) where class = ?1 and name = ?2").run(
        className,
        name,
        entry.dueMs,
      );
      break;
    case "slept":
      db.query(
        "update agents set active_ms = ?3, due_ms = ?4, bytes = ?5, queue_length = ?6 where class = ?1 and name = ?2",
      ).run(className, name, entry.atMs, entry.dueMs, entry.bytes, entry.queueLength);
      break;
    case "condemn":
      db.query("update agents set condemned = 1, due_ms = null where class = ? and name = ?").run(className, name);
      break;
    case "forget":
      db.query("delete from agents where class = ? and name = ?").run(className, name);
      break;
    case "secret":
      db.query(
        `insert into secrets (class, name, sealed, updated_ms) values (?1, ?2, ?3, ?4)
         on conflict do update set sealed = ?3, updated_ms = ?4`,
      ).run(className, name, entry.sealed, entry.atMs);
      break;
    case "unsecret":
      db.query("delete from secrets where class = ? and name = ?").run(className, name);
      break;
  }
}
