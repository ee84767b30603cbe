// From the journal to the agents, with a clock and agents of the test's choice; then with real threads and restarts.
import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type Answer,
  ATTEMPTS_MAX,
  createDispatch,
  type Deliver,
  jittered,
  type Outcome,
} from "../../src/hooks/dispatch.ts";
import { createJournal, type Journal } from "../../src/hooks/journal.ts";
import type { Append } from "../../src/hooks/journal-schema.ts";
import { AppError, type ErrorCode } from "../../src/platform/errors.ts";
import { createLog } from "../../src/platform/log.ts";
import { until } from "../support/agents.ts";
import { tempFolder } from "../support/house.ts";
import { temporaryFolder } from "../support/temporary.ts";
import { eventsOf, sendGeneric, sendGithub, startHookHouse } from "../support/webhooks.ts";
import { withAgents } from "../support/with-agents.ts";

const WORKER = new URL("../../src/hooks/journal-worker.ts", import.meta.url);
const HOUR_MS = 3_600_000;
const silent = createLog({ level: "silent", pretty: false, now: Date.now, write() {} });
const answer = (status: number): Answer => ({ status, headers: [], body: new Uint8Array(0) });

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A journal and a dispatch whose clock only moves when the test says so. */
function openDispatch(deliver: Deliver) {
  const folder = temporaryFolder();
  const real = createJournal(WORKER, join(folder.path, "journal.db"), { bytesMax: 1 << 30, ageMsMax: 1e12 });
  let asked = 0;
  let failing = false;
  const hurried: boolean[] = [];
  const journal: Journal = {
    ...real,
    mark(one, when) {
      hurried.push(when === "now");
      real.mark(one, when);
    },
    ask(question, input) {
      asked++;
      return failing && question === "take" ? Promise.reject(new AppError("hook.journal")) : real.ask(question, input);
    },
  };
  const outcomes: Outcome[] = [];
  let waiting: { count: number; resolve: () => void } | undefined;
  let nowMs = 1_700_000_000_000;
  const dispatch = createDispatch({
    journal,
    deliver,
    optionsOf: () => ({}),
    originOf: () => "http://test",
    now: () => nowMs,
    random: () => 0.5,
    log: silent,
    onOutcome: (outcome) => {
      outcomes.push(outcome);
      if (waiting && outcomes.length >= waiting.count) waiting.resolve();
    },
  });
  return {
    journal,
    dispatch,
    outcomes,
    asked: () => asked,
    /** Asks what is due, and has begun it when it resolves. */
    async pumped() {
      const before = asked;
      while (asked === before) {
        await dispatch.pump();
        await turn();
      }
      await journal.ask("counts", {});
    },
    failTaking: (fails: boolean) => {
      failing = fails;
    },
    hurried,
    now: () => nowMs,
    advance: (ms: number) => {
      nowMs += ms;
    },
    /** Resolves when that many attempts have ended in all. */
    async ended(count: number) {
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting = { count, resolve };
      if (outcomes.length >= count) resolve();
      await promise;
    },
    async store(): Promise<void> {
      await journal.append([delivery(nowMs)]);
      await dispatch.start();
    },
    row: async () => (await journal.ask("list", { filter: {}, before: null, limit: 1 }))[0],
    async [Symbol.asyncDispose]() {
      dispatch.stop();
      await journal.stop();
      folder[Symbol.dispose]();
    },
  };
}

const delivery = (receivedMs: number): Append => ({
  id: Bun.randomUUIDv7(),
  source: "generic",
  className: "webhook-agent",
  identifier: "a",
  deliveryId: "d",
  type: "x",
  title: "x",
  method: "POST",
  path: "/webhooks/a",
  address: "",
  headers: "[]",
  body: new Uint8Array(0),
  receivedMs,
  status: "pending",
  ordered: false,
});

test("ten attempts over about a day, then a dead letter with the reason", async () => {
  let calls = 0;
  await using it = openDispatch(async () => {
    calls++;
    return answer(503);
  });
  const startMs = it.now();
  await it.store();
  for (let attempt = 2; ; attempt++) {
    await it.ended(calls);
    const row = await it.row();
    if (row?.status !== "pending") break;
    expect([row.attempts, row.answer]).toEqual([attempt, 503]); // the attempt that stored it counts as the first
    it.advance(row.due_ms - it.now() - 1);
    await it.dispatch.pump();
    expect(calls).toBe(attempt - 1);
    it.advance(1);
    await it.dispatch.pump();
  }
  const row = await it.row();
  expect([row?.status, row?.attempts, row?.reason]).toEqual(["dead", ATTEMPTS_MAX, "the agent answered 503"]);
  expect(it.hurried.indexOf(true)).toBe(it.hurried.length - 1); // a restart would end it in its own words
  const hours = (it.now() - startMs) / HOUR_MS;
  expect(hours).toBeGreaterThan(20);
  expect(hours).toBeLessThan(28);
});

test.each([
  ["agent.busy", true],
  ["agent.broken", true],
  ["agent.class", true],
  ["agent.resting", true],
  ["server.stopping", true],
  ["agent.gone", false],
  ["agent.slow", false],
  ["agent.failed", false],
] as [ErrorCode, boolean][])("%s costs no attempt: %p", async (code, free) => {
  await using it = openDispatch(async () => {
    throw new AppError(code);
  });
  await it.store();
  await it.ended(1);
  const row = await it.row();
  expect([row?.status, row?.attempts]).toEqual(["pending", free ? 1 : 2]);
});

test("a replay's outcome is written at once: its agent would run it again after a crash", async () => {
  await using it = openDispatch(async () => answer(200));
  await it.store();
  await it.ended(1);
  const { id } = (await it.row()) ?? {};
  await it.journal.ask("replay", { filter: {}, ids: [id ?? ""], nowMs: it.now(), limit: 1 });
  await it.dispatch.pump();
  await it.ended(2);
  expect(it.hurried).toEqual([false, true]);
});

test("an agent that was destroyed meanwhile ends it", async () => {
  await using it = openDispatch(async () => {
    throw new AppError("agent.destroyed");
  });
  await it.store();
  await it.ended(1);
  expect([(await it.row())?.status, (await it.row())?.reason]).toEqual(["dead", "destroyed"]);
});

test("what is under way is not taken a second time", async () => {
  const gate = Promise.withResolvers<Answer>();
  let calls = 0;
  await using it = openDispatch(() => {
    calls++;
    return gate.promise;
  });
  await it.store();
  it.advance(2 * HOUR_MS); // past the lease that a lost attempt would be found by
  await it.pumped();
  expect(calls).toBe(1);
  gate.resolve(answer(200));
  await it.ended(1);
  expect((await it.row())?.status).toBe("done");
});

test("more than a handful is all taken, and one that waits for another is not asked about all the time", async () => {
  let calls = 0;
  await using it = openDispatch(async () => {
    calls++;
    return answer(calls === 1 ? 500 : 200);
  });
  const line = (): Append => ({ ...delivery(it.now()), identifier: "line", ordered: true });
  await it.journal.append([line(), line()]);
  await it.journal.append(Array.from({ length: 250 }, () => delivery(it.now())));
  await it.dispatch.start();
  await it.ended(251);
  const asked = it.asked();
  await Bun.sleep(100);
  expect([calls, it.asked() - asked <= 2]).toEqual([251, true]);
});

test("a thousand are under way at a time, and the next begins when one of them ends", async () => {
  const gate = Promise.withResolvers<void>();
  await using it = openDispatch(async () => {
    await gate.promise;
    return answer(200);
  });
  await it.journal.append(Array.from({ length: 1_001 }, () => delivery(it.now())));
  await it.dispatch.start();
  while (it.dispatch.inFlight() < 1_000) await turn();
  await it.dispatch.pump();
  expect([it.dispatch.inFlight(), it.dispatch.room()]).toEqual([1_000, 0]);
  gate.resolve();
  await it.ended(1_001);
});

describe("by the clock", () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  const pass = (it: ReturnType<typeof openDispatch>, ms: number): void => {
    it.advance(ms);
    jest.advanceTimersByTime(ms);
  };

  test("each is tried again at its own time, whichever failed first", async () => {
    const tried: string[] = [];
    await using it = openDispatch(async (_, name) => {
      tried.push(name);
      if (tried.length <= 2) throw new AppError(name === "soon" ? "agent.busy" : "agent.resting");
      return answer(200);
    });
    await it.journal.append(["soon", "later"].map((identifier) => ({ ...delivery(it.now()), identifier })));
    await it.dispatch.start();
    await it.ended(2);
    await it.pumped();
    pass(it, 1_000);
    await it.ended(3);
    expect(tried).toEqual(["soon", "later", "soon"]);
    await it.pumped();
    pass(it, 4_000);
    await it.ended(4);
    expect(tried).toEqual(["soon", "later", "soon", "later"]);
  });

  test("a journal that fails to say what is due is asked again", async () => {
    await using it = openDispatch(async () => answer(200));
    it.failTaking(true);
    await it.store();
    expect(it.outcomes).toEqual([]);
    it.failTaking(false);
    pass(it, 9_000);
    await it.ended(1);
  });
});

test("one that waits for the one before it goes next, whatever its source says by then", async () => {
  const gate = Promise.withResolvers<Answer>();
  await using it = openDispatch(() => gate.promise);
  const line = { ...delivery(it.now()), ordered: true };
  await it.journal.append([line, { ...line, id: Bun.randomUUIDv7() }]);
  await it.dispatch.start();
  gate.resolve(answer(200));
  await it.ended(2);
  expect(it.outcomes.map(({ status }) => status)).toEqual(["done", "done"]);
});

test("what is taken while it stops is not begun, and costs no attempt", async () => {
  let calls = 0;
  await using it = openDispatch(async () => {
    calls++;
    return answer(200);
  });
  await it.journal.append([delivery(it.now())]);
  const started = it.dispatch.start();
  it.dispatch.stop();
  await started;
  expect([calls, (await it.row())?.attempts]).toEqual([0, 1]);
  const again = it.dispatch.start();
  while (it.asked() < 4) await turn(); // until it asks what is due
  it.dispatch.stop();
  await again;
  expect([calls, (await it.row())?.attempts]).toEqual([0, 1]);
});

test("jitter is a fifth either way", () => {
  expect([jittered(1_000, 0), jittered(1_000, 0.5), jittered(1_000, 1)]).toEqual([800, 1_000, 1_200]);
});

describe("in a whole house", () => {
  test("a hundred deliveries to code that does not load are all processed once it is mended", async () => {
    await using house = await withAgents({ "repo.ts": "export class Repo extends {" });
    await house.api("PATCH", "/api/hooks/sources/github", { class: "repo" });
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, index) => sendGithub(house, "a/b", { id: `d-${index}` })),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    const waiting = await house.api("GET", "/api/hooks/deliveries?status=pending&limit=200");
    expect(waiting.body.result.map(({ attempts }: { attempts: number }) => attempts)).toEqual(
      Array.from({ length: 100 }, () => 0),
    );
    writeFileSync(
      join(house.folder, "agents", "repo.ts"),
      `import { WebhookAgent } from "gatehouse";
       export class Repo extends WebhookAgent {
         onEvent(event) { this.sql\`create table if not exists runs (id text)\`; this.sql\`insert into runs values (\${event.id})\`; }
         runs() { return this.sql\`select id from runs\`.length; }
       }`,
    );
    await until(
      async () => (await house.api("GET", "/api/hooks/deliveries?status=done&limit=200")).body.result.length === 100,
    );
    expect((await eventsOf(house, "a-b", "repo")).length).toBe(100);
    expect(await house.parts.agents.call("repo", "a-b", "runs", [], "agent")).toBe(100);
  }, 60_000);

  test("what was accepted and not done is delivered at once after a restart", async () => {
    const folder = tempFolder();
    const files = {
      "slow.ts": `import { WebhookAgent } from "gatehouse";
       import { existsSync } from "node:fs";
       export class Slow extends WebhookAgent {
         async onEvent() { if (!existsSync(${JSON.stringify(join(folder, "go"))})) throw new Error("not yet"); }
       }`,
    };
    {
      const house = await withAgents(files, { folder });
      await house.api("PATCH", "/api/hooks/sources/generic", { class: "slow" });
      for (let index = 0; index < 5; index++) {
        expect((await sendGeneric(house, "/webhooks/x", "{}", { "x-delivery-id": `d-${index}` })).status).toBe(202);
      }
      await house.stop();
    }
    writeFileSync(join(folder, "go"), "");
    await using house = await startHookHouse({ folder });
    await until(async () => (await house.api("GET", "/api/hooks/deliveries?status=done")).body.result.length === 5);
    expect((await eventsOf(house, "x", "slow")).length).toBe(5);
  }, 60_000);

  test("a handler that ends while the server stops is done: its outcome is written before the journal closes", async () => {
    const files = {
      "slow.ts": `import { WebhookAgent } from "gatehouse";
       export class Slow extends WebhookAgent {
         async onEvent() { await new Promise((resolve) => setTimeout(resolve, 500)); }
       }`,
    };
    const house = await withAgents(files);
    await house.api("PATCH", "/api/hooks/sources/generic", { class: "slow", ack_ms: 50 });
    expect((await sendGeneric(house, "/webhooks/x", "{}")).status).toBe(202);
    await house.stop();
    const journal = new Database(join(house.folder, "data", "journal.db"), { readonly: true });
    expect(journal.query("select status, attempts from deliveries").all()).toEqual([{ status: "done", attempts: 1 }]);
    journal.close();
    rmSync(house.folder, { recursive: true });
  });

  test("an ordered source waits for the one before; an unordered one overtakes", async () => {
    const files = {
      "line.ts": `import { WebhookAgent } from "gatehouse";
       export class Line extends WebhookAgent {
         async onEvent(event) {
           if (event.id === "first" && event.attempt === 1) throw new Error("not now");
           this.setState({ ...this.state, order: [...(this.state.order ?? []), event.id] });
         }
       }`,
    };
    await using house = await withAgents(files);
    const order = async (name: string) =>
      (await house.api("GET", `/api/agents/line/${name}/state`)).body.result.state.order;
    await house.api("PATCH", "/api/hooks/sources/generic", { class: "line", ordered: true });
    expect((await sendGeneric(house, "/webhooks/kept", "{}", { "x-delivery-id": "first" })).status).toBe(202);
    expect((await sendGeneric(house, "/webhooks/kept", "{}", { "x-delivery-id": "second" })).status).toBe(202);
    expect((await sendGeneric(house, "/webhooks/other", "{}", { "x-delivery-id": "second" })).status).toBe(200);
    house.parts.hooks.hasten(["line"]);
    await until(async () => (await house.api("GET", "/api/hooks/deliveries?status=done")).body.result.length === 3);
    expect(await order("kept")).toEqual(["first", "second"]);
    await house.api("PATCH", "/api/hooks/sources/generic", { ordered: false });
    expect((await sendGeneric(house, "/webhooks/free", "{}", { "x-delivery-id": "first" })).status).toBe(202);
    expect((await sendGeneric(house, "/webhooks/free", "{}", { "x-delivery-id": "second" })).status).toBe(200);
    expect(await order("free")).toEqual(["second"]);
  }, 60_000);

  test("a class of its own that is no WebhookAgent sees each delivery once, and again on replay", async () => {
    const files = {
      "plain.ts": `import { Agent } from "gatehouse";
       export class Plain extends Agent {
         initialState = { runs: 0 };
         async onRequest() { await new Promise((resolve) => setTimeout(resolve, 20)); this.setState({ runs: this.state.runs + 1 }); return new Response("done"); }
       }`,
    };
    await using house = await withAgents(files);
    const { deliver } = house.parts.agents;
    const facts = { source: "generic", verdict: "ok", id: "once", type: "x" };
    const once = (more = {}) =>
      deliver("plain", "p", {
        method: "POST",
        url: "http://x/",
        headers: [],
        body: new Uint8Array(0),
        facts: { ...facts, ...more },
      });
    const bodies = await Promise.all([once(), once(), once()]);
    expect(bodies.map(({ body }) => Buffer.from(body).toString()).sort()).toEqual([
      "done",
      '{"status":"duplicate"}',
      '{"status":"duplicate"}',
    ]);
    await once();
    await once({ source: "other" });
    await once({ replay: true });
    expect((await house.api("GET", "/api/agents/plain/p/state")).body.result.state.runs).toBe(3);
  });

  test("destroying an agent turns what waits for it into dead letters, and a later delivery starts afresh", async () => {
    await using house = await startHookHouse();
    await sendGithub(house, "a/b");
    await house.api("POST", "/api/hooks/sources/github/pause");
    await sendGithub(house, "a/b");
    await house.api("DELETE", "/api/agents/webhook-agent/a-b");
    await until(async () => (await house.api("GET", "/api/hooks/deliveries?status=dead")).body.result.length === 1);
    await house.api("POST", "/api/hooks/sources/github/resume");
    expect((await sendGithub(house, "a/b")).status).toBe(200);
    expect((await eventsOf(house, "a-b")).length).toBe(1);
  });
});
