// The journal in its real thread on a real file.
import { Database } from "bun:sqlite";
import { expect, jest, spyOn, test } from "bun:test";
import { renameSync, rmSync, statSync } from "node:fs";
import { createJournal, type Journal } from "../../src/hooks/journal.ts";
import type { Append, Appended, JournalLimits } from "../../src/hooks/journal-schema.ts";
import { AppError } from "../../src/platform/errors.ts";
import { temporaryFolder } from "../support/temporary.ts";

const WORKER = new URL("../../src/hooks/journal-worker.ts", import.meta.url);
const DAY_MS = 86_400_000;
const LIMITS: JournalLimits = { bytesMax: 1 << 30, ageMsMax: 7 * DAY_MS };
const NOW_MS = 1_700_000_000_000;

async function open(limits: Partial<JournalLimits> = {}) {
  const folder = temporaryFolder();
  const path = `${folder.path}/journal.db`;
  let journal = createJournal(WORKER, path, { ...LIMITS, ...limits });
  return {
    path,
    get journal(): Journal {
      return journal;
    },
    async restart() {
      await journal.stop();
      journal = createJournal(WORKER, path, { ...LIMITS, ...limits });
    },
    async [Symbol.asyncDispose]() {
      await journal.stop();
      folder[Symbol.dispose]();
    },
  };
}

const causeOf = (error: unknown) => (error instanceof AppError ? error.cause : error);

let count = 0;
const one = (change: Partial<Append> = {}): Append => ({
  id: Bun.randomUUIDv7(),
  source: "github",
  className: "webhook-agent",
  identifier: "acme/web",
  deliveryId: `d-${++count}`,
  type: "push",
  title: "a push",
  method: "POST",
  path: "/webhooks/github",
  address: "192.0.2.1",
  headers: '[["content-type","application/json"]]',
  body: new TextEncoder().encode('{"a":1}'),
  receivedMs: NOW_MS,
  status: "pending",
  ordered: false,
  ...change,
});
const keyed = (key: string, change: Partial<Append> = {}) =>
  one({ deliveryId: key, dedupe: { key, sinceMs: NOW_MS }, ...change });
const first = (appended: Appended[]) => {
  const [it] = appended;
  if (!it) throw new Error("nothing was appended");
  return it;
};
const seqOf = (appended: Appended) => (appended.kind === "stored" ? appended.seq : -1);
const done = (seq: number, atMs = NOW_MS) => ({ seq, outcome: "done", answer: 200, atMs, durationMs: 5 }) as const;
const all = (journal: Journal) => journal.ask("list", { filter: {}, before: null, limit: 10_000 });
const take = (journal: Journal, nowMs: number, busy: number[] = []) =>
  journal.ask("take", { nowMs, limit: 100, leaseMs: DAY_MS, busy });

test("a file that is no database is refused, and used as soon as it is gone", async () => {
  using folder = temporaryFolder();
  await Bun.write(
    `${folder.path}/journal.db`,
    "this is no database, but it is long enough to look like a file".repeat(20),
  );
  const journal = createJournal(WORKER, `${folder.path}/journal.db`, LIMITS);
  expect(String(causeOf(await journal.append([one()]).catch((error) => error)))).toContain("journal.db");
  expect(journal.isUp()).toBe(false);
  expect(String(causeOf(await journal.append([one()]).catch((error) => error)))).toContain("resting");
  rmSync(`${folder.path}/journal.db`);
  while (!journal.isUp()) await Bun.sleep(20);
  expect((await journal.append([one()])).length).toBe(1);
  await journal.stop();
});

test("what waits while the file fails gives its room back: afterwards as much may wait as before", async () => {
  using folder = temporaryFolder();
  await Bun.write(`${folder.path}/journal.db`, "no database".repeat(200));
  const journal = createJournal(WORKER, `${folder.path}/journal.db`, LIMITS);
  const body = new Uint8Array(60 << 20); // not three of them may wait
  const refused = await Promise.allSettled([one(), one({ body }), one({ body })].map((it) => journal.append([it])));
  expect(refused.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  rmSync(`${folder.path}/journal.db`);
  while (!journal.isUp()) await Bun.sleep(20);
  const three = await Promise.allSettled([1, 2, 3].map(() => journal.append([one({ body })])));
  expect(three.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected"]);
  expect((await journal.append([one({ body })])).length).toBe(1);
  await journal.stop();
});

test("outcomes that could not be written are written later, unless there is a newer one", async () => {
  await using house = await open();
  const [older = 0, newer = 0] = (await house.journal.append([one(), one()])).map(seqOf);
  await house.journal.stop();
  renameSync(house.path, `${house.path}.kept`);
  await Bun.write(house.path, "no database".repeat(200));
  await house.restart();
  house.journal.mark(done(older));
  house.journal.mark({ seq: newer, outcome: "dead", reason: "gave up", atMs: NOW_MS });
  const failed = house.journal.ask("counts", {}).catch(causeOf);
  house.journal.mark(done(newer));
  expect(String(await failed)).toContain("journal.db");
  renameSync(`${house.path}.kept`, house.path);
  while (!house.journal.isUp()) await Bun.sleep(20);
  expect((await all(house.journal)).map(({ status }) => status)).toEqual(["done", "done"]);
});

test("what append resolved is in the file, raw body and headers included", async () => {
  await using house = await open();
  const body = Uint8Array.of(0, 255, 10, 13);
  const delivery = one({ body });
  await house.journal.append([delivery]);
  const outside = new Database(house.path, { readonly: true });
  expect(outside.query("select id, bytes, status from deliveries").all()).toEqual([
    { id: delivery.id, bytes: 4, status: "pending" },
  ]);
  outside.close();
  const stored = await house.journal.ask("get", { id: delivery.id });
  expect(stored?.content.body).toEqual(body);
  expect(stored?.content.headers).toEqual([["content-type", "application/json"]]);
});

test("the same delivery id is stored once, also twice in one commit, and per source and agent", async () => {
  await using house = await open();
  const twins = await Promise.all([1, 2, 3].map(() => house.journal.append([keyed("x")])));
  expect(twins.map((appended) => first(appended).kind)).toEqual(["stored", "duplicate", "duplicate"]);
  const others = [
    keyed("x", { source: "gitea" }),
    keyed("x", { identifier: "other" }),
    keyed("x", { className: "mine" }),
  ];
  for (const other of others) expect(first(await house.journal.append([other])).kind).toBe("stored");
  expect((await all(house.journal)).length).toBe(4);
});

test("without a key equal deliveries are deliveries of their own; with a window they are one inside it", async () => {
  await using house = await open();
  expect((await house.journal.append([one(), one()])).map(({ kind }) => kind)).toEqual(["stored", "stored"]);
  const at = (receivedMs: number) => one({ dedupe: { key: "body", sinceMs: 5_000 }, receivedMs });
  const kinds = [];
  for (const ms of [0, 5_000, 5_001]) kinds.push(first(await house.journal.append([at(NOW_MS + ms)])).kind);
  expect(kinds).toEqual(["stored", "duplicate", "stored"]);
});

test("two identifiers never share a name, and the mapping outlives a restart", async () => {
  await using house = await open();
  const nameOf = async (identifier: string, className = "webhook-agent") =>
    first(await house.journal.append([one({ identifier, className })])).name;
  expect(await nameOf("acme/web")).toBe("acme-web");
  expect(await nameOf("acme web")).toMatch(/^acme-web-[0-9a-f]{8}$/);
  expect(await nameOf("acme-web")).toBe("acme-web"); // already a name
  expect(await nameOf("acme web", "other-class")).toBe("acme-web");
  const distinct = await nameOf("acme web");
  await house.restart();
  expect([await nameOf("acme/web"), await nameOf("acme web")]).toEqual(["acme-web", distinct]);
});

test("an urgent outcome is in the file without waiting for a delivery or a question", async () => {
  await using house = await open();
  jest.useFakeTimers(); // so that the journal's own clock never comes round
  try {
    const [waits, hurries] = (await house.journal.append([one(), one()])).map(seqOf);
    house.journal.mark(done(waits ?? 0));
    const outside = new Database(house.path, { readonly: true });
    const stored = () =>
      outside.query<{ n: number }, []>("select count(*) n from deliveries where status = 'done'").get();
    expect(stored()?.n).toBe(0);
    house.journal.mark(done(hurries ?? 0), "now");
    while (stored()?.n !== 2) await new Promise((resolve) => setImmediate(resolve));
    outside.close();
  } finally {
    jest.useRealTimers();
  }
});

test("an unmarked delivery is taken again after a restart, a marked one is not", async () => {
  await using house = await open();
  const appended = await house.journal.append([one(), one(), one()]);
  const [a, b, c] = appended.map(seqOf);
  house.journal.mark(done(a ?? 0));
  house.journal.mark({ seq: b ?? 0, outcome: "dead", reason: "gave up", atMs: NOW_MS });
  expect((await take(house.journal, NOW_MS)).taken).toEqual([]); // under way, so nobody else takes it
  await house.restart();
  await house.journal.ask("resume", { nowMs: NOW_MS, attemptsMax: 10 });
  const { taken } = await take(house.journal, NOW_MS);
  expect(taken.map(({ row }) => [row.seq, row.attempts])).toEqual([[c ?? 0, 2]]);
});

test("an attempt that took the process down counts, and the last one ends it", async () => {
  await using house = await open();
  await house.journal.append([one()]);
  for (let attempt = 2; attempt <= 3; attempt++) {
    await house.journal.ask("resume", { nowMs: NOW_MS, attemptsMax: 3 });
    expect((await take(house.journal, NOW_MS)).taken.map(({ row }) => row.attempts)).toEqual([attempt]);
  }
  await house.journal.ask("resume", { nowMs: NOW_MS, attemptsMax: 3 });
  expect((await all(house.journal)).map(({ status }) => status)).toEqual(["dead"]);
});

test("a retry is due at its time and not a millisecond before; code that did not load costs no attempt", async () => {
  await using house = await open();
  const seq = seqOf(first(await house.journal.append([one()])));
  house.journal.mark({ seq, outcome: "retry", reason: "broken", dueMs: NOW_MS + 10, attempts: 0 });
  expect(await take(house.journal, NOW_MS + 9)).toEqual({ taken: [], nextMs: NOW_MS + 10 });
  const { taken } = await take(house.journal, NOW_MS + 10);
  expect(taken.map(({ row }) => [row.attempts, row.reason])).toEqual([[1, "broken"]]);
});

test("an ordered source waits for the earlier one of the same agent, and only for that", async () => {
  await using house = await open();
  const ordered = (identifier: string) => one({ ordered: true, identifier });
  const appended = await house.journal.append([ordered("a"), ordered("a"), ordered("b")]);
  expect(appended.map((it) => it.kind === "stored" && it.wait)).toEqual([false, true, false]);
  expect((await take(house.journal, NOW_MS)).taken).toEqual([]);
  house.journal.mark(done(seqOf(first(appended))));
  expect((await take(house.journal, NOW_MS)).taken.map(({ row }) => [row.seq, row.attempts])).toEqual([
    [seqOf(appended[1] ?? first([])), 1],
  ]);
});

test("a sender that repeats a dead letter brings it back to life", async () => {
  await using house = await open();
  const { id } = keyed("x");
  const seq = seqOf(first(await house.journal.append([keyed("x", { id })])));
  house.journal.mark({ seq, outcome: "dead", reason: "gave up", atMs: NOW_MS });
  expect(first(await house.journal.append([keyed("x")]))).toEqual({
    kind: "stored",
    seq,
    id,
    name: "acme-web",
    wait: false,
  });
  expect((await all(house.journal)).map(({ status, attempts }) => [status, attempts])).toEqual([["pending", 1]]);
});

test("what a sender repeats is no replay, also when a replay of it was given up", async () => {
  await using house = await open();
  const { id } = keyed("x");
  const seq = seqOf(first(await house.journal.append([keyed("x", { id })])));
  house.journal.mark(done(seq));
  await house.journal.ask("replay", { filter: {}, ids: [id], nowMs: NOW_MS, limit: 1 });
  house.journal.mark({ seq, outcome: "dead", reason: "gave up", atMs: NOW_MS });
  await house.journal.append([keyed("x")]);
  expect((await all(house.journal)).map(({ status, replay }) => [status, replay])).toEqual([["pending", 0]]);
});

test("no more is taken than was asked for, however much is under way", async () => {
  await using house = await open();
  const seqs = (await house.journal.append([1, 2, 3, 4, 5, 6].map(() => one()))).map(seqOf);
  const [busy, due] = [seqs.slice(0, 2), seqs.slice(2)];
  for (const seq of due) house.journal.mark({ seq, outcome: "retry", reason: "x", dueMs: NOW_MS, attempts: 1 });
  const { taken } = await house.journal.ask("take", { nowMs: NOW_MS, limit: 2, leaseMs: DAY_MS, busy });
  expect(taken.map(({ row }) => row.seq)).toEqual(due.slice(0, 2));
});

test("replay, by id or by filter, touches what is finished and nothing else", async () => {
  await using house = await open();
  const [a, b, c] = [one(), one({ source: "stripe" }), one()];
  const seqs = (await house.journal.append([a, b, c])).map(seqOf);
  for (const seq of seqs.slice(0, 2)) house.journal.mark(done(seq));
  const replay = (filter: object, ids: string[] | null) =>
    house.journal.ask("replay", { filter, ids, nowMs: NOW_MS, limit: 100 });
  expect(await replay({}, [c.id, "unknown"])).toEqual({ count: 0 });
  expect(await replay({ source: "stripe" }, null)).toEqual({ count: 1 });
  expect(await replay({}, [a.id])).toEqual({ count: 1 });
  const { taken } = await take(house.journal, NOW_MS);
  expect(taken.map(({ row }) => [row.id, row.replay, row.attempts])).toEqual([
    [a.id, 1, 1],
    [b.id, 1, 1],
  ]);
});

test("a paused source's deliveries are held until it is released", async () => {
  await using house = await open();
  await house.journal.append([one({ status: "held" })]);
  await house.journal.ask("resume", { nowMs: NOW_MS, attemptsMax: 10 });
  expect((await take(house.journal, NOW_MS + DAY_MS)).taken).toEqual([]);
  expect(await house.journal.ask("release", { paused: ["github"], nowMs: NOW_MS })).toEqual({ count: 0 });
  expect(await house.journal.ask("release", { paused: ["other"], nowMs: NOW_MS })).toEqual({ count: 1 });
  expect((await take(house.journal, NOW_MS)).taken.map(({ row }) => row.attempts)).toEqual([1]);
});

test("mended code makes due what failed, and leaves alone what is under way", async () => {
  await using house = await open();
  const [, failed = 0] = (await house.journal.append([one(), one()])).map(seqOf);
  house.journal.mark({ seq: failed, outcome: "retry", reason: "x", dueMs: NOW_MS + DAY_MS, attempts: 1 });
  const hasten = (className: string) => house.journal.ask("hasten", { className, nowMs: NOW_MS });
  expect([await hasten("other"), await hasten("webhook-agent")]).toEqual([{ count: 0 }, { count: 1 }]);
  expect((await take(house.journal, NOW_MS)).taken.map(({ row }) => row.seq)).toEqual([failed]);
});

test("what is taken at once is bounded in bytes; one that is larger goes alone", async () => {
  await using house = await open();
  const large = (megabytes: number) => one({ body: new Uint8Array(megabytes << 20) });
  await house.journal.append([large(33), large(20), large(12), large(1)]);
  await house.journal.ask("resume", { nowMs: NOW_MS, attemptsMax: 10 });
  const sizes = async () => (await take(house.journal, NOW_MS)).taken.map(({ row }) => row.bytes >> 20);
  expect([await sizes(), await sizes(), await sizes()]).toEqual([[33], [20, 12], [1]]);
});

test("destroying an agent makes its undone deliveries dead letters and forgets its name", async () => {
  await using house = await open();
  const [a] = await house.journal.append([one(), one({ identifier: "acme other" })]);
  expect(await house.journal.ask("destroyed", { className: "webhook-agent", name: "acme-web", nowMs: NOW_MS })).toEqual(
    { count: 1 },
  );
  house.journal.mark(done(seqOf(a ?? first([])))); // comes too late to undo it
  expect((await all(house.journal)).map(({ status, reason }) => [status, reason])).toEqual([
    ["pending", null],
    ["dead", "destroyed"],
  ]);
  expect(first(await house.journal.append([one({ identifier: "acme web" })])).name).toBe("acme-web");
});

test("past its size the journal drops finished rows; with nothing finished it refuses and stores nothing", async () => {
  await using house = await open({ bytesMax: 3_000 });
  const kilo = () => one({ body: new Uint8Array(1_000) });
  const appended = await house.journal.append([kilo(), kilo(), kilo()]);
  const refusal = await house.journal.append([one({ body: new Uint8Array(1) })]).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(AppError);
  if (refusal instanceof AppError) {
    expect([refusal.code, refusal.status, refusal.headers["retry-after"]]).toEqual(["hook.full", 503, "30"]);
  }
  // It is told once more: the outcome was written though there was no room for the delivery beside it.
  house.journal.mark({ seq: seqOf(first(appended)), outcome: "retry", reason: "x", dueMs: NOW_MS, attempts: 0 });
  await house.journal.append([kilo()]).catch(() => {});
  expect((await all(house.journal)).at(-1)?.attempts).toBe(0);
  house.journal.mark(done(seqOf(first(appended))));
  await house.journal.append([kilo()]);
  expect((await all(house.journal)).map(({ seq }) => seq).length).toBe(3);
});

test("its size is that of what it holds: a duplicate adds nothing, a dropped letter gives its room back", async () => {
  await using house = await open();
  const bytes = async () => (await house.journal.ask("counts", {})).bytes;
  const kilo = (key: string, size = 1_000) => keyed(key, { body: new Uint8Array(size) });
  const stored = kilo("x");
  const seq = seqOf(first(await house.journal.append([stored])));
  await house.journal.append([kilo("x"), kilo("x")]);
  expect(await bytes()).toBe(1_000);
  house.journal.mark({ seq, outcome: "dead", reason: "gave up", atMs: NOW_MS });
  await house.journal.append([kilo("x", 400)]); // in the place of what was given up
  expect(await bytes()).toBe(400);
  house.journal.mark({ seq, outcome: "dead", reason: "gave up", atMs: NOW_MS });
  expect(await house.journal.ask("drop", { ids: [stored.id] })).toEqual({ count: 1 });
  expect(await bytes()).toBe(0);
  await house.restart();
  expect(await bytes()).toBe(0);
});

test("a full file is refused as full; retention makes room in the reserve and the next delivery fits", async () => {
  await using house = await open();
  const big = () => one({ body: new Uint8Array(200_000) });
  const seqs = (await house.journal.append([big(), big(), big(), big()])).map(seqOf);
  expect(statSync(`${house.path}-reserve`).size).toBeGreaterThan(1 << 20);
  const other = new Database(house.path);
  const { page_count } = other.query<{ page_count: number }, []>("pragma page_count").get() ?? { page_count: 0 };
  other.close();
  await house.journal.stop();
  expect(page_count).toBeGreaterThan(190);
  // The same file with a limit at its present size: SQLite answers exactly as on a full disk.
  const { openJournalStore } = await import("../../src/hooks/journal-store.ts");
  const store = openJournalStore(house.path, LIMITS);
  store.db.run(`pragma max_page_count = ${page_count}`);
  const commit = (append: Append) => store.commit({ appends: [append], marks: [], rejections: [] });
  expect(() => commit(big())).toThrow("full");
  expect(store.db.query("select count(*) as n from deliveries").get()).toEqual({ n: 4 });
  for (const seq of seqs) store.db.run("update deliveries set status = 'done' where seq = ?", [seq]);
  store.retention.sweep(NOW_MS); // the reserve is back once there is room
  expect(commit(big()).length).toBe(1);
  expect(statSync(`${house.path}-reserve`).size).toBeGreaterThan(1 << 20); // for the next time
  store.close();
});

test("rows older than their age go, dead letters stay longer, undone ones stay for ever", async () => {
  await using house = await open();
  const appended = await house.journal.append([one(), one(), one()]);
  house.journal.mark(done(seqOf(first(appended))));
  house.journal.mark({ seq: seqOf(appended[1] ?? first([])), outcome: "dead", reason: "x", atMs: NOW_MS });
  await house.journal.stop();
  const { openJournalStore } = await import("../../src/hooks/journal-store.ts");
  const store = openJournalStore(house.path, LIMITS);
  const left = () =>
    store.db
      .query<{ status: string }, []>("select status from deliveries order by seq")
      .all()
      .map(({ status }) => status);
  store.retention.sweep(NOW_MS + 7 * DAY_MS);
  expect(left()).toEqual(["done", "dead", "pending"]);
  store.retention.sweep(NOW_MS + 7 * DAY_MS + 1);
  expect(left()).toEqual(["dead", "pending"]);
  store.retention.sweep(NOW_MS + 28 * DAY_MS + 1);
  expect(left()).toEqual(["pending"]);
  store.close();
});

test("the rejection log keeps a thousand rows", async () => {
  await using house = await open();
  for (let index = 0; index < 1_005; index++) {
    house.journal.reject({
      atMs: index,
      source: "github",
      stage: "verify",
      verdict: "mismatch",
      status: 401,
      method: "POST",
      path: "/",
      address: "",
      bytes: 0,
      headers: [],
    });
    if (index === 500) await house.journal.ask("counts", {});
  }
  const rows = await house.journal.ask("rejections", { source: null, limit: 5_000 });
  expect([rows.length, rows[0]?.atMs, rows.at(-1)?.atMs]).toEqual([1_000, 1_004, 5]);
  expect(await house.journal.ask("rejections", { source: "stripe", limit: 10 })).toEqual([]);
});

test("refused requests that wait to be written down are bounded too", async () => {
  await using house = await open();
  const rejection = { source: "github", stage: "verify", verdict: "mismatch", status: 401, method: "POST", path: "/" };
  for (let atMs = 0; atMs < 1_005; atMs++)
    house.journal.reject({ ...rejection, atMs, address: "", bytes: 0, headers: [] });
  await house.journal.ask("counts", {});
  const outside = new Database(house.path, { readonly: true });
  expect(outside.query("select max(seq) as n, min(at_ms) as ms from rejections").get()).toEqual({ n: 1_000, ms: 5 });
  outside.close();
});

test("a stopped journal refuses instead of waiting for ever", async () => {
  await using house = await open();
  await house.journal.stop();
  await expect(house.journal.append([one()])).rejects.toThrow("stopping");
});

test("five thousand deliveries at once are all stored, in far fewer commits", async () => {
  await using house = await open();
  const posted = spyOn(Worker.prototype, "postMessage");
  const appended = await Promise.all(Array.from({ length: 5_000 }, () => house.journal.append([one()])));
  expect(new Set(appended.map((it) => seqOf(first(it)))).size).toBe(5_000);
  expect(posted.mock.calls.filter(([message]) => message.type === "commit").length).toBe(6); // the first alone, then a thousand each
  posted.mockRestore();
});
