// The HTTP face of what is in use in an account: resources, keys, values, a page at a time.
import { Type as t } from "@sinclair/typebox";
import { Elysia } from "elysia";
import { ok } from "../platform/envelope.ts";
import { AppError } from "../platform/errors.ts";
import type { TagParts } from "./desk.ts";
import { FILTER_ERRORS, SEARCH, says } from "./document.ts";
import { keyFault } from "./filter.ts";
import { KeySummary, pageOf, TaggedResource, toResource } from "./model.ts";
import { FIRST, type Position, parseCursor, toCursor, toParams } from "./position.ts";
import { parseQuery, queryOf } from "./query.ts";

export function tagListRoutes({ tags, types, guard }: TagParts) {
  return new Elysia({ tags: ["Tags"] })
    .use(guard)
    .get(
      "/accounts/:account_id/tags/resources",
      async ({ params, request }) => {
        const query = queryOf(request);
        const wanted = parseQuery(query, types);
        const { items, more } = await tags.find(params.account_id, wanted, positionOf(query.get("cursor")));
        return page(
          items.map((one) => toResource(one, types)),
          more,
          () => toParams(items.at(-1) ?? FIRST),
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
    );
}

/** Two spellings of the cursor: the documents of this interface name one, its clients read the other. */
function page<T>(items: T[], more: boolean, last: () => readonly string[]) {
  const cursor = more ? toCursor(last()) : null;
  return { ...ok(items), result_info: { count: items.length, cursor, cursors: { after: cursor } } };
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
