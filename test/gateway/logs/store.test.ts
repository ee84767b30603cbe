// The real threads on a real file: what is recorded can be read at once, questions page, failure stays contained.
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { ListQuery, WriterSetup } from "../../../src/gateway/logs/protocol.ts";
import { type LogStore, startLogs } from "../../../src/gateway/logs/store.ts";
import { createLog } from "../../../src/platform/log.ts";
import { createMetrics, type Metrics } from "../../../src/platform/metrics.ts";
import { until } from "../support/provider.ts";
import { bytes, CHAT_ANSWER, CHAT_REQUEST, recordOf } from "../support/records.ts";

const threadUrl = new URL("../../../src/gateway/logs/worker.ts", import.meta.url).href;
let folder: string;
let lines: string[];
let store: LogStore;
const start = (change: Partial<WriterSetup> = {}, url = threadUrl, metrics = createMetrics()): LogStore =>
  startLogs({
    threadUrl: url,
    setup: {
      path: join(folder, "logs.db"),
      retention: { rowsMax: 0, daysMax: 0, bytesMax: 0 },
      caps: [],
      prices: {},
      ...change,
    },
    log: createLog({ level: "debug", pretty: false, now: Date.now, write: (line) => void lines.push(line) }),
    metrics,
  });
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gatehouse-logs-"));
  lines = [];
  store = start();
});
afterEach(async () => {
  await store.stop();
  rmSync(folder, { recursive: true });
});

const ask = (change: Partial<ListQuery> = {}): ListQuery => ({
  gateway: "home/default",
  filters: [],
  page: 1,
  perPage: 20,
  orderBy: "created_at",
  descending: true,
  metaInfo: false,
  ...change,
});

test("what was just recorded is in the next answer, read and priced", async () => {
  const [request, head] = [bytes(CHAT_REQUEST), bytes(CHAT_ANSWER)];
  const record = recordOf({
    requestBytes: request.byteLength,
    responseBytes: head.byteLength,
    metadata: '{"team":"red"}',
  });
  store.record(record, { request, head });
  const { rows, total } = await store.list(ask());
  expect(total).toBe(1);
  expect(rows[0]).toMatchObject({
    id: record.id,
    model: "gpt-4o-mini",
    tokens_in: 1000,
    tokens_out: 100,
    estimated: 0,
    metadata: '{"team":"red"}',
  });
  expect(rows[0]?.cost).toBeCloseTo(0.00021, 9);
  const detail = await store.get("home/default", record.id);
  expect(new TextDecoder().decode(detail?.response?.bytes)).toBe(CHAT_ANSWER);
  expect(new TextDecoder().decode((await store.body("home/default", record.id, "request"))?.bytes)).toBe(CHAT_REQUEST);
  expect(await store.get("home/other", record.id)).toBeUndefined();
});

test("pages end, in both directions, by number and by row", async () => {
  const ids = Array.from({ length: 45 }, () => {
    const record = recordOf();
    store.record(record, {});
    return record.id;
  });
  const pages = await Promise.all([1, 2, 3, 4].map((page) => store.list(ask({ page }))));
  expect(pages.map(({ rows }) => rows.length)).toEqual([20, 20, 5, 0]);
  expect(pages.flatMap(({ rows }) => rows.map(({ id }) => id))).toEqual(ids.toReversed());
  const walked: string[] = [];
  for (let after: string | undefined; ; after = walked.at(-1)) {
    const { rows } = await store.list(ask({ descending: false, perPage: 7, ...(after ? { after } : {}) }));
    if (rows.length === 0) break;
    walked.push(...rows.map(({ id }) => id));
  }
  expect(walked).toEqual(ids);
});

test("walking by row goes on where it was when that row is deleted meanwhile", async () => {
  const ids = Array.from({ length: 9 }, () => {
    const record = recordOf();
    store.record(record, {});
    return record.id;
  });
  await store.remove({ gateway: "home/default", filters: [{ key: "id", operator: "eq", value: [ids[4] ?? ""] }] });
  const after = async (descending: boolean) =>
    (await store.list(ask({ descending, after: ids[4] ?? "" }))).rows.map(({ id }) => id);
  expect(await after(false)).toEqual(ids.slice(5));
  expect(await after(true)).toEqual(ids.slice(0, 4).toReversed());
});

test("in the order of writing, a request that began early and ended late comes last", async () => {
  const [slow, quick] = [recordOf({ id: "01900000-0000-7000-8000-000000000000" }), recordOf()];
  store.record(quick, {});
  store.record(slow, {});
  const written = ask({ orderBy: "written", descending: false });
  expect((await store.list(written)).rows.map(({ id }) => id)).toEqual([quick.id, slow.id]);
  expect((await store.list({ ...written, after: quick.id })).rows.map(({ id }) => id)).toEqual([slow.id]);
});

test("sums what was spent, by model", async () => {
  const [request, head] = [bytes(CHAT_REQUEST), bytes(CHAT_ANSWER)];
  for (const status of [200, 200, 500])
    store.record(recordOf({ status, requestBytes: request.byteLength, responseBytes: head.byteLength }), {
      request,
      head,
    });
  const { totals, models } = await store.stats({ gateway: "home/default", sinceMs: 0 });
  expect(totals).toMatchObject({ requests: 3, failed: 1, tokens_in: 3000, tokens_out: 300, unpriced: 0 });
  expect(totals.cost).toBeCloseTo(0.00063, 9);
  expect(models).toHaveLength(1);
  expect(models[0]).toMatchObject({ provider: "openai", model: "gpt-4o-mini", requests: 3 });
  expect((await store.stats({ gateway: "home/default", sinceMs: Date.now() + 60_000 })).totals.requests).toBe(0);
});

test("a sum of which no part has a price is unknown, and one of nothing is zero", async () => {
  const stats = () => store.stats({ gateway: "home/default", sinceMs: 0 });
  expect((await stats()).totals.cost).toBe(0);
  const head = bytes(CHAT_ANSWER.replaceAll("gpt-4o-mini-2024-07-18", "nobody-knows"));
  store.record(recordOf({ responseBytes: head.byteLength, provider: "ollama", price: undefined, base: "http://x" }), {
    head,
  });
  const { totals, models } = await stats();
  expect([totals.cost, models[0]?.cost, totals.unpriced]).toEqual([null, null, 1]);
  store.record(recordOf({ path: "audio/speech", responseType: "audio/mpeg" }), {}); // sold by the minute, not by tokens
  expect((await stats()).models.map(({ cost }) => cost)).toEqual([null, null]);
});

test("deletes in the order it is told, and only what a search finds", async () => {
  const records = ["groq", "openai", "groq", "openai"].map((provider) => recordOf({ provider }));
  for (const record of records) store.record(record, {});
  const left = async () =>
    (await store.list(ask({ descending: false }))).rows.map(({ id }) => records.findIndex((one) => one.id === id));
  await store.remove({ gateway: "home/default", filters: [] }, { limit: 1, orderBy: "created_at", descending: true });
  expect(await left()).toEqual([0, 1, 2]);
  await store.remove({ gateway: "home/default", filters: [] }, { limit: 1 });
  expect(await left()).toEqual([1, 2]);
  await store.remove({ gateway: "home/default", filters: [], search: "groq" });
  expect(await left()).toEqual([1]);
});

test("deletes, takes feedback, and gives a range of figures", async () => {
  const record = recordOf({ durationMs: 5 });
  store.record(record, {});
  store.record(recordOf({ durationMs: 50, provider: "groq" }), {});
  expect((await store.list(ask({ metaInfo: true }))).meta).toMatchObject({
    min_duration: 5,
    max_duration: 50,
    max_cost: null,
  });
  expect(await store.setFeedback("home/default", record.id, { feedback: 1 })).toBe(true);
  expect(
    await store.remove({ gateway: "home/default", filters: [{ key: "provider", operator: "eq", value: ["groq"] }] }),
  ).toBe(1);
  expect((await store.list(ask())).rows.map(({ id, feedback }) => [id, feedback])).toEqual([[record.id, 1]]);
});

test("what was recorded just before is judged and deleted too, though it is not yet written", async () => {
  const record = recordOf();
  store.record(record, { head: bytes(CHAT_ANSWER) });
  expect(await store.setFeedback("home/default", record.id, { score: 7 })).toBe(true);
  store.record(recordOf(), { head: bytes(CHAT_ANSWER) });
  expect(await store.remove({ gateway: "home/default", filters: [] })).toBe(2);
});

test("rows survive a stop and a start", async () => {
  store.record(recordOf(), {});
  await store.stop();
  store = start();
  expect((await store.list(ask())).total).toBe(1);
});

test("a gateway's cap that changes at run time holds from then on", async () => {
  store.setCap({ gateway: "home/default", rowsMax: 2, whenFull: "stop" });
  for (let index = 0; index < 5; index++) store.record(recordOf(), {});
  expect((await store.list(ask())).total).toBe(2);
});

test("a database that cannot be opened costs the logs, never the caller", async () => {
  await store.stop();
  writeFileSync(join(folder, "logs.db"), "this is no database, but long enough to look like one ".repeat(50));
  store = start();
  expect(() => store.record(recordOf(), {})).not.toThrow();
  await expect(store.list(ask())).rejects.toThrow();
  expect(lines.some((line) => line.includes("gateway.logs.open_failed"))).toBe(true);
});

test("a question after one that found no database is answered once there is one", async () => {
  await store.stop();
  const path = join(folder, "later.db");
  mkdirSync(path);
  store = start({ path });
  await expect(store.list(ask())).rejects.toThrow();
  rmdirSync(path);
  expect(await store.list(ask())).toMatchObject({ rows: [], total: 0 });
});

test("a database that can be opened later is, with the caps of then", async () => {
  await store.stop();
  const path = join(folder, "later.db");
  mkdirSync(path);
  store = start({ path });
  await until(() => lines.some((line) => line.includes("gateway.logs.open_failed")));
  expect(store.isOpen()).toBe(false);
  store.setCap({ gateway: "home/default", rowsMax: 1, whenFull: "stop" });
  rmdirSync(path);
  await until(() => store.isOpen(), 10_000);
  for (let index = 0; index < 3; index++) store.record(recordOf(), {});
  expect((await store.list(ask())).total).toBe(1);
}, 15_000);

describe("while the thread is stuck", () => {
  /** Writes nothing until it hears of a cap; then says that it wrote everything. */
  const STUCK = `
    const held = [];
    self.onmessage = ({ data: { type, id } }) => {
      if (type === "stop") process.exit(0);
      if (type === "batch") held.push(id);
      else postMessage({ type: "done", id });
      if (type === "cap") for (const one of held.splice(0)) postMessage({ type: "count", count: 1, id: one });
    };`;
  let metrics: Metrics;
  const figure = (name: string) => Number(new RegExp(`^${name} (\\d+)$`, "m").exec(metrics.text())?.[1] ?? 0);
  const dropped = (what: string) => figure(`gatehouse_gateway_logs_dropped_total{what="${what}"}`);
  const waiting = () => figure("gatehouse_gateway_logs_waiting_rows");
  beforeEach(async () => {
    await store.stop();
    metrics = createMetrics();
    writeFileSync(join(folder, "stuck.ts"), STUCK);
    store = start({}, pathToFileURL(join(folder, "stuck.ts")).href, metrics);
  });
  const unstick = () => store.setCap({ gateway: "home/default", rowsMax: 1, whenFull: "stop" });

  test("twenty thousand rows wait, and one more is dropped and counted; written ones make room", async () => {
    for (let index = 0; index < 20_001; index++) store.record(recordOf(), {});
    expect([waiting(), dropped("row"), dropped("body")]).toEqual([20_000, 1, 0]);
    unstick();
    await until(() => waiting() === 0);
    store.record(recordOf(), {});
    expect([waiting(), dropped("row")]).toEqual([1, 1]);
    unstick();
  });

  test("rows with long paths wait up to 32 MiB, and no more are taken; written ones make room", async () => {
    const path = "x".repeat(64 * 1024);
    const fill = () => {
      for (let index = 0; index < 1_000; index++) store.record(recordOf({ path }), {});
    };
    fill();
    expect(waiting()).toBe(600); // the third batch of 200 reaches the bound
    expect(dropped("row")).toBe(400);
    unstick();
    await until(() => waiting() === 0);
    fill();
    expect(waiting()).toBe(600);
    unstick();
  });

  test("16 MiB of bodies wait, and the next row goes without; written ones make room", async () => {
    const head = new Uint8Array(256 * 1024);
    const record = () => store.record(recordOf(), { head });
    for (let index = 0; index < 64; index++) record();
    expect(dropped("body")).toBe(0);
    record();
    expect([dropped("body"), dropped("row")]).toEqual([1, 0]);
    unstick();
    await until(() => waiting() <= 1);
    record();
    expect(dropped("body")).toBe(1);
    unstick();
  });
});
