// The HTTP face of export and import: lines of JSON, streamed.
import { Elysia } from "elysia";
import { ok } from "../platform/envelope.ts";
import { AppError } from "../platform/errors.ts";
import type { TagParts } from "./desk.ts";
import { FILTER_ERRORS, SEARCH, SET_ERRORS, says } from "./document.ts";
import { Imported, NDJSON_EXAMPLE } from "./model.ts";
import { createPayloads } from "./payload.ts";
import { parseQuery, queryOf } from "./query.ts";
import { exportLines, importLines } from "./transfer.ts";

const LINES = /^(application\/(x-)?(ndjson|jsonl)|text\/plain)\s*(;|$)/i;
const LINES_EXAMPLE = { schema: { type: "string" as const }, example: NDJSON_EXAMPLE };

export function tagTransferRoutes({ tags, types, access, guard }: TagParts) {
  const payloads = createPayloads(types);
  /** Asked again and again while lines pass: they may take hours, and a revoked token ends at once. */
  const admit = (request: Request, permission: "tags:read" | "tags:edit", accountId: string) => (): void =>
    void access.require(request, permission, { accountId });
  return new Elysia({ tags: ["Tags"] })
    .use(guard)
    .get(
      "/accounts/:account_id/tags/export",
      ({ params, request, server }) => {
        server?.timeout(request, 0); // a slow reader is not an idle one
        const query = parseQuery(queryOf(request), types);
        const lines = exportLines(
          tags,
          types,
          params.account_id,
          query,
          admit(request, "tags:read", params.account_id),
        );
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
        const { account_id } = params;
        const admitted = admit(request, "tags:edit", account_id);
        return ok({ resources: await importLines(tags, payloads, account_id, request.body, admitted) });
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
    );
}
