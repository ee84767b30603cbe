// From the journal to the agents: the first attempt, every later one, and the end of trying.
import { AppError, type ErrorCode } from "../platform/errors.ts";
import type { Log } from "../platform/log.ts";
import type { Journal } from "./journal.ts";
import type { Content, DeliveryRow, Mark } from "./journal-schema.ts";
import { LEASE_MS } from "./journal-store.ts";

export type Answer = { status: number; headers: [string, string][]; body: Uint8Array };

/** What an agent is handed: the request as it was sent, and beside it what was found out about it. */
export type AgentDelivery = {
  method: string;
  url: string;
  headers: [string, string][];
  body: Uint8Array;
  facts: {
    source: string;
    verdict: string;
    id: string;
    type: string;
    action?: string;
    title: string;
    description?: string;
    url?: string;
    actor?: string;
    attempt: number;
    replay: boolean;
    receivedAt: string;
    options: Record<string, unknown>;
  };
};
export type Deliver = (className: string, name: string, delivery: AgentDelivery) => Promise<Answer>;

/** A row and its content, from the journal or on its way into it. */
export type Job = {
  row: Omit<DeliveryRow, "due_ms" | "finished_ms" | "duration_ms" | "reason" | "answer">;
  content: Content;
};
export type Outcome = {
  job: Job;
  atMs: number;
  status: "done" | "pending" | "dead";
  answer?: number;
  reason?: string;
  durationMs: number;
};

export type Dispatch = ReturnType<typeof createDispatch>;

type DispatchParts = {
  journal: Journal;
  deliver: Deliver;
  /** Settings of the source that the agent's side needs; the source may be gone by now. */
  optionsOf: (source: string) => Record<string, unknown>;
  originOf: () => string;
  now: () => number;
  random: () => number;
  log: Log;
  onOutcome: (outcome: Outcome) => void;
};

export const ATTEMPTS_MAX = 10;
const RETRY_MS = 9_000; // times three after each failure: nine gaps make about a day
const RETRY_FACTOR = 3;
const JITTER = 0.2; // either way, so that what failed together does not come back together
const IN_FLIGHT_MAX = 1_000; // attempts at a time, over all agents; more wait in the journal
const TAKE_MAX = 100;
const WAKE_MS_MAX = 60_000; // a look at the clock at least this often: timers do not see a suspended machine

/** Failures that say nothing about the delivery: the agent never saw it, so they cost no attempt. */
const FREE_MS: Partial<Record<ErrorCode, number>> = {
  "agent.busy": 1_000,
  "agent.resting": 5_000,
  "agent.broken": 15_000,
  "agent.class": 15_000,
  "server.stopping": 1_000,
};

export function createDispatch(parts: DispatchParts) {
  const { journal, deliver, optionsOf, originOf, now, random, log, onOutcome } = parts;
  const inFlight = new Set<number>();
  let timer: Timer | undefined;
  let timerMs = Number.POSITIVE_INFINITY;
  let pumping = false;
  let again = false;
  let running = false;

  /** One attempt, from beginning to mark. Resolves to the agent's answer, or to nothing when it is to be tried again. */
  async function attempt(job: Job): Promise<Answer | undefined> {
    const { row } = job;
    const startMs = now();
    inFlight.add(row.seq);
    try {
      const answer = await deliver(row.class, row.name, toDelivery(job));
      if (answer.status >= 500) {
        fail(job, startMs, `the agent answered ${answer.status}`, answer.status);
        return undefined;
      }
      settle(job, startMs, {
        seq: row.seq,
        outcome: "done",
        answer: answer.status,
        atMs: now(),
        durationMs: now() - startMs,
      });
      return answer;
    } catch (error) {
      if (!(error instanceof AppError)) log.error("hook.attempt", { delivery: row.id, error });
      const code = error instanceof AppError ? error.code : "internal";
      fail(job, startMs, error instanceof AppError ? error.message : "the attempt failed", undefined, code);
      return undefined;
    } finally {
      inFlight.delete(row.seq);
      if (row.ordered === 1 || again) void pump();
    }
  }

  function fail(job: Job, startMs: number, reason: string, answer?: number, code: ErrorCode = "internal"): void {
    const { seq, attempts } = job.row;
    const told = answer === undefined ? {} : { answer };
    const freeMs = FREE_MS[code];
    if (code === "agent.destroyed") {
      settle(job, startMs, { seq, outcome: "dead", reason: "destroyed", atMs: now(), ...told });
    } else if (freeMs !== undefined) {
      const dueMs = now() + jittered(freeMs, random());
      settle(job, startMs, { seq, outcome: "retry", reason, dueMs, attempts: attempts - 1 });
    } else if (attempts >= ATTEMPTS_MAX) {
      settle(job, startMs, { seq, outcome: "dead", reason, atMs: now(), ...told });
    } else {
      const delayMs = jittered(RETRY_MS * RETRY_FACTOR ** (attempts - 1), random());
      settle(job, startMs, { seq, outcome: "retry", reason, dueMs: now() + delayMs, attempts, ...told });
    }
  }

  function settle(job: Job, startMs: number, mark: Mark): void {
    // Lost in a crash, an agent would run a replay once more, and the last attempt would be a dead letter though it went well.
    const { replay, attempts } = job.row;
    journal.mark(mark, replay === 1 || attempts >= ATTEMPTS_MAX ? "now" : "soon");
    if (mark.outcome === "retry") wakeAt(mark.dueMs);
    onOutcome({
      job,
      atMs: now(),
      durationMs: now() - startMs,
      status: mark.outcome === "retry" ? "pending" : mark.outcome,
      ...(mark.answer !== undefined && { answer: mark.answer }),
      ...(mark.outcome !== "done" && { reason: mark.reason }),
    });
  }

  function toDelivery({ row, content }: Job): AgentDelivery {
    return {
      method: row.method,
      url: `${originOf()}${row.path}`,
      headers: content.headers,
      body: content.body,
      facts: {
        source: row.source,
        verdict: "ok",
        id: row.delivery_id,
        type: row.type,
        ...(row.action !== null && { action: row.action }),
        title: row.title,
        ...(row.description !== null && { description: row.description }),
        ...(row.url !== null && { url: row.url }),
        ...(row.actor !== null && { actor: row.actor }),
        attempt: row.attempts,
        replay: row.replay === 1,
        receivedAt: new Date(row.received_ms).toISOString(),
        options: optionsOf(row.source),
      },
    };
  }

  function wakeAt(atMs: number): void {
    if (!running || atMs >= timerMs) return;
    clearTimeout(timer);
    timerMs = atMs;
    timer = setTimeout(
      () => {
        timerMs = Number.POSITIVE_INFINITY;
        void pump();
      },
      Math.min(Math.max(atMs - now(), 0), WAKE_MS_MAX),
    );
  }

  /** Takes what is due, as much as there is room for. */
  async function pump(): Promise<void> {
    if (!running) return;
    again = pumping;
    if (pumping) return;
    pumping = true;
    try {
      const limit = Math.min(TAKE_MAX, IN_FLIGHT_MAX - inFlight.size);
      if (limit <= 0) {
        again = true; // the next attempt that ends looks again
        return;
      }
      const { taken, nextMs } = await journal.ask("take", {
        nowMs: now(),
        limit,
        leaseMs: LEASE_MS,
        busy: [...inFlight],
      });
      for (const job of taken) {
        if (running) void attempt(job);
        else postpone(job); // it stopped meanwhile
      }
      if (taken.length > 0) again = true; // there may be more than one handful
      if (nextMs !== null) wakeAt(nextMs);
    } catch (error) {
      log.error("hook.dispatch", { error });
      wakeAt(now() + RETRY_MS);
    } finally {
      pumping = false;
      if (again && inFlight.size < IN_FLIGHT_MAX) {
        again = false;
        queueMicrotask(() => void pump());
      }
    }
  }

  /** No room now: it waits in the journal like everything that is due. */
  function postpone({ row: { seq, attempts } }: Job): void {
    const reason = "waits for a free slot";
    journal.mark({ seq, outcome: "retry", reason, dueMs: now(), attempts: attempts - 1 });
    wakeAt(now());
  }

  return {
    attempt,
    pump,
    postpone,
    room: (): number => Math.max(0, IN_FLIGHT_MAX - inFlight.size),
    inFlight: (): number => inFlight.size,
    /** Whatever was not done when the process ended is delivered again at once. */
    async start(): Promise<void> {
      running = true;
      const { undone } = await journal.ask("resume", { nowMs: now(), attemptsMax: ATTEMPTS_MAX });
      if (undone > 0) log.info("hook.resumed", { undone });
      await pump();
    },
    stop(): void {
      running = false;
      clearTimeout(timer);
    },
  };
}

/** Between 80 and 120 percent. */
export function jittered(ms: number, random: number): number {
  return Math.round(ms * (1 - JITTER + 2 * JITTER * random));
}
