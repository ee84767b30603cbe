// Everything the main thread and the log threads may say to each other. Plain data: it crosses by structured clone.
import type { PriceSetting } from "../pricing.ts";
import type { LogDetail, LogPage, StatsAnswer, StoredBody } from "./reader.ts";

/** How a request ended. Only `answered` is a whole answer, whatever its status. */
export type Outcome = "answered" | "client_left" | "upstream_failed" | "upstream_silent" | "timeout" | "stream_cut";

/** The status of a request whose client left before the answer. Nobody reads it but the log. */
export const CLIENT_LEFT = 499;

/** One proxied request as the main thread knows it: facts only. Reading bodies and pricing happen in the thread. */
export type LogRecord = {
  /** A UUIDv7: the time of the row is in it. */
  id: string;
  /** `account/gateway`. */
  gateway: string;
  provider: string;
  /** The provider's name in the price table, and its address where it has none. */
  price: string | undefined;
  base: string;
  method: string;
  /** Without the query: keys travel there. */
  path: string;
  status: number;
  outcome: Outcome;
  durationMs: number;
  firstByteMs: number | undefined;
  tokenId: string | undefined;
  tokenName: string | undefined;
  /** The gateway asked for a token. */
  authentication: boolean;
  requestType: string | undefined;
  requestEncoding: string | undefined;
  requestBytes: number;
  responseType: string | undefined;
  responseEncoding: string | undefined;
  responseBytes: number;
  userAgent: string | undefined;
  eventId: string | undefined;
  /** Header texts as they came; the thread decides what of them is valid. */
  metadata: string | undefined;
  customCost: string | undefined;
  /** Bodies are stored, not only read for their counts. */
  payload: boolean;
  /** What the provider knows the caller by. Never stored: it is looked for in the bodies that are. */
  keys: string[];
};

/** Bounded copies of what went by. */
export type Captured = { request?: Uint8Array; head?: Uint8Array; tail?: Uint8Array };

/** Where a record's captures lie in the batch's bytes: start and length. */
export type Span = [start: number, length: number];
export type PackedRecord = LogRecord & { request?: Span; head?: Span; tail?: Span };

export type Retention = { rowsMax: number; daysMax: number; bytesMax: number };
/** A gateway's own cap (`log_management`). */
export type GatewayCap = { gateway: string; rowsMax: number; whenFull: "stop" | "delete" };

export type WriterSetup = {
  path: string;
  retention: Retention;
  caps: GatewayCap[];
  prices: Record<string, PriceSetting>;
};

export const OPERATORS = ["eq", "neq", "contains", "lt", "gt"] as const;
export type Filter = { key: string; operator: (typeof OPERATORS)[number]; value: (string | null)[] };
export type Selection = { gateway: string; filters: Filter[]; search?: string };
export type ListQuery = Selection & {
  page: number;
  perPage: number;
  orderBy: string;
  descending: boolean;
  /** Rows on the far side of this one in the order of time: paging that does not slow down with depth. */
  after?: string;
  metaInfo: boolean;
};
/** Which go first, and how many at most; without a word the oldest, and all. */
export type Removal = { limit?: number; orderBy?: string; descending?: boolean };
export type StatsQuery = { gateway: string; sinceMs: number };
export type Feedback = { feedback?: number | null; score?: number | null; metadata?: string | null };

export type ToWriter =
  | { type: "open"; id: number; setup: WriterSetup }
  | { type: "batch"; id: number; text: string; bytes: Uint8Array }
  | { type: "cap"; id: number; cap: GatewayCap }
  | { type: "delete"; id: number; selection: Selection; removal: Removal }
  | { type: "feedback"; id: number; gateway: string; logId: string; feedback: Feedback }
  | { type: "stop"; id: number };
export type ToReader =
  | { type: "read"; id: number; path: string }
  | { type: "list"; id: number; query: ListQuery }
  | { type: "get"; id: number; gateway: string; logId: string }
  | { type: "body"; id: number; gateway: string; logId: string; side: "request" | "response" }
  | { type: "stats"; id: number; query: StatsQuery }
  | { type: "stop"; id: number };
export type Answer =
  | { type: "done" }
  | { type: "count"; count: number }
  | { type: "found"; found: boolean }
  | { type: "page"; page: LogPage }
  | { type: "detail"; detail: LogDetail | undefined }
  | { type: "body"; body: StoredBody | undefined }
  | { type: "stats"; stats: StatsAnswer };
export type Failed = { type: "failed"; code: string; message: string };
export type FromThread =
  | ((Answer | Failed) & { id: number })
  | { type: "note"; event: string; fields: Record<string, unknown> };
