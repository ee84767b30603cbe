// The task queue: first in, first out, stored before it is promised, run at least once, attempts counted over restarts.
import type { Database } from "bun:sqlite";
import { held } from "./database.ts";
import type { DeadLetters } from "./dead-letters.ts";
import type { Pace } from "./pace.ts";
import { parseRetry, RETRY, type Retry, type RetryOptions, retryDelayMs, textOf } from "./retry.ts";
import type { Work } from "./work.ts";

export type Queue = ReturnType<typeof createQueue>;
export type QueueItem<T = unknown> = {
  id: string;
  callback: string;
  payload: T;
  createdAt: number;
  created_at: number;
  attempts: number;
  retry?: RetryOptions;
};

type Row = {
  seq: number;
  id: string;
  callback: string;
  payload: string;
  retry: string;
  attempts: number;
  due_ms: number;
  created_s: number;
  revision: number;
};

export type LaneParts = {
  db: Database;
  pace: Pace;
  work: Work;
  dead: DeadLetters;
  now: () => number;
  random: () => number;
  newId: () => string;
  retry: () => Retry;
  /** Runs the agent's method; rejects when it throws or does not exist. */
  invoke: (callback: string, payload: unknown, item: unknown) => Promise<unknown>;
  emit: (type: string, payload: Record<string, unknown>) => void;
  onFailure: (error: unknown) => void;
  /** What was to be written down could not be: looks again after a while. */
  onTrouble: (error: unknown) => void;
};

export function createQueue(parts: LaneParts & { itemsMax: number }) {
  const { db, pace, work, dead, now, random, newId, invoke, emit, onFailure, itemsMax } = parts;
  const insert = held(
    db,
    `insert into gatehouse_queue (id, callback, payload, retry, due_ms, created_s) values (?1, ?2, ?3, ?4, ?5, ?6)
     on conflict (id) do update set callback = ?2, payload = ?3, retry = ?4, due_ms = ?5, attempts = 0, revision = revision + 1`,
  );
  const count = held<{ n: number }, []>(db, "select count(*) as n from gatehouse_queue");
  const head = held<Row, []>(db, "select * from gatehouse_queue order by seq limit 1");
  const byId = held<Row, [string]>(db, "select * from gatehouse_queue where id = ?");
  const all = held<Row, [number]>(db, "select * from gatehouse_queue order by seq limit ?");
  const remove = held(db, "delete from gatehouse_queue where id = ?");
  const removeAll = held(db, "delete from gatehouse_queue");
  const removeBy = held(db, "delete from gatehouse_queue where callback = ?");
  const finish = held(db, "delete from gatehouse_queue where id = ? and revision = ?");
  const start = held(db, "update gatehouse_queue set attempts = attempts + 1 where id = ?");
  const delay = held(db, "update gatehouse_queue set due_ms = ? where id = ? and revision = ?");
  let running = false;

  function push(callback: string, payload: unknown, options: { retry?: RetryOptions; id?: string } = {}) {
    const id = options.id ?? newId();
    const retry = JSON.stringify(parseRetry(options.retry, parts.retry()));
    const text = JSON.stringify(payload) ?? "null";
    const dueMs = now();
    return pace.store(dueMs, () => {
      if ((count().get()?.n ?? 0) >= itemsMax) throw new Error(`The queue is full (${itemsMax} items)`);
      insert().run(id, callback, text, retry, dueMs, Math.floor(dueMs / 1000));
      emit("queue:create", { callback, id });
      return id;
    });
  }

  /** One at a time: a failing head is retried before anything behind it, and buried when its attempts are spent. */
  async function run(): Promise<void> {
    if (running) return;
    running = true;
    try {
      for (let row = head().get(); row && !work.draining; row = head().get()) {
        if (row.due_ms > now()) break;
        await work.run(() => attempt(row));
      }
    } finally {
      running = false;
    }
    if (!work.draining) pace.arm();
  }

  async function attempt(row: Row): Promise<void> {
    const { id, callback, revision } = row;
    const retry: Retry = { ...RETRY, ...JSON.parse(row.retry) };
    // Spent already, yet still here: the process or the thread died in the last attempt.
    if (row.attempts >= retry.maxAttempts) return give(row, new Error(`Interrupted in attempt ${row.attempts}`));
    start().run(id);
    const attempts = row.attempts + 1;
    try {
      await invoke(callback, JSON.parse(row.payload), toItem({ ...row, attempts }));
      finish().run(id, revision);
    } catch (error) {
      if (attempts >= retry.maxAttempts) return give({ ...row, attempts }, error);
      emit("queue:retry", { callback, id, attempt: attempts, maxAttempts: retry.maxAttempts });
      delay().run(now() + retryDelayMs(attempts, retry, random), id, revision);
    }
  }

  function give(row: Row, error: unknown): void {
    const message = textOf(error);
    db.transaction(() => {
      if (finish().run(row.id, row.revision).changes > 0) dead.bury({ ...row, kind: "queue" }, message);
    })();
    emit("queue:error", { callback: row.callback, id: row.id, attempts: row.attempts, error: message });
    onFailure(error);
  }

  return {
    push,
    run,
    dueMs: () => (running ? null : (head().get()?.due_ms ?? null)),
    /** Also what is in flight: for the ledger, which must know of it after a crash. */
    storedDueMs: () => head().get()?.due_ms ?? null,
    length: () => count().get()?.n ?? 0,
    get: (id: string) => toItemOrNothing(byId().get(id)),
    list: (limit: number) => all().all(limit).map(toItem),
    remove: (id: string) => remove().run(id).changes > 0,
    removeAll: () => removeAll().run().changes,
    removeBy: (callback: string) => removeBy().run(callback).changes,
  };
}

const toItemOrNothing = (row: Row | null): QueueItem | undefined => (row ? toItem(row) : undefined);

function toItem({ id, callback, payload, created_s, attempts, retry }: Row): QueueItem {
  const at = { createdAt: created_s, created_at: created_s };
  return { id, callback, payload: JSON.parse(payload), ...at, attempts, retry: JSON.parse(retry) };
}
