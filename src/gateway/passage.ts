// What is known of one request on its way through: who, where to, and what its headers asked of us.
import type { Principal } from "../platform/permissions.ts";
import type { LogRecord } from "./logs/protocol.ts";
import type { Provider } from "./providers.ts";
import type { Sent } from "./sent.ts";
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
  given: Record<string, string>;
  eventId: string;
  collect: boolean;
  payload: boolean;
  firstByteMsMax: number | undefined;
};
type Known = Pick<Passage, "id" | "startMs" | "gateway" | "provider" | "principal" | "method" | "path" | "given">;

/** Adds what the caller's own headers ask for. */
export function toPassage(known: Known): Passage {
  const { id, given, gateway } = known;
  const eventId = ownHeader(given, "event-id");
  return {
    ...known,
    eventId: eventId && eventId.length <= EVENT_ID_CHARS_MAX ? eventId : id,
    collect: flag(ownHeader(given, "collect-log"), gateway.collectLogs),
    payload: flag(ownHeader(given, "collect-log-payload"), gateway.collectPayload),
    firstByteMsMax: timeoutOf(ownHeader(given, "request-timeout")),
  };
}

export type Head = Pick<LogRecord, "status" | "firstByteMs" | "responseType" | "responseEncoding">;
type Seen = Head & Pick<LogRecord, "outcome" | "responseBytes">;

export function toRecord(
  { given, gateway, provider, principal, ...passage }: Passage,
  sent: Sent,
  seen: Seen,
): LogRecord {
  return {
    id: passage.id,
    gateway: gateway.key,
    provider: provider.slug,
    price: provider.price,
    base: provider.base,
    method: passage.method,
    path: passage.path,
    durationMs: performance.now() - passage.startMs,
    tokenId: principal?.tokenId,
    tokenName: principal?.name,
    authentication: gateway.authentication,
    requestType: given["content-type"],
    requestEncoding: given["content-encoding"],
    userAgent: given["user-agent"],
    eventId: passage.eventId,
    metadata: ownHeader(given, "metadata"),
    customCost: ownHeader(given, "custom-cost"),
    payload: passage.payload,
    requestBytes: sent.total(),
    ...seen,
  };
}

/** Both spellings, so that clients of either find what they know. */
export function mark(headers: Headers, { id, eventId, collect }: Passage, overheadMs: number, isEvents: boolean): void {
  for (const prefix of ["gw-aig-", "cf-aig-"]) {
    if (collect) headers.set(`${prefix}log-id`, id);
    headers.set(`${prefix}request-id`, id);
    headers.set(`${prefix}event-id`, eventId);
    headers.set(`${prefix}step`, "0");
    headers.set(`${prefix}cache-status`, "MISS");
  }
  const timing = `gateway;dur=${overheadMs.toFixed(2)}`;
  const theirs = headers.get("server-timing");
  headers.set("server-timing", theirs === null ? timing : `${theirs}, ${timing}`);
  const theirId = headers.get("x-request-id"); // the edge puts ours there
  if (theirId !== null) headers.set("x-upstream-request-id", theirId);
  if (!isEvents) return;
  headers.set("x-accel-buffering", "no"); // a proxy in front of us would gather the stream otherwise
  if (!headers.has("cache-control")) headers.set("cache-control", "no-cache");
}

const OWN = ["event-id", "collect-log", "collect-log-payload", "request-timeout", "metadata", "custom-cost"] as const;
const SPELLINGS = Object.fromEntries(OWN.map((name) => [name, [`gw-aig-${name}`, `cf-aig-${name}`] as const]));

function ownHeader(given: Record<string, string>, name: (typeof OWN)[number]): string | undefined {
  const [ours = "", theirs = ""] = SPELLINGS[name] ?? [];
  return given[ours] ?? given[theirs];
}

function flag(text: string | undefined, otherwise: boolean): boolean {
  return text === "true" ? true : text === "false" ? false : otherwise;
}

function timeoutOf(text: string | undefined): number | undefined {
  const ms = text === undefined ? Number.NaN : Number(text);
  return Number.isInteger(ms) && ms > 0 ? Math.min(ms, TIMEOUT_MS_MAX) : undefined;
}
