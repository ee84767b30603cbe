// What the composition joins: one feature's resources carry another feature's tags.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type House, startHouse } from "./support/house.ts";

let house: House;
beforeAll(async () => {
  house = await startHouse();
});
afterAll(() => house[Symbol.asyncDispose]());

const TAGS = "/api/accounts/home/tags";
const tag = (resource_type: string, resource_id: string) =>
  house.api("PUT", TAGS, { resource_type, resource_id, tags: { env: "prod" } });
const statusOf = async (type: string, id: string) =>
  (await house.api("GET", `${TAGS}?resource_type=${type}&resource_id=${encodeURIComponent(id)}`)).status;

describe("what is ours is called by its human name", () => {
  test.each([
    ["webhook_source", (): string => "github", "GitHub"],
    ["agent", (): string => "webhook-agent/acme-web", "acme-web"],
    ["account", (): string => "home", "Home"],
    ["ai_gateway", (): string => "default", "default"],
    [
      "gateway_token",
      (): string => house.parts.tokens.mint({ name: "laptop", permissions: ["run"], scope: { accountId: "home" } }).id,
      "laptop",
    ],
    [
      "gateway_token",
      (): string => house.parts.tokens.mint({ name: "not ours", permissions: ["admin"] }).id,
      undefined,
    ],
    ["webhook_source", (): string => "nobody", "nobody"],
  ] as const)("%s", async (type, idOf, name) => {
    const id = idOf();
    expect((await tag(type, id)).body.result.name).toBe(name ?? id);
  });
});

test("a gateway that is deleted takes its tags along", async () => {
  const fields = {
    cache_invalidate_on_update: false,
    cache_ttl: 0,
    collect_logs: true,
    rate_limiting_interval: 0,
    rate_limiting_limit: 0,
  };
  expect((await house.api("POST", "/api/accounts/home/ai-gateway/gateways", { id: "brief", ...fields })).status).toBe(
    200,
  );
  await tag("ai_gateway", "brief");
  expect(await statusOf("ai_gateway", "brief")).toBe(200);
  await house.api("DELETE", "/api/accounts/home/ai-gateway/gateways/brief");
  expect(await statusOf("ai_gateway", "brief")).toBe(500);
});

test("an agent that is destroyed takes its tags along", async () => {
  await house.api("POST", "/api/agents/webhook-agent/brief/call", { method: "getEvents" });
  await tag("agent", "webhook-agent/brief");
  const gone = await house.api("DELETE", "/api/agents/webhook-agent/brief");
  expect(gone.status).toBe(200);
  expect(await statusOf("agent", "webhook-agent/brief")).toBe(500);
});
