// HTTP to an agent: who may, what the agent sees, and bodies that flow both ways without being held.
import { describe, expect, test } from "bun:test";
import { openClient, startAgentHouse } from "../support/agent-house.ts";
import { failure, until } from "../support/agents.ts";

const WEB = `
import { Agent, callable } from "gatehouse";
export class Web extends Agent<unknown, { cancelled: string[] }> {
  initialState = { cancelled: [] };
  @callable() cancelled() { return this.state.cancelled; }
  async onRequest(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const page = pathname.split("/").pop();
    const note = (what: string) => this.setState({ cancelled: [...this.state.cancelled, what] });
    if (page === "echo") return new Response(request.body, { headers: { "x-type": request.headers.get("content-type") ?? "" } });
    if (page === "seen") return Response.json({ url: request.url, headers: Object.fromEntries(request.headers) });
    if (page === "count") { let n = 0; for await (const chunk of request.body ?? []) n += chunk.length; return new Response(String(n)); }
    if (page === "upload") { note("asked"); try { for await (const _ of request.body ?? []); } catch { note("broken"); } return new Response(); }
    if (page === "big") return new Response(new Uint8Array(50 * 1024 * 1024).fill(7));
    if (page === "endless") {
      request.signal.addEventListener("abort", () => note("signal"));
      return new Response(new ReadableStream({ pull(c) { c.enqueue(new Uint8Array(65536)); }, cancel() { note("stream"); } })); }
    if (page === "drops") { let n = 0; return new Response(new ReadableStream({ async pull(c) { await new Promise((d) => setTimeout(d, 300)); c.enqueue(new Uint8Array(10)); if (++n === 6) c.close(); } })); }
    if (page === "breaks") return new Response(new ReadableStream({ async start(c) { c.enqueue(new Uint8Array(1000)); await new Promise((d) => setTimeout(d, 50)); c.error(new Error("in mid-body")); } }));
    if (page === "slow") {
      note("asked");
      await new Promise((done) => request.signal.addEventListener("abort", done));
      return new Response(new ReadableStream({ pull(c) { c.enqueue(new Uint8Array(65536)); }, cancel() { note("stream"); } })); }
    if (page === "early") return new Response("early", { status: 403 });
    if (page === "unread") { await new Promise(() => {}); }
    if (page === "error") return Response.error();
    if (page === "switch") return new Response(null, { status: 101 });
    if (page === "bytes") return new Response(new Uint8Array([0xff, 0xfe]));
    if (page === "policy") return new Response("own", { headers: { "content-security-policy": "default-src *" } });
    if (page === "full") return new Response("no content", { status: 204 });
    if (page === "overfull") return new Response(new ReadableStream({ pull(c) { c.enqueue(new Uint8Array(65536)); }, cancel() { note("stream"); } }), { status: 204 });
    if (page === "none") return new Response(null, { status: 204 });
    if (page === "html") return new Response("<script>1</script>", { headers: { "content-type": "text/html" } });
    return new Response("hello", { status: 201, headers: [["set-cookie", "a=1"], ["set-cookie", "b=2"]] });
  }
}
export class Open extends Web { static options = { public: true, sandbox: false }; }
export class Shown extends Web { static options = { public: "read" as const }; }`;
const FILES = { "web.ts": WEB };

describe("refusals", () => {
  test.each([
    ["no token", "GET", "web/a", undefined, 401],
    ["a wrong token", "GET", "web/a", "gh_wrong", 401],
    ["another permission", "GET", "web/a", "tags", 403],
    ["another agent's token", "GET", "web/a", "other", 403],
    ["a reader who posts", "POST", "web/there", "read", 403],
    ["a reader of an agent that does not exist", "GET", "web/never", "read", 404],
    ["an unknown class", "GET", "nobody/a", "edit", 404],
    ["an unknown class without a token", "GET", "nobody/a", undefined, 401],
    ["a name that is too long", "GET", `web/${"x".repeat(129)}`, "edit", 400],
    ["a stranger posting to a class that is only shown", "POST", "shown/a", undefined, 403],
  ])("%s", async (_, method, path, kind, status) => {
    await using house = await startAgentHouse({ files: FILES });
    const tokens: Record<string, string> = {
      tags: house.token(["tags:edit"]),
      other: house.token(["agents:edit"], { agentClass: "web", agentName: "elsewhere" }),
      edit: house.token(["agents:edit"]),
      read: house.token(["agents:read"]),
    };
    await house.parts.agents.call("web", "there", "cancelled", []);
    const token = kind === undefined ? undefined : (tokens[kind] ?? kind);
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const answer = await house.fetch(`/agents/${path}`, { method, headers });
    expect(answer.status).toBe(status);
    expect(await answer.json()).toMatchObject({ error: { code: expect.any(String), request_id: expect.any(String) } });
  });

  test("a page elsewhere, or a foreign host name, cannot use a public class through a visitor's browser", async () => {
    await using house = await startAgentHouse({ files: FILES });
    const evil = await house.fetch("/agents/open/a", { headers: { origin: "https://evil.example" } });
    expect(evil.status).toBe(403);
    const rebound = await house.fetch("/agents/open/a", { headers: { host: "evil.example" } });
    expect(rebound.status).toBe(403);
    expect(house.parts.agents.exists("open", "a")).toBe(false);
    expect((await house.fetch("/agents/open/a")).status).toBe(201);
  });
});

test("the agent sees the request without our credentials, in every place they can stand", async () => {
  await using house = await startAgentHouse({ files: FILES });
  const token = house.token(["agents:edit"]);
  const cookie = `theirs=1; ${house.parts.cookieName()}=secret`;
  const one = await house.fetch(`/agents/web/a/seen?x=1&token=${token}&y=%2F`, { headers: { cookie } });
  const seen = await one.json();
  expect(seen.url).toEndWith("/agents/web/a/seen?x=1&y=%2F");
  expect(seen.headers.cookie).toBe("theirs=1");
  const two = await house.fetch("/agents/web/a/seen", {
    headers: { authorization: `Bearer ${token}`, "x-mine": "yes" },
  });
  const { headers } = await two.json();
  expect(headers).toMatchObject({ "x-mine": "yes" });
  expect(headers).not.toHaveProperty("authorization");
  const open = await house.fetch("/agents/open/a/seen", { headers: { authorization: "Bearer theirs" } });
  expect((await open.json()).headers.authorization).toBe("Bearer theirs");
});

test("answers keep status, repeated headers and no body; strangers' bytes are sandboxed unless the class says otherwise", async () => {
  await using house = await startAgentHouse({ files: FILES });
  const headers = { authorization: `Bearer ${house.token(["agents:edit"])}` };
  const plain = await house.fetch("/agents/web/a", { headers });
  expect([plain.status, await plain.text(), plain.headers.getSetCookie()]).toEqual([201, "hello", ["a=1", "b=2"]]);
  expect((await house.fetch("/agents/web/a/none", { headers })).status).toBe(204);
  const head = await house.fetch("/agents/web/a", { method: "HEAD", headers });
  expect([head.status, await head.text()]).toEqual([201, ""]);
  const page = await house.fetch("/agents/web/a/html", { headers });
  expect(page.headers.get("content-security-policy")).toBe("sandbox");
  const policy = await house.fetch("/agents/web/a/policy", { headers });
  expect(policy.headers.get("content-security-policy")).toBe("default-src *, sandbox");
  const own = await house.fetch("/agents/open/a/html");
  expect(own.headers.get("content-security-policy") ?? "").toBe("");
  expect(own.headers.get("x-content-type-options")).toBe("nosniff");
});

test.each(["error", "switch"])("a Response that ends no request (%s) is a failure of the agent", async (page) => {
  await using house = await startAgentHouse({ files: FILES });
  const headers = { authorization: `Bearer ${house.token(["agents:edit"])}` };
  const answer = await house.fetch(`/agents/web/a/${page}`, { headers });
  expect([answer.status, await answer.json()]).toMatchObject([500, { error: { code: "agent.failed" } }]);
});

test("no body follows a status that has none, whatever the agent wrote", async () => {
  await using house = await startAgentHouse({ files: FILES });
  const headers = { authorization: `Bearer ${house.token(["agents:edit"])}` };
  for (const page of ["full", "overfull"]) {
    const answer = await house.fetch(`/agents/web/a/${page}`, { headers });
    expect([answer.status, await answer.text()]).toEqual([204, ""]);
    expect((await house.fetch("/agents/web/a/hello", { headers })).status).toBe(201); // on the same connection
  }
  await until(async () => {
    const noted = await house.parts.agents.call("web", "a", "cancelled", []);
    return Array.isArray(noted) && noted.includes("stream");
  });
});

test("text says that it is text when the agent does not, and bytes do not", async () => {
  await using house = await startAgentHouse({ files: FILES });
  const headers = { authorization: `Bearer ${house.token(["agents:edit"])}` };
  const typeOf = async (page: string) =>
    (await house.fetch(`/agents/web/a/${page}`, { headers })).headers.get("content-type");
  expect(await typeOf("hello")).toBe("text/plain;charset=utf-8");
  expect(await typeOf("bytes")).toBe("application/octet-stream");
});

describe("bodies", () => {
  test("stream up and down whole, however large", async () => {
    await using house = await startAgentHouse({ files: FILES });
    const headers = { authorization: `Bearer ${house.token(["agents:edit"])}` };
    const body = new Uint8Array(3_000_000).map((_, index) => index % 251);
    const echoed = await house.fetch("/agents/web/a/echo", { method: "POST", headers, body });
    expect(Buffer.from(await echoed.arrayBuffer()).equals(Buffer.from(body))).toBe(true);
    const counted = await house.fetch("/agents/web/a/count", {
      method: "PUT",
      headers,
      body: new Blob([body, body]).stream(),
    });
    expect(await counted.text()).toBe("6000000");
    const small = await house.fetch("/agents/web/a/echo", {
      method: "POST",
      headers: { ...headers, "content-type": "text/x" },
      body: "abc",
    });
    expect([await small.text(), small.headers.get("x-type")]).toEqual(["abc", "text/x"]);
    const big = await house.fetch("/agents/web/a/big", { headers });
    expect((await big.arrayBuffer()).byteLength).toBe(50 * 1024 * 1024);
  });

  test("a caller who leaves ends the agent's stream and its signal", async () => {
    await using house = await startAgentHouse({ files: FILES });
    const token = house.token(["agents:edit"]);
    using client = openClient(house, "web", "a", token);
    await client.ready;
    const leaving = new AbortController();
    const endless = await house.fetch("/agents/web/a/endless", {
      headers: { authorization: `Bearer ${token}` },
      signal: leaving.signal,
    });
    const reader = endless.body?.getReader();
    await reader?.read();
    leaving.abort();
    const seen = await until(async () => {
      const all = (await client.call("cancelled")) as string[];
      return all.length === 2 && all;
    });
    expect(seen.sort()).toEqual(["signal", "stream"]);
  });

  test("a caller who leaves before the answer ends the stream that comes too late", async () => {
    await using house = await startAgentHouse({ files: FILES });
    const token = house.token(["agents:edit"]);
    using client = openClient(house, "web", "a", token);
    await client.ready;
    const leaving = new AbortController();
    const answer = house.fetch("/agents/web/a/slow", {
      headers: { authorization: `Bearer ${token}` },
      signal: leaving.signal,
    });
    const noted = (count: number) => until(async () => ((await client.call("cancelled")) as string[]).length === count);
    await noted(1);
    leaving.abort();
    await answer.catch(() => {});
    await noted(2);
    expect(await client.call("cancelled")).toEqual(["asked", "stream"]);
  });

  test("an upload whose sender leaves ends for the agent that reads it", async () => {
    await using house = await startAgentHouse({ files: FILES });
    const { agents } = house.parts;
    const leaving = new AbortController();
    const upload = agents.fetch("web", "a", {
      method: "POST",
      url: "http://test/agents/web/a/upload",
      headers: [],
      body: new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array(1000)) }), // and no more
      signal: leaving.signal,
    });
    const noted = (what: string) =>
      until(async () => ((await agents.call("web", "a", "cancelled", [])) as string[]).includes(what));
    await noted("asked");
    leaving.abort();
    expect((await failure(upload)).message).toBe("The caller left");
    await noted("broken");
  });

  test("an agent that fails in mid-body resets the answer instead of ending it short", async () => {
    await using house = await startAgentHouse({ files: FILES });
    const answer = await house.fetch("/agents/web/a/breaks", {
      headers: { authorization: `Bearer ${house.token(["agents:edit"])}` },
    });
    expect(answer.status).toBe(200);
    const outcome = await answer.arrayBuffer().then(
      () => "whole",
      () => "reset",
    );
    expect(outcome).toBe("reset");
  });

  test("a stream that goes on may take longer than a handler", async () => {
    await using house = await startAgentHouse({ files: FILES, agent: { handler_ms_max: 1_000 } });
    const headers = { authorization: `Bearer ${house.token(["agents:read", "agents:edit"])}` };
    expect((await (await house.fetch("/agents/web/a/drops", { headers })).bytes()).length).toBe(60);
  });

  test("an answer before the upload was read reaches the caller; an upload nobody reads ends with the limit", async () => {
    await using house = await startAgentHouse({ files: FILES, agent: { handler_ms_max: 1_000 } });
    const headers = { authorization: `Bearer ${house.token(["agents:edit"])}` };
    const body = new Uint8Array(8_000_000);
    const early = await house.fetch("/agents/web/a/early", { method: "POST", headers, body });
    expect([early.status, await early.text()]).toEqual([403, "early"]);
    const unread = await house.fetch("/agents/web/a/unread", {
      method: "POST",
      headers,
      body: new Uint8Array(200_000),
    });
    expect(unread.status).toBe(504);
  });
});

test("pages of the origins that are allowed may call agents, and see the answer", async () => {
  const origin = "https://ui.example";
  await using house = await startAgentHouse({ files: FILES, settings: { cors_origins: [origin] } });
  const preflight = await house.fetch("/agents/web/a", {
    method: "OPTIONS",
    headers: { origin, "access-control-request-method": "POST", "access-control-request-headers": "authorization" },
  });
  expect([preflight.status, preflight.headers.get("access-control-allow-origin")]).toEqual([204, origin]);
  const headers = { origin, authorization: `Bearer ${house.token(["agents:edit"])}` };
  const answer = await house.fetch("/agents/web/a", { method: "POST", headers });
  expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([201, origin]);
});
