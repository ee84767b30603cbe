// Webhook sources and deliveries over HTTP: paths, schemas, and handlers of a line or two.
import { Type as t } from "@sinclair/typebox";
import { Elysia, t as fromText } from "elysia";
import type { Guard } from "../platform/access.ts";
import { Ok, ok } from "../platform/envelope.ts";
import { AppError } from "../platform/errors.ts";
import { oneOf, strict } from "../platform/schema.ts";
import { toCurl } from "./curl.ts";
import { explain } from "./explain.ts";
import type { Hooks } from "./hooks.ts";
import type { DeliveryFilter } from "./journal-schema.ts";
import * as model from "./model.ts";
import { isPresetName, PRESETS, presetOf } from "./presets.ts";
import { sampleRequest } from "./samples.ts";
import { tailStream } from "./tail-stream.ts";
import { countsOf, toDeliveryView, toRejectionView, toSourceView } from "./views.ts";

const PAGE_MAX = 500;
const REPLAY_MAX = 10_000; // deliveries that one call puts back; more is done by asking again
const EXPLAIN_BODY_MAX = 900_000; // characters of base64 within the megabyte that a management call may have

const SourceParams = t.Object({ source: model.SourceName });
const DeliveryParams = t.Object({ id: t.String({ minLength: 1, maxLength: 64 }) });
const FILTER = {
  source: t.Optional(t.String({ maxLength: 64 })),
  class: t.Optional(t.String({ maxLength: 128 })),
  agent: t.Optional(t.String({ maxLength: 128 })),
  status: t.Optional(model.DeliveryStatusName),
  type: t.Optional(t.String({ maxLength: 200 })),
  since: t.Optional(t.String({ format: "date-time" })),
  until: t.Optional(t.String({ format: "date-time" })),
};
type Filter = {
  source?: string;
  class?: string;
  agent?: string;
  status?: DeliveryFilter["status"];
  type?: string;
  since?: string;
  until?: string;
};
const Count = t.Object({ count: t.Integer() });
const Saved = t.Object(
  {
    method: t.String({ pattern: "^[A-Z]{1,16}$", examples: ["POST"] }),
    path: t.String({ minLength: 1, maxLength: 8_192, examples: ["/webhooks/github"] }),
    headers: t.Array(t.Tuple([t.String({ maxLength: 256 }), t.String({ maxLength: 8_192 })]), { maxItems: 200 }),
    body_base64: t.String({ maxLength: EXPLAIN_BODY_MAX }),
    as: t.Optional(t.String({ maxLength: 256, description: "judge it as if it had come to /webhooks/ and this" })),
  },
  strict,
);
const Explanation = t.Object({
  source: t.Union([t.String(), t.Null()]),
  fits: t.Array(t.String(), { description: "presets whose credential is in the request" }),
  stages: t.Array(t.Object({ stage: t.String(), ok: t.Boolean(), says: t.String() })),
  accepted: t.Boolean(),
});

export function hookManagementRoutes({ hooks, guard, now }: { hooks: Hooks; guard: Guard; now: () => number }) {
  const { sources, journal, dispatch } = hooks;
  const view = async (name: string) => toSourceView(sources.get(name), hooks, await countsOf(hooks));

  async function pause(name: string, paused: boolean) {
    const source = sources.change(name, { paused });
    if (!paused) {
      await journal.ask("release", { source: source.name, nowMs: now() });
      await dispatch.pump();
    }
    return view(source.name);
  }

  async function replay(filter: Filter, ids: string[] | null) {
    const result = await journal.ask("replay", { filter: toFilter(filter), ids, nowMs: now(), limit: REPLAY_MAX });
    void dispatch.pump();
    return result;
  }

  async function stored(id: string) {
    const found = await journal.ask("get", { id });
    if (!found) throw new AppError("thing.unknown", { say: "There is no delivery of this id" });
    return found;
  }

  /** Through the front door: the same verification, journal and agent as a sender's own. */
  async function tryOut(name: string, entity: string | undefined) {
    const source = sources.get(name);
    const given = { id: `sample-${Bun.randomUUIDv7()}`, nowMs: now(), ...(entity !== undefined && { entity }) };
    const [secret] = sources.secretsOf(source.name);
    const { path, headers, body } = sampleRequest(source, secret, hooks.publicUrl, given);
    const [method = "POST"] = source.methods;
    const answer = await hooks.receive(new Request(`http://localhost${path}`, { method, headers, body }));
    return { status: answer.status, answer: (await answer.text()).slice(0, 10_000), path };
  }

  return new Elysia({ prefix: "/hooks", tags: ["Webhooks"] })
    .use(guard)
    .get(
      "/presets",
      () =>
        ok(
          Object.keys(PRESETS)
            .filter(isPresetName)
            .map((name) => ({ name, label: presetOf(name).label })),
        ),
      {
        needs: "agents:read",
        response: Ok(t.Array(t.Object({ name: t.String(), label: t.String() }))),
        detail: { summary: "List the senders we know" },
      },
    )
    .get(
      "/sources",
      async () => {
        const counts = await countsOf(hooks);
        return ok(sources.all().map((source) => toSourceView(source, hooks, counts)));
      },
      {
        needs: "agents:read",
        response: Ok(t.Array(model.SourceView)),
        detail: {
          summary: "List sources",
          description: "Every preset is a source of the same name; then those you made.",
        },
      },
    )
    .post("/sources", async ({ body }) => ok(await view(sources.create(body).name)), {
      needs: "agents:edit",
      body: model.SourceCreate,
      response: Ok(model.SourceView),
      detail: { summary: "Create a source", description: "Another way in for a sender that has one already." },
    })
    .get("/sources/:source", async ({ params }) => ok(await view(params.source)), {
      needs: "agents:read",
      params: SourceParams,
      response: Ok(model.SourceView),
      detail: { summary: "Read a source" },
    })
    .patch("/sources/:source", async ({ params, body }) => ok(await view(sources.change(params.source, body).name)), {
      needs: "agents:edit",
      params: SourceParams,
      body: model.SourceChange,
      response: Ok(model.SourceView),
      detail: {
        summary: "Change a source",
        description: "Fields that are left out stay. `verify: none` lets everyone in.",
      },
    })
    .delete(
      "/sources/:source",
      ({ params }) => {
        sources.remove(params.source);
        return ok({ name: params.source });
      },
      {
        needs: "agents:edit",
        params: SourceParams,
        response: Ok(t.Object({ name: t.String() })),
        detail: { summary: "Delete a source", description: "With its secrets. A built-in one returns to its preset." },
      },
    )
    .put(
      "/sources/:source/secret",
      ({ params, body }) => ok({ secret: sources.setSecret(params.source, body?.secret).made }),
      {
        needs: "agents:edit",
        params: SourceParams,
        body: t.Optional(model.SecretWrite),
        response: Ok(model.SecretShown),
        detail: {
          summary: "Set the secret",
          description: "Replaces all stored ones. Without a value one is made and shown once.",
        },
      },
    )
    .post(
      "/sources/:source/secret/rotate",
      ({ params, body }) => {
        return ok({
          secret: sources.rotateSecret(params.source, body?.secret, (body?.overlap_seconds ?? 86_400) * 1000).made,
        });
      },
      {
        needs: "agents:edit",
        params: SourceParams,
        body: t.Optional(t.Partial(model.SecretRotate, strict)),
        response: Ok(model.SecretShown),
        detail: {
          summary: "Rotate the secret",
          description: "The old ones count for a while longer: a day, unless you say.",
        },
      },
    )
    .delete(
      "/sources/:source/secret",
      ({ params }) => {
        sources.clearSecrets(params.source);
        return ok({ name: params.source });
      },
      {
        needs: "agents:edit",
        params: SourceParams,
        response: Ok(t.Object({ name: t.String() })),
        detail: { summary: "Forget the secrets", description: "The stored ones; what the environment sets stays." },
      },
    )
    .post("/sources/:source/pause", async ({ params }) => ok(await pause(params.source, true)), {
      needs: "agents:edit",
      params: SourceParams,
      response: Ok(model.SourceView),
      detail: { summary: "Pause a source", description: "Deliveries are verified and stored, and held." },
    })
    .post("/sources/:source/resume", async ({ params }) => ok(await pause(params.source, false)), {
      needs: "agents:edit",
      params: SourceParams,
      response: Ok(model.SourceView),
      detail: { summary: "Resume a source", description: "What was held is delivered now." },
    })
    .post("/sources/:source/test", async ({ params, body }) => ok(await tryOut(params.source, body?.entity)), {
      needs: "agents:edit",
      params: SourceParams,
      body: t.Optional(
        t.Object({ entity: t.Optional(t.String({ minLength: 1, maxLength: 256, examples: ["acme/web"] })) }, strict),
      ),
      response: Ok(t.Object({ status: t.Integer(), answer: t.String(), path: t.String() })),
      detail: {
        summary: "Send a sample",
        description: "A signed delivery as this sender would make it, through the front door.",
      },
    })
    .get(
      "/deliveries",
      async ({ query }) => {
        const limit = query.limit ?? 50;
        const rows = await journal.ask("list", {
          filter: toFilter(query),
          before: query.cursor ?? null,
          limit: limit + 1,
        });
        const page = rows.slice(0, limit);
        const cursor = rows.length > limit ? String(page.at(-1)?.seq) : null;
        return ok(page.map(toDeliveryView), { count: page.length, cursor });
      },
      {
        needs: "agents:read",
        query: t.Object({
          ...FILTER,
          cursor: t.Optional(fromText.Integer({ minimum: 1 })),
          limit: t.Optional(fromText.Integer({ minimum: 1, maximum: PAGE_MAX })),
        }),
        response: Ok(t.Array(model.DeliveryView)),
        detail: {
          summary: "List deliveries",
          description: "Newest first. `result_info.cursor` asks for the next page.",
        },
      },
    )
    .get(
      "/deliveries/:id",
      async ({ params }) => {
        const { row, content } = await stored(params.id);
        return ok({
          ...toDeliveryView(row),
          headers: content.headers,
          body_base64: Buffer.from(content.body).toString("base64"),
        });
      },
      {
        needs: "agents:read",
        params: DeliveryParams,
        response: Ok(
          t.Composite([
            model.DeliveryView,
            t.Object({ headers: t.Array(t.Tuple([t.String(), t.String()])), body_base64: t.String() }),
          ]),
        ),
        detail: {
          summary: "Read a delivery",
          description: "With its headers and body, as sent but without credentials.",
        },
      },
    )
    .get(
      "/deliveries/:id/curl",
      async ({ params, request }) => {
        const command = toCurl(await stored(params.id), hooks.publicUrl ?? new URL(request.url).origin);
        return new Response(command, { headers: { "content-type": "text/plain; charset=utf-8" } });
      },
      {
        needs: "agents:read",
        params: DeliveryParams,
        detail: {
          summary: "Export a delivery as a curl command",
          responses: { 200: { description: "The command", content: { "text/plain": { schema: { type: "string" } } } } },
        },
      },
    )
    .post(
      "/deliveries/:id/replay",
      async ({ params }) => {
        await stored(params.id);
        return ok(await replay({}, [params.id]));
      },
      {
        needs: "agents:edit",
        params: DeliveryParams,
        response: Ok(Count),
        detail: {
          summary: "Replay a delivery",
          description: "Delivered again, past the check for duplicates. One that is under way is left alone.",
        },
      },
    )
    .delete("/deliveries/:id", async ({ params }) => ok(await journal.ask("drop", { ids: [params.id] })), {
      needs: "agents:edit",
      params: DeliveryParams,
      response: Ok(Count),
      detail: { summary: "Drop a dead letter" },
    })
    .post(
      "/replay",
      async ({ body: { ids, ...filter } }) => {
        if (!ids && Object.keys(filter).length === 0)
          throw new AppError("input.invalid", { say: "Say which: ids, or a filter" });
        return ok(await replay(filter, ids ?? null));
      },
      {
        needs: "agents:edit",
        body: t.Object(
          {
            ids: t.Optional(t.Array(t.String({ maxLength: 64 }), { minItems: 1, maxItems: 1_000 })),
            ...FILTER,
            status: t.Optional(oneOf<"done" | "dead">(["done", "dead"])),
          },
          strict,
        ),
        response: Ok(Count),
        detail: {
          summary: "Replay many",
          description: `By id or by filter, at most ${REPLAY_MAX} a call, oldest first.`,
        },
      },
    )
    .get(
      "/rejections",
      async ({ query }) => {
        const rows = await journal.ask("rejections", { source: query.source ?? null, limit: query.limit ?? 100 });
        return ok(rows.map(toRejectionView));
      },
      {
        needs: "agents:read",
        query: t.Object({
          source: t.Optional(t.String({ maxLength: 64 })),
          limit: t.Optional(fromText.Integer({ minimum: 1, maximum: 1_000 })),
        }),
        response: Ok(t.Array(model.RejectionView)),
        detail: {
          summary: "List what was refused",
          description: "The last 1,000, without credentials; bodies are never kept.",
        },
      },
    )
    .get(
      "/tail",
      ({ request, query, server }) => {
        server?.timeout(request, 0);
        return tailStream(hooks.tail, query.source);
      },
      {
        needs: "agents:read",
        query: t.Object({ source: t.Optional(t.String({ maxLength: 64 })) }),
        detail: {
          summary: "Watch deliveries as they happen",
          description: "Server-sent events, one JSON object each.",
          responses: {
            200: { description: "The stream", content: { "text/event-stream": { schema: { type: "string" } } } },
          },
        },
      },
    )
    .post(
      "/explain",
      async ({ body: { method, path, headers, body_base64, as } }) => {
        const saved = { method, path, headers, body: Buffer.from(body_base64, "base64") };
        const given = as === undefined ? {} : { as };
        return ok(await explain(saved, { ...sources, publicUrl: hooks.publicUrl, nowMs: now(), ...given }));
      },
      {
        needs: "agents:edit",
        body: Saved,
        response: Ok(Explanation),
        detail: {
          summary: "Explain a request",
          description:
            "Which preset fits, which stage fails, what was expected. Never the secret or the expected signature.",
        },
      },
    );
}

function toFilter({ class: className, agent: name, since, until, source, status, type }: Filter): DeliveryFilter {
  return {
    ...(source !== undefined && { source }),
    ...(className !== undefined && { className }),
    ...(name !== undefined && { name }),
    ...(status !== undefined && { status }),
    ...(type !== undefined && { type }),
    ...(since !== undefined && { sinceMs: Date.parse(since) }),
    ...(until !== undefined && { untilMs: Date.parse(until) }),
  };
}
