// Logs over HTTP: list, read, judge, delete, sum.
import { Type as t } from "@sinclair/typebox";
import { Elysia, t as query } from "elysia";
import type { Guard } from "../platform/access.ts";
import { Ok, ok } from "../platform/envelope.ts";
import { AppError } from "../platform/errors.ts";
import { oneOf, strict } from "../platform/schema.ts";
import { parseFilters, parseOrder } from "./log-query.ts";
import { Log, LogDetail, toDetail, toLog } from "./log-view.ts";
import { CURSOR_ORDERS, ORDER_COLUMNS, type StoredBody } from "./logs/reader.ts";
import { parseMetadata } from "./logs/row.ts";
import { timeOfId } from "./logs/schema.ts";
import type { LogStore } from "./logs/store.ts";
import { orNull } from "./model.ts";
import { pageInfo } from "./paging.ts";
import { PRICE_TABLE } from "./pricing.ts";
import type { GatewayStore } from "./settings.ts";

export type LogRouteParts = { guard: Guard; gateways: GatewayStore; logs: LogStore; now: () => number };

const PER_PAGE_MAX = 1_000;
const DAY_MS = 86_400_000;
const Gateway = t.Object({ account_id: t.String(), gateway_id: t.String() });
const One = t.Object({ account_id: t.String(), gateway_id: t.String(), id: t.String() });
const Order = {
  order_by: t.Optional(oneOf(Object.keys(ORDER_COLUMNS))),
  order_by_direction: t.Optional(oneOf(["asc", "desc"])),
};
const Filters = {
  filters: t.Optional(
    t.String({
      description: 'JSON list of {"key","operator","value":[…]}; or filters.key, .operator, .value repeated',
    }),
  ),
};
const Search = { search: t.Optional(t.String({ maxLength: 200 })) };
/** Filters come repeated and under several names; log-query.ts reads them. */
const open = { additionalProperties: true } as const;
const ListQuery = t.Object(
  {
    page: t.Optional(query.Numeric({ minimum: 1, maximum: 1_000_000 })),
    per_page: t.Optional(query.Numeric({ minimum: 1, maximum: PER_PAGE_MAX })),
    ...Order,
    ...Filters,
    ...Search,
    meta_info: t.Optional(query.BooleanString()),
    cursor: t.Optional(t.String({ maxLength: 64, description: "id of the last row seen; instead of page" })),
  },
  open,
);
const DeleteQuery = t.Object(
  { ...Order, ...Filters, ...Search, limit: t.Optional(query.Numeric({ minimum: 1, maximum: 1e9 })) },
  open,
);
const Judgement = t.Object(
  {
    feedback: t.Optional(orNull(t.Integer({ minimum: -1, maximum: 1 }))),
    score: t.Optional(orNull(t.Integer({ minimum: 0, maximum: 100 }))),
    metadata: t.Optional(orNull(t.Record(t.String(), t.Union([t.String(), t.Number(), t.Boolean()])))),
  },
  strict,
);
const Sums = {
  requests: t.Integer(),
  failed: t.Integer(),
  tokens_in: t.Integer(),
  tokens_out: t.Integer(),
  tokens_cached: t.Integer(),
  cost: orNull(t.Number({ description: "of the requests whose price is known; null when there are none" })),
  unpriced: t.Integer({ description: "requests with token counts but no known price" }),
  average_ms: orNull(t.Number()),
  average_first_byte_ms: orNull(t.Number()),
};
const Stats = t.Object({
  totals: t.Object(Sums),
  models: t.Array(t.Object({ provider: t.String(), model: orNull(t.String()), ...Sums })),
  prices: t.Object({ source: t.String(), version: t.String(), date: t.String() }),
});

export const logManagement = ({ guard, gateways, logs, now }: LogRouteParts) => {
  /** Throws when there is no such gateway, so that a typo is not an empty list. */
  const keyOf = ({ account_id, gateway_id }: { account_id: string; gateway_id: string }): string => {
    gateways.get(account_id, gateway_id);
    return `${account_id}/${gateway_id}`;
  };
  return new Elysia({ prefix: "/accounts/:account_id/ai-gateway/gateways/:gateway_id/logs", tags: ["Logs"] })
    .use(guard)
    .get(
      "/",
      async ({ params, query: { page = 1, per_page = 20, search, meta_info = false, cursor }, request }) => {
        const { searchParams } = new URL(request.url);
        const order = parseOrder(searchParams);
        if (cursor !== undefined) requirePlace(cursor, order.orderBy);
        const { rows, total, meta } = await logs.list({
          gateway: keyOf(params),
          filters: parseFilters(searchParams),
          ...(search !== undefined && { search }),
          ...(cursor !== undefined && { after: cursor }),
          ...order,
          page,
          perPage: per_page,
          metaInfo: meta_info,
        });
        const last = rows.length === per_page ? rows.at(-1)?.id : undefined;
        const info = { ...pageInfo(page, per_page, rows.length, total), ...(last && { cursor: last }), ...meta };
        return ok(rows.map(toLog), info);
      },
      {
        needs: "gateway:read",
        params: Gateway,
        query: ListQuery,
        response: Ok(t.Array(Log)),
        detail: {
          summary: "List logs",
          description:
            "Newest first. Pages by number, or by cursor in the order of time or of writing; a page past the end is empty.",
          "x-errors": ["input.invalid", "thing.unknown"],
        },
      },
    )
    .delete(
      "/",
      async ({ params, query: { limit, search, order_by, order_by_direction }, request }) => {
        const filters = parseFilters(new URL(request.url).searchParams);
        await logs.remove(
          { gateway: keyOf(params), filters, ...(search !== undefined && { search }) },
          {
            ...(limit !== undefined && { limit }),
            ...(order_by !== undefined && { orderBy: order_by }),
            descending: order_by_direction === "desc",
          },
        );
        return ok({ success: true });
      },
      {
        needs: "gateway:edit",
        params: Gateway,
        query: DeleteQuery,
        response: Ok(t.Object({ success: t.Boolean() })),
        detail: {
          summary: "Delete logs",
          description:
            "Those that filters and search name, at most `limit`, in the order that is asked for (oldest first); all of " +
            "them without any of it.",
          "x-errors": ["input.invalid", "thing.unknown"],
        },
      },
    )
    .get(
      "/stats",
      async ({ params, query: { days = 30 } }) => {
        const answer = await logs.stats({ gateway: keyOf(params), sinceMs: now() - days * DAY_MS });
        return ok({ ...answer, prices: PRICE_TABLE });
      },
      {
        needs: "gateway:read",
        params: Gateway,
        query: t.Object({ days: t.Optional(query.Numeric({ exclusiveMinimum: 0, maximum: 36_500 })) }),
        response: Ok(Stats),
        detail: {
          summary: "What was asked and spent",
          description: "By model, over the last `days` (30). A cost counts only requests whose price is known.",
          "x-errors": ["thing.unknown"],
        },
      },
    )
    .get("/:id", async ({ params }) => ok(toDetail(found(await logs.get(keyOf(params), params.id)))), {
      needs: "gateway:read",
      params: One,
      response: Ok(LogDetail),
      detail: {
        summary: "Read a log",
        description: "With the first 64 KiB of each stored body.",
        "x-errors": ["thing.unknown"],
      },
    })
    .patch(
      "/:id",
      async ({ params, body: { metadata, ...judgement } }) => {
        const text = metadata && Object.keys(metadata).length > 0 ? parseMetadata(JSON.stringify(metadata)) : null;
        if (text === undefined) throw new AppError("input.invalid", { say: "body.metadata: a value is too long" });
        const change = { ...judgement, ...(metadata !== undefined && { metadata: text }) };
        found((await logs.setFeedback(keyOf(params), params.id, change)) || undefined);
        return ok({ id: params.id });
      },
      {
        needs: "gateway:edit",
        params: One,
        body: Judgement,
        response: Ok(t.Object({ id: t.String() })),
        detail: {
          summary: "Judge a log",
          description: "Feedback -1 to 1, score 0 to 100, metadata.",
          "x-errors": ["input.invalid", "thing.unknown"],
        },
      },
    )
    .get(
      "/:id/request",
      async ({ params }) => toResponse(found(await logs.body(keyOf(params), params.id, "request"))),
      {
        needs: "gateway:read",
        params: One,
        detail: {
          summary: "The stored request body",
          description: "As it was sent, without its content encoding.",
          "x-errors": ["thing.unknown"],
        },
      },
    )
    .get(
      "/:id/response",
      async ({ params }) => toResponse(found(await logs.body(keyOf(params), params.id, "response"))),
      {
        needs: "gateway:read",
        params: One,
        detail: {
          summary: "The stored response body",
          description: "As it was sent, without its content encoding.",
          "x-errors": ["thing.unknown"],
        },
      },
    );
};

function requirePlace(cursor: string, orderBy: string): void {
  if (Number.isNaN(timeOfId(cursor))) throw new AppError("input.invalid", { say: "query.cursor: this is no log's id" });
  if (!CURSOR_ORDERS.includes(orderBy)) {
    throw new AppError("input.invalid", { say: `query.cursor: goes with order_by ${CURSOR_ORDERS.join(" or ")}` });
  }
}

function found<T>(value: T | undefined): T {
  if (value === undefined) throw new AppError("thing.unknown", { say: "No such log" });
  return value;
}

/** A stranger's bytes on our origin: JSON when they are whole JSON, else plain text, and never a page. */
function toResponse({ bytes, complete, type }: StoredBody): Response {
  const isJson = complete && type !== null && /^application\/(?:[\w.-]+\+)?json/i.test(type);
  return new Response(bytes.slice(), {
    headers: {
      "content-type": isJson ? "application/json" : "text/plain; charset=utf-8",
      "content-security-policy": "sandbox",
      "x-content-type-options": "nosniff",
    },
  });
}
