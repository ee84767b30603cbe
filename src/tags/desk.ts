// The four operations on the tags of one resource, which accounts and zones share.
import type { Access, Guard } from "../platform/access.ts";
import { ok } from "../platform/envelope.ts";
import { AppError } from "../platform/errors.ts";
import { toResource } from "./model.ts";
import { createPayloads, type Level, readBody } from "./payload.ts";
import { queryOf } from "./query.ts";
import type { ResourceTypes } from "./resource-types.ts";
import type { Tagged, TagStore } from "./store.ts";

export type TagParts = { tags: TagStore; types: ResourceTypes; missingStatus: 500 | 404; access: Access; guard: Guard };

export type Desk = ReturnType<typeof createDesk>;

export function createDesk({ tags, types, missingStatus }: TagParts) {
  const payloads = createPayloads(types);
  const answer = (one: Tagged) => ok(toResource(one, types));
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
