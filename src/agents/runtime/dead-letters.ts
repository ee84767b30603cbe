// Work that failed for good, kept so that a person can look at it and try it again.
import type { Database } from "bun:sqlite";
import { held } from "./database.ts";

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
  const insert = held(
    db,
    "insert or replace into gatehouse_dead (id, kind, callback, payload, retry, error, attempts, died_ms) values (?, ?, ?, ?, ?, ?, ?, ?)",
  );
  const trim = held(
    db,
    "delete from gatehouse_dead where id not in (select id from gatehouse_dead order by died_ms desc, id desc limit ?)",
  );
  const list = held<Row, [number]>(db, "select * from gatehouse_dead order by died_ms desc, id desc limit ?");
  const one = held<Row, [string]>(db, "select * from gatehouse_dead where id = ?");
  const remove = held(db, "delete from gatehouse_dead where id = ?");

  const count = held<{ n: number }, []>(db, "select count(*) as n from gatehouse_dead");

  return {
    count: () => count().get()?.n ?? 0,
    bury(letter: Pick<Row, "id" | "kind" | "callback" | "payload" | "retry" | "attempts">, error: string): void {
      const { id, kind, callback, payload, retry, attempts } = letter;
      insert().run(id, kind, callback, payload, retry, error.slice(0, ERROR_CHARS_MAX), attempts, now());
      trim().run(keepMax);
    },
    list: (limit: number): DeadLetter[] =>
      list()
        .all(limit)
        .map(({ payload, retry: _, died_ms, ...row }) => ({
          ...row,
          payload: JSON.parse(payload),
          diedAt: new Date(died_ms).toISOString(),
        })),
    find: (id: string): Row | undefined => one().get(id) ?? undefined,
    drop: (id: string): boolean => remove().run(id).changes > 0,
  };
}
