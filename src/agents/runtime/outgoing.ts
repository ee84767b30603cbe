// Webhooks that an agent sends: JSON, signed over the exact bytes, bounded in time and size, no redirects followed.
import { inRange } from "../../platform/address.ts";
import { signBody } from "../../platform/signature.ts";
import { asFinal } from "./retry.ts";

export type WebhookOptions = {
  /** Signs the body; `secretName` names one of the agent's own secrets instead, and is the only way for queued ones. */
  secret?: string;
  secretName?: string;
  headers?: Record<string, string>;
  timeoutMs?: number;
  /** The same for every attempt, so that the receiver can tell a repetition. Made up when absent. */
  id?: string;
};
export type WebhookAnswer = { status: number; body: string };

/** A queued webhook between two attempts. */
export type QueuedWebhook = {
  url: string;
  body: string;
  attempt: number;
  options: Omit<WebhookOptions, "secret"> & { id: string };
};

/** The receiver did not say yes. `status` is its answer, or 0 when there was none. */
export class WebhookError extends Error {
  override readonly name = "WebhookError";
  readonly status: number;
  readonly retryAfterMs: number | undefined;
  constructor(message: string, status: number, retryAfterMs?: number) {
    super(message);
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

export type Outgoing = ReturnType<typeof createOutgoing>;
type OutgoingParts = {
  /** Addresses and ranges, or host names, that are never contacted. */
  deny: readonly string[];
  secretOf: (name: string) => string | undefined;
  now: () => number;
  random: () => number;
  newId: () => string;
};

const BODY_BYTES_MAX = 5 * 1024 * 1024; // receivers refuse more, and it would sit in the queue for a day
const ANSWER_BYTES_MAX = 64 * 1024; // enough for a sentence; the rest is not read
const TIMEOUT_MS = 10_000;
const TIMEOUT_MS_MAX = 60_000;
export const SEND_ATTEMPTS_MAX = 10;
const RETRY_MS = 9_000; // times three after each failure: about a day in all
const RETRY_AFTER_MS_MAX = 86_400_000;
const GONE = 410;

export function createOutgoing({ deny, secretOf, now, random, newId }: OutgoingParts) {
  async function send(url: string, body: unknown, options: WebhookOptions = {}): Promise<WebhookAnswer> {
    return post(url, serialize(body), options);
  }

  async function post(url: string, text: string, options: WebhookOptions): Promise<WebhookAnswer> {
    const target = parseTarget(url);
    await refuseDenied(target);
    const timeoutMs = Math.min(options.timeoutMs ?? TIMEOUT_MS, TIMEOUT_MS_MAX);
    const secret = options.secretName === undefined ? options.secret : secretOf(options.secretName);
    if (options.secretName !== undefined && !secret) throw new Error(`There is no secret ${options.secretName}`);
    const signed = secret === undefined ? {} : signatures(text, secret, options.id ?? newId(), now());
    const headers = { ...options.headers, "content-type": "application/json", ...signed };
    const answer = await fetch(target, {
      method: "POST",
      body: text,
      headers,
      redirect: "manual",
      signal: AbortSignal.timeout(timeoutMs),
    }).catch((error: unknown) => {
      throw new WebhookError(
        `${target.origin} did not answer: ${error instanceof Error ? error.message : "unknown"}`,
        0,
      );
    });
    const said = await readStart(answer);
    if (answer.ok) return { status: answer.status, body: said };
    throw new WebhookError(
      `${target.origin} answered ${answer.status}`,
      answer.status,
      retryAfterMs(answer.headers, now()),
    );
  }

  /** By address as well as by name: a name may point anywhere. */
  async function refuseDenied({ hostname }: URL): Promise<void> {
    if (deny.length === 0) return;
    const { lookup } = process.getBuiltinModule("node:dns/promises"); // 5 ms of a thread's waking, if it were an import
    const host = hostname.replace(/^\[|\]$|\.$/g, "");
    const found = await lookup(host, { all: true }).catch(() => [{ address: host }]);
    const denied = deny.some(
      (entry) => entry.toLowerCase() === host || found.some(({ address }) => inRange(address, entry)),
    );
    if (denied) throw new WebhookError(`${hostname} is on the list of addresses that are never contacted`, 0);
  }

  function queued(url: string, body: unknown, { secret, ...options }: WebhookOptions): QueuedWebhook {
    if (secret !== undefined) throw new Error("A queued webhook is stored; name its secret with secretName instead");
    parseTarget(url);
    return { url, body: serialize(body), attempt: 1, options: { ...options, id: options.id ?? newId() } };
  }

  /** Sends it. Resolves to the next attempt and its delay in seconds, or to nothing when it is done; throws at the end. */
  async function attempt(it: QueuedWebhook): Promise<{ next: QueuedWebhook; delayS: number } | undefined> {
    try {
      await post(it.url, it.body, it.options);
      return undefined;
    } catch (error) {
      const status = error instanceof WebhookError ? error.status : 0;
      if (status === GONE || it.attempt >= SEND_ATTEMPTS_MAX) throw asFinal(error);
      const own = RETRY_MS * 3 ** (it.attempt - 1) * (0.8 + 0.4 * random());
      const asked = error instanceof WebhookError ? (error.retryAfterMs ?? 0) : 0;
      const delayS = Math.ceil(Math.max(own, Math.min(asked, RETRY_AFTER_MS_MAX)) / 1000);
      return { next: { ...it, attempt: it.attempt + 1 }, delayS };
    }
  }

  return { send, queued, attempt };
}

/** Ours, and beside it those of Standard Webhooks, whose libraries many receivers have. */
function signatures(text: string, secret: string, id: string, nowMs: number): Record<string, string> {
  const at = String(Math.floor(nowMs / 1000));
  const key = secret.startsWith("whsec_") ? Buffer.from(secret.slice(6), "base64") : Buffer.from(secret);
  const mac = new Bun.CryptoHasher("sha256", key).update(`${id}.${at}.${text}`).digest("base64");
  return {
    "x-signature": signBody(secret, text),
    "webhook-id": id,
    "webhook-timestamp": at,
    "webhook-signature": `v1,${mac}`,
  };
}

function serialize(body: unknown): string {
  const text = JSON.stringify(body);
  if (text === undefined) throw new Error("A webhook's body must be something that JSON can hold");
  if (Buffer.byteLength(text) > BODY_BYTES_MAX) throw new Error(`A webhook's body has at most ${BODY_BYTES_MAX} bytes`);
  return text;
}

function parseTarget(url: string): URL {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new Error("A webhook goes to an http or https address");
  }
  return new URL(url);
}

/** Seconds, or a date. */
function retryAfterMs(headers: Headers, nowMs: number): number | undefined {
  const text = headers.get("retry-after");
  if (text === null) return undefined;
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs;
  return Number.isFinite(ms) && ms > 0 ? ms : undefined;
}

/** The status is the answer: what is missing of its text when the time is over changes nothing. */
async function readStart(answer: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const chunk of answer.body ?? []) {
      chunks.push(chunk);
      length += chunk.length;
      if (length >= ANSWER_BYTES_MAX) break;
    }
  } catch {
    // the connection broke or the time is over
  }
  return Buffer.concat(chunks).subarray(0, ANSWER_BYTES_MAX).toString("utf8");
}
