// The HTTP face of an account's tags: paths, contracts, and nothing else.
import { Elysia } from "elysia";
import { createDesk, type TagParts } from "./desk.ts";
import { referring, SET_ERRORS, sending } from "./document.ts";
import { tagListRoutes } from "./list-routes.ts";
import { Bulk, BulkSet, bodiesOf, One } from "./model.ts";
import type { Level } from "./payload.ts";
import { tagTransferRoutes } from "./transfer-routes.ts";
import { zoneTagRoutes } from "./zone-routes.ts";

const ACCOUNT: Level = { level: "account" };

export function tagRoutes(parts: TagParts) {
  const desk = createDesk(parts);
  const bodies = bodiesOf("account");

  return new Elysia({ tags: ["Tags"] })
    .use(parts.guard)
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
    .post("/accounts/:account_id/tags/bulk", ({ params, request }) => desk.setMany(params.account_id, request), {
      needs: "tags:edit",
      parse: "none",
      response: Bulk,
      detail: sending("account", BulkSet, {
        summary: "Set the tags of many resources",
        description: "Up to 1,000, all or none. Types that live in a zone need `zone_id`.",
        errors: SET_ERRORS,
      }),
    })
    .use(tagListRoutes(parts))
    .use(tagTransferRoutes(parts))
    .use(zoneTagRoutes(parts, desk));
}
