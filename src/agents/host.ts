// The main thread's handle on one agent thread. Owns the thread's lifetime: no call outlives it, because
// postMessage to a dead worker neither throws nor answers.
import { AppError } from "../platform/errors.ts";
import { createExchanges, type ExchangeInput } from "./exchange.ts";
import {
  type AgentEvent,
  type Assignment,
  type CallBy,
  type CallOutcome,
  type ClassSource,
  COUNTER,
  COUNTERS_BYTES,
  type FromAgent,
  type Problem,
  type ThreadLimits,
  type ToAgent,
} from "./protocol.ts";
import { sizeOf } from "./runtime/outbox.ts";

export type Host = ReturnType<typeof startHost>;
export type HostLimits = ThreadLimits & {
  /** Calls, requests and client events one agent may have in hand. */
  callsMax: number;
  eventsMax: number;
  stopMsMax: number;
  heartbeatMsMax: number;
};
export type Bye = Extract<FromAgent, { type: "bye" }>;
export type Ending = { bye: Bye | undefined; problem: Problem | undefined };
export type SocketMessage = Extract<FromAgent, { type: "send" | "broadcast" | "close" | "kept" }>;
export type HostListener = {
  started(): void;
  socket(message: SocketMessage): void;
  ask(message: Extract<FromAgent, { type: "ask" }>): void;
  due(atMs: number): Promise<void>;
  event(event: AgentEvent): void;
  problem(problem: Problem): void;
  destroy(): void;
  /** The thread is gone. */
  ended(ending: Ending): void;
};

export function startHost(
  worker: string,
  className: string,
  source: ClassSource,
  limits: HostLimits,
  now: () => number,
  spare: boolean,
) {
  const thread = new Worker(worker, { env: {} }); // inherits nothing of ours; secrets come with the assignment
  const shared = new SharedArrayBuffer(COUNTERS_BYTES);
  const counters = new Int32Array(shared);
  const post = (message: ToAgent): void => thread.postMessage(message);
  const exchanges = createExchanges(post);
  const calls = new Map<number, PromiseWithResolvers<unknown>>();
  /** Those that nobody waits for any more: they count against the bound, and keep nobody awake. */
  const overdue = new Set<number>();
  const closed = Promise.withResolvers<"ended">();
  const startedAtMs = now();
  let listener: HostListener | undefined;
  let lastId = 0;
  let eventsSent = 0;
  let gone: AppError | undefined;
  let bye: Bye | undefined;
  let problem: Problem | undefined;
  let onBusy: (() => void) | undefined;
  let loaded = false;
  let beat = { count: 0, atMs: startedAtMs };

  post({ type: "load", className, source, counters: shared, limits: { ...limits }, spare });

  thread.onmessage = ({ data }: MessageEvent<FromAgent[]>) => {
    for (const message of data) {
      Atomics.sub(counters, COUNTER.outputBytes, sizeOf(message));
      take(message);
    }
  };
  thread.onerror = (event) => {
    problem ??= { message: event.message };
  };
  thread.addEventListener("close", () => {
    gone ??= new AppError("agent.gone");
    failAll(gone);
    closed.resolve("ended");
    listener?.ended({ bye, problem });
  });

  function take(message: FromAgent): void {
    switch (message.type) {
      case "done":
        settle(message.id, message.outcome);
        break;
      case "head":
      case "piece":
      case "end":
      case "credit":
      case "stopBody":
        exchanges.take(message);
        break;
      case "unloadable":
      case "unstartable":
        // Not worth keeping: the next event starts a fresh thread.
        problem = message.problem;
        gone = new AppError(message.type === "unloadable" ? "agent.broken" : "agent.failed", { cause: problem });
        failAll(gone);
        thread.terminate();
        break;
      case "bye":
        bye = message;
        gone ??= new AppError("agent.gone");
        break;
      case "busy":
        onBusy?.();
        break;
      case "loaded":
        loaded = true;
        break;
      case "started":
        listener?.started();
        break;
      case "due":
        void listener?.due(message.atMs).then(
          () => post({ type: "noted", id: message.id, ok: true }),
          () => post({ type: "noted", id: message.id, ok: false }), // the ledger logged why
        );
        break;
      case "ask":
        listener?.ask(message);
        break;
      case "event":
        listener?.event(message.event);
        break;
      case "problem":
        listener?.problem(message.problem);
        break;
      case "destroy":
        listener?.destroy();
        break;
      case "send":
      case "broadcast":
      case "close":
      case "kept":
        listener?.socket(message);
        break;
    }
  }

  function settle(id: number, outcome: CallOutcome): void {
    if (outcome.ok) calls.get(id)?.resolve(outcome.output);
    else {
      const error = new AppError(outcome.code, outcome.message === undefined ? {} : { say: outcome.message });
      if (!exchanges.refuse(id, error)) calls.get(id)?.reject(error);
    }
    calls.delete(id);
    overdue.delete(id);
  }

  function failAll(error: AppError): void {
    exchanges.failAll(error);
    for (const call of calls.values()) call.reject(error);
    calls.clear();
    overdue.clear();
  }

  function admit(): number {
    if (gone) throw gone;
    if (calls.size + exchanges.size >= limits.callsMax) throw new AppError("agent.busy", RETRY_SOON);
    return ++lastId;
  }

  return {
    assign(assignment: Assignment, hear: HostListener): void {
      listener = hear;
      post({ type: "assign", ...assignment });
    },
    async call(method: string, args: unknown[], by: CallBy, msMax = limits.handlerMsMax): Promise<unknown> {
      const id = admit();
      post({ type: "call", id, method, args, by }); // first: throws on what cannot be cloned
      const call = Promise.withResolvers<unknown>();
      calls.set(id, call); // kept past the deadline, so that a stuck agent turns busy instead of growing a queue
      const timer = setTimeout(() => {
        overdue.add(id);
        call.reject(new AppError("agent.slow"));
      }, msMax);
      return call.promise.finally(() => clearTimeout(timer));
    },
    async fetch(input: ExchangeInput, msMax = limits.handlerMsMax): Promise<Response> {
      return exchanges.start(admit(), input, msMax);
    },
    /** Client events are not answered; `false` says that the thread has too many in hand. */
    event(message: Extract<ToAgent, { type: "open" | "frame" | "closed" }>): boolean {
      if (message.type === "frame" && eventsSent - Atomics.load(counters, COUNTER.eventsDone) >= limits.eventsMax) {
        return false;
      }
      eventsSent++;
      post(message);
      return true;
    },
    answer: (id: number, outcome: CallOutcome): void => post({ type: "answered", id, outcome }),
    get idle(): boolean {
      const eventsDone = Atomics.load(counters, COUNTER.eventsDone);
      const awaited = calls.size - overdue.size + exchanges.size;
      return awaited === 0 && eventsSent === eventsDone && Atomics.load(counters, COUNTER.atWork) === 0;
    },
    /** Has the thread's event loop stood still for too long? */
    stalled(): boolean {
      const count = Atomics.load(counters, COUNTER.beats);
      if (count !== beat.count) beat = { count, atMs: now() };
      return now() - beat.atMs > limits.heartbeatMsMax;
    },
    /**
     * "busy": asked to stop if idle, and it is not. "stuck": the thread sits in native code (an endless SQL statement),
     * where terminate() has no effect until it returns.
     */
    async stop(drainMs: number | null): Promise<"ended" | "busy" | "stuck"> {
      const busy = Promise.withResolvers<"busy">();
      if (drainMs === null) onBusy = () => busy.resolve("busy"); // else it is the answer to an earlier question
      post({ type: "stop", drainMs });
      // One asked to stop only if idle is never cut off for being slow to answer: that is the watchdog's business.
      const graceMs = drainMs === null ? limits.heartbeatMsMax : drainMs + limits.stopMsMax;
      const heard = await Promise.race([closed.promise, busy.promise, after(graceMs, "late" as const)]);
      return heard === "late" ? end(new AppError("agent.gone")) : heard;
    },
    /** Its class is imported: from here it can become an agent in no time. */
    get loaded(): boolean {
      return loaded;
    },
    get ended(): boolean {
      return gone !== undefined;
    },
    /** A spare nobody needs any more. */
    discard: () => end(new AppError("agent.gone")),
    /** Ends the thread without asking it. Its callers hear `error` at once, even if the thread never lets go. */
    end,
  };

  async function end(error: AppError): Promise<"ended" | "stuck"> {
    gone ??= error;
    failAll(error);
    thread.terminate();
    return Promise.race([closed.promise, after(limits.stopMsMax, "stuck" as const)]);
  }
}

export const RETRY_SOON = { headers: { "retry-after": "1" } };

function after<T>(ms: number, value: T): Promise<T> {
  return new Promise((resolve) => setTimeout(resolve, ms, value).unref());
}
