// Every provider of the table, the same proof: the bytes that leave are the bytes that came, in both directions.
import { afterAll, beforeAll, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { PROVIDERS } from "../../src/gateway/providers.ts";
import { closeAll, type FakeProvider, type GatewayHouse, startOpenHouse, startProvider } from "./support/provider.ts";

let provider: FakeProvider;
let house: GatewayHouse;
let reply: Buffer<ArrayBuffer>;
beforeAll(async () => {
  // Half of the answers have a length, half are chunked: one way is held and one is streamed.
  provider = startProvider((_, { path }) => {
    const headers = {
      "content-type": path.includes("json") ? "application/json" : "application/x-thing",
      "x-theirs": "1",
    };
    if (path.includes("whole")) return new Response(reply, { headers });
    const pieces = async function* () {
      for (let at = 0; at < reply.length; at += 1_000) yield reply.subarray(at, at + 1_000);
    };
    return new Response(pieces as never, { headers });
  });
  const providers = Object.fromEntries(Object.keys(PROVIDERS).map((slug) => [slug, { base_url: provider.url }]));
  house = await startOpenHouse(provider.url, { providers });
});
afterAll(() => closeAll(house, provider));

test.each(Object.keys(PROVIDERS))("%s", async (slug) => {
  for (const kind of ["whole-json", "whole-binary", "chunked-json", "chunked-binary"]) {
    const body = randomBytes(5_000);
    reply = Buffer.from(randomBytes(7_000));
    const answer = await fetch(`${house.base}/${slug}/v1/${kind}?q=%2F%zz&q=+`, { method: "POST", body });
    expect(Buffer.from(await answer.bytes()).equals(reply)).toBe(true);
    expect(answer.headers.get("x-theirs")).toBe("1");
    const seen = provider.seen.at(-1);
    expect(Buffer.from(seen?.body ?? []).equals(body)).toBe(true);
    expect(seen?.path).toBe(`/v1/${kind}?q=%2F%zz&q=+`);
  }
});
