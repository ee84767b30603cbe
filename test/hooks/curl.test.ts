// The exported command is run, and what arrives is compared with what was stored.
import { expect, test } from "bun:test";
import { toCurl } from "../../src/hooks/curl.ts";
import type { Taken } from "../../src/hooks/journal-schema.ts";
import { PRESETS } from "../../src/hooks/presets.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const taken = (body: Uint8Array, headers: [string, string][]): Taken => {
  const row = { method: "POST", path: "/webhooks/x?a=1" } as Taken["row"]; // what the command is made of
  return { row, content: { headers, body } };
};

async function run(body: Uint8Array, headers: [string, string][]) {
  const got: { headers: Headers; body: Uint8Array }[] = [];
  await using server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    maxRequestBodySize: 32 * 1024 * 1024,
    async fetch(request) {
      got.push({ headers: request.headers, body: await request.bytes() });
      return new Response();
    },
  });
  const command = toCurl(taken(body, headers), server.url.origin, "none");
  const child = Bun.spawn(["sh"], { stdin: bytes(command), stdout: "ignore", stderr: "pipe" });
  expect([await child.exited, await new Response(child.stderr).text()]).toMatchObject([0, expect.any(String)]);
  const [first] = got;
  if (!first) throw new Error("nothing arrived");
  return first;
}

test.each([
  ["quotes and line breaks", bytes('{"it\'s": "$HOME `id` \\\\ "}\r\n\n')],
  ["what curl takes for the name of a file", bytes("@/etc/hostname")],
  ["more than one argument may hold", bytes("x".repeat(300_000))],
  ["a large delivery", bytes(`@${"ü'".repeat(1_500_000)}`)],
  ["bytes that are no text", Uint8Array.of(0, 255, 13, 10, 0)],
])("%s arrive as they were", async (_name, body) => {
  const got = await run(body, [["content-type", "text/plain"]]);
  expect(Buffer.compare(got.body, body)).toBe(0);
});

test("headers arrive as they were: an empty one, and none where there was none", async () => {
  const got = await run(bytes("a=b"), [["x-empty", ""]]);
  expect([got.headers.get("x-empty"), got.headers.get("content-type")]).toEqual(["", null]);
});

test("a token that was not stored is asked for, a signature goes along", () => {
  const { sonarr, github } = PRESETS;
  const of = (headers: [string, string][], checks: Parameters<typeof toCurl>[2]) =>
    toCurl(taken(bytes("{}"), headers), "http://127.0.0.1", checks);
  expect(of([], sonarr.verify)).toMatch(/^# .*not stored.*Authorization: Bearer/);
  expect(of([["x-hub-signature-256", "sha256=0"]], github.verify)).toMatch(/^curl /);
  expect(of([], "none")).toMatch(/^curl /);
});
