// Deliveries over HTTP: list, read, replay, drop, watch, and explain one that was refused.
import { Type as t } from "@sinclair/typebox";
import { Elysia, t as fromText } from "elysia";
import { Ok, ok } from "../platform/envelope.ts";
import { AppError } from "../platform/errors.ts";
import { oneOf, strict } from "../platform/schema.ts";
import { toCurl } from "./curl.ts";
import { explain } from "./explain.ts";
import type { DeliveryFilter } from "./journal-schema.ts";
import * as model from "./model.ts";
import type { HookRouteParts } from "./source-routes.ts";
import { tailStream } from "./tail-stream.ts";
import { toDeliveryView, toRejectionView } from "./views.ts";

const PAGE_MAX = 500;
const REPLAY_MAX = 10_000; // deliveries that one call puts back; more is done by asking again
const EXPLAIN_BODY_MAX = 900_000; // characters of base64 within the megabyte that a management call may have

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
const HeaderValue = t.String({ pattern: "^[^\\0\\r\\n]*$", maxLength: 8_192 });
const Saved = t.Object(
  {
    method: t.String({ pattern: "^[A-Z]{1,16}$", examples: ["POST"] }),
    path: t.String({ minLength: 1, maxLength: 8_192, examples: ["/webhooks/github"] }),
    headers: t.Array(t.Tuple([model.HeaderName, HeaderValue]), { maxItems: 200 }),
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

export function hookDeliveryRoutes({ hooks, guard, now }: HookRouteParts) {
  const { sources, journal, dispatch } = hooks;

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

  return new Elysia({ prefix: "/hooks", tags: ["Webhooks"] })
    .use(guard)
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
        const delivery = await stored(params.id);
        const checks = sources.find(delivery.row.source)?.checks ?? "none"; // the source may be gone
        const command = toCurl(delivery, hooks.publicUrl ?? new URL(request.url).origin, checks);
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
