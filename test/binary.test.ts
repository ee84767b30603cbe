// The executable as a stranger gets it: one file, alone in an empty folder, with nothing of the source tree around it.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { buildExecutable, EXECUTABLE, type Running, runToEnd, start } from "./support/executable.ts";
import { tempFolder } from "./support/house.ts";
import { raw } from "./support/raw.ts";

const BUILD_MS_MAX = 120_000; // on a Pi
const ANY_PORT = ["--host", "127.0.0.1", "--port", "0"];

const folder = tempFolder();
const cwd = join(folder, "elsewhere");
const executable = join(folder, "bin", "gatehouse");
let server: Running;
let adminToken = "";

beforeAll(async () => {
  buildExecutable();
  mkdirSync(join(folder, "bin"));
  copyFileSync(EXECUTABLE, executable);
  server = await start({ executable, cwd, args: ANY_PORT });
  adminToken = /admin token +(\S+)/.exec(readFileSync(join(cwd, "data/first-start.txt"), "utf8"))?.[1] ?? "";
}, BUILD_MS_MAX);

afterAll(async () => {
  await server.stop("SIGKILL");
  rmSync(folder, { recursive: true });
});

const get = (path: string, token?: string) =>
  fetch(`${server.url}${path}`, token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } });

async function call(method: string, path: string, body?: unknown) {
  const headers = { authorization: `Bearer ${adminToken}`, "content-type": "application/json" };
  const answer = await fetch(`${server.url}${path}`, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: answer.status, result: (await answer.json()).result };
}

describe("refuses", () => {
  test.each(["/api/tokens", "/metrics", "/swagger/json"])("%s without a token", async (path) => {
    expect((await get(path)).status).toBe(401);
  });

  test("a Host header that is none, whatever path follows", async () => {
    const answer = await raw(server.url, "GET /public/x/api/tokens HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n");
    expect(answer.status).toBe(400);
  });

  test("a second copy on the same port", async () => {
    const { port } = new URL(server.url);
    const args = ["--host", "127.0.0.1", "--port", port, "--data", join(folder, "other")];
    const second = await runToEnd({ executable, cwd, args });
    expect(second.code).toBe(1);
    expect(second.err).toContain(`cannot listen on 127.0.0.1:${port}`);
    expect((await get("/healthz")).status).toBe(200);
  });

  test("a second copy on the same folder, and says who holds it", async () => {
    const second = await runToEnd({ executable, cwd, args: ANY_PORT });
    expect(second.code).toBe(1);
    expect(second.err).toContain(`pid ${server.pid}`);
  });

  test("a setting it does not know", async () => {
    const wrong = await runToEnd({ executable, cwd, args: ["--porcelain", "1"] });
    expect([wrong.code, wrong.err.includes("--porcelain")]).toEqual([2, true]);
  });
});

test("the health routes answer", async () => {
  expect(await Promise.all(["/healthz", "/readyz"].map(async (path) => (await get(path)).status))).toEqual([200, 200]);
  expect(await (await get("/metrics", adminToken)).text()).toContain("process_resident_memory_bytes");
});

test("a short host name is answered", async () => {
  const answer = await raw(server.url, "GET /healthz HTTP/1.1\r\nHost: pi\r\nConnection: close\r\n\r\n");
  expect(answer.status).toBe(200);
});

test.each(["/", "/swagger"])("the page %s and everything it links to come out of the executable", async (path) => {
  const page = await get(path);
  expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
  const html = await page.text();
  const links = Array.from(html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g), (match) => match[1] ?? "");
  expect(links.some((link) => link.endsWith(".js")) && links.some((link) => link.endsWith(".css"))).toBe(true);
  for (const link of links) {
    const file = await get(link);
    expect([link, file.status, file.headers.get("cache-control")]).toEqual([
      link,
      200,
      expect.stringContaining("immutable"),
    ]);
    expect((await file.bytes()).length).toBeGreaterThan(100);
  }
  expect(html).not.toMatch(/(?:src|href)="(?!\/)/);
});

test("the OpenAPI document lists the routes", async () => {
  const document = await (await get("/swagger/json", adminToken)).json();
  expect(Object.keys(document.paths)).toContain("/api/tokens");
});

test("a token is minted, works, is revoked, and works no more", async () => {
  const minted = await call("POST", "/api/tokens", { name: "round trip", permissions: ["admin"] });
  expect(minted.result.token).toStartWith("gh_");
  expect((await get("/api/tokens", minted.result.token)).status).toBe(200);
  expect((await call("DELETE", `/api/tokens/${minted.result.id}`)).status).toBe(200);
  expect((await get("/api/tokens", minted.result.token)).status).toBe(401);
});

test("a verb works while the server runs", async () => {
  const made = await runToEnd({ executable, cwd, args: ["token", "create", "--admin"] });
  expect((await get("/api/tokens", made.out.split("\n")[0])).status).toBe(200);
});

test("it says which build it is", async () => {
  const { out, code } = await runToEnd({ executable, cwd, args: ["version"] });
  expect([code, out]).toEqual([
    0,
    expect.stringMatching(/^gatehouse \d+\.\d+\.\d+ \((?!source)\S+\), Bun \d+\.\d+\.\d+\n$/),
  ]);
});

test("what it stores is nobody else's to read, and it writes nothing outside its data folder", () => {
  expect(readdirSync(cwd)).toEqual(["data"]);
  expect(statSync(join(cwd, "data")).mode & 0o077).toBe(0);
});

test("a bunfig.toml and a .env of the folder it is started in have no say", async () => {
  const hostile = join(folder, "hostile");
  mkdirSync(hostile);
  const envToken = "gh_of_a_stranger_of_a_stranger_of_a_stranger";
  writeFileSync(join(hostile, "bunfig.toml"), 'preload = ["./evil.ts"]\n');
  writeFileSync(join(hostile, "evil.ts"), 'require("node:fs").writeFileSync("ran", "");\n');
  writeFileSync(join(hostile, ".env"), `GATEHOUSE_ADMIN_TOKEN=${envToken}\n`);
  const other = await start({ executable, cwd: hostile, args: ANY_PORT });
  try {
    const asStranger = await fetch(`${other.url}/api/tokens`, { headers: { authorization: `Bearer ${envToken}` } });
    expect(asStranger.status).toBe(401);
    expect(existsSync(join(hostile, "ran"))).toBe(false);
  } finally {
    expect(await other.stop()).toBe(0);
  }
});

test("SIGTERM ends it with 0, and the next start knows what the last one stored", async () => {
  const minted = await call("POST", "/api/tokens", { name: "lasting", permissions: ["admin"] });
  expect(await server.stop("SIGTERM")).toBe(0);
  server = await start({ executable, cwd, args: ANY_PORT });
  expect((await get("/api/tokens", minted.result.token)).status).toBe(200);
});

test("after SIGKILL the folder is free at once", async () => {
  await server.stop("SIGKILL");
  server = await start({ executable, cwd, args: ANY_PORT });
  expect((await get("/api/tokens", adminToken)).status).toBe(200);
});
