// A record and its captures become one row: model, counts, cost. The only reader of proxied bodies.
import { type CustomCost, customCost, type Pricing } from "../pricing.ts";
import { dollarsOf, parseJson, type Reading, readAnswer, toText, type Usage } from "../usage.ts";
import { decodeBody } from "./body.ts";
import { estimateTokens, isPrompt } from "./estimate.ts";
import { type Captured, CLIENT_LEFT, type LogRecord } from "./protocol.ts";
import { timeOfId } from "./schema.ts";

export type Row = {
  record: LogRecord;
  createdMs: number;
  model: string | undefined;
  modelType: string | undefined;
  success: boolean;
  usage: Usage;
  estimated: boolean;
  cost: number | null;
  customCost: boolean;
  metadata: string | undefined;
};

const METADATA_ENTRIES_MAX = 5; // as clients of such gateways know it; the first five are kept
const METADATA_CHARS_MAX = 1_024; // of one value

export function toRow(record: LogRecord, captured: Captured, pricing: Pricing): Row {
  const answer = captured.head && decodeBody(captured.head, record.responseEncoding);
  const tail = record.responseEncoding ? undefined : captured.tail; // the end of a compressed stream means nothing alone
  const reading: Reading =
    answer && isReadable(record.responseType)
      ? readAnswer(tail ? { head: answer, tail } : { head: answer })
      : { usage: {}, final: false };
  const whole = record.outcome === "answered";
  const estimated = isCharged(record) && !(reading.final && whole) && estimate(record, captured, answer, reading.usage);
  const kind = kindOf(record.path);
  const model = kind.model ?? modelOf(record, captured) ?? reading.model;
  const custom = parseCustomCost(record.customCost);
  return {
    record,
    createdMs: timeOfId(record.id),
    model,
    modelType: kind.type,
    success: isOk(record) && whole,
    usage: reading.usage,
    estimated,
    cost: custom ? customCost(reading.usage, custom) : priceOf(record, reading, model, pricing),
    customCost: custom !== undefined,
    metadata: parseMetadata(record.metadata && utf8Of(record.metadata)),
  };
}

/** A client that left before the answer has been charged for its prompt all the same; an error has not. */
export function isCharged(record: LogRecord): boolean {
  return isOk(record) || (record.outcome === "client_left" && record.status === CLIENT_LEFT);
}

function isOk({ status }: LogRecord): boolean {
  return status >= 200 && status < 300;
}

/** The answer's own model name first: it is the exact one, and what the price belongs to. */
function priceOf(
  record: LogRecord,
  { usage, model: exact }: Reading,
  asked: string | undefined,
  pricing: Pricing,
): number | null {
  const { provider: slug, price: provider, base, id } = record;
  const models = [exact, asked === exact ? undefined : asked].filter((model) => model !== undefined);
  return pricing.cost(usage, { slug, provider, base, models }, timeOfId(id));
}

/** Fills what the provider left out; a count it gave before it was cut off is never lowered. True when it filled something. */
function estimate(record: LogRecord, captured: Captured, answer: Uint8Array | undefined, usage: Usage): boolean {
  const kind = kindOf(record.path);
  const request = kind.isFree ? undefined : captured.request && decodeBody(captured.request, record.requestEncoding);
  if (!request || !isJson(record.requestType)) return false;
  const text = toText(request);
  if (!isPrompt(text)) return false;
  const before = { ...usage };
  const prompt = usage.tokensIn ?? estimateTokens(text, scaleOf(record.requestBytes, captured.request));
  if (prompt !== undefined) usage.tokensIn = prompt;
  const out =
    answer && isReadable(record.responseType)
      ? estimateTokens(toText(answer), scaleOf(record.responseBytes, captured.head))
      : undefined;
  if (out !== undefined && kind.type !== "embeddings") usage.tokensOut = Math.max(usage.tokensOut ?? 0, out);
  return usage.tokensIn !== before.tokensIn || usage.tokensOut !== before.tokensOut;
}

function scaleOf(bytes: number, kept: Uint8Array | undefined): number {
  return kept && kept.byteLength > 0 ? Math.max(1, bytes / kept.byteLength) : 1;
}

const PATH_MODELS = [
  /\/models\/([^/:]+):/,
  /\/model\/([^/]+)\//,
  /^models\/([^/:]+):/,
  /^bedrock-[a-z]+\/[^/]+\/model\/([^/]+)\//,
];
const BODY_MODEL = /"model"\s*:\s*"([^"\\]{1,200})"/; // inside a string its quotes would be escaped
const FORM_MODEL = /name="?model"?\r\n(?:[^\r\n]+\r\n)*\r\n([^\r\n]{1,200})/;

const MODEL_BYTES = 2 * 1024;

function modelOf(record: LogRecord, { request }: Captured): string | undefined {
  const body = request && decodeBody(request, record.requestEncoding);
  if (!body) return undefined;
  const pattern = isJson(record.requestType) ? BODY_MODEL : FORM_MODEL;
  // Nearly always near the beginning; the rest is read only when it is not there.
  const first = pattern.exec(toText(body.subarray(0, MODEL_BYTES)))?.[1];
  return first ?? (body.byteLength > MODEL_BYTES ? pattern.exec(toText(body))?.[1] : undefined);
}

function unescapePath(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // the provider will say what it thinks of it
  }
}

const TYPES: ReadonlyArray<readonly [RegExp, string]> = [
  [/embed/i, "embeddings"],
  [/rerank/, "rerank"],
  [/images?\//, "image"],
  [/audio\/|speech|transcri/, "audio"],
  [/chat|messages|completion|responses|generate|converse|\/invoke/i, "chat"],
];

/** Questions about a prompt that no model reads. */
const FREE_PATH = /count[-_]?tokens|\/input_tokens$|tokenize$|moderations$/i;

/** What a path alone says. The same few paths come again and again. */
type Kind = { type: string | undefined; model: string | undefined; isFree: boolean };
const kinds = new Map<string, Kind>();
const KINDS_MAX = 1_000;

function kindOf(path: string): Kind {
  const known = kinds.get(path);
  if (known) return known;
  const type = TYPES.find(([pattern]) => pattern.test(path))?.[1];
  const named = PATH_MODELS.map((pattern) => pattern.exec(path)?.[1]).find((model) => model !== undefined);
  const model = named === undefined ? undefined : unescapePath(named);
  const kind = { type, model, isFree: FREE_PATH.test(path) };
  if (kinds.size >= KINDS_MAX) kinds.clear();
  kinds.set(path, kind);
  return kind;
}

function isJson(type: string | undefined): boolean {
  return type === undefined || /json/i.test(type);
}

function isReadable(type: string | undefined): boolean {
  return type !== undefined && /json|event-stream|text\/plain|eventstream/i.test(type);
}

/** A header's bytes come one by one as characters; most clients wrote UTF-8. Where it is none, it stays as it came. */
function utf8Of(text: string): string {
  if (!/[\x80-\xff]/.test(text)) return text;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(text, "latin1"));
  } catch {
    return text;
  }
}

/** Strings, numbers and booleans only: one other value discards the whole, as callers are used to. */
export function parseMetadata(text: string | undefined): string | undefined {
  const value = text === undefined ? undefined : parseJson(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const entries = Object.entries(value).slice(0, METADATA_ENTRIES_MAX);
  const fits = entries.every(([, item]) =>
    typeof item === "string"
      ? item.length <= METADATA_CHARS_MAX
      : typeof item === "number" || typeof item === "boolean",
  );
  return fits && entries.length > 0 ? JSON.stringify(Object.fromEntries(entries)) : undefined;
}

const COST_FIELDS = {
  per_token_in: "perTokenIn",
  per_token_out: "perTokenOut",
  per_cache_read_token: "perCacheRead",
  per_cache_write_token: "perCacheWrite",
  total_cost: "total",
} as const satisfies Record<string, keyof CustomCost>;

function parseCustomCost(text: string | undefined): CustomCost | undefined {
  const value = text === undefined ? undefined : parseJson(text);
  if (typeof value !== "object" || value === null) return undefined;
  const cost: CustomCost = {};
  for (const [name, field] of Object.entries(COST_FIELDS)) {
    const rate = dollarsOf(Reflect.get(value, name));
    if (rate !== undefined) cost[field] = rate;
  }
  return Object.keys(cost).length > 0 ? cost : undefined;
}
