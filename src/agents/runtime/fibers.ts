// Fibers: long work that is accepted once, leaves checkpoints, and is noticed when a crash cut it off.
import type { Database } from "bun:sqlite";
import { withOccasion } from "./context.ts";
import { held } from "./database.ts";
import type { Pace } from "./pace.ts";
import { textOf } from "./retry.ts";
import type { Work } from "./work.ts";

export type Fibers = ReturnType<typeof createFibers>;
export type FiberStatus = "pending" | "running" | "completed" | "aborted" | "interrupted" | "error";
export type FiberContext = { id: string; signal: AbortSignal; snapshot: unknown; stash(data: unknown): void };
export type FiberInspection = {
  fiberId: string;
  name: string;
  status: FiberStatus;
  idempotencyKey?: string;
  snapshot: unknown;
  metadata: unknown;
  error?: string;
  createdAt: number;
  updatedAt: number;
};
export type FiberStart = FiberInspection & { accepted: boolean };
export type FiberOptions = {
  fiberId?: string;
  idempotencyKey?: string;
  metadata?: unknown;
  waitForCompletion?: boolean;
};
export type FiberRecovery = { id: string; name: string; snapshot: unknown; metadata: unknown; attempts: number };
/** How a fiber that was cut off is to be remembered; `reason` is another word for `error`. */
export type FiberVerdict = { status: SettledStatus; snapshot?: unknown; error?: unknown; reason?: string };
export type FiberCriteria = { status?: FiberStatus | FiberStatus[]; name?: string; limit?: number };
export type FiberDeletion = { status?: FiberStatus | FiberStatus[]; settledBefore?: Date; limit?: number };
type SettledStatus = Exclude<FiberStatus, "pending" | "running">;

type Row = {
  id: string;
  name: string;
  key: string | null;
  status: FiberStatus;
  snapshot: string | null;
  metadata: string | null;
  error: string | null;
  attempts: number;
  created_ms: number;
  updated_ms: number;
};

const RECOVERIES_MAX = 10; // a fiber whose recovery kills the thread must not be recovered for ever
const KEEP_MAX = 10_000; // finished fibers remembered for their idempotency keys
const LIST_MAX = 1_000; // fibers in one answer; each may carry a checkpoint of any size
const LIST_DEFAULT = 100;
const SETTLED: readonly FiberStatus[] = ["completed", "aborted", "interrupted", "error"] satisfies SettledStatus[];
/** Deleted unless a caller says otherwise: not the interrupted ones, which still wait for somebody's verdict. */
const DONE_WITH: FiberStatus[] = ["completed", "aborted", "error"];

type FiberParts = {
  db: Database;
  pace: Pace;
  work: Work;
  now: () => number;
  newId: () => string;
  emit: (type: string, payload: Record<string, unknown>) => void;
  onFailure: (error: unknown) => void;
};

export function createFibers({ db, pace, work, now, newId, emit, onFailure }: FiberParts) {
  const insert = held(
    db,
    `insert into gatehouse_fibers (id, name, key, status, metadata, created_ms, updated_ms)
     values (?1, ?2, ?3, 'running', ?4, ?5, ?5)`,
  );
  const byId = held<Row, [string]>(db, "select * from gatehouse_fibers where id = ?");
  const byKey = held<Row, [string]>(db, "select * from gatehouse_fibers where key = ?");
  const list = held<Row, [string | null, string | null, number | null, number]>(
    db,
    `select * from gatehouse_fibers where (?1 is null or status in (select value from json_each(?1)))
     and (?2 is null or name = ?2) and (?3 is null or updated_ms < ?3) order by created_ms, id limit ?4`,
  );
  const stash = held(db, "update gatehouse_fibers set snapshot = ?, updated_ms = ? where id = ?");
  /** From one status alone: a fiber that was cancelled stays so, however its task ends. */
  const settle = held(
    db,
    "update gatehouse_fibers set status = ?, error = ?, updated_ms = ? where id = ? and status = ?",
  );
  const recovering = held(db, "update gatehouse_fibers set attempts = attempts + 1 where id = ?");
  const remove = held(db, "delete from gatehouse_fibers where id = ?");
  const trim = held(
    db,
    `delete from gatehouse_fibers where status in ('completed', 'aborted', 'error') and id not in
     (select id from gatehouse_fibers order by updated_ms desc limit ${KEEP_MAX})`,
  );
  const live = new Map<string, AbortController>();

  function begin(name: string, { fiberId, idempotencyKey, metadata }: FiberOptions): Promise<FiberStart> {
    return pace.store(now(), () => {
      const known = idempotencyKey === undefined ? fiberId && byId().get(fiberId) : byKey().get(idempotencyKey);
      if (known) return { ...toInspection(known), accepted: false };
      const id = fiberId ?? newId();
      insert().run(id, name, idempotencyKey ?? null, JSON.stringify(metadata) ?? null, now());
      live.set(id, new AbortController());
      return { ...inspect(id), accepted: true };
    });
  }

  async function execute<T>(id: string, name: string, task: (context: FiberContext) => Promise<T>): Promise<T> {
    const controller = live.get(id) ?? new AbortController();
    const save = (data: unknown): void => void stash().run(JSON.stringify(data) ?? null, now(), id);
    const context = { id, signal: controller.signal, snapshot: inspect(id).snapshot, stash: save };
    emit("fiber:run:started", { fiberId: id, fiberName: name });
    try {
      const result = await work.run(() => withOccasion({ fiber: { stash: save } }, () => task(context)));
      settle().run("completed", null, now(), id, "running");
      emit("fiber:run:completed", { fiberId: id, fiberName: name });
      return result;
    } catch (error) {
      const message = textOf(error);
      settle().run("error", message, now(), id, "running");
      emit("fiber:run:failed", { fiberId: id, fiberName: name, error: message });
      throw error;
    } finally {
      live.delete(id);
      trim().run();
    }
  }

  function inspect(id: string): FiberInspection {
    const row = byId().get(id);
    if (!row) throw new Error(`There is no fiber ${id}`);
    return toInspection(row);
  }

  function cancel(id: string, reason?: string): boolean {
    // First, so that a crash does not bring it back.
    const running = settle().run("aborted", reason ?? null, now(), id, "running").changes > 0;
    if (running) live.get(id)?.abort(reason);
    return running;
  }

  function conclude(id: string, from: FiberStatus, { status, snapshot, error, reason }: FiberVerdict): boolean {
    if (!SETTLED.includes(status)) throw new Error("A verdict is completed, aborted, interrupted or error");
    const checkpoint = JSON.stringify(snapshot); // before anything is written: throws on a ring
    const why = error ?? reason;
    const settled = settle().run(status, why === undefined ? null : textOf(why), now(), id, from).changes > 0;
    if (settled && checkpoint !== undefined) stash().run(checkpoint, now(), id);
    return settled;
  }

  return {
    cancel,
    inspect: (id: string) => toInspectionOrNothing(byId().get(id)),
    inspectByKey: (key: string) => toInspectionOrNothing(byKey().get(key)),
    list: ({ status, name, limit }: FiberCriteria = {}) =>
      list()
        .all(toStatuses(status), name ?? null, null, toLimit(limit))
        .map(toInspection),
    cancelByKey(key: string, reason?: string): boolean {
      const row = byKey().get(key);
      return row !== null && cancel(row.id, reason);
    },
    resolve: (id: string, verdict: FiberVerdict) => conclude(id, "interrupted", verdict),
    /** Answers how many. One that was cancelled and still runs is left: its key must not be taken a second time. */
    deleteSome({ status = DONE_WITH, settledBefore, limit }: FiberDeletion): number {
      const settled = [status].flat().filter((one) => SETTLED.includes(one));
      const rows = list().all(toStatuses(settled), null, settledBefore?.getTime() ?? null, toLimit(limit));
      const ended = rows.filter(({ id }) => !live.has(id));
      // One commit: a flush for each of a thousand would stop the thread for seconds on an SD card.
      db.transaction(() => {
        for (const { id } of ended) remove().run(id);
      })();
      return ended.length;
    },
    async run<T>(name: string, task: (context: FiberContext) => Promise<T>): Promise<T> {
      const { fiberId } = await begin(name, {});
      try {
        return await execute(fiberId, name, task);
      } finally {
        remove().run(fiberId);
      }
    },
    async start(
      name: string,
      task: (context: FiberContext) => Promise<unknown>,
      options: FiberOptions,
    ): Promise<FiberStart> {
      const started = await begin(name, options);
      if (!started.accepted) return started;
      const finished = execute(started.fiberId, name, task).catch(onFailure);
      if (!options.waitForCompletion) return started;
      await finished;
      return { ...inspect(started.fiberId), accepted: true };
    },
    /** Rows still `running` when a life begins were cut off in the last one. */
    async recover(hook: (fiber: FiberRecovery) => Promise<FiberVerdict | undefined>): Promise<void> {
      for (const row of list().all(RUNNING, null, null, KEEP_MAX)) {
        emit("fiber:run:interrupted", { fiberId: row.id, fiberName: row.name });
        recovering().run(row.id);
        const { snapshot, metadata } = toInspection(row);
        try {
          const attempts = row.attempts + 1;
          const spent = attempts > RECOVERIES_MAX;
          const verdict = spent ? undefined : await hook({ id: row.id, name: row.name, snapshot, metadata, attempts });
          conclude(row.id, "running", verdict ?? { status: "interrupted" });
        } catch (error) {
          onFailure(error);
          conclude(row.id, "running", { status: "interrupted" });
        }
      }
    },
    /** A running fiber makes the agent due: after a crash it must be woken to hear of it. */
    storedDueMs: () => (list().get(RUNNING, null, null, 1) ? 0 : null),
  };
}

const toStatuses = (status: FiberStatus | FiberStatus[] | undefined): string | null =>
  status === undefined ? null : JSON.stringify([status].flat());
const RUNNING = toStatuses("running");
const toLimit = (limit = LIST_DEFAULT): number => Math.min(Math.max(limit, 1), LIST_MAX);

const toInspectionOrNothing = (row: Row | null): FiberInspection | undefined => (row ? toInspection(row) : undefined);

function toInspection(row: Row): FiberInspection {
  return {
    fiberId: row.id,
    name: row.name,
    status: row.status,
    snapshot: row.snapshot === null ? undefined : JSON.parse(row.snapshot),
    metadata: row.metadata === null ? undefined : JSON.parse(row.metadata),
    createdAt: row.created_ms,
    updatedAt: row.updated_ms,
    ...(row.key === null ? {} : { idempotencyKey: row.key }),
    ...(row.error === null ? {} : { error: row.error }),
  };
}
