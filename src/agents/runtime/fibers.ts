// Fibers: long work that is accepted once, leaves checkpoints, and is noticed when a crash cut it off.
import type { Database } from "bun:sqlite";
import { withOccasion } from "./context.ts";
import { held } from "./database.ts";
import type { Pace } from "./pace.ts";
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
export type FiberVerdict = { status: FiberStatus; snapshot?: unknown; error?: string };

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
  const list = held<Row, [string | null, number]>(
    db,
    "select * from gatehouse_fibers where ?1 is null or status = ?1 order by created_ms, id limit ?2",
  );
  const stash = held(db, "update gatehouse_fibers set snapshot = ?, updated_ms = ? where id = ?");
  const settle = held(db, "update gatehouse_fibers set status = ?, error = ?, updated_ms = ? where id = ?");
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
      settle().run(controller.signal.aborted ? "aborted" : "completed", null, now(), id);
      emit("fiber:run:completed", { fiberId: id, fiberName: name });
      return result;
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      settle().run(controller.signal.aborted ? "aborted" : "error", message, now(), id);
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

  return {
    inspect: (id: string) => toInspectionOrNothing(byId().get(id)),
    inspectByKey: (key: string) => toInspectionOrNothing(byKey().get(key)),
    list: (status?: FiberStatus, limit = 100) =>
      list()
        .all(status ?? null, limit)
        .map(toInspection),
    remove: (id: string) => remove().run(id).changes > 0,
    cancel(id: string): boolean {
      live.get(id)?.abort();
      return live.has(id);
    },
    resolve: (id: string, verdict: FiberVerdict): boolean => {
      if (verdict.snapshot !== undefined) stash().run(JSON.stringify(verdict.snapshot), now(), id);
      return settle().run(verdict.status, verdict.error ?? null, now(), id).changes > 0;
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
      for (const row of list().all("running", KEEP_MAX)) {
        emit("fiber:run:interrupted", { fiberId: row.id, fiberName: row.name });
        recovering().run(row.id);
        const { snapshot, metadata } = toInspection(row);
        let verdict: FiberVerdict | undefined = { status: "interrupted" };
        try {
          if (row.attempts < RECOVERIES_MAX) {
            verdict = await hook({ id: row.id, name: row.name, snapshot, metadata, attempts: row.attempts + 1 });
          }
        } catch (error) {
          onFailure(error);
        }
        if (verdict?.snapshot !== undefined) stash().run(JSON.stringify(verdict.snapshot), now(), row.id);
        settle().run(verdict?.status ?? "interrupted", verdict?.error ?? null, now(), row.id);
      }
    },
    /** A running fiber makes the agent due: after a crash it must be woken to hear of it. */
    storedDueMs: () => (list().get("running", 1) ? 0 : null),
  };
}

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
