import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type House, startHouse } from "../support/house.ts";

let house: House;
let nowMs = Date.now();
beforeAll(async () => {
  house = await startHouse({ now: () => nowMs, settings: { metrics_open: true, allowed_hosts: ["lab.example"] } });
});
afterAll(() => house[Symbol.asyncDispose]());

const signIn = (body: unknown, headers: Record<string, string> = {}) =>
  house.fetch("/api/session", {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json", origin: house.url, ...headers },
  });
const cookieOf = (answer: Response) => (answer.headers.get("set-cookie") ?? "").split(";")[0] ?? "";
const withCookie = (cookie: string, method = "GET", headers: Record<string, string> = {}) => ({
  method,
  headers: { cookie, ...headers },
});

describe("sign-in is refused", () => {
  test.each([
    ["with a wrong token", { token: "gh_wrong" }, 401],
    ["with a code nobody issued", { code: "abc" }, 401],
    ["with nothing", {}, 400],
    ["with both", { token: "a", code: "b" }, 400],
    ["with a list", [], 400],
    ["with a number", { token: 1 }, 400],
  ])("%s", async (_name, body, status) => {
    const answer = await signIn(body);
    expect([answer.status, answer.headers.get("set-cookie")]).toEqual([status, null]);
  });

  test("from a page elsewhere", async () => {
    const answer = await signIn({ token: house.adminToken }, { origin: "https://evil.example" });
    expect([answer.status, answer.headers.get("set-cookie")]).toEqual([403, null]);
  });

  test("as a form, which any page could send", async () => {
    const answer = await signIn({ token: house.adminToken }, { "content-type": "text/plain" });
    expect(answer.status).toBe(415);
  });

  test("with the key of the machine's own commands", async () => {
    const key = await Bun.file(`${house.folder}/data/local.key`).bytes();
    expect((await signIn({ token: Buffer.from(key).toString("hex") })).status).toBe(401);
  });
});

test("the cookie is out of reach of scripts and of other sites, and named after the port", async () => {
  const answer = await signIn({ token: house.adminToken });
  const cookie = answer.headers.get("set-cookie") ?? "";
  expect(cookie).toStartWith(`gatehouse_${new URL(house.url).port}=`);
  for (const part of ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=604800"]) expect(cookie).toContain(part);
  expect(cookie).not.toContain("Secure");
});

test("under an https public URL the cookie is Secure", async () => {
  await using other = await startHouse({ settings: { public_url: "https://gate.example" } });
  const answer = await other.fetch("/api/session", {
    method: "POST",
    body: JSON.stringify({ token: other.adminToken }),
    headers: { "content-type": "application/json", origin: "https://gate.example" },
  });
  expect(answer.headers.get("set-cookie")).toContain("; Secure");
});

describe("a session", () => {
  test("reads, but writes only from our own page", async () => {
    const cookie = cookieOf(await signIn({ token: house.adminToken }));
    expect((await house.fetch("/api/accounts", withCookie(cookie))).status).toBe(200);
    const write = (headers: Record<string, string>) =>
      house.fetch("/api/accounts", {
        method: "POST",
        body: '{"id":"written"}',
        headers: { cookie, "content-type": "application/json", ...headers },
      });
    for (const headers of [
      {},
      { origin: "https://evil.example" },
      { origin: "null" },
      { origin: house.url.replace("127.0.0.1", "127.0.0.2") },
    ] as Record<string, string>[]) {
      expect((await write(headers)).status).toBe(403);
    }
    expect(house.parts.tokens.hasAccount("written")).toBe(false);
    expect((await write({ origin: house.url })).status).toBe(200);
  });

  test.each(["POST", "PUT", "PATCH", "DELETE"])("of a %s from elsewhere counts for nothing", async (method) => {
    const cookie = cookieOf(await signIn({ token: house.adminToken }));
    const answer = await house.fetch("/api/session", withCookie(cookie, method, { origin: "https://evil.example" }));
    expect(answer.status).toBe(method === "PUT" || method === "PATCH" ? 405 : 403);
    const request = new Request(house.url, withCookie(cookie, method, { origin: "https://evil.example" }));
    expect(() => house.parts.access.ofRequest(request)).toThrow("origin");
    expect((await house.fetch("/api/session", withCookie(cookie))).status).toBe(200);
  });

  test("does not rescue a wrong token, nor counts under a longer name", async () => {
    const cookie = cookieOf(await signIn({ token: house.adminToken }));
    for (const authorization of ["Bearer gh_wrong", "Basic Z2hfeDp5"]) {
      const answer = await house.fetch("/api/accounts", withCookie(cookie, "GET", { authorization }));
      expect(answer.status).toBe(401);
    }
    expect((await house.fetch("/api/accounts", withCookie(`x${cookie}`))).status).toBe(401);
    expect((await house.fetch("/api/accounts", withCookie(`x${cookie}; ${cookie}; b=2`))).status).toBe(200);
  });

  test("cannot be carried into a WebSocket by a page elsewhere", async () => {
    const cookie = cookieOf(await signIn({ token: house.adminToken }));
    const answer = await house.fetch(
      "/api/accounts",
      withCookie(cookie, "GET", { upgrade: "websocket", origin: "https://evil.example" }),
    );
    expect(answer.status).toBe(403);
  });

  test("ends with sign-out, with its time, and with its token", async () => {
    const end = async (finish: (cookie: string, id: string) => unknown) => {
      const { id, token } = house.parts.tokens.mint({ name: "x", permissions: ["admin"] });
      const cookie = cookieOf(await signIn({ token }));
      expect((await house.fetch("/api/session", withCookie(cookie))).status).toBe(200);
      await finish(cookie, id);
      expect((await house.fetch("/api/session", withCookie(cookie))).status).toBe(401);
      expect((await house.fetch("/api/accounts", withCookie(cookie))).status).toBe(401);
    };
    await end((cookie) => house.fetch("/api/session", withCookie(cookie, "DELETE", { origin: house.url })));
    await end((_cookie, id) => house.parts.tokens.revoke(id));
    await end(() => {
      nowMs += 168 * 3_600_000;
    });
  });

  test("gets a new id at every sign-in, and the old one ends", async () => {
    const first = cookieOf(await signIn({ token: house.adminToken }));
    const second = cookieOf(await signIn({ token: house.adminToken }, { cookie: first }));
    expect(second).not.toBe(first);
    expect((await house.fetch("/api/session", withCookie(first))).status).toBe(401);
    expect((await house.fetch("/api/session", withCookie(second))).status).toBe(200);
  });
});

test("a sign-in code works once and for fifteen minutes", async () => {
  const { id } = house.parts.tokens.mint({ name: "x", permissions: ["admin"] });
  const code = () => house.parts.tokens.issue("sign_in_codes", id, 900_000).value;
  const used = code();
  const both = await Promise.all([signIn({ code: used }), signIn({ code: used })]);
  expect(both.map(({ status }) => status).sort()).toEqual([200, 401]);
  const late = code();
  nowMs += 900_000;
  expect((await signIn({ code: late })).status).toBe(401);
});

describe("a route that no credential protects", () => {
  const metrics = (headers: Record<string, string>) => house.fetch("/metrics", { headers });

  test.each([
    [{ origin: "https://evil.example" }, "access.origin"],
    [{ host: "evil.example" }, "access.host"],
    [{ host: "lab.example.evil.example" }, "access.host"],
    [{ host: "127.0.0.1.evil.example" }, "access.host"],
    [{ origin: "null" }, "access.origin"],
  ] as [Record<string, string>, string][])("refuses %p", async (headers, code) => {
    const answer = await metrics(headers);
    expect([answer.status, (await answer.json()).error.code]).toEqual([403, code]);
  });

  test("answers who brings a credential under any name", async () => {
    const headers = { host: "evil.example", authorization: `Bearer ${house.adminToken}` };
    expect((await metrics(headers)).status).toBe(200);
  });

  test.each([
    {},
    { host: "lab.example" },
    { host: "pi.local:8787" },
    { host: "[::1]:8787" },
    { host: "localhost" },
  ] as Record<string, string>[])("answers %p", async (headers) => expect((await metrics(headers)).status).toBe(200));
});
