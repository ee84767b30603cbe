// What is known of one request on its way through: who, where to, and what its headers asked of us.
import type { Principal } from "../platform/permissions.ts";
import { keysOf } from "./credential.ts";
import type { LogRecord, Outcome } from "./logs/protocol.ts";
import type { Provider } from "./providers.ts";
import { type Sent, sizeOf } from "./sent.ts";
import type { LiveGateway } from "./settings.ts";

const TIMEOUT_MS_MAX = 86_400_000;
const EVENT_ID_CHARS_MAX = 256;

/** Everything the answer and the log need to know, gathered on the way. */
export type Passage = {
  id: string;
  startMs: number;
  gateway: LiveGateway;
  provider: Provider;
  principal: Principal | undefined;
  method: string;
  path: string;
  query: string;
  /** As the client sent them. */
  given: Headers;
  eventId: string;
  collect: boolean;
  payload: boolean;
  firstByteMsMax: number | undefined;
  metadata: string | undefined;
  customCost: string | undefined;
};
type Known = Pick<
  Passage,
  "id" | "startMs" | "gateway" | "provider" | "principal" | "method" | "path" | "query" | "given"
>;

/** Adds what the caller's own headers ask for; most callers ask nothing. */
export function toPassage(known: Known, asks: boolean): Passage {
  const { id, given, gateway } = known;
  const own = asks ? given : NO_HEADERS;
  const eventId = own.get("gw-aig-event-id") ?? own.get("cf-aig-event-id");
  return {
    ...known,
    eventId: eventId && eventId.length <= EVENT_ID_CHARS_MAX ? eventId : id,
    collect: flag(own.get("gw-aig-collect-log") ?? own.get("cf-aig-collect-log"), gateway.collectLogs),
    payload: flag(
      own.get("gw-aig-collect-log-payload") ?? own.get("cf-aig-collect-log-payload"),
      gateway.collectPayload,
    ),
    firstByteMsMax: timeoutOf(own.get("gw-aig-request-timeout") ?? own.get("cf-aig-request-timeout")),
    metadata: own.get("gw-aig-metadata") ?? own.get("cf-aig-metadata") ?? undefined,
    customCost: own.get("gw-aig-custom-cost") ?? own.get("cf-aig-custom-cost") ?? undefined,
  };
}

const NO_HEADERS = { get: (_name: string): string | null => null };

/** What the head of the answer says. */
export type Head = Pick<LogRecord, "status" | "firstByteMs" | "responseType" | "responseEncoding">;

/** Field by field: spreading the parts together costs several times as much, and every request pays it. */
export function toRecord(passage: Passage, sent: Sent, head: Head, outcome: Outcome, responseBytes: number): LogRecord {
  const { given, gateway, provider, principal } = passage;
  return {
    id: passage.id,
    gateway: gateway.key,
    provider: provider.slug,
    price: provider.price,
    base: provider.base,
    method: passage.method,
    path: passage.path,
    status: head.status,
    outcome,
    durationMs: performance.now() - passage.startMs,
    firstByteMs: head.firstByteMs,
    tokenId: principal?.tokenId,
    tokenName: principal?.name,
    authentication: gateway.authentication,
    requestType: given.get("content-type") ?? undefined,
    requestEncoding: given.get("content-encoding") ?? undefined,
    requestBytes: sizeOf(sent),
    responseType: head.responseType,
    responseEncoding: head.responseEncoding,
    responseBytes,
    userAgent: given.get("user-agent") ?? undefined,
    eventId: passage.eventId,
    metadata: passage.metadata,
    customCost: passage.customCost,
    payload: passage.payload,
    keys: passage.payload ? keysOf(given, passage.query, provider.headers) : [],
  };
}

/** Both spellings, so that clients of either find what they know. Names in full: one put together is made anew each time. */
export function mark(headers: Headers, { id, eventId, collect }: Passage, overheadMs: number, isEvents: boolean): void {
  if (collect) {
    headers.set("gw-aig-log-id", id);
    headers.set("cf-aig-log-id", id);
  }
  headers.set("gw-aig-request-id", id);
  headers.set("cf-aig-request-id", id);
  headers.set("gw-aig-event-id", eventId);
  headers.set("cf-aig-event-id", eventId);
  headers.set("gw-aig-step", "0");
  headers.set("cf-aig-step", "0");
  headers.set("gw-aig-cache-status", "MISS");
  headers.set("cf-aig-cache-status", "MISS");
  const timing = `gateway;dur=${overheadMs.toFixed(2)}`;
  const theirs = headers.get("server-timing");
  headers.set("server-timing", theirs === null ? timing : `${theirs}, ${timing}`);
  const theirId = headers.get("x-request-id"); // the edge puts ours there
  if (theirId !== null) headers.set("x-upstream-request-id", theirId);
  if (!isEvents) return;
  headers.set("x-accel-buffering", "no"); // a proxy in front of us would gather the stream otherwise
  if (!headers.has("cache-control")) headers.set("cache-control", "no-cache");
}

function flag(text: string | null, otherwise: boolean): boolean {
  return text === "true" ? true : text === "false" ? false : otherwise;
}

function timeoutOf(text: string | null): number | undefined {
  const ms = text === null ? Number.NaN : Number(text);
  return Number.isInteger(ms) && ms > 0 ? Math.min(ms, TIMEOUT_MS_MAX) : undefined;
}
