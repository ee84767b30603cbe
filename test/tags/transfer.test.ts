// Lines of JSON in and out, over a socket.
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { createPayloads } from "../../src/tags/payload.ts";
import { createResourceTypes } from "../../src/tags/resource-types.ts";
import { importLines } from "../../src/tags/transfer.ts";
import { type House, startHouse } from "../support/house.ts";

let house: House;
const TAGS = "/api/accounts/home/tags";

beforeAll(async () => {
  house = await startHouse();
});
afterEach(async () => {
  for (const { resource_type, resource_id } of await exported()) house.parts.tags.forget(resource_type, resource_id);
});
afterAll(() => house[Symbol.asyncDispose]());

const headers = (type = "application/x-ndjson") => ({
  authorization: `Bearer ${house.adminToken}`,
  "content-type": type,
});

async function send(body: BodyInit | null, type?: string) {
  const answer = await house.fetch(`${TAGS}/import`, { method: "POST", headers: headers(type), ...(body && { body }) });
  // biome-ignore lint/suspicious/noExplicitAny: a test reads the answer field by field
  const { result, errors }: any = await answer.json();
  return [answer.status, result?.resources ?? errors[0].code, errors[0]?.message];
}

async function exported(query = "") {
  const answer = await house.fetch(`${TAGS}/export${query}`, { headers: headers() });
  const text = await answer.text();
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

const line = (id: string, tags: object = { a: "1" }, more: object = {}) =>
  `${JSON.stringify({ resource_type: "worker", resource_id: id, ...more, tags })}\n`;

describe("an import stops", () => {
  test("before it starts, at a content type that is not lines of JSON", async () => {
    for (const type of ["application/json", "application/x-www-form-urlencoded"]) {
      expect(await send(line("a"), type)).toEqual([415, 7001, "The body must be sent as application/x-ndjson"]);
    }
    expect(await exported()).toEqual([]);
  });

  test.each([
    ["that is no JSON", "{", 400, 1002, "line 3: not valid JSON"],
    ["that is no object", "[]", 400, 1002, "line 3: Invalid set payload"],
    ["of an unknown type", line("x", {}, { resource_type: "wrk" }), 400, 1006, "line 3: Invalid resource type"],
    ["with a bad key", line("x", { "a b": "" }), 400, 1014, "line 3: Invalid tag key"],
    [
      "for a zone that it does not name",
      line("x", {}, { resource_type: "zone" }),
      400,
      1002,
      "line 3: Invalid set payload",
    ],
    ["that is not UTF-8", new Uint8Array([0xff, 10]), 400, 1002, "line 3: not valid UTF-8"],
    ["of more than 1 MiB", "x".repeat(1_048_577), 413, 7001, "line 3 is too large (maximum 1048576 bytes)"],
  ] as const)("at a line %s, and keeps what came before", async (_, bad, status, code, message) => {
    const body = new Blob([line("a"), "\n", bad, "\n", line("b")]);
    expect(await send(body)).toEqual([status, code, `${message}; 1 resources before it were stored`]);
    expect((await exported()).map(({ resource_id }) => resource_id)).toEqual(["a"]);
  });

  test("at a line whose If-Match fails, and keeps what came before", async () => {
    const body = line("a") + line("b", {}, { if_match: "*" }) + line("c");
    const [status, code, message] = await send(body);
    expect([status, code]).toEqual([412, 1004]);
    expect(message).toStartWith("line 2: If-Match does not match");
    expect(message).toEndWith("; 1 resources before it were stored");
    expect((await exported()).map(({ resource_id }) => resource_id)).toEqual(["a"]);
  });
});

test("a line without an end is refused at the limit, not when it has filled the memory", async () => {
  let pulled = 0;
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      pulled += 1;
      if (pulled > 1_000) controller.close();
      else controller.enqueue(new Uint8Array(65_536).fill(120));
    },
  });
  const payloads = createPayloads(createResourceTypes());
  const attempt = importLines(house.parts.tags, payloads, "home", endless, () => {});
  await expect(attempt).rejects.toThrow("line 1 is too large (maximum 1048576 bytes)");
  expect(pulled).toBeLessThan(20);
});

test("an import takes nothing, blank lines, CRLF and a last line without an end", async () => {
  expect(await send(null)).toEqual([200, 0, undefined]);
  expect(await send(`\r\n${line("a").trim()}\r\n\n${line("b").trim()}`)).toEqual([200, 2, undefined]);
});

test("what was exported can be imported, line by line the same, in pieces cut anywhere", async () => {
  const lines = Array.from({ length: 1_200 }, (_, n) =>
    line(`w${String(n).padStart(4, "0")}`, { n: `${n}`, ü: "ß😀" }),
  );
  lines.push(line("v", { a: "1" }, { resource_type: "worker_version", worker_id: "w" }));
  lines.push(line("www", { a: "1" }, { resource_type: "dns_record", zone_id: "example.org" }));
  const bytes = Buffer.from(lines.join(""));
  const pieces = new ReadableStream<Uint8Array>({
    start(controller) {
      for (let at = 0; at < bytes.length; at += 997) controller.enqueue(bytes.subarray(at, at + 997));
      controller.close();
    },
  });
  expect(await send(pieces)).toEqual([200, 1_202, undefined]);
  const all = await exported();
  const sorted = (items: unknown[]) => items.map((item) => JSON.stringify(item)).sort();
  expect(sorted(all)).toEqual(sorted(lines.map((one) => JSON.parse(one))));
  const again = all.map((one) => JSON.stringify(one)).join("\n");
  expect(await send(again)).toEqual([200, 1_202, undefined]);
  expect((await exported("?tag=n=1,2")).map(({ resource_id }) => resource_id)).toEqual(["w0001", "w0002"]);
});

describe("a token that is revoked meanwhile", () => {
  const mint = () => house.parts.tokens.mint({ name: "brief", permissions: ["tags:edit"] });

  test.each([
    ["PUT", "", { tags: { a: "1" } }],
    ["PATCH", "", { tags: { a: "1" } }],
    ["DELETE", "", {}],
    ["POST", "/bulk", { resources: [{ resource_type: "worker", resource_id: "new", tags: {} }] }],
  ])("%s%s: what it had begun to send changes nothing", async (method, path, fields) => {
    await send(line("held"));
    const { id, token } = mint();
    const body = JSON.stringify({ resource_type: "worker", resource_id: "held", ...fields });
    const { answer, finish } = await begin(method, path, token, "application/json", body.slice(0, 5));
    house.parts.tokens.revoke(id);
    finish(body.slice(5));
    expect((await answer).status).toBe(401);
    expect((await exported()).map(({ resource_id, tags }) => [resource_id, tags])).toEqual([["held", { a: "1" }]]);
  });

  test("an import stores no further line", async () => {
    const { id, token } = mint();
    const { answer, finish } = await begin("POST", "/import", token, "application/x-ndjson", line("a"));
    house.parts.tokens.revoke(id);
    finish(line("b"));
    expect((await answer).status).toBe(401);
    expect(await exported()).toEqual([]);
  });

  test("an export is cut off", async () => {
    // More than fits into the buffers between the two, so that the end is still to be read when the token goes.
    const tags = Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`k${n}`, "x".repeat(1_000)]));
    await send(Array.from({ length: 2_000 }, (_, n) => line(`w${n}`, tags)).join(""));
    const { id, token } = mint();
    const answer = await house.fetch(`${TAGS}/export`, { headers: { authorization: `Bearer ${token}` } });
    const reader = answer.body?.getReader();
    await reader?.read();
    house.parts.tokens.revoke(id);
    const rest = async (): Promise<string> => ((await reader?.read())?.done ? "whole" : rest());
    expect(await rest().catch(() => "cut")).toBe("cut");
  });

  /** A request that is under way: its head and the first bytes are with the server, the rest comes with `finish`. */
  async function begin(method: string, path: string, token: string, type: string, first: string) {
    const known = house.parts.tokens.lastUsed;
    const rest = Promise.withResolvers<string>();
    const body = new ReadableStream<Uint8Array>({
      async start(controller) {
        controller.enqueue(Buffer.from(first));
        controller.enqueue(Buffer.from(await rest.promise));
        controller.close();
      },
    });
    const answer = house.fetch(`${TAGS}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": type },
      body,
    });
    const row = house.parts.tokens.all().find(({ name }) => name === "brief");
    while (row && known(row) === null) await Bun.sleep(1); // it was let in
    return { answer, finish: rest.resolve };
  }
});
