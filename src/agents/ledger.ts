// The central ledger as the main thread sees it: reads at once, writes through one thread and resolved when on disk.

import { AppError } from "../platform/errors.ts";
import type { Log } from "../platform/log.ts";
import { openDatabase } from "../platform/sqlite.ts";
import { LEDGER_MIGRATIONS, type LedgerEntry, type LedgerReply, type LedgerRequest } from "./ledger-entries.ts";

export type Ledger = ReturnType<typeof openLedger>;
export type LedgerRow = {
  class: string;
  name: string;
  created_ms: number;
  active_ms: number;
  due_ms: number | null;
  bytes: number;
  queue_length: number;
};

const WRITES_MAX = 20_000; // on their way to the disk at once; past it the disk stands still and callers are told
const CLOSE_MS_MAX = 5_000;

export function openLedger(path: string, worker: string, log: Log) {
  const db = openDatabase(path, LEDGER_MIGRATIONS, "FULL"); // main reads only; the first open also makes the tables
  const one = db.prepare<LedgerRow, [string, string]>(
    "select * from agents where class = ? and name = ? and condemned = 0",
  );
  const dueRows = db.prepare<LedgerRow, [number, string, number, number]>(
    `select * from agents where due_ms <= ? and condemned = 0 and class in (select value from json_each(?))
     order by due_ms, class, name limit ? offset ?`,
  );
  const nextDue = db.prepare<{ due: number | null }, [number]>(
    "select min(due_ms) as due from agents where due_ms > ?",
  );
  const page = db.prepare<LedgerRow, [string, string, string, string, number]>(
    `select * from agents where class = ? and name > ? and name >= ? and name < ? and condemned = 0
     order by name limit ?`,
  );
  const classes = db.prepare<{ class: string; agents: number }, []>(
    "select class, count(*) as agents from agents where condemned = 0 group by class",
  );
  const condemned = db.prepare<LedgerRow, []>("select * from agents where condemned = 1");
  const secrets = db.prepare<{ class: string; name: string; sealed: Uint8Array; updated_ms: number }, []>(
    "select * from secrets order by class, name",
  );
  const waiting = new Map<number, PromiseWithResolvers<void>>();
  let thread: Worker | undefined;
  let lastId = 0;

  /** Started with the first write: a house without agents has no thread for them. */
  function writer(): Worker {
    if (thread) return thread;
    const started = new Worker(worker, { env: {} });
    started.onmessage = ({ data }: MessageEvent<LedgerReply>) => {
      if (data.failure) log.error("agents.ledger_failed", { failure: data.failure });
      for (const id of data.ids) settle(id, data.failure);
    };
    started.addEventListener("close", () => {
      if (thread === started) thread = undefined; // the next write starts another
      for (const id of [...waiting.keys()]) settle(id, "closed");
    });
    started.postMessage({ type: "open", path } satisfies LedgerRequest);
    thread = started;
    return started;
  }

  function settle(id: number, failure: string | undefined): void {
    if (failure === undefined) waiting.get(id)?.resolve();
    else
      waiting
        .get(id)
        ?.reject(new AppError(failure === "SQLITE_FULL" ? "storage.full" : "internal", { cause: failure }));
    waiting.delete(id);
  }

  function write(entry: LedgerEntry): Promise<void> {
    if (waiting.size >= WRITES_MAX) return Promise.reject(new AppError("agent.busy"));
    const id = ++lastId;
    const written = Promise.withResolvers<void>();
    waiting.set(id, written);
    writer().postMessage({ type: "write", id, entry } satisfies LedgerRequest);
    return written.promise;
  }

  return {
    write,
    one: (className: string, name: string) => one.get(className, name) ?? undefined,
    /** Of these classes only: agents whose code does not load must not stand in front of the others. */
    due: (atMs: number, classNames: string[], limit: number, offset: number) =>
      dueRows.all(atMs, JSON.stringify(classNames), limit, offset),
    nextDueMs: (afterMs: number) => nextDue.get(afterMs)?.due ?? null,
    list: (className: string, { prefix = "", after = "", limit = 100 } = {}) =>
      page.all(className, after, prefix, `${prefix}\u{10FFFF}`, limit),
    counts: () => new Map(classes.all().map((row) => [row.class, row.agents])),
    condemned: () => condemned.all(),
    secrets: () => secrets.all(),
    async close(): Promise<void> {
      const ending = thread;
      if (ending) {
        const ended = new Promise<void>((resolve) => ending.addEventListener("close", () => resolve()));
        ending.postMessage({ type: "close" } satisfies LedgerRequest);
        const late = new Promise<void>((resolve) => setTimeout(resolve, CLOSE_MS_MAX).unref());
        await Promise.race([ended, late]); // one that is stuck in the disk cannot be ended
      }
      db.close();
    },
  };
}
