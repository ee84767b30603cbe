// The official client drives settings, custom providers and logs, with only its base address changed.
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import Cloudflare from "cloudflare";
import {
  CHAT,
  closeAll,
  type FakeProvider,
  failureOf,
  type GatewayHouse,
  startGatewayHouse,
  startProvider,
  until,
} from "./support/provider.ts";
import { recordOf } from "./support/records.ts";

let provider: FakeProvider;
let house: GatewayHouse;
let client: Cloudflare;
/** Lets the provider answer what it was asked last. */
let release = (): void => {};
const account_id = "home";
beforeAll(async () => {
  provider = startProvider(async (_, { path }) => {
    const released = Promise.withResolvers<void>();
    release = released.resolve;
    if (path.endsWith("slow")) await released.promise;
    return path.endsWith("fail") ? Response.json({ error: 1 }, { status: 500 }) : Response.json(CHAT);
  });
  house = await startGatewayHouse(provider.url);
  client = new Cloudflare({ apiToken: house.adminToken, baseURL: `${house.url}/api`, maxRetries: 0 });
});
afterAll(() => closeAll(house, provider));

const FIRST = {
  cache_invalidate_on_update: true,
  cache_ttl: null,
  collect_logs: true,
  rate_limiting_interval: 0,
  rate_limiting_limit: null,
};
const send = (path: string, headers: Record<string, string> = {}, gateway = "default") =>
  fetch(`${house.url}/v1/home/${gateway}/openai/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", "gw-aig-authorization": house.adminToken, ...headers },
    body: '{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Hi"}]}',
  });

test("a gateway: create, read, update, list, delete, with every field kept", async () => {
  const made = await client.aiGateway.create({ account_id, id: "my-gw", ...FIRST, authentication: true });
  expect(made).toMatchObject({
    id: "my-gw",
    authentication: true,
    cache_ttl: 0,
    collect_logs: true,
    is_default: false,
  });
  const all = {
    ...FIRST,
    authentication: false,
    rate_limiting_technique: "sliding" as const,
    log_management: 10_000,
    log_management_strategy: "DELETE_OLDEST" as const,
    logpush: true,
    logpush_public_key: "x".repeat(16),
    log_classification: true,
    retry_max_attempts: 5,
    retry_delay: 100,
    retry_backoff: "exponential" as const,
    dlp: { action: "BLOCK" as const, enabled: true, profiles: ["p"] },
    guardrails: { prompt: { P1: "BLOCK" as const }, response: { S1: "FLAG" as const } },
    spend_limits: {
      enabled: true,
      rules: [
        { limit: 1, limitType: "cost" as const, window: 3600, model: { mode: "filter" as const, values: ["m"] } },
      ],
    },
    otel: [
      {
        url: "https://otel.example",
        headers: { a: "secret-a" },
        authorization: "secret-b",
        content_type: "json" as const,
      },
    ],
    stripe: { authorization: "secret-c", usage_events: [{ payload: "{}" }] },
    store_id: "s",
    zdr: true,
    workers_ai_billing_mode: "unified" as const,
  };
  const updated = await client.aiGateway.update("my-gw", { account_id, ...all });
  const { otel: _otel, stripe: _stripe, ...plain } = all;
  expect(updated).toMatchObject({ ...plain, cache_ttl: 0 });
  expect(JSON.stringify(updated)).not.toContain("secret-");
  // Written back as it was shown, a credential keeps its value.
  const shown = await client.aiGateway.get("my-gw", { account_id });
  const { id, created_at, modified_at, is_default, ...fields } = shown;
  await client.aiGateway.update("my-gw", { account_id, ...fields, collect_logs: false } as never);
  expect(house.parts.gateway.gateways.find("home/my-gw")).toMatchObject({ collectLogs: false });
  expect([id, is_default, created_at <= modified_at]).toEqual(["my-gw", false, true]);

  const ids: string[] = [];
  for await (const one of client.aiGateway.list({ account_id, per_page: 1 })) ids.push(one.id);
  expect(ids).toEqual(["default", "my-gw"]);
  expect((await client.aiGateway.list({ account_id, search: "MY" })).result.map((one) => one.id)).toEqual(["my-gw"]);
  expect(await client.aiGateway.delete("my-gw", { account_id })).toMatchObject({ id: "my-gw" });
  expect(await failureOf(client.aiGateway.get("my-gw", { account_id }))).toBeInstanceOf(Cloudflare.NotFoundError);
});

test("what is missing, twice there, or not ours to touch", async () => {
  const missing = await failureOf(client.aiGateway.create({ account_id, id: "x", collect_logs: true } as never));
  expect(missing).toBeInstanceOf(Cloudflare.BadRequestError);
  expect(missing).toMatchObject({ errors: [{ code: 7001 }] });
  expect(await failureOf(client.aiGateway.create({ account_id, id: "Bad--Id", ...FIRST }))).toMatchObject({
    status: 400,
  });
  expect(await failureOf(client.aiGateway.create({ account_id, id: "default", ...FIRST }))).toMatchObject({
    status: 409,
  });
  expect(await failureOf(client.aiGateway.get("nope", { account_id }))).toMatchObject({
    status: 404,
    errors: [{ code: 7002 }],
  });
  expect(await failureOf(client.aiGateway.get("default", { account_id: "nobody" }))).toMatchObject({ status: 403 });
  const reader = new Cloudflare({
    apiToken: house.token(["gateway:read"], { accountId: "home" }),
    baseURL: `${house.url}/api`,
    maxRetries: 0,
  });
  expect((await reader.aiGateway.get("default", { account_id })).id).toBe("default");
  expect(await failureOf(reader.aiGateway.delete("default", { account_id }))).toMatchObject({ status: 403 });
  expect(await failureOf(reader.aiGateway.logs.delete("default", { account_id }))).toMatchObject({ status: 403 });
  const one = new Cloudflare({
    apiToken: house.token(["gateway:edit"], { accountId: "home", gatewayId: "other" }),
    baseURL: `${house.url}/api`,
    maxRetries: 0,
  });
  expect(await failureOf(one.aiGateway.get("default", { account_id }))).toMatchObject({ status: 403 });
});

test("the base address for a provider", async () => {
  const url = await client.aiGateway.urls.get("openai", { account_id, gateway_id: "default" });
  expect(url as unknown).toBe(`${house.url}/v1/home/default/openai`);
});

test("custom providers: create, use, list, delete", async () => {
  const made = await client.aiGateway.customProviders.create({
    account_id,
    name: "Lab",
    slug: "lab",
    base_url: `${provider.url}/v1`,
  });
  const answer = await fetch(`${house.base}/custom-lab/chat/completions`, {
    method: "POST",
    headers: { "gw-aig-authorization": house.runToken },
    body: "{}",
  });
  expect(answer.status).toBe(200);
  const slugs: string[] = [];
  for await (const one of client.aiGateway.customProviders.list({ account_id, search: "la" })) slugs.push(one.slug);
  expect(slugs).toEqual(["lab"]);
  expect((await client.aiGateway.customProviders.get(made.id, { account_id })).base_url).toBe(`${provider.url}/v1`);
  expect(
    await failureOf(
      client.aiGateway.customProviders.create({ account_id, name: "Lab", slug: "lab", base_url: provider.url }),
    ),
  ).toMatchObject({ status: 409 });
  await client.aiGateway.customProviders.delete(made.id, { account_id });
  const gone = await fetch(`${house.base}/custom-lab/x`, { headers: { "gw-aig-authorization": house.runToken } });
  expect(await gone.json()).toMatchObject({ error: [{ code: 2008 }] });
});

test("logs: list with filters, read, bodies, judge, delete", async () => {
  await client.aiGateway.create({ account_id, id: "seen", ...FIRST });
  const answers = [];
  for (const [path, team] of [
    ["chat/completions", "red"],
    ["chat/completions", "blue"],
    ["chat/fail", "red"],
  ] as const) {
    answers.push(
      await send(path, { "cf-aig-metadata": JSON.stringify({ team, n: 1 }), "gw-aig-event-id": `e-${team}` }, "seen"),
    );
  }
  const ids = answers.map((answer) => answer.headers.get("cf-aig-log-id") ?? "");
  expect(answers[0]?.headers.get("gw-aig-log-id")).toBe(ids[0] ?? "");
  expect(answers[0]?.headers.get("gw-aig-event-id")).toBe("e-red");
  const list = async (params: object) =>
    (await client.aiGateway.logs.list("seen", { account_id, ...params })).result.map((row) => row.id);

  const all: string[] = [];
  for await (const row of client.aiGateway.logs.list("seen", { account_id, per_page: 2 })) all.push(row.id);
  expect(all).toEqual(ids.toReversed());
  expect(await list({ order_by: "created_at", order_by_direction: "asc" })).toEqual(ids);
  expect(await list({ filters: [{ key: "success", operator: "eq", value: [false] }] })).toEqual(ids.slice(2));
  expect(
    await list({
      filters: [
        { key: "metadata.value", operator: "eq", value: ["red"] },
        { key: "success", operator: "eq", value: [true] },
      ],
    }),
  ).toEqual(ids.slice(0, 1));
  expect(await list({ filters: [{ key: "event_id", operator: "eq", value: ["e-blue", "nope"] }] })).toEqual(
    ids.slice(1, 2),
  );
  expect(await list({ filters: [{ key: "cost", operator: "gt", value: [0] }], order_by_direction: "asc" })).toEqual(
    ids.slice(0, 2),
  );
  expect(await list({ search: "blue" })).toEqual(ids.slice(1, 2));
  expect(await list({ success: false })).toEqual(ids.slice(2));
  expect(await list({ page: 9 })).toEqual([]);
  const page = await client.aiGateway.logs.list("seen", { account_id, meta_info: true });
  expect(page.result_info).toMatchObject({
    page: 1,
    per_page: 20,
    count: 3,
    total_count: 3,
    max_tokens_in: 19,
  } as never);

  const first = ids[0] ?? "";
  const row = await client.aiGateway.logs.get(first, { account_id, gateway_id: "seen" });
  expect(row).toMatchObject({
    id: first,
    provider: "openai",
    model: "gpt-4o-mini",
    status_code: 200,
    step: 0,
    cached: false,
    custom_cost: false,
  });
  expect(row.metadata as unknown).toEqual({ team: "red", n: 1 });
  expect(JSON.parse(row.request_head ?? "")).toMatchObject({ model: "gpt-4o-mini" });
  expect(row.response_head_complete).toBe(true);
  expect(await client.aiGateway.logs.request(first, { account_id, gateway_id: "seen" })).toMatchObject({
    model: "gpt-4o-mini",
  });
  expect(await client.aiGateway.logs.response(first, { account_id, gateway_id: "seen" })).toEqual(CHAT);
  expect(await failureOf(client.aiGateway.logs.get(first, { account_id, gateway_id: "default" }))).toMatchObject({
    status: 404,
  });

  await client.aiGateway.logs.edit(first, {
    account_id,
    gateway_id: "seen",
    feedback: -1,
    score: 80,
    metadata: { team: "green" },
  });
  expect(await list({ filters: [{ key: "feedback", operator: "eq", value: [-1] }] })).toEqual([first]);
  expect(await list({ search: "green" })).toEqual([first]);
  expect(
    await failureOf(client.aiGateway.logs.edit("nope", { account_id, gateway_id: "seen", score: 1 })),
  ).toMatchObject({ status: 404 });
  expect(
    await failureOf(client.aiGateway.logs.edit(first, { account_id, gateway_id: "seen", score: 101 })),
  ).toMatchObject({ status: 400 });

  expect(
    await client.aiGateway.logs.delete("seen", {
      account_id,
      filters: [{ key: "success", operator: "eq", value: [true] }],
      limit: 1,
    }),
  ).toMatchObject({ success: true });
  expect(await list({})).toEqual([ids[2] ?? "", ids[1] ?? ""]);
  await client.aiGateway.logs.delete("seen", { account_id });
  expect(await list({})).toEqual([]);
});

test("the other wire form of filters, and filters that make no sense", async () => {
  await send("chat/completions");
  const ask = (filters: unknown) =>
    house.api(
      "GET",
      `/api/accounts/home/ai-gateway/gateways/default/logs?filters=${encodeURIComponent(JSON.stringify(filters))}`,
    );
  expect((await ask([{ key: "provider", operator: "contains", value: ["open"] }])).body.result.length).toBeGreaterThan(
    0,
  );
  expect((await ask([{ key: "tokens", operator: "gt", value: 1e9 }])).body.result).toEqual([]);
  for (const bad of [
    {},
    [1],
    [{ key: "provider" }],
    [{ key: "nope", operator: "eq", value: [1] }],
    [{ key: "cost", operator: "like", value: [1] }],
    Array(21).fill({ key: "cost", operator: "gt", value: [1] }),
    [{ key: "cost", operator: "gt", value: [null] }],
  ]) {
    expect((await ask(bad)).body.errors[0].code).toBe(7001);
  }
});

test("what cannot be done as it was asked is refused, not done in another way", async () => {
  const place = "/api/accounts/home/ai-gateway/gateways/default/logs";
  const id =
    (await send("chat/completions", { "gw-aig-metadata": '{"team":"red"}' })).headers.get("gw-aig-log-id") ?? "";
  for (const query of ["cursor=nonsense", `cursor=${id}&order_by=cost`]) {
    expect((await house.api("GET", `${place}?${query}`)).body.errors[0].code).toBe(7001);
  }
  const long = { metadata: { team: "x".repeat(1_025) } };
  expect((await house.api("PATCH", `${place}/${id}`, long)).body.errors[0].code).toBe(7001);
  expect((await house.api("GET", `${place}/${id}`)).body.result.metadata).toEqual({ team: "red" });
});

test("deleting honours the order, the limit and the search", async () => {
  const made: string[] = [];
  await client.aiGateway.create({ account_id, id: "swept", ...FIRST });
  for (const team of ["red", "blue", "red"]) {
    const answer = await send("chat/completions", { "gw-aig-metadata": JSON.stringify({ team }) }, "swept");
    made.push(answer.headers.get("gw-aig-log-id") ?? "");
  }
  const left = async () => (await client.aiGateway.logs.list("swept", { account_id })).result.map(({ id }) => id);
  await client.aiGateway.logs.delete("swept", { account_id, limit: 1, order_by_direction: "desc" });
  expect(await left()).toEqual([made[1] ?? "", made[0] ?? ""]);
  await house.api("DELETE", "/api/accounts/home/ai-gateway/gateways/swept/logs?search=blue");
  expect(await left()).toEqual([made[0] ?? ""]);
});

test("deleting a gateway takes its logs and the tokens made for it", async () => {
  await client.aiGateway.create({ account_id, id: "brief", ...FIRST, authentication: true });
  const { body } = await house.api("POST", "/api/accounts/home/ai-gateway/gateways/brief/tokens", { name: "mine" });
  expect(body.result.name).toBe("mine");
  expect((await send("chat/completions", { "gw-aig-authorization": body.result.token }, "brief")).status).toBe(200);
  await client.aiGateway.delete("brief", { account_id });
  await client.aiGateway.create({ account_id, id: "brief", ...FIRST, authentication: true });
  expect((await client.aiGateway.logs.list("brief", { account_id })).result).toEqual([]);
  expect((await send("chat/completions", { "gw-aig-authorization": body.result.token }, "brief")).status).toBe(401);
});

test("what ends after its gateway was deleted is in no log, nor in that of a new gateway of the same name", async () => {
  for (const again of [false, true]) {
    await client.aiGateway.create({ account_id, id: "short", ...FIRST });
    const before = provider.seen.length;
    const answer = send("chat/slow", {}, "short");
    await until(() => provider.seen.length > before);
    await client.aiGateway.delete("short", { account_id });
    if (again) await client.aiGateway.create({ account_id, id: "short", ...FIRST });
    release();
    expect((await answer).status).toBe(200);
    if (!again) await client.aiGateway.create({ account_id, id: "short", ...FIRST });
    expect((await client.aiGateway.logs.list("short", { account_id })).result).toEqual([]);
    await client.aiGateway.delete("short", { account_id });
  }
});

test("what a request may ask of its log", async () => {
  await client.aiGateway.create({ account_id, id: "quiet", ...FIRST, collect_logs: false });
  await client.aiGateway.create({ account_id, id: "loud", ...FIRST });
  const rows = async (gateway: string) => (await client.aiGateway.logs.list(gateway, { account_id })).result;
  const silent = await send("chat/completions", {}, "quiet");
  expect(silent.headers.has("gw-aig-log-id")).toBe(false);
  expect(silent.headers.get("gw-aig-request-id")).toMatch(/^[0-9a-f-]{36}$/);
  expect(await rows("quiet")).toEqual([]);
  await send("chat/completions", { "gw-aig-collect-log": "true" }, "quiet");
  expect((await rows("quiet")).length).toBe(1);
  await send("chat/completions", { "cf-aig-collect-log": "false" }, "loud");
  expect(await rows("loud")).toEqual([]);
  const bare = await send(
    "chat/completions",
    { "gw-aig-collect-log-payload": "false", "gw-aig-custom-cost": '{"per_token_in":0.1,"per_token_out":0}' },
    "loud",
  );
  const [row] = await rows("loud");
  expect(row).toMatchObject({ tokens_in: 19, custom_cost: true, cost: 1.9000000000000001 });
  const id = bare.headers.get("gw-aig-log-id") ?? "";
  expect(await failureOf(client.aiGateway.logs.response(id, { account_id, gateway_id: "loud" }))).toMatchObject({
    status: 404,
  });
  expect((await client.aiGateway.logs.get(id, { account_id, gateway_id: "loud" })).request_head).toBeUndefined();
});

test("both spellings of every response header, and our own time", async () => {
  const { headers } = await send("chat/completions");
  for (const name of ["log-id", "request-id", "event-id", "step", "cache-status"]) {
    expect(headers.get(`gw-aig-${name}`)).toBe(headers.get(`cf-aig-${name}`) ?? "");
  }
  expect([headers.get("gw-aig-step"), headers.get("gw-aig-cache-status")]).toEqual(["0", "MISS"]);
  expect(headers.get("gw-aig-log-id")).toBe(headers.get("x-request-id") ?? "");
  expect(headers.get("server-timing")).toMatch(/^gateway;dur=\d+\.\d\d$/);
});

test("credentials that come back hidden, as a client that writes all fields sends them, stay what they were", async () => {
  const otel = [{ url: "https://otel.example", headers: { "x-key": "otel-key" }, authorization: "otel-auth" }];
  await house.setGateway({ otel, stripe: { authorization: "stripe-auth", usage_events: [] } });
  const { body } = await house.api("GET", "/api/accounts/home/ai-gateway/gateways/default");
  const { id: _, created_at: __, modified_at: ___, is_default: ____, ...fields } = body.result;
  expect(JSON.stringify(fields)).not.toMatch(/otel-key|otel-auth|stripe-auth/);
  await house.setGateway(fields);
  const db = new Database(join(house.folder, "data", "gateway.db"), { readonly: true });
  const row = db.query<{ sealed: Uint8Array }, []>("select sealed from gateways where id = 'default'").get();
  db.close();
  const kept = JSON.parse(house.parts.secrets.open(row?.sealed ?? new Uint8Array(), "gateway home/default") ?? "");
  expect(kept).toEqual({ otel, stripe: { authorization: "stripe-auth", usage_events: [] } });
});

test("a gateway's cap on logs holds as soon as it is set: full, it takes no more, or lets go of the oldest", async () => {
  await client.aiGateway.create({ account_id, id: "capped", ...FIRST });
  const cap = (strategy: string) =>
    house.setGateway({ log_management: 10_000, log_management_strategy: strategy }, "capped");
  const record = (): string => {
    const it = recordOf({ gateway: "home/capped" });
    house.parts.gateway.logs.record(it, {});
    return it.id;
  };
  const newest = async () => {
    const { body } = await house.api("GET", "/api/accounts/home/ai-gateway/gateways/capped/logs?per_page=1");
    return [body.result_info.total_count, body.result[0].id];
  };
  await cap("STOP_INSERTING");
  const ids = Array.from({ length: 10_001 }, record);
  expect(await newest()).toEqual([10_000, ids[9_999]]);
  await cap("DELETE_OLDEST");
  expect(await newest()).toEqual([10_000, ids[9_999]]);
  const last = record();
  expect(await newest()).toEqual([10_000, last]);
});

test("logs of a gateway that is not there are no empty list, and a page that is not full has no next one", async () => {
  const list = (gateway: string, query = "") =>
    house.api("GET", `/api/accounts/home/ai-gateway/gateways/${gateway}/logs${query}`);
  expect((await list("nope")).status).toBe(404);
  const { result, result_info } = (await list("default", "?per_page=1&provider=")).body; // a filter left empty is none
  expect(result_info.cursor).toBe(result[0].id);
  expect((await list("default", "?per_page=1000")).body.result_info.cursor).toBeUndefined();
});
