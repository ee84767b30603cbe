// What the webhook API takes and gives: schemas, and nothing else.
import { FormatRegistry, type Static, Type as t } from "@sinclair/typebox";
import { isAddressRange } from "../platform/address.ts";
import { oneOf, strict, Time } from "../platform/schema.ts";
import { PRESET_NAMES, type PresetName } from "./presets.ts";
import { isTemplate } from "./template.ts";

FormatRegistry.Set("hook-template", isTemplate);
FormatRegistry.Set("hook-range", isAddressRange);
FormatRegistry.Set("hook-secret", (text) => text.trim() === text && !/\p{Cc}/u.test(text));

export const SourceName = t.String({ pattern: "^[a-z0-9][a-z0-9-]{0,62}$", examples: ["github"] });
export const ClassName = t.String({ pattern: "^[a-z][a-z0-9-]{0,127}$", examples: ["webhook-agent"] });
export const HeaderName = t.String({ pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$", examples: ["X-Signature"] });
const Templates = t.Array(t.String({ format: "hook-template", minLength: 1, maxLength: 500 }), {
  maxItems: 32,
  examples: [["{repository.full_name}"]],
});

const Stamp = t.Object(
  {
    from: oneOf(["header", "item", "body"]),
    name: t.String({ minLength: 1, maxLength: 128 }),
    format: oneOf(["seconds", "milliseconds", "rfc3339"]),
    toleranceMs: t.Integer({ minimum: 1_000, maximum: 86_400_000 }),
  },
  strict,
);
const SignatureCheck = t.Object(
  {
    kind: t.Literal("signature"),
    header: HeaderName,
    algorithm: oneOf(["sha1", "sha256", "sha512", "ed25519"]),
    encoding: oneOf(["hex", "base64"]),
    key: oneOf(["text", "hex", "base64", "whsec", "whpk"]),
    prefix: t.Optional(t.String({ maxLength: 32 })),
    separator: t.Optional(oneOf([",", ";", " "])),
    stamp: t.Optional(Stamp),
    signed: t.String({ pattern: "^([^{}]|\\{timestamp\\}|\\{header:[^{}]+\\})*\\{body\\}$", maxLength: 500 }),
    form: t.Optional(oneOf(["payload-field"])),
  },
  strict,
);
const PlainCheck = t.Union([
  SignatureCheck,
  t.Object({ kind: t.Literal("twilio") }, strict),
  t.Object({ kind: t.Literal("header"), header: HeaderName, prefix: t.Optional(t.String({ maxLength: 32 })) }, strict),
  t.Object({ kind: t.Literal("bearer") }, strict),
  t.Object({ kind: t.Literal("basic") }, strict),
  t.Object({ kind: t.Literal("query"), name: t.String({ minLength: 1, maxLength: 64 }) }, strict),
  t.Object({ kind: t.Literal("path") }, strict),
  t.Object(
    { kind: t.Literal("address"), ranges: t.Array(t.String({ format: "hook-range" }), { minItems: 1, maxItems: 64 }) },
    strict,
  ),
]);
/** All must hold. `any`: one of them; `first`: the first whose credential is there decides. */
export const Checks = t.Array(
  t.Union([
    PlainCheck,
    t.Object({ kind: oneOf(["any", "first"]), of: t.Array(PlainCheck, { minItems: 1, maxItems: 8 }) }, strict),
  ]),
  { minItems: 1, maxItems: 8, examples: [[{ kind: "header", header: "X-Token" }]] },
);

/** What an operator may say about a source; the preset says the rest. */
export const SourceChange = t.Object(
  {
    class: t.Optional(ClassName),
    verify: t.Optional(
      t.Union([t.Literal("none"), t.Literal("preset"), Checks], {
        description: "`none` lets everyone in; `preset` is what the sender is known to do",
      }),
    ),
    entity: t.Optional(Templates),
    type: t.Optional(Templates),
    id: t.Optional(Templates),
    methods: t.Optional(
      t.Array(oneOf(["POST", "PUT", "GET", "PATCH"]), { minItems: 1, maxItems: 4, examples: [["POST", "GET"]] }),
    ),
    ack_ms: t.Optional(t.Integer({ minimum: 50, maximum: 60_000 })),
    ordered: t.Optional(t.Boolean()),
    dedupe_body_seconds: t.Optional(t.Integer({ minimum: 0, maximum: 2_592_000 })),
    retention_events: t.Optional(t.Integer({ minimum: 0, maximum: 1_000_000 })),
    retention_days: t.Optional(t.Integer({ minimum: 0, maximum: 3_650 })),
    paused: t.Optional(t.Boolean()),
  },
  strict,
);
export type SourceChange = Static<typeof SourceChange>;

export const SourceCreate = t.Object(
  { name: SourceName, preset: oneOf<PresetName>(PRESET_NAMES), ...SourceChange.properties },
  strict,
);
export type SourceCreate = Static<typeof SourceCreate>;

export const SourceView = t.Object({
  name: SourceName,
  preset: t.String(),
  label: t.String(),
  built_in: t.Boolean({ description: "exists without being created; deleting it only undoes changes" }),
  class: ClassName,
  address: t.String({ examples: ["/webhooks/github"] }),
  verify: t.Union([t.Literal("none"), t.Array(t.Unknown())]),
  entity: t.Array(t.String()),
  type: t.Array(t.String()),
  id: t.Array(t.String()),
  methods: t.Array(t.String()),
  ack_ms: t.Integer(),
  ordered: t.Boolean(),
  dedupe_body_seconds: t.Integer(),
  retention_events: t.Integer(),
  retention_days: t.Integer(),
  paused: t.Boolean(),
  secrets: t.Array(
    t.Object({
      from: oneOf(["stored", "environment"]),
      created_at: t.Union([Time, t.Null()]),
      expires_at: t.Union([Time, t.Null()]),
    }),
    { description: "how many are set and since when, never their values" },
  ),
  /** Sentences for the operator: no secret, no public address, everyone may send. */
  warnings: t.Array(t.String()),
  counters: t.Record(t.String(), t.Integer(), {
    description: "pending, held and dead as of now; done and rejected since the server started",
  }),
});
export type SourceView = Static<typeof SourceView>;

export const Secret = t.String({
  minLength: 1,
  maxLength: 512,
  format: "hook-secret",
  description: "kept encrypted, never shown",
});
export const SecretWrite = t.Object({ secret: t.Optional(Secret) }, strict);
export const SecretRotate = t.Object(
  {
    secret: t.Optional(Secret),
    overlap_seconds: t.Integer({
      default: 86_400,
      minimum: 0,
      maximum: 2_592_000,
      description: "how long the old ones still count",
    }),
  },
  strict,
);
export const SecretShown = t.Object({
  secret: t.Union([t.String(), t.Null()], { description: "shown once, and only if we made it" }),
});

export const DeliveryStatusName = oneOf(["pending", "held", "done", "dead"]);
export const DeliveryView = t.Object({
  id: t.String(),
  source: t.String(),
  class: t.String(),
  entity: t.String({ description: "the identifier as the sender gave it, lower-cased" }),
  agent: t.String({ description: "the agent's name" }),
  delivery_id: t.String(),
  type: t.String(),
  action: t.Union([t.String(), t.Null()]),
  title: t.String(),
  url: t.Union([t.String(), t.Null()]),
  actor: t.Union([t.String(), t.Null()]),
  method: t.String(),
  path: t.String(),
  address: t.String(),
  bytes: t.Integer(),
  received_at: Time,
  status: DeliveryStatusName,
  attempts: t.Integer(),
  next_attempt_at: t.Union([Time, t.Null()]),
  answer: t.Union([t.Integer(), t.Null()], { description: "what the agent answered last" }),
  reason: t.Union([t.String(), t.Null()]),
  finished_at: t.Union([Time, t.Null()]),
  duration_ms: t.Union([t.Integer(), t.Null()]),
});
export type DeliveryView = Static<typeof DeliveryView>;

export const RejectionView = t.Object({
  at: Time,
  source: t.String(),
  stage: t.String({ description: "where it failed: credential, body, verify, payload, entity, journal" }),
  verdict: t.String(),
  status: t.Integer(),
  method: t.String(),
  path: t.String(),
  address: t.String(),
  bytes: t.Integer(),
  headers: t.Array(t.Tuple([t.String(), t.String()])),
});
export type RejectionView = Static<typeof RejectionView>;
