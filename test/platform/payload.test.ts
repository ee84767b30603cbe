import { expect, test } from "bun:test";
import { readPayload } from "../../src/platform/payload.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const read = (contentType: string, body: string | Uint8Array, query = "") =>
  readPayload(contentType, new URLSearchParams(query), typeof body === "string" ? bytes(body) : body);
const json = (value: unknown) => ({ ok: true as const, json: value });
const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;

test.each([
  ["application/json", "{"],
  ["application/json", "[1,"],
  ["application/vnd.docker.distribution.events.v2+json", "nope"],
  ["application/json", ""],
  ["multipart/form-data; boundary=x", "--y\r\n"],
  ["application/json", nested(257)],
  ["application/json", nested(200_000)],
  ["application/x-www-form-urlencoded", nested(257)],
])("refuses %s %p", async (contentType, body) => {
  expect((await read(contentType, body)).ok).toBe(false);
});

test("refuses invalid UTF-8, also where the sender claims no type", async () => {
  const broken = Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d);
  expect(await read("application/json", broken)).toEqual({ ok: false, reason: "The body is not valid UTF-8" });
  expect((await read("text/plain", broken)).ok).toBe(false);
});

test("refuses a form of more than a thousand fields and takes one of a thousand", async () => {
  const form = (count: number) => Array.from({ length: count }, (_, index) => `f${index}=1`).join("&");
  const type = "application/x-www-form-urlencoded";
  expect((await read(type, form(1_000))).ok).toBe(true);
  expect((await read(type, form(1_001))).ok).toBe(false);
});

test("takes JSON as deep as the limit", async () =>
  expect((await read("application/json", nested(256))).ok).toBe(true));

test.each([
  ["application/json; charset=utf-8", '{"a":1}', { a: 1 }],
  ["APPLICATION/JSON", "[1]", [1]],
  ["application/vnd.docker.distribution.events.v2+json", '{"events":[]}', { events: [] }],
  ["text/plain", '{"NotificationType":"Play"}', { NotificationType: "Play" }],
  ["", '\uFEFF{"a":1}', { a: 1 }],
  ["text/plain", "just words", "just words"],
  ["application/xml", "<a/>", "<a/>"],
  [
    "application/x-www-form-urlencoded",
    "From=%2B1&Body=hi+there&Media=1&Media=2",
    { From: "+1", Body: "hi there", Media: ["1", "2"] },
  ],
  ["application/x-www-form-urlencoded", `payload=${encodeURIComponent('{"ref":"x"}')}`, { ref: "x" }],
  ["application/x-www-form-urlencoded", '{"sent":"by curl -d"}', { sent: "by curl -d" }],
  ["application/x-www-form-urlencoded", "__proto__=1&constructor=2", JSON.parse('{"__proto__":"1","constructor":"2"}')],
])("reads %s %p", async (contentType, body, value) => expect(await read(contentType, body)).toEqual(json(value)));

test("reads the JSON field of multipart, beside a file", async () => {
  for (const field of ["payload", "data"]) {
    const form = new FormData();
    form.set("thumb", new File([Uint8Array.of(0xff, 0xd8)], "thumb.jpg", { type: "image/jpeg" }));
    form.set(field, '{"event":"media.play"}');
    const sent = new Response(form);
    const type = sent.headers.get("content-type") ?? "";
    expect(await read(type, await sent.bytes())).toEqual(json({ event: "media.play" }));
  }
});

test("reads the query of a delivery without a body", async () => {
  expect(await read("", "", "status=down&host=nas")).toEqual(json({ status: "down", host: "nas" }));
});
