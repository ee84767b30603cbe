// The HTTP face of a zone's tags. A zone is the account's that first tagged something in it.
import { Elysia } from "elysia";
import { AppError } from "../platform/errors.ts";
import type { Desk, TagParts } from "./desk.ts";
import { needing, referring, SET_ERRORS, sending } from "./document.ts";
import { isLongerThan } from "./filter.ts";
import { bodiesOf, One } from "./model.ts";
import { ID_CHARS_MAX, type Level } from "./payload.ts";

const HOME = "home"; // whose an unclaimed zone is when the caller belongs to no account
export function zoneTagRoutes({ tags, access }: TagParts, desk: Desk) {
  const bodies = bodiesOf("zone");

  /** The account to work in, once the caller may. Before anything of the request is looked at. */
  function enter(request: Request, zoneId: string, permission: "tags:read" | "tags:edit"): [string, Request, Level] {
    const { scope } = access.identify(request);
    const account = tags.ownerOfZone(zoneId) ?? scope.accountId ?? HOME;
    access.require(request, permission, { accountId: account });
    if (typeof zoneId !== "string" || zoneId.includes("\0") || isLongerThan(zoneId, ID_CHARS_MAX)) {
      throw new AppError("input.invalid", { say: `zone_id must be text of 1 to ${ID_CHARS_MAX} characters` });
    }
    return [account, request, { level: "zone", zoneId }];
  }

  return new Elysia({ tags: ["Tags"] })
    .get("/zones/:zone_id/tags", ({ params, request }) => desk.read(...enter(request, params.zone_id, "tags:read")), {
      response: One,
      detail: {
        ...referring("zone", {
          summary: "Read the tags of a resource of a zone",
          parameters: ["access_application_id"],
          errors: ["tags.reference", "tags.type", "tags.missing"],
        }),
        ...needing("tags:read"),
      },
    })
    .put("/zones/:zone_id/tags", ({ params, request }) => desk.set(...enter(request, params.zone_id, "tags:edit")), {
      parse: "none",
      response: One,
      detail: {
        ...sending("zone", bodies.set, {
          summary: "Set the tags of a resource of a zone",
          description: "The first account to tag something in a zone owns it; another one is refused.",
          parameters: ["if_match"],
          errors: SET_ERRORS,
        }),
        ...needing("tags:edit"),
      },
    })
    .patch(
      "/zones/:zone_id/tags",
      ({ params, request }) => desk.merge(...enter(request, params.zone_id, "tags:edit")),
      {
        parse: "none",
        response: One,
        detail: {
          ...sending("zone", bodies.patch, {
            summary: "Change some tags of a resource of a zone",
            parameters: ["if_match"],
            errors: SET_ERRORS,
          }),
          ...needing("tags:edit"),
        },
      },
    )
    .delete(
      "/zones/:zone_id/tags",
      ({ params, request }) => desk.remove(...enter(request, params.zone_id, "tags:edit")),
      {
        parse: "none",
        detail: {
          ...sending("zone", bodies.remove, {
            summary: "Delete the tags of a resource of a zone",
            parameters: ["if_match"],
            errors: ["tags.delete_payload", "tags.type", "tags.precondition"],
          }),
          ...needing("tags:edit"),
          responses: { 204: { description: "It has no tags now" } },
        },
      },
    );
}
