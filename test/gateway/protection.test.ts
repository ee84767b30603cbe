// Each protection attacked over a real socket: addresses, redirects, headers both ways, keys, logs.
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { join } from "node:path";
import {
  closeAll,
  type FakeProvider,
  type GatewayHouse,
  startGatewayHouse,
  startOpenHouse,
  startProvider,
} from "./support/provider.ts";

let provider: FakeProvider;
let trap: FakeProvider;
let house: GatewayHouse;
let answer: (request: Request) => Response;
beforeAll(async () => {
  trap = startProvider(() => new Response("you should not be here"));
  provider = startProvider((request) => answer(request));
  house = await startOpenHouse(provider.url);
});
afterAll(() => closeAll(house, provider, trap));
beforeEach(() => {
  provider.seen.length = 0;
  trap.seen.length = 0;
  answer = () => Response.json({});
});

/** Lines exactly as written; answers with everything that came back before the server closed. */
function talk(lines: string[]): Promise<string> {
  const { port } = new URL(house.url);
  const { promise, resolve } = Promise.withResolvers<string>();
  let got = "";
  const socket = connect(Number(port), "127.0.0.1", () =>
    socket.write(`${lines.join("\r\n")}\r\nConnection: close\r\n\r\n`),
  );
  socket.on("data", (chunk) => {
    got += chunk.toString();
  });
  socket.on("close", () => resolve(got));
  socket.on("error", () => resolve(got));
  return promise;
}

/** By another process: reading a live database here would drop SQLite's locks on it. */
const stored = (...names: string[]) =>
  names.map((name) => Bun.spawnSync(["cat", join(house.folder, "data", name)]).stdout);

describe("whatever the path says, only the table's address is contacted", () => {
  const host = () => new URL(trap.url).host;
  const ATTACKS: [string, () => string][] = [
    ["an absolute address", () => `/v1/home/default/openai/http://${host()}/x`],
    ["an escaped absolute address", () => `/v1/home/default/openai/http%3A%2F%2F${host()}%2Fx`],
    ["a scheme-relative address", () => `/v1/home/default/openai//${host()}/x`],
    ["credentials that swallow the host", () => `/v1/home/default/openai/@${host()}/x`],
    ["an escaped at sign", () => `/v1/home/default/openai/%40${host()}/x`],
    ["a backslash", () => `/v1/home/default/openai/\\\\${host()}/x`],
    ["dots", () => `/v1/home/default/openai/../../../../x`],
    ["escaped dots", () => `/v1/home/default/openai/%2e%2e%2f%2e%2e%2fx`],
    ["a region that is a host", () => `/v1/home/default/aws-bedrock/bedrock-runtime/${host()}%23/x`],
    ["a resource that is a host", () => `/v1/home/default/azure-openai/${host()}%2F/dep/x`],
    ["a fragment", () => `/v1/home/default/openai/#@${host()}/x`],
    ["a query", () => `/v1/home/default/openai/?@${host()}/../x`],
    ["a tab", () => `/v1/home/default/openai/\t/${host()}/x`],
  ];
  test.each(ATTACKS)("%s", async (_, path) => {
    await talk([`GET ${path()} HTTP/1.1`, "Host: localhost"]);
    expect(trap.seen).toEqual([]);
    for (const { path: reached } of provider.seen) expect(reached).toStartWith("/v1");
  });

  test("an absolute request target is our own path, not a proxy request", async () => {
    await talk([`GET ${trap.url}/x HTTP/1.1`, "Host: localhost"]);
    expect(trap.seen).toEqual([]);
  });

  test("redirects are passed on, not followed", async () => {
    answer = () => new Response(null, { status: 307, headers: { location: `${trap.url}/steal` } });
    const got = await fetch(`${house.base}/openai/models`, { redirect: "manual" });
    expect([got.status, got.headers.get("location")]).toEqual([307, `${trap.url}/steal`]);
    expect(trap.seen).toEqual([]);
  });
});

describe("an operator's own provider", () => {
  const place = "/api/accounts/home/ai-gateway/custom-providers";
  const add = (base_url: string, token?: string) =>
    house.api("POST", place, { name: "x", slug: `s${Bun.randomUUIDv7()}`, base_url }, token);

  test.each([
    "http://169.254.169.254/latest",
    "http://[fe80::1]/",
    "http://[fd00:ec2::254]/",
    "http://[::ffff:169.254.169.254]/",
    "http://2852039166/",
    "http://0xA9.0xFE.0xA9.0xFE/",
    "http://metadata.google.internal/",
    "http://100.100.100.200/",
  ])("is never %s, not even for an admin", async (base) => {
    expect((await add(base)).body.errors[0]).toMatchObject({ code: 7001 });
  });

  test("is never our own listener, by any of its names", async () => {
    const { port } = new URL(house.url);
    for (const host of ["127.0.0.1", "localhost", "127.1", "[::ffff:127.0.0.1]"]) {
      expect((await add(`http://${host}:${port}/v1`)).body.errors?.[0]?.message).toContain("our own listener");
    }
  });

  test.each([
    "ftp://example.org",
    "http://user:pw@example.org",
    "http://example.org/?x=1",
    "http://example.org/#x",
    "example.org",
    "file:///etc/passwd",
  ])("cannot be %s", async (base) => expect((await add(base)).status).toBe(400));

  test("may be in the private network only when an admin says so", async () => {
    const editor = house.token(["gateway:edit"], { accountId: "home" });
    for (const base of [
      "http://192.168.1.5:11434",
      "http://10.0.0.1",
      "http://127.0.0.1:11434",
      "http://[::1]:9",
      "http://localhost:9",
    ]) {
      expect([base, (await add(base, editor)).status]).toEqual([base, 403]);
      expect([base, (await add(base)).status]).toEqual([base, 200]);
    }
    expect((await add("https://93.184.216.34", editor)).status).toBe(200);
  });

  test("and one made for a public name stays refused when the name moves into the private network", async () => {
    const { addresses, providers } = house.parts.gateway;
    const made = providers.create("home", { name: "moved", slug: "moved", base_url: provider.url }, false);
    expect(await addresses.problemOf(made.base_url)).toBe("private");
    const got = await fetch(`${house.base}/custom-moved/models`);
    expect(got.status).toBe(400);
    expect(provider.seen).toEqual([]);
  });

  test("a built-in home server is on this machine, and needs nobody's leave", async () => {
    const row = house.parts.gateway.table.get("vllm");
    if (row) row.base = provider.url;
    expect((await fetch(`${house.base}/vllm/health`)).status).toBe(200);
    expect(provider.seen[0]?.path).toBe("/health");
  });

  test("a built-in home server that happens to be our own port is refused", async () => {
    await using own = await startGatewayHouse("http://127.0.0.1:1");
    const row = own.parts.gateway.table.get("llama-cpp");
    if (row) row.base = own.url;
    const got = await fetch(`${own.base}/llama-cpp/health`, { headers: { "gw-aig-authorization": own.runToken } });
    expect(await got.json()).toMatchObject({ error: [{ code: 2008 }] });
  });

  test("is reached while it is enabled, and listed for its own account alone", async () => {
    const { body } = await house.api("POST", place, { name: "n", slug: "switched", base_url: provider.url });
    const reach = async () => (await fetch(`${house.base}/custom-switched/x`)).status;
    expect(await reach()).toBe(200);
    await house.api("PATCH", `${place}/${body.result.id}`, { enable: false });
    expect(await reach()).toBe(400);
    await house.api("POST", "/api/accounts", { id: "work" });
    const elsewhere = place.replace("home", "work");
    expect((await house.api("POST", elsewhere, { name: "w", slug: "w", base_url: provider.url })).status).toBe(200);
    expect((await house.api("GET", elsewhere)).body.result.map(({ slug }: { slug: string }) => slug)).toEqual(["w"]);
  });

  test("is one of at most a thousand", async () => {
    const db = new Database(join(house.folder, "data", "gateway.db"));
    db.run(
      `with recursive n(i) as (select 1 union all select i + 1 from n where i < 999)
       insert into custom_providers select 'p' || i, 'many', 's' || i, 0, 0, '{"base_url":"http://10.0.0.1"}', null, 0 from n`,
    );
    const one = (slug: string) => ({ name: slug, slug, base_url: provider.url });
    await house.api("POST", "/api/accounts", { id: "many" });
    const many = place.replace("home", "many");
    expect((await house.api("POST", many, one("last"))).status).toBe(200);
    expect((await house.api("POST", many, one("more"))).body.errors[0].message).toContain("at most 1000");
    db.run("delete from custom_providers where account_id = 'many'");
    db.close();
  });

  test("sends its headers where the client has none, and never shows their values", async () => {
    const headers = JSON.stringify({ "X-Api-Key": "sk-stored", "x-extra": "1" });
    const made = await house.api("POST", place, {
      name: "h",
      slug: "with-headers",
      base_url: `${provider.url}/deep/v1`,
      headers,
    });
    expect(JSON.stringify(made.body)).not.toContain("sk-stored");
    await fetch(`${house.base}/custom-with-headers/v1/models`, { headers: { "x-extra": "mine" } });
    expect(provider.seen[0]?.path).toBe("/deep/v1/models");
    expect(provider.seen[0]?.headers.get("x-api-key")).toBe("sk-stored");
    expect(provider.seen[0]?.headers.get("x-extra")).toBe("mine");
    const shown = JSON.parse((await house.api("GET", `${place}/${made.body.result.id}`)).body.result.headers);
    expect(shown).toEqual({ "x-api-key": "[hidden]", "x-extra": "[hidden]" });
    await house.api("PATCH", `${place}/${made.body.result.id}`, { name: "renamed", headers: JSON.stringify(shown) });
    await fetch(`${house.base}/custom-with-headers/models`);
    expect(provider.seen[1]?.headers.get("x-api-key")).toBe("sk-stored");
    expect(stored("gateway.db", "gateway.db-wal").some((bytes) => bytes.includes("sk-stored"))).toBe(false);
    // A key goes to the address it was given for: whoever moves the provider has to bring the key.
    const moved = `${house.url.replace(/\d+$/, "9")}/v1`;
    const move = (change: object) =>
      house.api("PATCH", `${place}/${made.body.result.id}`, { base_url: moved, ...change });
    expect((await move({})).status).toBe(400);
    expect((await move({ headers: JSON.stringify(shown) })).status).toBe(400);
    expect((await move({ headers: '{"x-api-key":"sk-new"}' })).status).toBe(200);
    for (const bad of ["no json", "[1]", '{"a b":"x"}', '{"a":1}', '{"a":"x\\r\\ny: z"}']) {
      expect((await house.api("PATCH", `${place}/${made.body.result.id}`, { headers: bad })).status).toBe(400);
    }
  });
});

describe("headers on the way up", () => {
  test("hop-by-hop ones, and those that Connection names, stay here", async () => {
    await talk([
      "POST /v1/home/default/openai/x HTTP/1.1",
      "Host: localhost",
      "Keep-Alive: timeout=5",
      "TE: trailers",
      "Trailer: x-sum",
      "Upgrade: websocket",
      "Proxy-Authorization: Basic c2VjcmV0",
      "Proxy-Connection: keep-alive",
      "X-Secret-Hop: 1",
      "Connection: X-Secret-Hop, upgrade",
      "Content-Length: 0",
    ]);
    const sent = provider.seen[0]?.headers;
    for (const name of [
      "keep-alive",
      "te",
      "trailer",
      "upgrade",
      "proxy-authorization",
      "proxy-connection",
      "x-secret-hop",
    ]) {
      expect([name, sent?.has(name)]).toEqual([name, false]);
    }
  });

  test("cookies, origin and forwarding headers stay here; the rest goes on", async () => {
    const dropped = {
      cookie: "gatehouse_8787=session",
      origin: house.url,
      forwarded: "for=1.2.3.4",
      via: "1.1 x",
      "x-forwarded-for": "1.2.3.4",
      "x-forwarded-host": "evil.example",
      "x-forwarded-proto": "https",
      "x-real-ip": "1.2.3.4",
      "cf-connecting-ip": "1.2.3.4",
      "true-client-ip": "1.2.3.4",
      "tailscale-user-login": "me@example.org",
      "remote-user": "me",
      "cf-access-jwt-assertion": "ey",
      "gw-aig-metadata": "{}",
      "cf-aig-custom-cost": "{}",
      "gw-aig-anything": "1",
    };
    const kept = {
      "anthropic-version": "2023-06-01",
      "openai-organization": "o",
      "x-title": "t",
      referer: "r",
      "user-agent": "me/1",
      accept: "text/x",
    };
    await fetch(`${house.base}/openai/models`, { headers: { ...dropped, ...kept } });
    const sent = provider.seen[0]?.headers;
    for (const name of Object.keys(dropped)) expect([name, sent?.has(name)]).toEqual([name, false]);
    for (const [name, value] of Object.entries(kept)) expect(sent?.get(name)).toBe(value);
    expect(sent?.get("host")).toBe(new URL(provider.url).host);
  });
});

test("headers on the way down: what speaks about an origin would speak about ours", async () => {
  const dropped = {
    "set-cookie": "gatehouse_8787=planted",
    "alt-svc": 'h3=":443"',
    "strict-transport-security": "max-age=31536000",
    "clear-site-data": '"*"',
    "access-control-allow-origin": "*",
    "access-control-allow-credentials": "true",
    "service-worker-allowed": "/",
    refresh: "0; url=https://evil.example",
    "report-to": "{}",
  };
  answer = () =>
    new Response("<script>alert(1)</script>", {
      headers: {
        ...dropped,
        "content-type": "text/html",
        "content-security-policy": "default-src *",
        "x-ratelimit-remaining": "9",
      },
    });
  const got = await fetch(`${house.base}/openai/page`);
  for (const name of Object.keys(dropped)) expect([name, got.headers.has(name)]).toEqual([name, false]);
  expect(got.headers.get("content-security-policy")).toBe("sandbox");
  expect(got.headers.get("x-content-type-options")).toBe("nosniff");
  expect(got.headers.get("x-ratelimit-remaining")).toBe("9");
});

test("what a provider says of itself is kept beside what we say", async () => {
  const theirs = { "server-timing": "model;dur=9", "x-request-id": "req_1", "cache-control": "no-store" };
  answer = () => new Response("data: 1\n\n", { headers: { ...theirs, "content-type": "text/event-stream" } });
  const { headers } = await fetch(`${house.base}/openai/x`);
  expect(headers.get("server-timing")).toMatch(/^model;dur=9, gateway;dur=\d+\.\d\d$/);
  expect(headers.get("x-upstream-request-id")).toBe("req_1");
  expect(headers.get("x-request-id")).toBe(headers.get("gw-aig-request-id"));
  expect(headers.get("cache-control")).toBe("no-store");
});

test("an event id of 256 characters is echoed, and one of 257 is replaced by ours", async () => {
  for (const chars of [256, 257]) {
    const { headers } = await fetch(`${house.base}/openai/x`, { headers: { "gw-aig-event-id": "e".repeat(chars) } });
    expect(headers.get("gw-aig-event-id")).toBe(chars === 256 ? "e".repeat(256) : headers.get("gw-aig-request-id"));
  }
});

test("no credential of anybody is in the log database, nor in the log lines", async () => {
  const secrets = ["sk-provider-secret", "sk-query-secret", "cookie-secret", "proxy-secret", house.runToken];
  answer = () => Response.json({ model: "m" });
  await fetch(`${house.base}/google-ai-studio/v1beta/models/gemini-2.5-flash:generateContent?key=sk-query-secret`, {
    method: "POST",
    headers: {
      authorization: "Bearer sk-provider-secret",
      "x-api-key": "sk-provider-secret",
      "gw-aig-authorization": `Bearer ${house.runToken}`,
      cookie: "a=cookie-secret",
      "proxy-authorization": "proxy-secret",
      "content-type": "application/json",
    },
    body: '{"contents":[]}',
  });
  const [row] = await house.logs("?per_page=1");
  expect(row).toMatchObject({ path: "v1beta/models/gemini-2.5-flash:generateContent", model: "gemini-2.5-flash" });
  const files = stored("logs.db", "logs.db-wal", "gateway.db", "gateway.db-wal");
  const lines = Buffer.from(JSON.stringify(house.logged));
  for (const secret of secrets) {
    for (const text of [...files, lines]) expect(text.includes(secret)).toBe(false);
  }
});

describe("odd figures", () => {
  const ask = async (usage: object, headers: Record<string, string> = {}) => {
    answer = () => Response.json({ model: "m", usage });
    const got = await fetch(`${house.base}/openai/chat/completions`, { method: "POST", headers, body: "{}" });
    return (await house.logs()).find(({ id }) => id === got.headers.get("gw-aig-log-id"));
  };

  test.each([12.5, 1e300, -1])("of a provider cost nobody a row: %d tokens", async (prompt_tokens) =>
    expect(await ask({ prompt_tokens, completion_tokens: 7 })).toMatchObject({ tokens_in: null, tokens_out: 7 }),
  );

  test("of a caller cost nobody the list", async () =>
    expect(
      await ask(
        { prompt_tokens: 1_000, completion_tokens: 7 },
        { "gw-aig-custom-cost": '{"per_token_in":1e308,"total_cost":1e308}' },
      ),
    ).toMatchObject({ tokens_in: 1_000, cost: null, custom_cost: false }));
});

describe("a provider that answers with the headers it was sent", () => {
  const ask = (headers: Record<string, string>, query = "") =>
    fetch(`${house.base}/openai/echo${query}`, { method: "POST", headers, body: "{}" });
  const place = "/api/accounts/home/ai-gateway/gateways/default/logs";
  const responseOf = async (answer: Response) => {
    const { body } = await house.api("GET", `${place}/${answer.headers.get("gw-aig-log-id")}`);
    return body.result.response_head;
  };

  test.each([
    ["plain", (text: string) => new Response(text, { headers: { "content-type": "application/json" } })],
    [
      "compressed",
      (text: string) =>
        new Response(Bun.gzipSync(text), {
          headers: { "content-type": "application/json", "content-encoding": "gzip" },
        }),
    ],
    [
      "plain under the name of an encoding that nobody knows",
      (text: string) =>
        new Response(text, { headers: { "content-type": "application/json", "content-encoding": "x-none" } }),
    ],
  ])("puts no key into the logged body, %s", async (_, write) => {
    const keys = ["sk-echoed-secret-1", "sk-echoed-secret-2", "AIza-echoed-secret"];
    answer = (request) => write(JSON.stringify({ url: request.url, headers: request.headers.toJSON(), model: "m" }));
    const got = await ask(
      { authorization: `Bearer ${keys[0]}`, "x-api-key": keys[1] ?? "", "x-other": "kept-as-it-is" },
      `?key=${keys[2]}`,
    );
    const text = await got.text();
    for (const key of keys) expect(text).toContain(key); // the client's own answer is not touched
    const logged = await responseOf(got);
    for (const key of keys) expect(logged).not.toContain(key);
    expect(JSON.parse(logged)).toMatchObject({ headers: { "x-other": "kept-as-it-is" }, model: "m" });
    const stars = await house.fetch(`${place}/${got.headers.get("gw-aig-log-id")}/response`, {
      headers: { authorization: `Bearer ${house.adminToken}` },
    });
    expect([stars.headers.get("content-type"), await stars.text()]).toEqual(["application/json", logged]);
    await house.parts.gateway.logs.settled();
    for (const bytes of stored("logs.db", "logs.db-wal"))
      for (const key of keys) expect(bytes.includes(key)).toBe(false);
  });

  test("and a placeholder is no key: words like it stay", async () => {
    answer = () => Response.json({ model: "an ollama model" });
    expect(await responseOf(await ask({ authorization: "Bearer ollama" }))).toContain("an ollama model");
  });

  test("nor the key that an operator stored for it", async () => {
    const headers = JSON.stringify({ "x-house-key": "sk-echoed-house" });
    await house.api("POST", "/api/accounts/home/ai-gateway/custom-providers", {
      name: "e",
      slug: "echo",
      base_url: provider.url,
      headers,
    });
    answer = (request) => Response.json({ headers: request.headers.toJSON() });
    const got = await fetch(`${house.base}/custom-echo/echo`);
    expect(await got.text()).toContain("sk-echoed-house");
    expect(await responseOf(got)).not.toContain("sk-echoed-house");
  });
});

test("any method goes through: HEAD keeps the length it tells, 204 and 304 have no body, DELETE and PATCH arrive", async () => {
  answer = () => Response.json({ long: "x".repeat(100) }, { headers: { etag: '"1"' } });
  const head = await fetch(`${house.base}/openai/models`, { method: "HEAD" });
  expect([head.status, head.headers.get("content-length"), await head.text()]).toEqual([200, "111", ""]);
  for (const status of [204, 304]) {
    answer = () => new Response(null, { status });
    const got = await fetch(`${house.base}/openai/files/1`, { method: "DELETE" });
    expect([got.status, await got.text()]).toEqual([status, ""]);
  }
  answer = () => Response.json({});
  for (const method of ["DELETE", "PATCH", "PUT", "OPTIONS"]) {
    provider.seen.length = 0;
    await fetch(`${house.base}/openai/x`, { method, ...(method !== "OPTIONS" && { body: "hi" }) });
    expect(provider.seen[0]?.method).toBe(method);
  }
  provider.seen.length = 0;
  await fetch(`${house.base}/openai`);
  expect(provider.seen[0]?.path).toBe("/v1/");
});
