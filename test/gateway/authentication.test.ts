// Who gets through: the four rows of the table, every place a token may be, and that a stranger leaves no trace.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import {
  closeAll,
  type FakeProvider,
  FIELDS,
  type GatewayHouse,
  startGatewayHouse,
  startProvider,
} from "./support/provider.ts";

let provider: FakeProvider;
let house: GatewayHouse;
beforeAll(async () => {
  provider = startProvider();
  house = await startGatewayHouse(provider.url);
});
afterAll(() => closeAll(house, provider));
beforeEach(async () => {
  provider.seen.length = 0;
  await house.setGateway({ authentication: true });
});

const ask = (headers: Record<string, string>, gateway = "home/default") =>
  fetch(`${house.url}/v1/${gateway}/openai/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: '{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Hi"}]}',
  });
const metric = async (name: string) => {
  const text = await (
    await fetch(`${house.url}/metrics`, { headers: { authorization: `Bearer ${house.adminToken}` } })
  ).text();
  return Number(new RegExp(`^${name.replace(/[{}"]/g, "\\$&")} (\\d+)$`, "m").exec(text)?.[1] ?? 0);
};

const BODY_2009 = {
  success: false,
  result: [],
  messages: [],
  error: [{ code: 2009, message: "Unauthorized" }],
  name: "AiGatewayError",
  httpCode: 401,
  internalCode: 2009,
  message: "Unauthorized",
  description: "Unauthorized",
};

describe("authentication on refuses", () => {
  const other = () => house.token(["run"], { accountId: "home", gatewayId: "other" });
  const ROWS: [string, () => Record<string, string>][] = [
    ["no token", () => ({})],
    ["a provider key alone", () => ({ authorization: "Bearer sk-provider" })],
    ["an empty token", () => ({ "gw-aig-authorization": "" })],
    ["a wrong token", () => ({ "gw-aig-authorization": "Bearer gh_nobody" })],
    ["the word undefined", () => ({ "cf-aig-authorization": "Bearer undefined" })],
    ["a token without run", () => ({ "gw-aig-authorization": `Bearer ${house.token(["tags:read", "gateway:edit"])}` })],
    ["another gateway's token", () => ({ "gw-aig-authorization": `Bearer ${other()}` })],
    [
      "another account's token",
      () => ({ "gw-aig-authorization": `Bearer ${house.token(["run"], { accountId: "work" })}` }),
    ],
    [
      "a wrong gateway header beside a right Authorization",
      () => ({ "gw-aig-authorization": "Bearer x", authorization: `Bearer ${house.runToken}` }),
    ],
    [
      "a wrong gw- header beside a right cf- header",
      () => ({ "gw-aig-authorization": "x", "cf-aig-authorization": house.runToken }),
    ],
  ];
  test.each(ROWS)("%s", async (_, headers) => {
    const before = (await house.logs()).length;
    const answer = await ask(headers());
    expect(answer.status).toBe(401);
    expect(await answer.json()).toEqual(BODY_2009);
    expect(provider.seen).toEqual([]);
    expect((await house.logs()).length).toBe(before);
  });

  test("and counts it", async () => {
    const name = 'gatehouse_gateway_refused_total{reason="gateway.unauthorized"}';
    const before = await metric(name);
    await ask({});
    expect(await metric(name)).toBe(before + 1);
  });

  test("a token that was revoked, from the next request on", async () => {
    const { body } = await house.api("POST", "/api/accounts/home/ai-gateway/gateways/default/tokens", {
      name: "short-lived",
    });
    const headers = { "gw-aig-authorization": `Bearer ${body.result.token}` };
    expect((await ask(headers)).status).toBe(200);
    await house.api("DELETE", `/api/tokens/${body.result.id}`);
    expect((await ask(headers)).status).toBe(401);
  });

  test("a token whose time is over", async () => {
    const { token } = house.parts.tokens.mint({ name: "late", permissions: ["run"], expiresAt: Date.now() - 1 });
    expect((await ask({ "gw-aig-authorization": `Bearer ${token}` })).status).toBe(401);
  });

  test("before the body is read", async () => {
    const { port } = new URL(house.url);
    const socket = connect(Number(port), "127.0.0.1");
    const answer = new Promise<string>((read) => socket.once("data", (chunk) => read(chunk.toString())));
    socket.write(
      "POST /v1/home/default/openai/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n",
    );
    expect(await answer).toStartWith("HTTP/1.1 401");
    socket.destroy();
  });
});

describe("authentication on lets in", () => {
  const ROWS: [string, () => Record<string, string>, Record<string, string | null>][] = [
    [
      "gw-aig-authorization",
      () => ({ "gw-aig-authorization": `Bearer ${house.runToken}`, authorization: "Bearer sk-p" }),
      { authorization: "Bearer sk-p" },
    ],
    ["without the word Bearer", () => ({ "gw-aig-authorization": house.runToken }), { authorization: null }],
    ["cf-aig-authorization", () => ({ "cf-aig-authorization": `bearer ${house.runToken}` }), {}],
    [
      "Authorization, which then goes no further",
      () => ({ authorization: `Bearer ${house.runToken}`, "x-api-key": "sk-ant" }),
      { authorization: null, "x-api-key": "sk-ant" },
    ],
    ["x-api-key", () => ({ "x-api-key": house.runToken }), { "x-api-key": null }],
    ["api-key", () => ({ "api-key": house.runToken }), { "api-key": null }],
    [
      "x-goog-api-key",
      () => ({ "x-goog-api-key": house.runToken, authorization: "Bearer sk-p" }),
      { "x-goog-api-key": null, authorization: "Bearer sk-p" },
    ],
    ["an admin's token", () => ({ "gw-aig-authorization": house.adminToken }), {}],
    ["run for the whole account", () => ({ "gw-aig-authorization": house.token(["run"], { accountId: "home" }) }), {}],
  ];
  test.each(ROWS)("%s", async (_, headers, expected) => {
    expect((await ask(headers())).status).toBe(200);
    const [sent] = provider.seen;
    for (const [name, value] of Object.entries(expected))
      expect([name, sent?.headers.get(name) ?? null]).toEqual([name, value]);
    expect(JSON.stringify(sent?.headers.toJSON())).not.toContain("gh_");
    expect(JSON.stringify(sent?.headers.toJSON())).not.toContain("aig-");
  });
});

describe("authentication off", () => {
  beforeEach(() => house.setGateway({ authentication: false }));
  const ROWS: [string, () => Record<string, string>][] = [
    ["no token", () => ({})],
    ["a right token", () => ({ "gw-aig-authorization": `Bearer ${house.runToken}` })],
    ["a wrong token", () => ({ "gw-aig-authorization": "Bearer undefined" })],
  ];
  test.each(ROWS)("lets %s in", async (_, headers) => {
    const answer = await ask({ ...headers(), authorization: "Bearer sk-p" });
    expect(answer.status).toBe(200);
    expect(provider.seen[0]?.headers.get("authorization")).toBe("Bearer sk-p");
    expect(JSON.stringify(provider.seen[0]?.headers.toJSON())).not.toContain("aig-");
  });

  test("still keeps our own tokens from the provider, wherever they are", async () => {
    const headers = {
      authorization: `Bearer ${house.runToken}`,
      "x-api-key": house.adminToken,
      "api-key": "gh_expired",
    };
    expect((await ask(headers)).status).toBe(200);
    expect(JSON.stringify(provider.seen[0]?.headers.toJSON())).not.toContain("gh_");
  });

  test.each([
    ["under another scheme", { authorization: (token: string) => `Token ${token}` }],
    ["after a tab", { authorization: (token: string) => `Bearer\t${token}` }],
    ["beside another value", { "x-api-key": (token: string) => `sk-p, ${token}` }],
    ["where one provider alone has its key", { "xi-api-key": (token: string) => token }],
  ])("and does so %s", async (_, written) => {
    const headers = Object.entries(written).map(([name, write]): [string, string] => [name, write(house.runToken)]);
    expect((await ask(Object.fromEntries(headers))).status).toBe(200);
    expect(JSON.stringify(provider.seen[0]?.headers.toJSON())).not.toContain("gh_");
  });

  test("and takes them out of the query, which is otherwise left as it was written", async () => {
    for (const [query, left] of [
      [`?key=${house.runToken}`, ""],
      [`?a=%2F&key=${house.runToken}&b=gh_short`, "?a=%2F&b=gh_short"],
    ]) {
      provider.seen.length = 0;
      expect((await fetch(`${house.base}/openai/models${query}`)).status).toBe(200);
      expect(provider.seen[0]?.path).toBe(`/v1/models${left}`);
    }
  });

  test("refuses a page of another site, and a name that is not ours", async () => {
    const counted = () =>
      Promise.all(["origin", "host"].map((why) => metric(`gatehouse_gateway_refused_total{reason="access.${why}"}`)));
    const [origin = 0, host = 0] = await counted();
    expect((await ask({ origin: "https://evil.example" })).status).toBe(403);
    expect((await ask({ host: "rebound.example" })).status).toBe(403);
    expect(await counted()).toEqual([origin + 1, host + 1]);
    expect(provider.seen).toEqual([]);
    expect((await ask({ origin: house.url })).status).toBe(200);
    expect(provider.seen[0]?.headers.has("origin")).toBe(false);
  });
});

test("what was let through is counted by gateway, provider and status", async () => {
  const name = 'gatehouse_gateway_requests_total{gateway="home/default",provider="openai",status="200"}';
  const before = await metric(name);
  await ask({ "gw-aig-authorization": house.runToken });
  await ask({});
  expect(await metric(name)).toBe(before + 1);
});

test("turning it on and off acts on the next request", async () => {
  await house.setGateway({ authentication: false });
  expect((await ask({})).status).toBe(200);
  await house.setGateway({ authentication: true });
  expect((await ask({})).status).toBe(401);
});

test("default starts with it on; a gateway made without the field starts with it off", async () => {
  await using fresh = await startGatewayHouse(provider.url);
  const place = "/api/accounts/home/ai-gateway/gateways";
  expect((await fresh.api("GET", `${place}/default`)).body.result).toMatchObject({
    authentication: true,
    is_default: true,
  });
  expect((await fresh.api("POST", place, { id: "open", ...FIELDS })).body.result.authentication).toBe(false);
});

test.each([
  ["an-admin-token-that-somebody-chose,-32+", (token: string) => `Token ${token}`],
  ["an-admin-token-that-somebody-chose-32+", (token: string) => `${token},sk-p`],
])("an admin token set by hand has no prefix and stays here all the same: %s", async (token, write) => {
  await using fresh = await startGatewayHouse(provider.url, {}, { admin_token: token });
  const answer = await fetch(`${fresh.base}/openai/models`, {
    headers: { "gw-aig-authorization": token, authorization: `Bearer ${token}`, "x-api-key": write(token) },
  });
  expect(answer.status).toBe(200);
  expect(JSON.stringify(provider.seen.at(-1)?.headers.toJSON())).not.toContain(token);
});

test.each([
  ["/v1/home/nope/openai/models", 400, 2001],
  ["/v1/nobody/default/openai/models", 400, 2001],
  ["/v1/home/default/nope/models", 400, 2008],
  ["/v1/home/default/custom-nope/models", 400, 2008],
  ["/v1/home/default/openai/a%2e%2e/b", 400, 2008],
  ["/v1/home/default/openai/a//b", 400, 2008],
  ["/v1/home", 404, 7003],
])("%s is %d with code %d, and never logged", async (path, status, code) => {
  const before = (await house.logs()).length;
  const answer = await fetch(`${house.url}${path}`, { headers: { "gw-aig-authorization": house.runToken } });
  expect(answer.status).toBe(status);
  expect(await answer.json()).toMatchObject({
    success: false,
    error: [{ code }],
    httpCode: status,
    internalCode: code,
  });
  expect(provider.seen).toEqual([]);
  expect((await house.logs()).length).toBe(before);
});

test("the token is asked for before the provider is looked at, and the gateway before the token", async () => {
  expect((await fetch(`${house.base}/nope/models`)).status).toBe(401);
  expect((await fetch(`${house.url}/v1/home/nope/nope/models`)).status).toBe(400);
});
