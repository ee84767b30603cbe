// Request and response schemas of agent management.
import { type Static, Type as t } from "@sinclair/typebox";
import { t as elysia } from "elysia";
import { strict, Time } from "../platform/schema.ts";

/** A number as a query spells it: text. */
const { Numeric } = elysia;
const Json = t.Unknown({ description: "any JSON value" });
export const ClassName = t.String({ minLength: 1, maxLength: 128, examples: ["chat-room"] });
export const AgentName = t.String({ minLength: 1, maxLength: 128, examples: ["lobby"] });

export const ClassParams = t.Object({ class: ClassName });
export const AgentParams = t.Object({ class: ClassName, name: AgentName });
export const ItemParams = t.Object({
  class: ClassName,
  name: AgentName,
  id: t.String({ minLength: 1, maxLength: 200 }),
});
export const SecretParams = t.Object({
  class: ClassName,
  secret: t.String({ minLength: 1, maxLength: 128, examples: ["API_KEY"] }),
});

export const AgentClass = t.Object({
  class: ClassName,
  file: t.Union([t.String(), t.Null()], { description: "null for a built-in class" }),
  public: t.Union([t.Boolean(), t.Literal("read")]),
  callables: t.Array(t.Object({ name: t.String(), description: t.String(), streaming: t.Boolean() })),
  agents: t.Integer({ description: "how many exist" }),
  live: t.Integer({ description: "how many have a thread right now" }),
});
export const BrokenFile = t.Object({
  file: t.String(),
  line: t.Union([t.Integer(), t.Null()]),
  column: t.Union([t.Integer(), t.Null()]),
  message: t.String(),
  classes: t.Array(t.String(), { description: "classes it held when it last loaded" }),
});
export const Overview = t.Object({
  classes: t.Array(AgentClass),
  broken: t.Array(BrokenFile),
  threads: t.Object({ live: t.Integer(), live_max: t.Integer(), spare: t.Integer() }),
});

export const Phase = t.String({ examples: ["asleep", "live", "stuck"] });
export const AgentView = t.Object({
  class: ClassName,
  name: AgentName,
  phase: Phase,
  created_at: Time,
  last_active_at: Time,
  next_due_at: t.Union([Time, t.Null()]),
  connections: t.Integer(),
  queue_length: t.Integer({ description: "when it last went to sleep; exact in the agent's own page" }),
  bytes: t.Integer({ description: "size of its database when it last went to sleep" }),
});
export type AgentView = Static<typeof AgentView>;
export const AgentDetail = t.Composite([
  AgentView,
  t.Object({ schedules: t.Integer(), dead_letters: t.Integer(), tables: t.Array(t.String()) }),
]);

export const ListQuery = t.Object({
  prefix: t.Optional(t.String({ maxLength: 128 })),
  cursor: t.Optional(t.String({ maxLength: 128, description: "the name after which to go on" })),
  limit: t.Optional(Numeric({ minimum: 1, maximum: 1_000, default: 100, multipleOf: 1 })),
});

export const State = t.Object({ state: Json });
export const CallWrite = t.Object(
  {
    method: t.String({ minLength: 1, maxLength: 200, examples: ["add"] }),
    args: t.Optional(t.Array(Json, { maxItems: 100 })),
  },
  strict,
);
export const CallResult = t.Object({ output: Json });
export const QueueItem = t.Object({
  id: t.String(),
  callback: t.String(),
  payload: Json,
  attempts: t.Integer(),
  created_at: Time,
});
export const Schedule = t.Object({
  id: t.String(),
  callback: t.String(),
  payload: Json,
  type: t.String({ examples: ["cron"] }),
  time: Time,
  cron: t.Optional(t.String()),
  timezone: t.Optional(t.String()),
  interval_seconds: t.Optional(t.Number()),
  attempts: t.Integer(),
});
export const DeadLetter = t.Object({
  id: t.String(),
  kind: t.String({ examples: ["queue"] }),
  callback: t.String(),
  payload: Json,
  error: t.String(),
  attempts: t.Integer(),
  died_at: Time,
});
export const TicketWrite = t.Object(
  { permission: t.Optional(t.Union([t.Literal("agents:read"), t.Literal("agents:edit")])) },
  strict,
);
export const TicketView = t.Object({ token: t.String(), expires_at: Time, permission: t.String() });
export const SecretWrite = t.Object({ value: t.String({ minLength: 1, maxLength: 65_536 }) }, strict);
export const SecretView = t.Object({
  name: t.String(),
  from: t.String({ description: "stored, or a variable of the process" }),
  updated_at: t.Union([Time, t.Null()]),
});
export const Gone = t.Object({ id: t.String() });

export const SqlWrite = t.Object(
  { query: t.String({ minLength: 1, maxLength: 100_000, examples: ["select * from events limit 10"] }) },
  strict,
);
export const SqlAnswer = t.Object({
  columns: t.Array(t.String()),
  rows: t.Array(t.Array(Json)),
  truncated: t.Boolean({ description: "there was more than 1,000 rows or 8 MiB" }),
});
export type SqlAnswer = Static<typeof SqlAnswer>;
