// A stored log as clients see it. Pure.
import { Type as t } from "@sinclair/typebox";
import { Time, toTime } from "../platform/schema.ts";
import type { LogDetail as Detail, StoredBody, StoredLog } from "./logs/reader.ts";
import { orNull } from "./model.ts";
import { parseJson, toText } from "./usage.ts";

export const Log = t.Object({
  id: t.String(),
  created_at: Time,
  provider: t.String(),
  model: t.String({ description: "empty when the request names none" }),
  model_type: t.String(),
  request_type: t.String(),
  method: t.String(),
  path: t.String(),
  status_code: t.Integer(),
  success: t.Boolean(),
  outcome: t.String({ description: "how it ended; only `answered` is a whole answer" }),
  cached: t.Boolean(),
  duration: t.Number({ description: "milliseconds to the last byte" }),
  first_byte: orNull(t.Number({ description: "milliseconds to the head of the answer" })),
  tokens_in: orNull(t.Integer()),
  tokens_out: orNull(t.Integer()),
  tokens_cached: orNull(t.Integer()),
  tokens_cache_write: orNull(t.Integer()),
  tokens_reasoning: orNull(t.Integer()),
  estimated: t.Boolean({ description: "some counts are our estimate: the provider gave none" }),
  cost: orNull(t.Number({ description: "dollars; null when the price is not known" })),
  custom_cost: t.Boolean(),
  metadata: orNull(t.Record(t.String(), t.Union([t.String(), t.Number(), t.Boolean()]))),
  event_id: orNull(t.String()),
  request_content_type: t.String(),
  response_content_type: t.String(),
  request_size: t.Integer(),
  response_size: t.Integer(),
  token_id: orNull(t.String()),
  token_name: orNull(t.String()),
  authentication: t.Boolean(),
  user_agent: orNull(t.String()),
  attempts: t.Integer(),
  step: t.Integer(),
  feedback: orNull(t.Integer()),
  score: orNull(t.Integer()),
});
export const LogDetail = t.Composite([
  Log,
  t.Object({
    request_head: t.Optional(t.String()),
    request_head_complete: t.Optional(t.Boolean()),
    response_head: t.Optional(t.String()),
    response_head_complete: t.Optional(t.Boolean()),
  }),
]);

export function toLog(row: StoredLog) {
  return {
    id: row.id,
    created_at: toTime(row.created_ms),
    provider: row.provider,
    model: row.model ?? "",
    model_type: row.model_type ?? "",
    request_type: row.model_type ?? "",
    method: row.method,
    path: row.path,
    status_code: row.status,
    success: row.success === 1,
    outcome: row.outcome,
    cached: row.cached === 1,
    duration: rounded(row.duration_ms),
    first_byte: row.first_byte_ms === null ? null : rounded(row.first_byte_ms),
    tokens_in: row.tokens_in,
    tokens_out: row.tokens_out,
    tokens_cached: row.tokens_cached,
    tokens_cache_write: row.tokens_cache_write,
    tokens_reasoning: row.tokens_reasoning,
    estimated: row.estimated === 1,
    cost: row.cost,
    custom_cost: row.custom_cost === 1,
    metadata: toMetadata(row.metadata),
    event_id: row.event_id,
    request_content_type: row.request_type ?? "",
    response_content_type: row.response_type ?? "",
    request_size: row.request_bytes,
    response_size: row.response_bytes,
    token_id: row.token_id,
    token_name: row.token_name,
    authentication: row.authentication === 1,
    user_agent: row.user_agent,
    attempts: row.attempts,
    step: row.step,
    feedback: row.feedback,
    score: row.score,
  };
}

export function toDetail({ row, request, response }: Detail) {
  return { ...toLog(row), ...headOf("request", request), ...headOf("response", response) };
}

function headOf<S extends "request" | "response">(side: S, body: StoredBody | undefined) {
  return body ? { [`${side}_head`]: toText(body.bytes), [`${side}_head_complete`]: body.complete } : {};
}

function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

function toMetadata(text: string | null): Record<string, string | number | boolean> | null {
  const value = text === null ? null : parseJson(text);
  if (typeof value !== "object" || value === null) return null;
  const entries = Object.entries(value).filter(
    (entry): entry is [string, string | number | boolean] => entry[1] !== null && typeof entry[1] !== "object",
  );
  return Object.fromEntries(entries);
}
