// Work at a time: a delay, a date, a cron line, an interval. Missed times collapse into one run.
import { Cron } from "croner";
import { held } from "./database.ts";
import type { LaneParts } from "./queue.ts";
import { isFinal, parseRetry, RETRY, type Retry, type RetryOptions, retryDelayMs, textOf } from "./retry.ts";

export type Schedules = ReturnType<typeof createSchedules>;
export type ScheduleType = "scheduled" | "delayed" | "cron" | "interval";
export type Schedule<T = unknown> = {
  id: string;
  callback: string;
  payload: T;
  /** Unix seconds. */
  time: number;
  type: ScheduleType;
  delayInSeconds?: number;
  cron?: string;
  timezone?: string;
  intervalSeconds?: number;
  attempts: number;
  retry?: RetryOptions;
};
export type ScheduleOptions = { retry?: RetryOptions; idempotent?: boolean; timezone?: string };
export type ScheduleCriteria = { id?: string; type?: ScheduleType; timeRange?: { start?: Date; end?: Date } };

type Row = {
  id: string;
  callback: string;
  payload: string;
  type: ScheduleType;
  time_ms: number;
  due_ms: number;
  delay_s: number | null;
  cron: string | null;
  timezone: string | null;
  interval_s: number | null;
  retry: string;
  attempts: number;
};

const INTERVAL_S_MAX = 30 * 24 * 3600;
const DELAY_S_MAX = 1_000 * 366 * 24 * 3600; // a thousand years; much later there is no date that could be shown
const AT_ONCE_MAX = 8; // schedules of one agent running side by side, so that a slow one does not hold up the rest

export function createSchedules(parts: LaneParts & { schedulesMax: number; timezone: string }) {
  const { db, pace, work, dead, now, random, newId, invoke, emit, onFailure, onTrouble, schedulesMax } = parts;
  const insert = held(
    db,
    `insert into gatehouse_schedules (id, callback, payload, type, time_ms, due_ms, delay_s, cron, timezone, interval_s, retry)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const twin = held<Row, [string, string, string, string | null, string | null, number | null]>(
    db,
    `select * from gatehouse_schedules where callback = ? and payload = ? and type = ? and cron is ? and timezone is ?
     and interval_s is ? limit 1`,
  );
  const count = held<{ n: number }, []>(db, "select count(*) as n from gatehouse_schedules");
  const byId = held<Row, [string]>(db, "select * from gatehouse_schedules where id = ?");
  const all = held<Row, []>(db, "select * from gatehouse_schedules order by due_ms, id");
  const due = held<Row, [number, number]>(
    db,
    "select * from gatehouse_schedules where due_ms <= ? order by due_ms, id limit ?",
  );
  const remove = held(db, "delete from gatehouse_schedules where id = ?");
  const start = held(db, "update gatehouse_schedules set attempts = attempts + 1 where id = ?");
  const postpone = held(db, "update gatehouse_schedules set due_ms = ? where id = ?");
  const repeat = held(db, "update gatehouse_schedules set attempts = 0, time_ms = ?1, due_ms = ?1 where id = ?2");
  const running = new Set<string>();

  type Plan = Pick<Row, "callback" | "type" | "time_ms" | "delay_s" | "cron" | "timezone" | "interval_s">;

  function put(plan: Plan, payload: unknown, idempotent: boolean, retryOptions: RetryOptions | undefined) {
    const text = JSON.stringify(payload) ?? "null";
    const retry = JSON.stringify(parseRetry(retryOptions, parts.retry()));
    return pace.store(plan.time_ms, () => {
      const { callback, type, time_ms, delay_s, cron, timezone, interval_s } = plan;
      const same = idempotent ? twin().get(callback, text, type, cron, timezone, interval_s) : null;
      if (same) return toSchedule(same);
      if ((count().get()?.n ?? 0) >= schedulesMax) throw new Error(`An agent has at most ${schedulesMax} schedules`);
      const id = newId();
      insert().run(id, callback, text, type, time_ms, time_ms, delay_s, cron, timezone, interval_s, retry);
      emit("schedule:create", { callback, id });
      return toSchedule({ ...plan, id, payload: text, due_ms: time_ms, retry, attempts: 0 });
    });
  }

  async function schedule(
    when: number | Date | string,
    callback: string,
    payload: unknown,
    options: ScheduleOptions = {},
  ) {
    const blank = { callback, delay_s: null, cron: null, timezone: null, interval_s: null };
    const { retry, idempotent } = options;
    if (typeof when === "string") {
      const timezone = options.timezone ?? parts.timezone;
      const plan = {
        ...blank,
        type: "cron",
        cron: when,
        timezone,
        time_ms: firstCronMs(when, timezone, now()),
      } as const;
      return put(plan, payload, idempotent ?? true, retry);
    }
    if (when instanceof Date) {
      if (Number.isNaN(when.getTime())) throw new Error("schedule: that is no valid date");
      return put({ ...blank, type: "scheduled", time_ms: when.getTime() }, payload, idempotent ?? false, retry);
    }
    if (!Number.isFinite(when) || when < 0) throw new Error("schedule: a delay is a number of seconds, 0 or more");
    if (when > DELAY_S_MAX) throw new Error(`schedule: a delay is at most ${DELAY_S_MAX} seconds`);
    const plan = { ...blank, type: "delayed", delay_s: when, time_ms: now() + Math.round(when * 1000) } as const;
    return put(plan, payload, idempotent ?? false, retry);
  }

  async function scheduleEvery(
    seconds: number,
    callback: string,
    payload: unknown,
    options: { retry?: RetryOptions } = {},
  ) {
    if (!(seconds > 0 && seconds <= INTERVAL_S_MAX)) {
      throw new Error(`scheduleEvery: an interval is more than 0 and at most ${INTERVAL_S_MAX} seconds`);
    }
    const plan = {
      callback,
      type: "interval",
      delay_s: null,
      cron: null,
      timezone: null,
      interval_s: seconds,
    } as const;
    return put({ ...plan, time_ms: now() + Math.round(seconds * 1000) }, payload, true, options.retry);
  }

  function run(): void {
    if (work.draining) return;
    for (const row of due().all(now(), AT_ONCE_MAX + running.size)) {
      if (running.size >= AT_ONCE_MAX) return;
      if (running.has(row.id)) continue;
      running.add(row.id);
      work
        .run(() => attempt(row))
        .finally(() => running.delete(row.id))
        .then(() => {
          if (!work.draining) pace.arm();
        })
        .catch(onTrouble);
    }
  }

  async function attempt(row: Row): Promise<void> {
    const { id, callback } = row;
    const retry: Retry = { ...RETRY, ...JSON.parse(row.retry) };
    if (row.attempts >= retry.maxAttempts) return give(row, new Error(`Interrupted in attempt ${row.attempts}`));
    start().run(id);
    const attempts = row.attempts + 1;
    if (attempts === 1) emit("schedule:execute", { callback, id });
    try {
      await invoke(callback, JSON.parse(row.payload), toSchedule({ ...row, attempts }));
      settle(row);
    } catch (error) {
      if (attempts >= retry.maxAttempts || isFinal(error)) return give({ ...row, attempts }, error);
      emit("schedule:retry", { callback, id, attempt: attempts, maxAttempts: retry.maxAttempts });
      postpone().run(now() + retryDelayMs(attempts, retry, random), id);
    }
  }

  /**
   * What repeats is due again, counted from now: while it ran, or while the machine was off, times may have passed.
   * `false` if it was cancelled meanwhile.
   */
  function settle(row: Row): boolean {
    const nextMs = followingMs(row);
    return (nextMs === null ? remove().run(row.id) : repeat().run(nextMs, row.id)).changes > 0;
  }

  /** `null` when it was the last time: a cron line may name a year, or one date alone. */
  function followingMs({ cron, timezone, interval_s }: Row): number | null {
    if (cron !== null) return cronMs(cron, timezone ?? parts.timezone, now());
    return interval_s === null ? null : now() + Math.round(interval_s * 1000);
  }

  function give(row: Row, error: unknown): void {
    const message = textOf(error);
    db.transaction(() => {
      const isOneShot = row.type === "scheduled" || row.type === "delayed";
      if (settle(row) && isOneShot) dead.bury({ ...row, kind: "schedule" }, message);
    })();
    emit("schedule:error", { callback: row.callback, id: row.id, attempts: row.attempts, error: message });
    onFailure(error);
  }

  return {
    schedule,
    scheduleEvery,
    run,
    dueMs(): number | null {
      if (running.size >= AT_ONCE_MAX) return null;
      return (
        due()
          .all(Number.MAX_SAFE_INTEGER, running.size + 1)
          .find((row) => !running.has(row.id))?.due_ms ?? null
      );
    },
    storedDueMs: () => due().get(Number.MAX_SAFE_INTEGER, 1)?.due_ms ?? null,
    get: (id: string) => toScheduleOrNothing(byId().get(id)),
    list: ({ id, type, timeRange }: ScheduleCriteria = {}): Schedule[] =>
      all()
        .all()
        .filter((row) => (id === undefined || row.id === id) && (type === undefined || row.type === type))
        .filter((row) => row.time_ms >= (timeRange?.start?.getTime() ?? Number.NEGATIVE_INFINITY))
        .filter((row) => row.time_ms <= (timeRange?.end?.getTime() ?? Number.POSITIVE_INFINITY))
        .map(toSchedule),
    cancel(id: string): boolean {
      const gone = remove().run(id).changes > 0;
      if (gone) emit("schedule:cancel", { id });
      return gone;
    },
  };
}

function firstCronMs(line: string, timezone: string, fromMs: number): number {
  const firstMs = cronMs(line, timezone, fromMs);
  if (firstMs === null) throw new Error("No valid next date was found");
  return firstMs;
}

const cronMs = (line: string, timezone: string, fromMs: number): number | null =>
  new Cron(line, { timezone, paused: true }).nextRun(new Date(fromMs))?.getTime() ?? null;

const toScheduleOrNothing = (row: Row | null): Schedule | undefined => (row ? toSchedule(row) : undefined);

function toSchedule(row: Row): Schedule {
  return {
    id: row.id,
    callback: row.callback,
    payload: JSON.parse(row.payload),
    time: Math.floor(row.time_ms / 1000),
    type: row.type,
    attempts: row.attempts,
    retry: JSON.parse(row.retry),
    ...(row.delay_s === null ? {} : { delayInSeconds: row.delay_s }),
    ...(row.cron === null ? {} : { cron: row.cron }),
    ...(row.timezone === null ? {} : { timezone: row.timezone }),
    ...(row.interval_s === null ? {} : { intervalSeconds: row.interval_s }),
  };
}
