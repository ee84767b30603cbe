// What is done with tags under one account, wherever in the address it was named: read, set, change, remove.
import type { Access, Guard } from "../platform/access.ts";
import { ok } from "../platform/envelope.ts";
import { AppError, type ErrorCode } from "../platform/errors.ts";
import { toResource } from "./model.ts";
import { createPayloads, type Level, readBody } from "./payload.ts";
import { queryOf } from "./query.ts";
import type { ResourceTypes } from "./resource-types.ts";
import type { Tagged, TagStore } from "./store.ts";

export type TagParts = { tags: TagStore; types: ResourceTypes; missingStatus: 500 | 404; access: Access; guard: Guard };

export type Desk = ReturnType<typeof createDesk>;

export function createDesk({ tags, types, missingStatus, access }: TagParts) {
  const payloads = createPayloads(types);
  const answer = (one: Tagged) => ok(toResource(one, types));
  const ifMatchOf = (request: Request) => request.headers.get("if-match") ?? undefined;

  /** A body may take its time, and a token be revoked meanwhile: who sends it is asked again once it is here. */
  async function bodyOf(account: string, request: Request, code: ErrorCode): Promise<unknown> {
    const body = await readBody(request, code);
    access.require(request, "tags:edit", { accountId: account });
    return body;
  }

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
      const write = payloads.write(await bodyOf(account, request, "tags.set_payload"), at);
      return answer(tags.replace(account, { ...write, ifMatch: ifMatchOf(request) }));
    },
    async setMany(account: string, request: Request) {
      const writes = payloads.bulk(await bodyOf(account, request, "tags.set_payload"));
      return ok(tags.replaceAll(account, writes).map((one) => toResource(one, types)));
    },
    async merge(account: string, request: Request, at: Level) {
      const patch = payloads.patch(await bodyOf(account, request, "tags.set_payload"), at);
      return answer(tags.merge(account, { ...patch, ifMatch: ifMatchOf(request) }));
    },
    async remove(account: string, request: Request, at: Level): Promise<Response> {
      const body = await bodyOf(account, request, "tags.delete_payload");
      tags.remove(account, payloads.remove(body, queryOf(request), at), ifMatchOf(request));
      return new Response(null, { status: 204 });
    },
  };
}
