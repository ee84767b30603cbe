// The pages over a real socket, from a folder made for the test: what the build puts there is the binary test's affair.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Elysia } from "elysia";
import { createEmbeddedAssets, createFolderAssets } from "../../src/console/assets.ts";
import { consoleRoutes, takesGzip } from "../../src/console/routes.ts";
import { AppError } from "../../src/platform/errors.ts";

const PAGE = "<!doctype html><title>A page</title>";
const SCRIPT = "console.log('a script')";
const FILES = { "index.html": PAGE, "swagger.html": PAGE, "assets/index-abcd1234.js": SCRIPT, "assets/plain.txt": "x" };

const folder = mkdtempSync(join(tmpdir(), "assets-"));
for (const [name, text] of Object.entries(FILES)) {
  mkdirSync(join(folder, "console", name, ".."), { recursive: true });
  writeFileSync(join(folder, "console", `${name}.gz`), Bun.gzipSync(text));
}
writeFileSync(join(folder, "secret.gz"), Bun.gzipSync("outside"));

const embedded = Object.entries(FILES).map(
  ([name, text]) => new File([Bun.gzipSync(text)], `embed/console/${name}.gz`),
);

describe.each([
  { kind: "a folder", assets: createFolderAssets(folder) },
  { kind: "the executable", assets: createEmbeddedAssets(() => embedded) },
])("out of $kind", ({ assets }) => {
  const app = new Elysia({ handler: { standardHostname: false } })
    .onError(({ error }) =>
      error instanceof AppError ? new Response(error.code, { status: error.status }) : undefined,
    )
    .use(consoleRoutes(assets));
  let url = "";
  beforeAll(() => {
    url = app.listen({ port: 0, reusePort: false, hostname: "127.0.0.1" }).server?.url.href ?? "";
  });
  afterAll(() => app.stop(true));
  const get = (path: string, headers: Record<string, string> = {}, method = "GET") =>
    fetch(new URL(path, url), { method, headers, decompress: false });

  test.each([
    "/assets/missing.js",
    "/assets/",
    "/assets/index-abcd1234.js.gz",
    "/assets/..%2f..%2fsecret",
    "/assets/%2e%2e/%2e%2e/secret",
    "/assets/..%2findex.html",
    "/assets/%00",
  ])("has no file for %s", async (path) => {
    const response = await get(path);
    expect(response.status).toBe(404);
  });

  test("a page comes compressed under a policy that allows our own files alone", async () => {
    const response = await get("/", { "accept-encoding": "gzip" });
    expect(new TextDecoder().decode(Bun.gunzipSync(await response.bytes()))).toBe(PAGE);
    expect(response.headers.get("content-encoding")).toBe("gzip");
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(response.headers.get("cache-control")).toBe("no-cache");
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    expect(response.headers.get("referrer-policy")).toBe("no-referrer");
    const policy = response.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
  });

  test("the Swagger page is a page too", async () => {
    const response = await get("/swagger");
    expect([response.status, response.headers.has("content-security-policy")]).toEqual([200, true]);
  });

  test("a client that refuses gzip gets the plain text", async () => {
    const response = await get("/assets/index-abcd1234.js", { "accept-encoding": "gzip;q=0, br" });
    expect(response.headers.get("content-encoding")).toBeNull();
    expect(await response.text()).toBe(SCRIPT);
  });

  test("a file with its hash in the name is kept for ever, one without is asked for again", async () => {
    const [hashed, plain] = await Promise.all([get("/assets/index-abcd1234.js"), get("/assets/plain.txt")]);
    expect(hashed.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    expect(plain.headers.get("cache-control")).toBe("no-cache");
  });

  test("a known file is not sent again, whether its tag comes weak, bare or in a list", async () => {
    const etag = (await get("/")).headers.get("etag") ?? "";
    expect(etag).not.toBe((await get("/assets/plain.txt")).headers.get("etag"));
    const asked = [etag, etag.replace("W/", ""), `"other", ${etag}`, "*", '"other"'];
    const statuses = await Promise.all(asked.map(async (tag) => (await get("/", { "if-none-match": tag })).status));
    expect(statuses).toEqual([304, 304, 304, 304, 200]);
  });

  test("HEAD answers the headers of GET without the body", async () => {
    const [head, full] = await Promise.all([get("/", {}, "HEAD"), get("/")]);
    const shown = (response: Response) =>
      ["etag", "content-type", "content-length"].map((name) => response.headers.get(name));
    expect(shown(head)).toEqual(shown(full));
    expect([head.status, (await head.bytes()).length]).toEqual([200, 0]);
  });
});

test.each([
  [null, false],
  ["", false],
  ["br", false],
  ["gzip;q=0", false],
  ["gzip; q=0.000, *", false],
  ["identity, *;q=0", false],
  ["gzip", true],
  ["deflate, GZIP;q=0.5", true],
  ["*", true],
])("accept-encoding %p takes gzip: %p", (header, expected) => {
  expect(takesGzip(header)).toBe(expected);
});

test("a page that was never built says how to build it", async () => {
  const app = new Elysia().onError(({ error }) => String(error)).use(consoleRoutes({ find: () => undefined }));
  const response = await app.handle(new Request("http://house.local/"));
  expect(await response.text()).toContain("scripts/build");
});

afterAll(() => rmSync(folder, { recursive: true }));
