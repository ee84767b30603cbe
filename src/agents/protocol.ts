// Everything the main thread and an agent thread may say to each other. Types only, and one shared counter page:
// structured clone drops prototypes and own fields (an Error arrives without its `code`), so what crosses is plain data.
import type { ErrorCode } from "../platform/errors.ts";

export type ClassSource = { builtIn: string } | { file: string; exportName: string; uses: BuiltInUse };

/** Modules of the platform that concern us when a file or one of its packages imports them; loading them takes time. */
export type BuiltInUse = {
  /** Its port would be an unbounded way out of the thread. */
  workerThreads: boolean;
  /** Somebody may listen to the agent's events. */
  diagnosticsChannel: boolean;
};

/** What a thread must know before it can become any agent of one class. */
export type Load = {
  className: string;
  source: ClassSource;
  counters: SharedArrayBuffer;
  limits: ThreadLimits;
  /** Nobody waits for it yet: there is time to rehearse. */
  spare: boolean;
};

export type ThreadLimits = {
  /** Bytes a thread may have on their way to the main thread; postMessage itself has no backpressure. */
  outputBytesMax: number;
  /** How long one handler may take; past it nobody waits for it any more. */
  handlerMsMax: number;
  /** How often the thread shows that its event loop turns. */
  beatMs: number;
  queueMax: number;
  schedulesMax: number;
  deadMax: number;
  timezone: string;
  /** Addresses, ranges and host names that an agent's webhooks never go to. */
  outgoingDeny?: readonly string[];
};

export type Assignment = {
  name: string;
  databasePath: string;
  env: Record<string, string>;
  /** Class names an agent file may reach through `env.Counter` and `getAgentByName`. */
  classes: string[];
  /** Clients that stayed connected while the agent slept. */
  sockets: SocketInfo[];
  /** What the central ledger holds as this agent's next due time: work may only be stored at or after it. */
  ledgerDueMs: number | null;
  /** For `onStart`, as JSON: only when the life begins because another agent asked for it with props. */
  props: string | undefined;
};

/** A client's connection as the thread knows it; the socket itself never leaves the main thread. */
export type SocketInfo = {
  socket: number;
  /** The client's `_pk`, which two sockets may share. */
  id: string;
  uri: string;
  headers: [string, string][];
  /** May this caller write state? A class open to the public usually says no. */
  mayWriteState: boolean;
  /** Kept here over hibernation, because the thread forgets. */
  kept: KeptConnection;
};
export type KeptConnection = { state: unknown; tags: string[]; readonly: boolean; protocol: boolean };

/** A webhook's verified facts, beside the request as it was sent. */
export type DeliveryFacts = {
  source: string;
  verdict: string;
  id: string;
  type: string;
  action?: string | undefined;
  title?: string | undefined;
  description?: string | undefined;
  url?: string | undefined;
  actor?: string | undefined;
  attempt?: number | undefined;
  replay?: boolean | undefined;
  /** ISO-8601 receive time. */
  receivedAt?: string | undefined;
  /** Settings of the source that the agent's side needs, such as how many events to keep. */
  options?: Record<string, unknown> | undefined;
};

export type RequestHead = {
  method: string;
  url: string;
  headers: [string, string][];
  delivery?: DeliveryFacts | undefined;
};

export type ToAgent =
  | ({ type: "load" } & Load)
  | ({ type: "assign" } & Assignment)
  | ({ type: "request"; id: number; body: Uint8Array | null; streamed: boolean } & RequestHead)
  | { type: "piece"; id: number; bytes: Uint8Array }
  | { type: "eof"; id: number; broken: boolean }
  | { type: "credit"; id: number; pieces: number }
  | { type: "cancel"; id: number }
  | { type: "call"; id: number; method: string; args: unknown[]; by: CallBy }
  | { type: "open"; info: SocketInfo }
  | { type: "frame"; socket: number; data: string | Uint8Array }
  | { type: "closed"; socket: number; code: number; reason: string; clean: boolean }
  | { type: "answered"; id: number; outcome: CallOutcome }
  | { type: "noted"; id: number; ok: boolean }
  /** `drainMs` is how long work in flight may take to finish; null: answer `busy` instead of waiting for any. */
  | { type: "stop"; drainMs: number | null };

/** client: only what is marked callable. agent: any public method. house: the runtime's own management verbs. */
export type CallBy = "client" | "agent" | "house";

export type CallOutcome =
  | { ok: true; output: unknown }
  /** `message` is a callable's own error text; nothing else that failed is ever told. */
  | { ok: false; code: ErrorCode; message?: string | undefined };

export type FromAgent =
  | { type: "loaded" }
  | { type: "started" }
  | { type: "unloadable"; problem: Problem }
  | { type: "unstartable"; problem: Problem }
  | {
      type: "head";
      id: number;
      status: number;
      headers: [string, string][];
      body: Uint8Array | null;
      last: boolean;
    }
  | { type: "piece"; id: number; bytes: Uint8Array }
  | { type: "end"; id: number; broken: boolean }
  | { type: "credit"; id: number; pieces: number }
  | { type: "stopBody"; id: number }
  | { type: "done"; id: number; outcome: CallOutcome }
  | { type: "send"; socket: number; data: string | Uint8Array }
  | { type: "broadcast"; data: string | Uint8Array; to: "all" | "protocol"; without: number[] }
  | { type: "close"; socket: number; code: number; reason: string }
  | { type: "kept"; socket: number; kept: KeptConnection }
  | { type: "ask"; id: number; className: string; name: string; what: Ask }
  /** Before work is stored that is due earlier than the ledger says; answered with `noted` once that is on disk. */
  | { type: "due"; id: number; atMs: number }
  | { type: "event"; event: AgentEvent }
  | { type: "problem"; problem: Problem }
  | { type: "busy" }
  | { type: "bye"; dueMs: number | null; queueLength: number; bytes: number }
  | { type: "destroy" };

/** One agent asking for another. */
export type Ask =
  | { verb: "start"; props: string }
  | { verb: "call"; method: string; args: unknown[] }
  | ({ verb: "fetch"; body: Uint8Array | null } & RequestHead);

export type Problem = {
  message: string;
  file?: string;
  line?: number;
  column?: number;
  stack?: string;
  /** How many came before it that were not told, because they were too many. */
  untold?: number;
};
export type AgentEvent = { type: string; payload: Record<string, unknown>; timestamp: number };

/** Places in the page of 32-bit counters that both sides see, even while the thread is busy. */
export const COUNTER = {
  /** Bytes posted by the thread and not yet taken by the main thread. */
  outputBytes: 0,
  /** Socket events the thread has finished with. */
  eventsDone: 1,
  /** Handlers, jobs and fibers at work. */
  atWork: 2,
  /** Turns of the event loop, counted by a timer. */
  beats: 3,
} as const;
export const COUNTERS_BYTES = 16;

/** Pieces of a streamed body on their way at once, each way. */
export const STREAM_CREDITS = 8;
export const PIECE_BYTES_MAX = 64 * 1024;
