// One delivery's way in: credential, body, verify, payload, entity, journal, agent, answer. That order is the guarantee:
// what does not verify starts no thread, creates no file and changes nothing but a counter and a bounded log.
import { AppError, type ErrorCode } from "../platform/errors.ts";
import type { Log } from "../platform/log.ts";
import type { Counter, Metrics } from "../platform/metrics.ts";
import { readPayload } from "../platform/payload.ts";
import { addressOf, readBytes } from "../platform/request.ts";
import { type Incoming, needsSecret, precheck, type Verdict, verify } from "../platform/signature.ts";
import { forRejectionLog, forRejectionPath, pathWithoutCredentials, withoutCredentials } from "./credentials.ts";
import type { Answer, Dispatch, Job } from "./dispatch.ts";
import type { Journal } from "./journal.ts";
import type { Append, Appended, Rejection } from "./journal-schema.ts";
import { readDeliveries } from "./reading.ts";
import { type Source, type Sources, variablesOf } from "./sources.ts";
import type { Tail } from "./tail.ts";
import { parseTarget } from "./target.ts";
import type { Reading } from "./template.ts";
import { within } from "./within.ts";

export type Intake = ReturnType<typeof createIntake>;
export type Stage = "credential" | "body" | "verify" | "payload" | "entity" | "journal";

type IntakeParts = {
  sources: Sources;
  journal: Journal;
  dispatch: Dispatch;
  tail: Tail;
  /** Segments that already were entities when a built-in source of that name did not exist yet. */
  isEntityRoute: (segment: string) => boolean;
  /** A pause ended while a delivery was on its way in: it is held, and nobody would let it go. */
  onResumed: () => void;
  /** Refuses a foreign page where no credential protects the way in. */
  requireOurs: (request: Request) => void;
  publicUrl: string | undefined;
  bodyBytesMax: number;
  log: Log;
  metrics: Metrics;
  now: () => number;
};

const READING_BYTES_MAX = 256 * 1024 * 1024; // bodies under way, verified or not; past it senders are told to come back
const WARN_MS = 60_000; // a flood of deliveries that all meet the same trouble is one line a minute

export function createIntake(parts: IntakeParts) {
  const { sources, journal, dispatch, tail, publicUrl, bodyBytesMax, log, metrics, now } = parts;
  const results = metrics.counter("gatehouse_hook_deliveries_total", "Webhook requests by source and result");
  const counters = new Map<string, Counter>();
  const rejectedBy = new Map<string, number>();
  const warnedMs = new Map<string, number>();
  let readingBytes = 0;

  function count(source: string, result: string): void {
    const key = `${source} ${result}`;
    const known = counters.get(key) ?? results({ source, result });
    counters.set(key, known); // as many as sources times stages
    known.add();
  }

  /** Answers the sender, or throws what the edge answers. */
  async function receive(request: Request): Promise<Response> {
    const receivedMs = now();
    const url = new URL(request.url);
    const target = parseTarget(url.pathname.slice("/webhooks/".length), sources.find, isEntity);
    if (!target.ok) throw new AppError(target.why === "unknown" ? "hook.unknown" : "hook.entity");
    const { source, entity, token, route } = target;
    if (!source.methods.includes(request.method)) {
      throw new AppError("route.method", { headers: { allow: source.methods.join(", ") } });
    }
    const path = pathWithoutCredentials(url.pathname, url.searchParams, source.checks, token !== undefined);
    const refuse = (stage: Stage, verdict: string, code: ErrorCode, bytes = 0, say?: string): AppError => {
      reject(source, request, { stage, verdict, path: forRejectionPath(path), bytes, atMs: receivedMs }, code);
      return new AppError(code, say === undefined ? {} : { say });
    };

    const head: Omit<Incoming, "body"> = {
      headers: request.headers,
      query: url.searchParams,
      address: addressOf(request),
      nowMs: receivedMs,
      ...(token !== undefined && { pathToken: token }),
      ...(publicUrl !== undefined && { url: `${publicUrl}${url.pathname}${url.search}` }),
    };
    const body = await proven(source, request, head, refuse);

    const query = new URLSearchParams(path.split("?")[1] ?? ""); // without the token that may have been in it
    const payload = await readPayload(request.headers.get("content-type") ?? "", query, body);
    if (!payload.ok) throw refuse("payload", payload.reason, "hook.payload", body.length, payload.reason);
    const reading: Reading = { headers: request.headers, query, payload: payload.json };
    const handshake = source.handshakes.find(({ matches }) => matches(reading));
    if (handshake) return shake(source, handshake, reading);

    const read = readDeliveries({
      source,
      reading,
      ...(entity !== undefined && { entity }),
      ...(route !== undefined && { route }),
      method: request.method,
      path,
      address: head.address,
      headers: withoutCredentials(request.headers, source.checks),
      body,
      receivedMs,
      newId: () => Bun.randomUUIDv7(),
    });
    if (!read.ok) {
      if (read.why === "entity") throw refuse("entity", "missing or invalid", "hook.entity", body.length);
      throw refuse("payload", "too many members", "hook.payload", body.length, "The payload holds too many events");
    }
    return answerFor(source, read.appends, await store(read.appends, refuse), receivedMs);
  }

  /** An entity before this release knew a sender of that name, and nobody has set that sender up since. */
  function isEntity(source: Source): boolean {
    return !source.configured && parts.isEntityRoute(source.name) && sources.secretsOf(source.name).length === 0;
  }

  type Refuse = (stage: Stage, verdict: string, code: ErrorCode, bytes?: number) => AppError;

  /** The body, once its sender is known. A wrong credential, none, and a source without a secret look the same. */
  async function proven(
    source: Source,
    request: Request,
    head: Omit<Incoming, "body">,
    refuse: Refuse,
  ): Promise<Uint8Array> {
    const { checks } = source;
    if (checks === "none") {
      parts.requireOurs(request);
      return body(request, refuse);
    }
    const early = precheck(checks, head);
    if (early !== "ok") throw refuse("credential", early, "hook.rejected");
    // Read before the secret is asked for: a source without one must not be told by the size of what it takes.
    const bytes = await body(request, refuse);
    const secrets = sources.secretsOf(source.name);
    if (secrets.length === 0 && needsSecret(checks)) {
      warnNoSecret(source);
      throw refuse("verify", "no secret is set", "hook.rejected", bytes.length);
    }
    const verdict: Verdict = verify(checks, secrets, { ...head, body: bytes });
    if (verdict !== "ok") throw refuse("verify", verdict, "hook.rejected", bytes.length);
    return bytes;
  }

  async function body(request: Request, refuse: Refuse): Promise<Uint8Array> {
    let held = 0;
    const hold = (bytes: number): void => {
      if (readingBytes + bytes > READING_BYTES_MAX) {
        warn("hook.reading", "", "bodies under way hold all the memory they may: senders are answered 503 meanwhile");
        throw new AppError("hook.full", { headers: { "retry-after": "5" }, expected: true });
      }
      readingBytes += bytes;
      held += bytes;
    };
    try {
      return await readBytes(request, bodyBytesMax, hold);
    } catch (error) {
      const bytes = Number(request.headers.get("content-length") ?? held);
      if (error instanceof AppError && error.code === "input.too_large") refuse("body", "too large", error.code, bytes);
      throw error;
    } finally {
      readingBytes -= held;
    }
  }

  async function store(appends: Append[], refuse: Refuse): Promise<Appended[]> {
    if (appends.length === 0) return [];
    try {
      return await journal.append(appends);
    } catch (error) {
      const code = error instanceof AppError && error.code === "hook.full" ? "hook.full" : "hook.journal";
      refuse("journal", code === "hook.full" ? "full" : "failed", code);
      if (code === "hook.full")
        warn("hook.full", "", "the journal is full: deliveries are answered 503 until there is room");
      throw error;
    }
  }

  /** Everything is on the disk by now. What the agents say within the budget is the answer. */
  async function answerFor(
    source: Source,
    appends: Append[],
    appended: Appended[],
    receivedMs: number,
  ): Promise<Response> {
    const jobs = appends.flatMap((append, index) => {
      const it = appended[index];
      return it?.kind === "stored" ? [{ job: toJob(append, it), wait: it.wait }] : [];
    });
    for (const { job } of jobs) tail.delivery(job.row, "pending", receivedMs);
    count(source.name, jobs.length > 0 || appends.length === 0 ? "accepted" : "duplicate");
    if (appends.length === 0) return status(200, { status: "empty" });
    if (jobs.length === 0) return status(200, { status: "duplicate", id: firstId(appended) });
    const id = jobs[0]?.job.row.id;
    if (source.paused) {
      if (!sources.find(source.name)?.paused) parts.onResumed();
      return status(202, { status: "held", id });
    }
    if (jobs.some(({ wait }) => wait)) void dispatch.pump();
    const ready = jobs.filter(({ wait }) => !wait).map(({ job }) => job);
    const now = ready.slice(0, dispatch.room());
    for (const job of ready.slice(now.length)) dispatch.postpone(job);
    const answers = await within(source.ackMs, Promise.all(now.map(dispatch.attempt)));
    if (!answers || answers.length < jobs.length || answers.includes(undefined)) {
      return status(202, { status: "accepted", id });
    }
    const [only] = answers;
    return answers.length === 1 && only ? toResponse(only) : status(200, { status: "done", count: answers.length });
  }

  function shake(source: Source, handshake: Source["handshakes"][number], reading: Reading): Response {
    count(source.name, "handshake");
    const headers = handshake.contentType === undefined ? {} : { "content-type": handshake.contentType };
    return new Response(handshake.text(reading) ?? null, { status: handshake.status, headers });
  }

  function reject(
    source: Source,
    request: Request,
    { atMs, ...seen }: Pick<Rejection, "stage" | "verdict" | "path" | "bytes" | "atMs">,
    code: ErrorCode,
  ): void {
    const { status } = new AppError(code);
    const rejection: Rejection = {
      atMs,
      source: source.name,
      ...seen,
      status,
      method: request.method,
      address: addressOf(request),
      headers: forRejectionLog(request.headers, source.checks),
    };
    rejectedBy.set(source.name, (rejectedBy.get(source.name) ?? 0) + 1);
    count(source.name, seen.stage);
    journal.reject(rejection);
    tail.rejection(rejection);
  }

  function warnNoSecret({ name }: Source): void {
    const [variable] = variablesOf(name);
    const how = `run: gatehouse hook secret ${name}, or set ${variable}`;
    warn("hook.no_secret", name, `${name} has no secret, so every delivery is refused; ${how}`);
  }

  /** Once a minute for each source and kind, whatever comes in. */
  function warn(event: string, source: string, message: string): void {
    const key = `${event} ${source}`;
    if (now() - (warnedMs.get(key) ?? 0) < WARN_MS) return;
    warnedMs.set(key, now());
    log.warn(event, { ...(source !== "" && { source }), message });
  }

  return { receive, rejected: (source: string): number => rejectedBy.get(source) ?? 0 };
}

function toJob(append: Append, { seq, id, name }: Extract<Appended, { kind: "stored" }>): Job {
  const { source, className, identifier, deliveryId, type, title, method, path, address } = append;
  return {
    content: { headers: JSON.parse(append.headers), body: append.body },
    row: {
      seq,
      id,
      source,
      class: className,
      identifier,
      name,
      delivery_id: deliveryId,
      type,
      action: append.action ?? null,
      title,
      description: append.description ?? null,
      url: append.url ?? null,
      actor: append.actor ?? null,
      method,
      path,
      address,
      bytes: append.body.byteLength,
      received_ms: append.receivedMs,
      status: append.status,
      ordered: append.ordered ? 1 : 0,
      attempts: 1,
      replay: 0,
    },
  };
}

function firstId(appended: Appended[]): string | undefined {
  const [first] = appended;
  return first?.kind === "duplicate" ? first.id : undefined;
}

function status(code: number, body: Record<string, unknown>): Response {
  return Response.json(body, { status: code });
}

/** An agent speaks to the sender, not to the connection, and sets no cookie on our origin. */
const NOT_FORWARDED = new Set(["set-cookie", "connection", "transfer-encoding", "content-length", "keep-alive"]);
const BODYLESS = new Set([204, 205, 304]);

function toResponse({ status: code, headers, body }: Answer): Response {
  const kept = headers.filter(([name]) => !NOT_FORWARDED.has(name.toLowerCase()));
  return new Response(BODYLESS.has(code) ? null : new Uint8Array(body), { status: code, headers: kept });
}
