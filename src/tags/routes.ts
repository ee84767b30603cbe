// The HTTP face of an account's tags: paths, contracts, and nothing else.
import { Type as t } from "@sinclair/typebox";
import { Elysia } from "elysia";
import type { Access, Guard } from "../platform/access.ts";
import { ok } from "../platform/envelope.ts";
import { AppError, type ErrorCode } from "../platform/errors.ts";
import { referring, says, sending } from "./document.ts";
import { keyFault } from "./filter.ts";
import {
  Bulk,
  BulkSet,
  bodiesOf,
  Imported,
  KeySummary,
  NDJSON_EXAMPLE,
  One,
  pageOf,
  TaggedResource,
  toResource,
} from "./model.ts";
import { createPayloads, type Level, readBody } from "./payload.ts";
import { type Position, parseCursor, toCursor, toParams } from "./position.ts";
import { parseQuery } from "./query.ts";
import type { ResourceTypes } from "./resource-types.ts";
import type { TagStore } from "./store.ts";
import { exportLines, importLines } from "./transfer.ts";
import { zoneTagRoutes } from "./zone-routes.ts";

export type TagParts = { tags: TagStore; types: ResourceTypes; missingStatus: 500 | 404; access: Access; guard: Guard };

const ACCOUNT: Level = { level: "account" };
const LINES = /^(application\/(x-)?(ndjson|jsonl)|text\/plain)\s*(;|$)/i;
const FILTER_ERRORS: ErrorCode[] = [
  ...(["tags.filters_max", "tags.filter", "tags.values_max", "tags.key_long", "tags.key", "tags.value_long"] as const),
  ...(["tags.type", "input.invalid"] as const),
];
const SET_ERRORS: ErrorCode[] = [
  ...(["tags.set_payload", "tags.type", "tags.key_long", "tags.key", "tags.value_long", "tags.account_full"] as const),
  ...(["tags.precondition", "input.too_large"] as const),
];
const LINES_EXAMPLE = { schema: { type: "string" as const }, example: NDJSON_EXAMPLE };
const SEARCH = ["tag", "types", "id", "name", "case_insensitive"] as const;

export function tagRoutes(parts: TagParts) {
  const { tags, types, guard } = parts;
  const payloads = createPayloads(types);
  const desk = createDesk(parts);
  const bodies = bodiesOf("account");

  return new Elysia({ tags: ["Tags"] })
    .use(guard)
    .get("/accounts/:account_id/tags", ({ params, request }) => desk.read(params.account_id, request, ACCOUNT), {
      needs: "tags:read",
      response: One,
      detail: referring("account", {
        summary: "Read the tags of a resource",
        description: "Of one that was never tagged: 500, or 404 where `tags.missing_status` says so.",
        parameters: ["worker_id"],
        errors: ["tags.reference", "tags.type", "tags.missing"],
      }),
    })
    .put("/accounts/:account_id/tags", ({ params, request }) => desk.set(params.account_id, request, ACCOUNT), {
      needs: "tags:edit",
      parse: "none",
      response: One,
      detail: sending("account", bodies.set, {
        summary: "Set the tags of a resource",
        description: "Replaces all of them. An empty map counts as tagged.",
        parameters: ["if_match"],
        errors: SET_ERRORS,
      }),
    })
    .patch("/accounts/:account_id/tags", ({ params, request }) => desk.merge(params.account_id, request, ACCOUNT), {
      needs: "tags:edit",
      parse: "none",
      response: One,
      detail: sending("account", bodies.patch, {
        summary: "Change some tags of a resource",
        description: "Adds or replaces the keys given; null takes one away. Other tags stay.",
        parameters: ["if_match"],
        errors: SET_ERRORS,
      }),
    })
    .delete("/accounts/:account_id/tags", ({ params, request }) => desk.remove(params.account_id, request, ACCOUNT), {
      needs: "tags:edit",
      parse: "none",
      detail: {
        ...sending("account", bodies.remove, {
          summary: "Delete the tags of a resource",
          description: "Also when it has none. The resource may be named in the query instead of a body.",
          parameters: ["if_match"],
          errors: ["tags.delete_payload", "tags.type", "tags.precondition"],
        }),
        responses: { 204: { description: "It has no tags now" } },
      },
    })
    .post(
      "/accounts/:account_id/tags/bulk",
      async ({ params, request }) => {
        const writes = payloads.bulk(await readBody(request, "tags.set_payload"));
        return ok(tags.replaceAll(params.account_id, writes).map((one) => toResource(one, types)));
      },
      {
        needs: "tags:edit",
        parse: "none",
        response: Bulk,
        detail: sending("account", BulkSet, {
          summary: "Set the tags of many resources",
          description: "Up to 1,000, all or none. Types that live in a zone need `zone_id`.",
          errors: SET_ERRORS,
        }),
      },
    )
    .get(
      "/accounts/:account_id/tags/resources",
      async ({ params, request }) => {
        const query = queryOf(request);
        const wanted = parseQuery(query, types);
        const { items, more } = await tags.find(params.account_id, wanted, positionOf(query.get("cursor")));
        return page(
          items.map((one) => toResource(one, types)),
          more,
          () => toParams(items.at(-1) ?? END),
        );
      },
      {
        needs: "tags:read",
        response: pageOf(TaggedResource),
        detail: says("account", {
          summary: "List tagged resources",
          description: "Ordered by type and id, 100 a page. `!key` and `key!=value` range over tagged resources.",
          parameters: [...SEARCH, "cursor"],
          errors: FILTER_ERRORS,
        }),
      },
    )
    .get(
      "/accounts/:account_id/tags/keys",
      ({ params, request }) => {
        const { items, more } = tags.keys(params.account_id, afterOf(request));
        return page(items, more, () => items.slice(-1));
      },
      {
        needs: "tags:read",
        response: pageOf(t.String()),
        detail: says("account", { summary: "List tag keys in use", parameters: ["cursor"], errors: ["input.invalid"] }),
      },
    )
    .get(
      "/accounts/:account_id/tags/values/:tag_key",
      ({ params, request }) => {
        const key = keyOf(params.tag_key);
        const type = queryOf(request).get("type") ?? undefined;
        if (type !== undefined && !types.has(type)) throw new AppError("tags.type");
        const { items, more } = tags.values(params.account_id, key, type, afterOf(request));
        return page(items, more, () => items.slice(-1));
      },
      {
        needs: "tags:read",
        response: pageOf(t.String()),
        detail: says("account", {
          summary: "List the values of a tag key",
          parameters: ["tag_key", "type", "cursor"],
          errors: ["tags.key_missing", "tags.key_long", "tags.key", "tags.type", "input.invalid"],
        }),
      },
    )
    .get("/accounts/:account_id/tags/values", () => keyOf(""), { needs: "tags:read", detail: { hide: true } })
    .get(
      "/accounts/:account_id/tags/summary",
      ({ params, request }) => {
        const { items, more } = tags.summary(params.account_id, afterOf(request));
        return page(items, more, () => items.slice(-1).map(({ key }) => key));
      },
      {
        needs: "tags:read",
        response: pageOf(KeySummary),
        detail: says("account", {
          summary: "List tag keys with their values",
          parameters: ["cursor"],
          errors: ["input.invalid"],
        }),
      },
    )
    .get(
      "/accounts/:account_id/tags/export",
      ({ params, request, server }) => {
        server?.timeout(request, 0); // a slow reader is not an idle one
        const lines = exportLines(tags, types, params.account_id, parseQuery(queryOf(request), types));
        return new Response(lines, { headers: { "content-type": "application/x-ndjson" } });
      },
      {
        needs: "tags:read",
        detail: {
          ...says("account", {
            summary: "Export tags as NDJSON",
            description: "A line for each resource, as an import takes it; any number of them, streamed.",
            parameters: SEARCH,
            errors: FILTER_ERRORS,
          }),
          responses: { 200: { description: "Lines of JSON", content: { "application/x-ndjson": LINES_EXAMPLE } } },
        },
      },
    )
    .post(
      "/accounts/:account_id/tags/import",
      async ({ params, request, server }) => {
        if (!LINES.test(request.headers.get("content-type") ?? "")) {
          throw new AppError("input.media_type", { say: "The body must be sent as application/x-ndjson" });
        }
        server?.timeout(request, 0);
        return ok({ resources: await importLines(tags, payloads, params.account_id, request.body) });
      },
      {
        needs: "tags:edit",
        parse: "none",
        response: Imported,
        detail: {
          ...says("account", {
            summary: "Import tags from NDJSON",
            description:
              "Each line sets one resource, of any number of lines. It stops at the first bad line and says which; lines before it stay stored, so that sending the file again is safe.",
            errors: [...SET_ERRORS, "input.media_type"],
          }),
          // As text first: for a type with "json" in its name Swagger's page would put the example in quotes.
          requestBody: {
            required: true,
            content: { "text/plain": LINES_EXAMPLE, "application/x-ndjson": LINES_EXAMPLE },
          },
        },
      },
    )
    .use(zoneTagRoutes(parts, desk));
}

const END: Position = { type: "", id: "", zoneId: "", parentId: "" };

export type Desk = ReturnType<typeof createDesk>;

/** The four operations on one resource, which accounts and zones share. */
function createDesk({ tags, types, missingStatus }: TagParts) {
  const payloads = createPayloads(types);
  const answer = (one: Parameters<typeof toResource>[0]) => ok(toResource(one, types));
  const ifMatchOf = (request: Request) => request.headers.get("if-match") ?? undefined;
  return {
    read(account: string, request: Request, at: Level) {
      const position = payloads.query(queryOf(request), at);
      const found = tags.read(account, position);
      if (found) return answer(found);
      // A retry cannot help, and the client would try a 500 twice more.
      throw new AppError(missingStatus === 404 ? "tags.missing_later" : "tags.missing", {
        say: `resource not found: type=${position.type} id=${position.id}`,
        headers: { "x-should-retry": "false" },
        expected: true,
      });
    },
    async set(account: string, request: Request, at: Level) {
      const write = payloads.write(await readBody(request, "tags.set_payload"), at);
      return answer(tags.replace(account, { ...write, ifMatch: ifMatchOf(request) }));
    },
    async merge(account: string, request: Request, at: Level) {
      const patch = payloads.patch(await readBody(request, "tags.set_payload"), at);
      return answer(tags.merge(account, { ...patch, ifMatch: ifMatchOf(request) }));
    },
    async remove(account: string, request: Request, at: Level): Promise<Response> {
      const body = await readBody(request, "tags.delete_payload");
      tags.remove(account, payloads.remove(body, queryOf(request), at), ifMatchOf(request));
      return new Response(null, { status: 204 });
    },
  };
}

/** Two spellings of the cursor: the documents of this interface name one, its clients read the other. */
function page<T>(items: T[], more: boolean, last: () => readonly string[]) {
  const cursor = more ? toCursor(last()) : null;
  return { ...ok(items), result_info: { count: items.length, cursor, cursors: { after: cursor } } };
}

function queryOf(request: Request): URLSearchParams {
  return new URL(request.url).searchParams;
}

function positionOf(cursor: string | null): Position | undefined {
  if (cursor === null) return undefined;
  const [type, id, zoneId, parentId] = parseCursor(cursor, 4);
  return { type, id, zoneId, parentId };
}

function afterOf(request: Request): string | undefined {
  const cursor = queryOf(request).get("cursor");
  return cursor === null ? undefined : parseCursor(cursor, 1)[0];
}

function keyOf(key: string | null): string {
  if (key === "") throw new AppError("tags.key_missing");
  const fault = key === null ? "tags.key" : keyFault(key); // null: an escape that decodes to nothing
  if (fault || key === null) throw new AppError(fault ?? "tags.key");
  return key;
}
