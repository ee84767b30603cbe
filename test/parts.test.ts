// What the composition joins: one feature's resources carry another feature's tags.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { type House, startHouse, tempFolder } from "./support/house.ts";

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

test("a folder restored without its key starts, and what the key sealed is as if it were not set", async () => {
  const folder = tempFolder();
  const gateways = "/api/accounts/home/ai-gateway";
  const before = await startHouse({ folder });
  await before.api("PUT", "/api/hooks/sources/github/secret", { secret: "a-github-secret" });
  await before.api("PUT", "/api/agent-secrets/webhook-agent/KEY", { value: "an-agent-secret" });
  const provider = { name: "Own", slug: "own", base_url: "https://example.com", headers: '{"x-key":"a-header"}' };
  expect((await before.api("POST", `${gateways}/custom-providers`, provider)).status).toBe(200);
  const { result } = (await before.api("GET", `${gateways}/gateways/default`)).body;
  const { id: _, created_at: __, modified_at: ___, is_default: ____, ...fields } = result;
  const stripe = { authorization: "a-stripe-secret", usage_events: [] };
  expect((await before.api("PUT", `${gateways}/gateways/default`, { ...fields, stripe })).status).toBe(200);
  await before.stop();
  rmSync(join(folder, "data", "secret.key"));

  await using after = await startHouse({ folder });
  expect((await after.api("GET", "/api/hooks/sources/github")).body.result.secrets).toEqual([]);
  expect((await after.api("GET", "/api/agent-secrets/webhook-agent")).body.result).toEqual([]);
  expect((await after.api("GET", `${gateways}/gateways/default`)).status).toBe(200);
  expect((await after.api("GET", `${gateways}/custom-providers`)).body.result.length).toBe(1);
  const lost = after.logged.filter(({ event }) => event === "secret.lost").map(({ what }) => String(what));
  expect(lost.sort()).toEqual([
    "agent webhook-agent KEY",
    expect.stringMatching(/^custom provider /),
    "gateway home/default",
    "webhook github",
  ]);
});
