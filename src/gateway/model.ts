// The shapes of the gateway's management interface: settings, custom providers, logs.
import { Type as t } from "@sinclair/typebox";
import { t as query } from "elysia";
import { Ok } from "../platform/envelope.ts";
import { oneOf, strict, Time } from "../platform/schema.ts";

export const GATEWAY_ID_PATTERN = "^[a-z0-9_]+(?:-[a-z0-9_]+)*$";
export const GatewayId = t.String({ pattern: GATEWAY_ID_PATTERN, minLength: 1, maxLength: 64, examples: ["default"] });

export const orNull = <T extends Parameters<typeof t.Union>[0][number]>(schema: T) => t.Union([schema, t.Null()]);
const Action = oneOf(["FLAG", "BLOCK"]);
const HAZARDS = ["P1", "S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10", "S11", "S12", "S13"];
// Object.fromEntries forgets the names, which is fine: nothing here reads them.
const Hazards = t.Object(Object.fromEntries(HAZARDS.map((name) => [name, t.Optional(Action)])), strict);
const Match = t.Object({ mode: t.Literal("filter"), values: t.Array(t.String(), { maxItems: 100 }) }, strict);

/** Kept for clients that send them, and returned; `Acting` below lists what has an effect here. */
const Kept = {
  rate_limiting_technique: t.Optional(orNull(oneOf(["fixed", "sliding"]))),
  logpush: t.Optional(t.Boolean()),
  logpush_public_key: t.Optional(orNull(t.String({ minLength: 16, maxLength: 1024 }))),
  log_classification: t.Optional(t.Boolean()),
  retry_max_attempts: t.Optional(orNull(t.Integer({ minimum: 1, maximum: 5 }))),
  retry_delay: t.Optional(orNull(t.Integer({ minimum: 0, maximum: 60_000 }))),
  retry_backoff: t.Optional(orNull(oneOf(["constant", "linear", "exponential"]))),
  dlp: t.Optional(
    t.Union([
      t.Object({ enabled: t.Boolean(), action: Action, profiles: t.Array(t.String()) }, strict),
      t.Object(
        {
          enabled: t.Boolean(),
          policies: t.Array(
            t.Object(
              {
                id: t.String(),
                action: Action,
                check: t.Array(oneOf(["REQUEST", "RESPONSE"])),
                enabled: t.Boolean(),
                profiles: t.Array(t.String()),
              },
              strict,
            ),
          ),
        },
        strict,
      ),
    ]),
  ),
  guardrails: t.Optional(orNull(t.Object({ prompt: Hazards, response: Hazards }, strict))),
  spend_limits: t.Optional(
    orNull(
      t.Object(
        {
          enabled: t.Optional(t.Boolean()),
          rules: t.Optional(
            t.Array(
              t.Object(
                {
                  id: t.Optional(t.String()),
                  limit: t.Number({ minimum: 0 }),
                  limitType: t.Literal("cost"),
                  window: t.Integer({ minimum: 1 }),
                  technique: t.Optional(oneOf(["fixed", "sliding"])),
                  enabled: t.Optional(t.Boolean()),
                  metadata: t.Optional(
                    t.Record(t.String(), t.Union([t.Object({ mode: t.Literal("partition") }, strict), Match])),
                  ),
                  model: t.Optional(Match),
                  provider: t.Optional(Match),
                },
                strict,
              ),
              { maxItems: 20 },
            ),
          ),
        },
        strict,
      ),
    ),
  ),
  otel: t.Optional(
    orNull(
      t.Array(
        t.Object(
          {
            url: t.String({ maxLength: 2048 }),
            headers: t.Record(t.String(), t.String()),
            authorization: t.Optional(t.String()),
            content_type: t.Optional(oneOf(["json", "protobuf"])),
          },
          strict,
        ),
        { maxItems: 10 },
      ),
    ),
  ),
  stripe: t.Optional(
    orNull(
      t.Object({ authorization: t.String(), usage_events: t.Array(t.Object({ payload: t.String() }, strict)) }, strict),
    ),
  ),
  store_id: t.Optional(orNull(t.String())),
  zdr: t.Optional(t.Boolean()),
  byok_only: t.Optional(t.Boolean()),
  workers_ai_billing_mode: t.Optional(oneOf(["postpaid", "unified"])),
};

const Acting = {
  authentication: t.Optional(t.Boolean({ description: "every request must carry a token with run for this gateway" })),
  log_management: t.Optional(orNull(t.Integer({ minimum: 10_000, maximum: 10_000_000, description: "log rows kept" }))),
  log_management_strategy: t.Optional(orNull(oneOf(["STOP_INSERTING", "DELETE_OLDEST"]))),
  collect_log_payload: t.Optional(t.Boolean({ description: "store bodies with the log; default true" })),
  include_usage: t.Optional(
    t.Boolean({ description: "ask OpenAI-like streams for their token counts and keep them from the client" }),
  ),
};

const Required = {
  cache_invalidate_on_update: t.Boolean(),
  cache_ttl: orNull(t.Integer({ minimum: 0 })),
  collect_logs: t.Boolean({ description: "log requests unless a request says otherwise" }),
  rate_limiting_interval: orNull(t.Integer({ minimum: 0 })),
  rate_limiting_limit: orNull(t.Integer({ minimum: 0 })),
};

export const GatewayWrite = t.Object({ ...Required, ...Acting, ...Kept }, strict);
export const GatewayCreate = t.Object({ id: GatewayId, ...Required, ...Acting, ...Kept }, strict);
export const Gateway = t.Object({
  id: GatewayId,
  created_at: Time,
  modified_at: Time,
  is_default: t.Boolean(),
  ...Required,
  ...Acting,
  ...Kept,
});
export type GatewayFields = (typeof GatewayWrite)["static"];
export type Gateway = (typeof Gateway)["static"];

export const Page = {
  page: t.Optional(query.Numeric({ minimum: 1, maximum: 1_000_000_000, default: 1 })),
  per_page: t.Optional(query.Numeric({ minimum: 1, maximum: 100, default: 20 })),
};
export const GatewayQuery = t.Object({ ...Page, search: t.Optional(t.String({ maxLength: 200 })) });

export const NewToken = Ok(
  t.Object({ id: t.String(), name: t.String(), token: t.String({ description: "never shown again" }) }),
);
export const TokenName = t.Optional(
  t.Object({ name: t.Optional(t.String({ minLength: 1, maxLength: 100, examples: ["laptop"] })) }, strict),
);

export const ProviderWrite = t.Object(
  {
    name: t.String({ minLength: 1, maxLength: 100 }),
    slug: t.String({ pattern: "^[a-z0-9]+(?:-[a-z0-9]+)*$", minLength: 1, maxLength: 50, examples: ["my-server"] }),
    base_url: t.String({ format: "base-url", maxLength: 2048, examples: ["http://192.168.1.5:11434/v1"] }),
    description: t.Optional(t.String({ maxLength: 2000 })),
    link: t.Optional(t.String({ maxLength: 2048 })),
    enable: t.Optional(t.Boolean()),
    beta: t.Optional(t.Boolean()),
    headers: t.Optional(t.String({ maxLength: 8192, description: "JSON object of headers sent with every request" })),
    curl_example: t.Optional(t.String({ maxLength: 10_000 })),
    js_example: t.Optional(t.String({ maxLength: 10_000 })),
    position: t.Optional(t.Integer()),
  },
  strict,
);
export type ProviderWrite = (typeof ProviderWrite)["static"];
export const ProviderChange = t.Partial(ProviderWrite, strict);
export const CustomProvider = t.Composite([
  ProviderWrite,
  t.Object({ id: t.String(), created_at: Time, modified_at: Time }),
]);
export type CustomProvider = (typeof CustomProvider)["static"];
export const ProviderQuery = t.Object({
  ...Page,
  search: t.Optional(t.String({ maxLength: 200 })),
  enable: t.Optional(query.BooleanString()),
  beta: t.Optional(query.BooleanString()),
});
