// Rows, caps and retention on a real database; the thread around it is tested in store.test.ts.

import type { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { GatewayCap, PackedRecord, Retention } from "../../../src/gateway/logs/protocol.ts";
import { createLogReader } from "../../../src/gateway/logs/reader.ts";
import { LOG_MIGRATIONS } from "../../../src/gateway/logs/schema.ts";
import { createLogWriter } from "../../../src/gateway/logs/writer.ts";
import { createPricing } from "../../../src/gateway/pricing.ts";
import { openDatabase } from "../../../src/platform/sqlite.ts";
import { bytes, CHAT_ANSWER, CHAT_REQUEST, recordOf } from "../support/records.ts";

const NONE: Retention = { rowsMax: 0, daysMax: 0, bytesMax: 0 };
const NOW = Date.now();
let db: Database;
beforeEach(() => {
  db = openDatabase(":memory:", LOG_MIGRATIONS, "NORMAL");
});
afterEach(() => db.close());

const writer = (retention: Partial<Retention> = {}, caps: GatewayCap[] = [], now = () => NOW) =>
  createLogWriter({
    db,
    pricing: createPricing({}),
    retention: { ...NONE, ...retention },
    caps,
    now,
    pause: async () => {},
  });
const many = (count: number, change: Partial<PackedRecord> = {}): PackedRecord[] =>
  Array.from({ length: count }, () => ({ ...recordOf(), ...change, ...(change.id ? {} : { id: Bun.randomUUIDv7() }) }));
const count = (table = "logs") => db.query<{ n: number }, []>(`select count(*) as n from ${table}`).get()?.n;
const ids = () =>
  db
    .query<{ id: string }, []>("select id from logs order by seq")
    .all()
    .map(({ id }) => id);

describe("by count", () => {
  test("keeps exactly the limit, and the newest", async () => {
    const records = many(25);
    await writer({ rowsMax: 10 }).write(records, new Uint8Array());
    expect(ids()).toEqual(records.slice(15).map(({ id }) => id));
  });

  test("counts what was there before it started", async () => {
    await writer().write(many(10), new Uint8Array());
    await writer({ rowsMax: 10 }).write(many(1), new Uint8Array());
    expect(count()).toBe(10);
  });

  test("a gateway's own cap deletes its own oldest and nobody else's", async () => {
    const cap = { gateway: "home/small", rowsMax: 3, whenFull: "delete" } as const;
    const it = writer({}, [cap]);
    const others = many(5);
    await it.write(others, new Uint8Array());
    await it.write(many(7, { gateway: "home/small" }), new Uint8Array());
    expect(count()).toBe(8);
    expect(ids().slice(0, 5)).toEqual(others.map(({ id }) => id));
  });

  test("a gateway told to stop inserting keeps its oldest", async () => {
    const it = writer({}, [{ gateway: "home/default", rowsMax: 3, whenFull: "stop" }]);
    const records = many(5);
    await it.write(records, new Uint8Array());
    expect(ids()).toEqual(records.slice(0, 3).map(({ id }) => id));
    it.setCap({ gateway: "home/default", rowsMax: 4, whenFull: "stop" });
    await it.write(many(5), new Uint8Array());
    expect(count()).toBe(4);
  });
});

test("rows that a full disk turned away are not counted: the next ones push out nobody", async () => {
  const it = writer({ rowsMax: 15 });
  const records = many(10);
  await it.write(records, new Uint8Array());
  const pages = db.query<{ page_count: number }, []>("pragma page_count").get()?.page_count ?? 0;
  db.run(`pragma max_page_count = ${pages}`);
  await expect(it.write(many(2_000), new Uint8Array())).rejects.toThrow("full");
  db.run("pragma max_page_count = 1000000");
  await it.write(many(5), new Uint8Array());
  expect(count()).toBe(15);
  expect(ids().slice(0, 10)).toEqual(records.map(({ id }) => id));
});

test("a cap that was lowered is reached in slices, so that no batch waits long", async () => {
  const it = writer();
  await it.write(many(5_000), new Uint8Array());
  const lowered = writer({ rowsMax: 10 });
  await lowered.write(many(1), new Uint8Array());
  expect(count()).toBe(3_001);
  await lowered.sweep();
  expect(count()).toBe(10);
});

test("what a client that left had asked is priced, also when it is the first thing ever", async () => {
  const request = bytes(CHAT_REQUEST);
  const left = { status: 499, outcome: "client_left", requestBytes: request.byteLength } as const;
  await writer().write(many(1, { ...left, request: [0, request.byteLength] }), request);
  const row = db.query<{ tokens_in: number; cost: number }, []>("select tokens_in, cost from logs").get();
  expect(row?.tokens_in).toBeGreaterThan(0);
  expect(row?.cost).toBeGreaterThan(0);
});

test("by age: deletes what is a millisecond past the limit and keeps what is at it", async () => {
  const at = (ms: number) => {
    const hex = ms.toString(16).padStart(12, "0");
    return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
  };
  const limit = NOW - 86_400_000;
  await writer().write(
    [...many(1, { id: at(limit - 1) }), ...many(1, { id: at(limit) }), ...many(1)],
    new Uint8Array(),
  );
  await writer({ daysMax: 1 }).sweep();
  expect(ids()[0]).toBe(at(limit));
  expect(count()).toBe(2);
});

test("by bytes: deletes the oldest until what is used fits, and freed pages are used again", async () => {
  const body = new Uint8Array(64 * 1024).fill(120);
  const records = (): PackedRecord[] =>
    many(40, { head: [0, body.byteLength], responseBytes: body.byteLength, responseType: "text/html" });
  const it = writer({ bytesMax: 1024 * 1024 });
  const pages = () => db.query<{ page_count: number }, []>("pragma page_count").get()?.page_count ?? 0;
  const used = () =>
    (pages() - (db.query<{ freelist_count: number }, []>("pragma freelist_count").get()?.freelist_count ?? 0)) * 4096;
  await it.write(records(), body);
  const high = pages();
  expect(used()).toBeGreaterThan(1024 * 1024);
  await it.sweep();
  expect(used()).toBeLessThanOrEqual(1024 * 1024);
  expect(used()).toBeGreaterThan(512 * 1024); // no more is given up than has to be
  const kept = used() / 4096;
  await it.write(records(), body);
  expect(pages()).toBeLessThanOrEqual(high + kept + 4);
});

test("bodies go with their rows", async () => {
  const answer = bytes(CHAT_ANSWER);
  const it = writer({ rowsMax: 2 });
  await it.write(many(5, { head: [0, answer.byteLength], responseBytes: answer.byteLength }), answer);
  expect([count(), count("bodies")]).toEqual([2, 2]);
});

test("bodies are stored only when asked for, up to 256 KiB each, and marked when cut", async () => {
  const long = new Uint8Array(256 * 1024 + 1).fill(120);
  const it = writer();
  const reader = createLogReader(db);
  const [fits, cut, none] = [Bun.randomUUIDv7(), Bun.randomUUIDv7(), Bun.randomUUIDv7()];
  const of = (id: string, length: number, payload = true): PackedRecord => ({
    ...recordOf({ id, responseBytes: length, payload, responseType: "text/plain" }),
    head: [0, length],
  });
  await it.write([of(fits, long.byteLength - 1), of(cut, long.byteLength), of(none, 10, false)], long);
  expect(reader.body("home/default", fits, "response")).toMatchObject({ complete: true });
  const kept = reader.body("home/default", cut, "response");
  expect([kept?.complete, kept?.bytes.byteLength]).toEqual([false, 256 * 1024]);
  expect(reader.body("home/default", none, "response")).toBeUndefined();
});

test("a body of which only a part was kept is marked, on either side", async () => {
  const kept = bytes("only the beginning");
  const whole = { requestBytes: kept.byteLength, responseBytes: kept.byteLength };
  const spans: Partial<PackedRecord> = { request: [0, kept.byteLength], head: [0, kept.byteLength] };
  const it = writer();
  const marks = async (change: Partial<PackedRecord>) => {
    const id = Bun.randomUUIDv7();
    await it.write(many(1, { ...whole, ...spans, ...change, id }), kept);
    const reader = createLogReader(db);
    return (["request", "response"] as const).map((side) => reader.body("home/default", id, side)?.complete);
  };
  expect(await marks({})).toEqual([true, true]);
  expect(await marks({ requestBytes: kept.byteLength + 1 })).toEqual([false, true]);
  expect(await marks({ responseBytes: kept.byteLength + 1 })).toEqual([true, false]);
  expect(await marks({ tail: [0, 1] })).toEqual([true, false]);
});

test("with its row a body is shown up to 64 KiB, and one that cannot be decoded is no longer what it is called", async () => {
  const long = new Uint8Array(64 * 1024 + 1).fill(120);
  const it = writer();
  const of = (length: number, responseEncoding?: string): PackedRecord => ({
    ...recordOf({ responseBytes: length, responseEncoding }),
    head: [0, length],
  });
  const records = [of(long.byteLength - 1), of(long.byteLength), of(9, "x-none")];
  await it.write(records, long);
  const shown = records.map(({ id }) => createLogReader(db).get("home/default", id)?.response);
  expect(shown.map((body) => [body?.bytes.byteLength, body?.complete, body?.type])).toEqual([
    [64 * 1024, true, "application/json"],
    [64 * 1024, false, "application/json"],
    [9, true, "application/octet-stream"],
  ]);
});

test("each of many bodies belongs to its own row, whatever the number of rows", async () => {
  const it = writer();
  const reader = createLogReader(db);
  for (const rows of [1, 9, 10, 11, 23]) {
    const records = many(rows).map((record, index) => ({
      ...record,
      head: [index, 1] as [number, number],
      responseType: "text/plain",
    }));
    await it.write(records, Uint8Array.from(records.keys()));
    for (const [index, { id }] of records.entries()) {
      expect(reader.body("home/default", id, "response")?.bytes).toEqual(Uint8Array.of(index));
    }
  }
});

test("feedback reaches its row and no other gateway's", async () => {
  const id = Bun.randomUUIDv7();
  const it = writer();
  await it.write(many(1, { id }), new Uint8Array());
  expect(it.setFeedback("home/other", id, { feedback: 1 })).toBe(false);
  expect(it.setFeedback("home/default", "nonsense", { feedback: 1 })).toBe(false);
  expect(it.setFeedback("home/other", id, {})).toBe(false);
  expect(it.setFeedback("home/default", id, {})).toBe(true);
  expect(it.setFeedback("home/default", id, { feedback: -1, score: 50 })).toBe(true);
  expect(createLogReader(db).get("home/default", id)?.row).toMatchObject({ feedback: -1, score: 50 });
});

test("removes what a selection names, up to its limit", async () => {
  const it = writer();
  await it.write([...many(4), ...many(3, { provider: "groq" })], new Uint8Array());
  const groq = { gateway: "home/default", filters: [{ key: "provider", operator: "eq" as const, value: ["groq"] }] };
  expect(await it.remove(groq, { limit: 2 })).toBe(2);
  expect(await it.remove(groq, {})).toBe(1);
  expect(count()).toBe(4);
});
