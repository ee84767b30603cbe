import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { Elysia, t } from "elysia";
import { createApp } from "../../src/app.ts";
import { type House, startHouse } from "../support/house.ts";

let house: House;
let nowMs = Date.now();
beforeAll(async () => {
  house = await startHouse({ now: () => nowMs });
  house.parts.tokens.createAccount("work", "Work");
});
afterAll(() => house[Symbol.asyncDispose]());

const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
const mint = (body: object, token = house.adminToken) => house.api("POST", "/api/tokens", body, token);

describe("without a valid token", () => {
  afterAll(() => {
    nowMs += 15 * 60_000; // by then the wrong ones are forgotten, and no later test waits for them
  });

  test.each([
    ["nothing", {}],
    ["an empty bearer", { authorization: "Bearer " }],
    ["another scheme", { authorization: "Basic Z2hfeDp5" }],
    ["a token behind another scheme", () => ({ authorization: `Basic Bearer ${house.adminToken}` })],
    ["two tokens", () => ({ authorization: `Bearer ${house.adminToken} gh_x` })],
    ["a made-up value", { authorization: `Bearer gh_${"x".repeat(43)}` }],
    ["a cookie nobody issued", { cookie: "gatehouse_8787=abc" }],
  ] as [string, Record<string, string> | (() => Record<string, string>)][])(
    "%s is a 401 everywhere",
    async (_name, given) => {
      const headers = typeof given === "function" ? given() : given;
      for (const path of ["/api/accounts", "/api/tokens", "/metrics", "/swagger/json"]) {
        const answer = await house.fetch(path, { headers });
        expect([answer.status, answer.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
      }
    },
  );

  test("the scheme is read in any case", async () => {
    const headers = { authorization: `bEARER  ${house.adminToken}` };
    expect((await house.fetch("/api/accounts", { headers })).status).toBe(200);
  });

  test("a token in the address counts for nothing", async () => {
    expect((await house.fetch(`/api/accounts?token=${house.adminToken}`)).status).toBe(401);
  });
});

describe("what a route needs", () => {
  const get = async (path: string, token?: string) => {
    const app = new Elysia({ normalize: false }).use(createApp(house.parts)).group("/api/at", (at) =>
      at
        .use(house.parts.guard)
        .get("/any", () => "in", { needs: "any" })
        .get("/:account_id", () => "in", { needs: "tags:read", query: t.Object({ wanted: t.String() }) })
        .get("/:account_id/:gateway_id", () => "in", { needs: "gateway:read" })
        .get("/agents/:class/:name", () => "in", { needs: "agents:read" }),
    );
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
    return (await app.handle(new Request(`http://localhost/api/at${path}`, { headers }))).status;
  };

  test("is asked before the input is looked at", async () => {
    expect(await get("/home")).toBe(401);
    expect(await get("/home", house.token(["agents:read"]))).toBe(403);
    expect(await get("/home", house.token(["tags:read"]))).toBe(400);
  });

  test("may be anybody, but somebody", async () => {
    expect(await get("/any")).toBe(401);
    expect(await get("/any", house.token(["tags:read"]))).toBe(200);
  });

  test("is needed for the place that the path names", async () => {
    const tags = house.token(["tags:read"], { accountId: "home" });
    expect([await get("/work?wanted=1", tags), await get("/home?wanted=1", tags)]).toEqual([403, 200]);
    const gateway = house.token(["gateway:read"], { accountId: "home", gatewayId: "a" });
    expect([await get("/home/b", gateway), await get("/work/a", gateway)]).toEqual([403, 403]);
    expect(await get("/home/a", gateway)).toBe(200);
    const agent = house.token(["agents:read"], { agentClass: "chat", agentName: "a" });
    expect([await get("/agents/chat/b", agent), await get("/agents/other/a", agent)]).toEqual([403, 403]);
    expect(await get("/agents/chat/a", agent)).toBe(200);
  });

  test.each(["nowhere", "%zz", "%00"])("the account %p is nobody's, not even an admin's", async (account) => {
    expect(await get(`/${account}?wanted=1`, house.token(["tags:read"]))).toBe(403);
    expect(await get(`/${account}?wanted=1`, house.adminToken)).toBe(403);
  });
});

describe("a token that is not an admin's", () => {
  test.each([
    ["run", { accountId: "home", gatewayId: "default" }],
    ["tags:edit", {}],
    ["agents:edit", {}],
    ["gateway:read", {}],
  ] as const)("%s neither lists, mints nor revokes tokens, nor creates accounts", async (permission, scope) => {
    const token = house.token([permission], scope);
    expect((await house.api("GET", "/api/tokens", undefined, token)).status).toBe(403);
    expect((await mint({ name: "x", permissions: ["run"], account_id: "home", gateway_id: "a" }, token)).status).toBe(
      403,
    );
    expect((await house.api("DELETE", "/api/tokens/admin", undefined, token)).status).toBe(403);
    expect((await house.api("POST", "/api/accounts", { id: "mine" }, token)).status).toBe(403);
    expect(house.parts.tokens.hasAccount("mine")).toBe(false);
  });

  test("a gateway editor mints run for its own gateways, and sees and revokes only those", async () => {
    const editor = house.token(["gateway:edit"], { accountId: "home" });
    const run = { name: "app", permissions: ["run"], account_id: "home", gateway_id: "g1" };
    for (const change of [
      { permissions: ["admin"] },
      { permissions: ["run", "tags:read"] },
      { account_id: "work" },
      { gateway_id: undefined },
    ]) {
      expect((await mint({ ...run, ...change }, editor)).status).toBe(403);
    }
    const made = await mint(run, editor);
    expect(made.status).toBe(200);
    const seen = await house.api("GET", "/api/tokens", undefined, editor);
    const places = seen.body.result.map((token: Record<string, unknown>) => [token.permissions, token.account_id]);
    expect(places).toEqual([
      [["run"], "home"],
      [["run"], "home"],
    ]);
    const scope = { accountId: "work", gatewayId: "g1" };
    const foreign = [
      house.parts.tokens.mint({ name: "admin", permissions: ["admin"] }),
      house.parts.tokens.mint({ name: "theirs", permissions: ["run"], scope }),
    ];
    for (const { id, token } of foreign) {
      expect((await house.api("DELETE", `/api/tokens/${id}`, undefined, editor)).status).toBe(404);
      expect(house.parts.tokens.byValue(token)).toBeDefined();
    }
    expect((await house.api("DELETE", `/api/tokens/${made.body.result.id}`, undefined, editor)).status).toBe(200);
  });
});

test.each([
  ["no permissions", { permissions: [] }],
  ["a permission nobody knows", { permissions: ["root"] }],
  ["an empty name", { name: "" }],
  ["a name of 101 characters", { name: "x".repeat(101) }],
  ["a name that writes on a terminal", { name: "\u001b[2Jx" }],
  ["a name of two lines", { name: "a\nb" }],
  ["a limited admin", { permissions: ["admin"], account_id: "home" }],
  ["a gateway without an account", { gateway_id: "default" }],
  ["an account's token for agents", { permissions: ["agents:read"], account_id: "home" }],
  ["an end in the past", { expires_at: "2020-01-01T00:00:00.000Z" }],
  ["an end that is no time", { expires_at: "tomorrow" }],
])("minting with %s is a 400 and mints nothing", async (_name, change) => {
  const before = house.parts.tokens.all().length;
  const answer = await mint({ name: "x", permissions: ["run"], ...change });
  expect([answer.status, answer.body.errors[0].code]).toEqual([400, 7001]);
  expect(house.parts.tokens.all().length).toBe(before);
});

test("a token for an account that does not exist is refused like one for a foreign account", async () => {
  expect((await mint({ name: "x", permissions: ["tags:read"], account_id: "nowhere" })).status).toBe(403);
});

test.each([
  [{}, ["home", "lab"]],
  [{ accountId: "lab" }, ["lab"]],
  [{ accountId: "lab", gatewayId: "default" }, ["lab"]],
  [{ agentClass: "counter" }, []],
  [{ agentClass: "counter", agentName: "demo" }, []],
])("a token limited to %p sees the accounts %p", async (scope, seen) => {
  if (!house.parts.tokens.hasAccount("lab")) house.parts.tokens.createAccount("lab", "Lab");
  const token = house.token(["agentClass" in scope ? "agents:read" : "gateway:read"], scope);
  const { body } = await house.api("GET", "/api/accounts", undefined, token);
  const ids = body.result.map(({ id }: { id: string }) => id);
  expect(ids.filter((id: string) => id === "home" || id === "lab")).toEqual(seen);
});

test("a token's value appears once, is not stored, and stops working the moment it is revoked", async () => {
  const made = await mint({ name: "laptop", permissions: ["admin"] });
  const { id, token } = made.body.result;
  expect(token).toMatch(/^gh_[A-Za-z0-9_-]{43}$/);
  expect(JSON.stringify((await house.api("GET", "/api/tokens")).body)).not.toContain(token);
  const stored = JSON.stringify(house.parts.tokens.byId(id), (_key, value) =>
    value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : value,
  );
  expect(stored).not.toContain(token.slice(3));
  expect((await house.fetch("/api/accounts", bearer(token))).status).toBe(200);
  expect((await house.api("DELETE", `/api/tokens/${id}`)).status).toBe(200);
  expect((await house.fetch("/api/accounts", bearer(token))).status).toBe(401);
  expect((await house.api("DELETE", `/api/tokens/${id}`)).status).toBe(404);
});

test("a token works until the millisecond of its end", async () => {
  const end = nowMs + 60_000;
  const made = await mint({ name: "brief", permissions: ["admin"], expires_at: new Date(end).toISOString() });
  nowMs = end - 1;
  expect((await house.fetch("/api/accounts", bearer(made.body.result.token))).status).toBe(200);
  nowMs = end;
  expect((await house.fetch("/api/accounts", bearer(made.body.result.token))).status).toBe(401);
});

test("the time of last use is shown", async () => {
  const token = house.token(["tags:read"], { accountId: "home" });
  const last = async () => (await house.api("GET", "/api/tokens")).body.result.at(-1).last_used_at;
  expect(await last()).toBeNull();
  await house.fetch("/api/accounts", bearer(token));
  expect(await last()).toBe(new Date(nowMs).toISOString());
});

test("a time of last use that cannot be stored is logged, and the server still stops in good order", async () => {
  const other = await startHouse();
  const db = new Database(join(other.folder, "data/gatehouse.db"));
  db.run("create trigger full before update on tokens begin select raise(fail, 'no room'); end");
  db.close();
  await other.fetch("/api/accounts", bearer(other.adminToken));
  await other[Symbol.asyncDispose]();
  expect(JSON.stringify(other.logged)).toContain("no room");
});

test("a limited token sees its own account alone", async () => {
  const token = house.token(["tags:read"], { accountId: "work" });
  const { body } = await house.api("GET", "/api/accounts", undefined, token);
  expect(body.result.map(({ id }: { id: string }) => id)).toEqual(["work"]);
});

test("an account is made once, and its id obeys the rule", async () => {
  for (const id of ["", "Home", "a/b", "-a", "x".repeat(65), "ä"]) {
    expect((await house.api("POST", "/api/accounts", { id })).status).toBe(400);
  }
  expect((await house.api("POST", "/api/accounts", { id: "x".repeat(64) })).status).toBe(200);
  expect((await house.api("POST", "/api/accounts", { id: "home" })).status).toBe(409);
});

describe("whoever keeps guessing", () => {
  const TOO_MANY = 60; // past the free ones and past those that may wait
  const guess = (at: House, address?: string) =>
    at.fetch("/api/accounts", {
      headers: { authorization: "Bearer gh_guess", ...(address !== undefined && { "x-forwarded-for": address }) },
    });
  /** Of a flood, the answers that do not wait. */
  const firstRefused = (flood: Promise<Response>[]) =>
    Promise.race(flood.map(async (answer) => ((await answer).status === 429 ? answer : new Promise<never>(() => {}))));

  test("is told to wait, and a valid token from the same address is not", async () => {
    await using other = await startHouse({ now: () => nowMs });
    const free = await Promise.all(Array.from({ length: 20 }, () => guess(other)));
    expect(free.map(({ status }) => status)).toEqual(Array(20).fill(401));
    const flood = Array.from({ length: 30 }, () => guess(other));
    expect((await other.fetch("/api/accounts", bearer(other.adminToken))).status).toBe(200);
    expect((await firstRefused(flood)).headers.get("retry-after")).toBe("10");
  });

  test("waits for each answer, sign-ins too", async () => {
    await using other = await startHouse({ now: () => nowMs });
    await Promise.all(Array.from({ length: 20 }, () => guess(other)));
    let answered = 0;
    const count = () => void answered++;
    guess(other).then(count, () => {});
    const body = JSON.stringify({ token: "gh_guess" });
    other
      .fetch("/api/session", { method: "POST", body, headers: { "content-type": "application/json" } })
      .then(count, () => {});
    await firstRefused(Array.from({ length: 30 }, () => guess(other)));
    expect(answered).toBe(0);
  });

  test("does not get away by making up where it comes from", async () => {
    await using other = await startHouse({ now: () => nowMs });
    const flood = Array.from({ length: TOO_MANY }, (_, n) => guess(other, `203.0.113.${n}`));
    expect((await firstRefused(flood)).status).toBe(429);
  });

  test("behind a trusted proxy slows nobody else behind it", async () => {
    await using other = await startHouse({ now: () => nowMs, settings: { trusted_proxies: ["127.0.0.1"] } });
    const flood = Array.from({ length: TOO_MANY }, () => guess(other, "203.0.113.1"));
    expect((await firstRefused(flood)).status).toBe(429);
    expect((await guess(other, "203.0.113.2")).status).toBe(401);
  });

  test("is not the one who brings no token at all", async () => {
    await using other = await startHouse({ now: () => nowMs });
    const answers = await Promise.all(Array.from({ length: TOO_MANY }, () => other.fetch("/api/accounts")));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]));
  });
});
