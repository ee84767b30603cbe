import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Elysia, t } from "elysia";
import { createApp } from "../../src/app.ts";
import { AppError } from "../../src/platform/errors.ts";
import { type House, startHouse } from "../support/house.ts";
import { raw } from "../support/raw.ts";

let house: House;
beforeAll(async () => {
  house = await startHouse({ settings: { cors_origins: ["https://friend.example"] } });
});
afterAll(() => house[Symbol.asyncDispose]());

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe("a path that leads nowhere is a 404 in the envelope of its group", () => {
  test.each([
    ["/api/nope", (body) => expect(body).toMatchObject({ success: false, errors: [{ code: 7003 }], result: null })],
    ["/v1/nope", (body) => expect(body).toMatchObject({ success: false, error: [{ code: 7003 }], httpCode: 404 })],
    ["/webhooks", (body) => expect(body.error.code).toBe("route.unknown")],
    ["/nope", (body) => expect(body.error.request_id).toMatch(ID)],
    ["/apix", (body) => expect(body.error.code).toBe("route.unknown")],
  ] as [string, (body: { error: Record<string, unknown> }) => void][])("%s", async (path, check) => {
    const answer = await house.fetch(path);
    expect([answer.status, answer.headers.get("content-type")]).toEqual([404, "application/json"]);
    check(await answer.json());
  });
});

test.each([
  ["PUT", "/healthz", "GET, HEAD"],
  ["PATCH", "/api/tokens", "GET, HEAD, POST"],
  ["GET", "/api/tokens/abc", "DELETE"],
  ["PATCH", "/api/tokens/", "GET, HEAD, POST"],
  ["OPTIONS", "/api/tokens", "GET, HEAD, POST"],
])("%s %s is a 405 that says what is allowed", async (method, path, allow) => {
  const answer = await house.fetch(path, { method });
  expect([answer.status, answer.headers.get("allow")]).toEqual([405, allow]);
});

test("every answer carries an id of its own, whatever the client sends", async () => {
  const ids = await Promise.all(
    ["/healthz", "/nope", "/api/tokens", "/v1/x"].map(async (path) => {
      const answer = await house.fetch(path, { headers: { "x-request-id": "mine" } });
      return answer.headers.get("x-request-id") ?? "";
    }),
  );
  for (const id of ids) expect(id).toMatch(ID);
  expect(new Set(ids).size).toBe(4);
});

describe("an invalid Host", () => {
  test.each(["a b", "a/b", "@", "pi@evil"])("%p is refused before any route sees it", async (host) => {
    const answer = await raw(
      house.url,
      `GET /healthz/api/tokens HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
    );
    expect(answer.status).toBe(400);
  });

  test.each(["pi", "nas", "localhost", "gatehouse.local"])("while %p is served", async (host) => {
    const answer = await raw(house.url, `GET /healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    expect([answer.status, answer.body]).toEqual([200, '{"status":"ok"}']);
  });
});

describe("a body for /api", () => {
  const MIB = 1024 * 1024;
  const send = (
    body: string | Uint8Array<ArrayBuffer> | ReadableStream,
    type: string | null,
    token = house.adminToken,
  ) =>
    house.fetch("/api/accounts", {
      method: "POST",
      body,
      headers: { authorization: `Bearer ${token}`, ...(type !== null && { "content-type": type }) },
    });
  const account = (id: string, padding = 0) => JSON.stringify({ id, name: "x" }).padEnd(padding);
  /** In pieces and from a generator, so that the client cannot know a length to declare. */
  const chunked = (text: string) =>
    new ReadableStream({
      async start(controller) {
        for (let at = 0; at < text.length; at += 65_536) {
          await Bun.sleep(0);
          controller.enqueue(Buffer.from(text.slice(at, at + 65_536)));
        }
        controller.close();
      },
    });

  test("one byte past 1 MiB is a 413, by its length or by counting, and nothing is stored", async () => {
    for (const body of [account("big", MIB + 1), chunked(account("big", MIB + 1))])
      expect((await send(body, "application/json")).status).toBe(413);
    expect(house.parts.tokens.hasAccount("big")).toBe(false);
  });

  test("at 1 MiB exactly is read, by its length or by counting", async () => {
    expect((await send(account("fits", MIB), "application/json")).status).toBe(200);
    expect((await send(chunked(account("counted", MIB)), "application/json")).status).toBe(200);
  });

  test("that is not UTF-8 is malformed", async () => {
    const bytes = Buffer.concat([Buffer.from('{"id":"utf","name":"'), Buffer.from([0xff]), Buffer.from('"}')]);
    expect((await send(bytes, "application/json")).status).toBe(400);
    expect(house.parts.tokens.hasAccount("utf")).toBe(false);
  });

  test.each([
    ["text/plain", 415],
    ["application/x-www-form-urlencoded", 415],
    ["application/jsonx", 415],
    ["multipart/form-data; boundary=x", 415],
    ["APPLICATION/JSON; Charset=UTF-8", 200],
    ["application/vnd.gatehouse+json", 200],
  ])("of type %p answers %p", async (type, status) => {
    const id = `t${Bun.hash(type).toString(36)}`;
    expect((await send(account(id), type)).status).toBe(status);
    expect(house.parts.tokens.hasAccount(id)).toBe(status === 200);
  });

  test.each(["{", '{"id":"x"', "\ud800", "[1,", "nul"])("%p is malformed", async (body) => {
    const answer = await send(body, "application/json");
    expect([answer.status, (await answer.json()).errors[0].code]).toEqual([400, 7001]);
  });

  test("at 64 levels is looked at, at 65 it is not", async () => {
    const nested = async (levels: number) => {
      const answer = await send("[".repeat(levels) + "]".repeat(levels), "application/json");
      return [answer.status, (await answer.json()).errors[0].message];
    };
    const tooDeep = "The body is nested too deeply (maximum 64 levels)";
    expect(await nested(64)).toEqual([400, "body: Expected object"]);
    expect(await nested(65)).toEqual([400, tooDeep]);
    expect(await nested(500_000)).toEqual([400, tooDeep]);
  });

  test("from a stranger is refused before it is read", async () => {
    const answer = await send("{", "application/json", "gh_wrong");
    expect(answer.status).toBe(401);
  });

  test("with a wrong field names the field and does not repeat its value", async () => {
    const answer = await send('{"id":"NOT-A-VALID-ID"}', "application/json");
    const text = await answer.text();
    expect(text).toContain("body.id");
    expect(text).not.toContain("NOT-A-VALID-ID");
  });

  test("with a word that is none of those allowed names them", async () => {
    const body = { name: "x", permissions: ["run", "root"] };
    const answer = await house.api("POST", "/api/tokens", body);
    expect(answer.body.errors[0].message).toStartWith("body.permissions.1: Expected one of run, tags:read, ");
  });

  test.each([
    ["x", "query.limit: Expected number"],
    ["0", "query.limit: Expected number to be greater or equal to 1"],
  ])("whose query says limit=%s is told which field is wrong", async (limit, words) => {
    const answer = await house.api("GET", `/api/agents/webhook-agent?prefix=a&limit=${limit}`);
    expect([answer.status, answer.body.errors[0].message]).toEqual([400, words]);
  });

  test("with a key nobody knows is refused", async () => {
    const answer = await send('{"id":"abc","admin":true}', "application/json");
    expect([answer.status, (await answer.json()).errors[0].message]).toEqual([400, "body.admin: Unexpected property"]);
  });
});

describe("a throw that nobody expected", () => {
  const SECRET = "the database password is hunter2";
  const crash = async (path: string, thrown: unknown) => {
    const app = new Elysia().use(createApp(house.parts)).get(path, () => {
      throw thrown;
    });
    return app.handle(new Request(`http://localhost${path}`));
  };

  test.each(["/api/crash", "/v1/crash", "/crash"])("on %s tells the caller nothing but an id", async (path) => {
    const answer = await crash(path, Object.assign(new Error(SECRET), { code: 418, status: 200 }));
    const text = await answer.text();
    expect(answer.status).toBe(500);
    expect(text).not.toContain("hunter2");
    expect(text).not.toContain("stack");
    const id = answer.headers.get("x-request-id") ?? "";
    expect(house.logged.filter((line) => JSON.stringify(line).includes(id)).length).toBe(1);
  });

  test("that is our own wrong answer is our failure and not the caller's", async () => {
    const app = new Elysia({ normalize: false })
      .use(createApp(house.parts))
      .get("/api/wrong", () => JSON.parse('{"hidden":"hunter2"}'), { response: t.Object({ n: t.Number() }) });
    const answer = await app.handle(new Request("http://localhost/api/wrong"));
    expect([answer.status, (await answer.json()).errors[0].code]).toEqual([500, 7000]);
  });

  test("because the caller has left is no failure of ours, and is not logged", async () => {
    const entered = Promise.withResolvers<void>();
    const app = new Elysia().use(createApp(house.parts)).get("/api/left", async ({ request }) => {
      entered.resolve();
      await new Promise((resolve) => request.signal.addEventListener("abort", resolve));
      throw new Error("the work was given up");
    });
    const leaving = new AbortController();
    const answer = app.handle(new Request("http://localhost/api/left", { signal: leaving.signal }));
    await entered.promise;
    leaving.abort();
    expect((await answer).status).toBe(500);
    expect(house.logged.filter((line) => JSON.stringify(line).includes("given up"))).toEqual([]);
  });

  test("that is an expected failure keeps its status, sentence and headers", async () => {
    const answer = await crash("/api/known", new AppError("access.slow_down", { headers: { "retry-after": "7" } }));
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([429, "7"]);
  });
});

describe("pages elsewhere", () => {
  const preflight = (origin: string, path = "/api/tokens") =>
    house.fetch(path, { method: "OPTIONS", headers: { origin, "access-control-request-method": "DELETE" } });

  test("are refused a preflight unless listed", async () => {
    const answer = await preflight("https://evil.example");
    expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([403, null]);
  });

  test("get a preflight before authentication when listed, without credentials", async () => {
    const answer = await preflight("https://friend.example");
    expect(answer.status).toBe(204);
    expect(answer.headers.get("access-control-allow-origin")).toBe("https://friend.example");
    expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
  });

  test("may read answers, failures too, only when listed", async () => {
    for (const [origin, expected] of [
      ["https://friend.example", "https://friend.example"],
      ["https://evil.example", null],
    ] as const) {
      for (const path of ["/healthz", "/api/tokens"]) {
        const answer = await house.fetch(path, { headers: { origin } });
        expect(answer.headers.get("access-control-allow-origin")).toBe(expected);
        expect(answer.headers.get("access-control-expose-headers")).toBe(expected && "*");
      }
    }
  });
});

test("an answer that depends on more than the origin still says so", async () => {
  const headers = { origin: "https://friend.example" };
  const app = new Elysia().use(createApp(house.parts)).get("/own", () => {
    return new Response("x", { headers: { vary: "accept-encoding" } });
  });
  const own = await app.handle(new Request("http://localhost/own", { headers }));
  expect(own.headers.get("vary")).toBe("accept-encoding, origin");
  expect((await house.fetch("/healthz", { headers })).headers.get("vary")).toBe("origin");
});

test.each([
  ["/api/tokens", "default-src 'none'; frame-ancestors 'none'"],
  ["/v1/x", "sandbox"],
  ["/webhooks/x", "sandbox"],
  ["/agents/x/y", "sandbox"],
])("%s may never act as one of our pages", async (path, policy) => {
  const answer = await house.fetch(path);
  expect(answer.headers.get("cache-control")).toBe(path.startsWith("/api") ? "no-store" : null);
  expect(answer.headers.get("content-security-policy")).toBe(policy);
  expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
});

test.each(["/healthz", "/nope", "/metrics"])("%s is never taken for another type than it says", async (path) => {
  expect((await house.fetch(path)).headers.get("x-content-type-options")).toBe("nosniff");
});

test("a route's own header stays", async () => {
  const headers = { "content-security-policy": "default-src 'self'" };
  const app = new Elysia().use(createApp(house.parts)).get("/agents/own", () => new Response("", { headers }));
  const answer = await app.handle(new Request("http://localhost/agents/own"));
  expect(answer.headers.get("content-security-policy")).toBe("default-src 'self'");
  expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
});

test("at the level debug every request is logged, without the credential in its address", async () => {
  await using other = await startHouse({ settings: { log: "debug" } });
  await other.fetch("/nope?token=hunter2&a=1");
  const [line] = other.logged.filter(({ event }) => event === "request");
  expect(line).toMatchObject({ method: "GET", status: 404, url: expect.stringContaining("&a=1") });
  expect(JSON.stringify(other.logged)).not.toContain("hunter2");
});

test("metrics count by group and status", async () => {
  await house.fetch("/v1/nope");
  const { body: _, ...answer } = await house
    .fetch("/metrics", { headers: { authorization: `Bearer ${house.adminToken}` } })
    .then(async (r) => ({ status: r.status, text: await r.text(), body: 0 }));
  expect(answer.text).toMatch(/gatehouse_http_requests_total\{group="gateway",status="404"\} [1-9]/);
  expect(answer.text).toMatch(/gatehouse_http_request_seconds_bucket\{group="api",le="\+Inf"\} [1-9]/);
  expect(answer.text).toContain("process_resident_memory_bytes");
  expect(answer.text).toContain('gatehouse_database_bytes{file="gatehouse.db"}');
});
