// Work that failed for good, kept so that a person can look at it and try it again.
import type { Database } from "bun:sqlite";

export type DeadLetters = ReturnType<typeof createDeadLetters>;
export type DeadLetter = {
  id: string;
  kind: "queue" | "schedule";
  callback: string;
  payload: unknown;
  error: string;
  attempts: number;
  diedAt: string;
};

type Row = {
  id: string;
  kind: "queue" | "schedule";
  callback: string;
  payload: string;
  retry: string;
  error: string;
  attempts: number;
  died_ms: number;
};

const ERROR_CHARS_MAX = 2_000;

export function createDeadLetters(db: Database, keepMax: number, now: () => number) {
  const insert = db.prepare(
    "insert or replace into gatehouse_dead (id, kind, callback, payload, retry, error, attempts, died_ms) values (?, ?, ?, ?, ?, ?, ?, ?)",
  );
  const trim = db.prepare(
    "delete from gatehouse_dead where id not in (select id from gatehouse_dead order by died_ms desc, rowid desc limit ?)",
  );
  const list = db.prepare<Row, [number]>("select * from gatehouse_dead order by died_ms desc, rowid desc limit ?");
  const one = db.prepare<Row, [string]>("select * from gatehouse_dead where id = ?");
  const remove = db.prepare("delete from gatehouse_dead where id = ?");

  const count = db.prepare<{ n: number }, []>("select count(*) as n from gatehouse_dead");

  return {
    count: () => count.get()?.n ?? 0,
    bury(letter: Pick<Row, "id" | "kind" | "callback" | "payload" | "retry" | "attempts">, error: string): void {
      const { id, kind, callback, payload, retry, attempts } = letter;
      insert.run(id, kind, callback, payload, retry, error.slice(0, ERROR_CHARS_MAX), attempts, now());
      trim.run(keepMax);
    },
    list: (limit: number): DeadLetter[] =>
      list.all(limit).map(({ payload, retry: _, died_ms, ...row }) => ({
        ...row,
        payload: JSON.parse(payload),
        diedAt: new Date(died_ms).toISOString(),
      })),
    take(id: string): Row | undefined {
      const row = one.get(id) ?? undefined;
      if (row) remove.run(id);
      return row;
    },
  };
}
