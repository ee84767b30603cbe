// The queue, schedules, retries and fibers of one agent.
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { parseRetry, RETRY, retryDelayMs } from "../../src/agents/runtime/retry.ts";
import { failure, startAgents, until } from "../support/agents.ts";

const JOBS = `
import { Agent, callable } from "gatehouse";
export class Jobs extends Agent {
  static options = { retry: { maxAttempts: 3, baseDelayMs: 1, maxDelayMs: 5 } };
  onStart() { this.sql\`create table if not exists seen (what text)\`; }
  see(what: string) { this.sql\`insert into seen values (\${what})\`; }
  @callable() seen() { return this.sql<{ what: string }>\`select what from seen order by rowid\`.map((row) => row.what); }
  @callable() push(callback: string, payload: unknown, options?: object) { return this.queue(callback, payload, options); }
  @callable() pushMany(callback: string, payloads: unknown[]) { for (const one of payloads) this.queue(callback, one); }
  @callable() plan(when: number | string, payload: unknown, options?: object) { return this.schedule(when, "work", payload, options); }
  @callable() planDate(ms: number) { return this.schedule(new Date(ms), "work", "dated"); }
  @callable() every(seconds: number) { return this.scheduleEvery(seconds, "work", "tick"); }
  @callable() plans(criteria?: object) { return this.listSchedules(criteria); }
  @callable() cancel(id: string) { return this.cancelSchedule(id); }
  @callable() queues(key: string, value: unknown) { return this.getQueues(key, value); }
  @callable() drop(id: string) { return this.dequeue(id); }
  @callable() dropAll(callback?: string) { return callback ? this.dequeueAllByCallback(callback) : this.dequeueAll(); }
  work(payload: unknown) { this.see("work " + JSON.stringify(payload)); }
  async slow(payload: unknown) { this.see("begin " + payload); await new Promise((done) => setTimeout(done, 20)); this.see("end " + payload); }
  gate = Promise.withResolvers<void>();
  @callable() open() { this.gate.resolve(); }
  async gated(payload: unknown) { this.see("begin " + payload); await this.gate.promise; this.see("end " + payload); }
  fail(payload: string) { this.see("fail " + payload); throw new Error("always " + payload); }
  flaky(payload: string) { this.see("try " + payload); if (this.seen().filter((what) => what === "try " + payload).length < 3) throw new Error("not yet"); }
  @callable() async tries(attempts: number, options: object) {
    let count = 0;
    const result = await this.retry(async (attempt) => { count = attempt; if (attempt < attempts) throw new Error("again"); return "done"; }, options);
    return [result, count];
  }
  @callable() async fiber(key: string, fail = false) {
    return this.startFiber("job", async (fiber) => { fiber.stash({ at: 1 }); this.stash({ at: 2 }); if (fail) throw new Error("broke"); this.see("fiber"); },
      { idempotencyKey: key, metadata: { m: 1 }, waitForCompletion: true });
  }
  @callable() inspect(key: string) { return this.inspectFiberByKey(key); }
}`;
const FILES = { "jobs.ts": JOBS };
type Seen = string[];

describe("retries, as numbers", () => {
  test.each([
    [{ maxAttempts: 0 }, "maxAttempts"],
    [{ maxAttempts: 1.5 }, "maxAttempts"],
    [{ maxAttempts: 1001 }, "maxAttempts"],
    [{ baseDelayMs: 0 }, "baseDelayMs"],
    [{ baseDelayMs: 5_000 }, "must not exceed"],
    [{ maxDelayMs: Number.NaN }, "maxDelayMs"],
  ])("%j is refused where it is written", (options, words) => {
    expect(() => parseRetry(options, RETRY)).toThrow(words);
  });

  test("the delay doubles up to its bound and is jittered down to nothing", () => {
    const most = [1, 2, 3, 6].map((attempt) => retryDelayMs(attempt, RETRY, () => 0.999999));
    expect(most).toEqual([199, 399, 799, 2_999]);
    expect(retryDelayMs(5, RETRY, () => 0)).toBe(0);
  });
});

describe("queue", () => {
  test("refuses a method that does not exist, and more than it may hold", async () => {
    await using agents = await startAgents({ files: FILES, limits: { queueMax: 2 } });
    const missing = await failure(agents.call("jobs", "a", "push", ["nothing", 1]));
    expect([missing.code, missing.message]).toEqual(["agent.call_failed", "Method nothing does not exist"]);
    await agents.call("jobs", "a", "push", ["gated", 1]);
    await agents.call("jobs", "a", "push", ["gated", 2]);
    expect((await failure(agents.call("jobs", "a", "push", ["gated", 3]))).message).toContain("full (2 items)");
    await agents.call("jobs", "a", "open", []);
  });

  test("runs one after the other, in order, also what was pushed without waiting", async () => {
    await using agents = await startAgents({ files: FILES });
    await agents.call("jobs", "a", "pushMany", ["slow", [1, 2, 3]]);
    await until(async () => ((await agents.call("jobs", "a", "seen", [])) as Seen).length === 6);
    expect(await agents.call("jobs", "a", "seen", [])).toEqual([
      "begin 1",
      "end 1",
      "begin 2",
      "end 2",
      "begin 3",
      "end 3",
    ]);
    expect(await agents.house("jobs", "a", "queue")).toEqual([]);
  });

  test("what was pushed without waiting is stored before the call is answered", async () => {
    await using agents = await startAgents({ files: FILES });
    await agents.call("jobs", "a", "pushMany", ["gated", [1, 2, 3]]);
    expect(((await agents.house("jobs", "a", "queue")) as unknown[]).length).toBe(3);
    await agents.call("jobs", "a", "open", []);
  });

  test("calls that push without waiting, side by side, are all answered", async () => {
    await using agents = await startAgents({ files: FILES });
    await Promise.all([1, 2, 3].map((index) => agents.call("jobs", "a", "pushMany", ["gated", [index]])));
    expect(((await agents.house("jobs", "a", "queue")) as unknown[]).length).toBe(3);
    await agents.call("jobs", "a", "open", []);
  });

  test("tries again in order, then keeps what failed as a dead letter that can be retried or dropped", async () => {
    await using agents = await startAgents({ files: FILES });
    await agents.call("jobs", "a", "push", ["flaky", "x"]);
    await agents.call("jobs", "a", "push", ["fail", "y", { id: "y1" }]);
    await agents.call("jobs", "a", "push", ["work", "z"]);
    const seen = await until(async () => {
      const all = (await agents.call("jobs", "a", "seen", [])) as Seen;
      return all.length === 7 && all;
    });
    expect(seen).toEqual(["try x", "try x", "try x", "fail y", "fail y", "fail y", 'work "z"']);
    expect(await agents.house("jobs", "a", "dead")).toMatchObject([
      { id: "y1", kind: "queue", callback: "fail", payload: "y", error: "always y", attempts: 3 },
    ]);
    expect(await agents.house("jobs", "a", "retryDead", "y1")).toBe(true);
    await until(async () => ((await agents.house("jobs", "a", "dead")) as unknown[]).length === 1);
    expect(((await agents.call("jobs", "a", "seen", [])) as Seen).length).toBe(10);
    expect(await agents.house("jobs", "a", "dropDead", "y1")).toBe(true);
    expect(await agents.house("jobs", "a", "dropDead", "y1")).toBe(false);
    await until(() => agents.lines.some((line) => line.event === "agent.error" && line.message === "always y"));
  });

  test("a dead letter that finds the queue full stays a dead letter", async () => {
    await using agents = await startAgents({ files: FILES, limits: { queueMax: 1 } });
    await agents.call("jobs", "a", "push", ["fail", "x", { id: "letter" }]);
    await until(async () => ((await agents.house("jobs", "a", "dead")) as unknown[]).length === 1);
    await agents.call("jobs", "a", "push", ["gated", "in the way"]);
    expect((await failure(agents.house("jobs", "a", "retryDead", "letter"))).message).toContain("full");
    expect(await agents.house("jobs", "a", "dead")).toMatchObject([{ id: "letter" }]);
    await agents.call("jobs", "a", "open", []);
  });

  test("the newest dead letters are kept, and no more than the bound", async () => {
    await using agents = await startAgents({ files: FILES, limits: { deadMax: 2 } });
    for (const id of ["x", "y", "z"]) {
      await agents.call("jobs", "a", "push", ["fail", id, { id }]);
      await until(async () => ((await agents.house("jobs", "a", "queue")) as unknown[]).length === 0);
    }
    expect(await agents.house("jobs", "a", "dead")).toMatchObject([{ id: "z" }, { id: "y" }]);
  });

  test("one that is replaced while it runs runs once more, as what replaced it", async () => {
    await using agents = await startAgents({ files: FILES });
    await agents.call("jobs", "a", "push", ["gated", "old", { id: "one" }]);
    await until(async () => ((await agents.call("jobs", "a", "seen", [])) as Seen).length === 1);
    await agents.call("jobs", "a", "push", ["work", "new", { id: "one" }]);
    await agents.call("jobs", "a", "open", []);
    await until(async () => ((await agents.call("jobs", "a", "seen", [])) as Seen).includes('work "new"'));
  });

  test("the same id replaces in place, and items can be found and removed", async () => {
    await using agents = await startAgents({ files: FILES });
    await agents.call("jobs", "a", "push", ["gated", "first"]);
    await agents.call("jobs", "a", "push", ["work", { k: 1 }, { id: "one" }]);
    await agents.call("jobs", "a", "push", ["work", { k: 2 }, { id: "two" }]);
    await agents.call("jobs", "a", "push", ["work", { k: 3 }, { id: "one" }]);
    expect(await agents.call("jobs", "a", "queues", ["k", 3])).toMatchObject([{ id: "one", callback: "work" }]);
    expect(await agents.call("jobs", "a", "drop", ["two"])).toBe(true);
    await agents.call("jobs", "a", "open", []);
    await until(async () => ((await agents.call("jobs", "a", "seen", [])) as Seen).length === 3);
    expect(await agents.call("jobs", "a", "seen", [])).toEqual(["begin first", "end first", 'work {"k":3}']);
  });
});

describe("schedules", () => {
  test.each([
    ["a negative delay", "plan", [-1, "x"], "0 or more"],
    ["a delay beyond every calendar", "plan", [1e13, "x"], "at most"],
    ["a date that is none", "planDate", [Number.NaN], "no valid date"],
    ["a cron line that is none", "plan", ["often", "x"], "CronPattern"],
    ["a date that never comes", "plan", ["0 0 30 2 *", "x"], "No valid next date was found"],
    ["an interval of nothing", "every", [0], "more than 0"],
    ["an interval beyond thirty days", "every", [2_592_001], "at most"],
    ["a time zone that is none", "plan", ["0 9 * * *", "x", { timezone: "Mars/Olympus" }], ""],
  ])("refuses %s", async (_, method, args, words) => {
    await using agents = await startAgents({ files: FILES });
    expect((await failure(agents.call("jobs", "a", method, args))).message).toContain(words);
  });

  test("refuses more than the bound", async () => {
    await using agents = await startAgents({ files: FILES, limits: { schedulesMax: 1 } });
    await agents.call("jobs", "a", "plan", [60, "x"]);
    expect((await failure(agents.call("jobs", "a", "plan", [60, "y"]))).message).toContain("at most 1");
  });

  test("a delay, a date and an interval run; a cron line knows its next time in its zone", async () => {
    await using agents = await startAgents({ files: FILES });
    await agents.call("jobs", "a", "plan", [0, "now"]);
    await agents.call("jobs", "a", "planDate", [Date.now() + 30]);
    await agents.call("jobs", "a", "every", [0.02]);
    await until(async () => {
      const seen = (await agents.call("jobs", "a", "seen", [])) as Seen;
      return (
        seen.includes('work "now"') &&
        seen.includes('work "dated"') &&
        seen.filter((what) => what === 'work "tick"').length > 4 // more than one of them has attempts
      );
    });
    const cron = (await agents.call("jobs", "a", "plan", ["30 9 * * *", "x", { timezone: "Asia/Tokyo" }])) as {
      time: number;
    };
    expect(new Date(cron.time * 1000).toISOString()).toEndWith("T00:30:00.000Z");
    const plans = (await agents.call("jobs", "a", "plans", [])) as { type: string }[];
    expect(plans.map((plan) => plan.type).sort()).toEqual(["cron", "interval"]);
  });

  test("cron and intervals are made once however often they are asked for; one-shots are not", async () => {
    await using agents = await startAgents({ files: FILES });
    for (let index = 0; index < 2; index++) {
      await agents.call("jobs", "a", "plan", ["0 9 * * *", "x"]);
      await agents.call("jobs", "a", "every", [600]);
      await agents.call("jobs", "a", "plan", [600, "x"]);
      await agents.call("jobs", "a", "plan", [600, "once", { idempotent: true }]);
    }
    const plans = (await agents.call("jobs", "a", "plans", [])) as { id: string; type: string }[];
    expect(plans.map((plan) => plan.type).sort()).toEqual(["cron", "delayed", "delayed", "delayed", "interval"]);
    const [cron] = (await agents.call("jobs", "a", "plans", [{ type: "cron" }])) as { id: string }[];
    expect(await agents.call("jobs", "a", "cancel", [cron?.id])).toBe(true);
    expect(await agents.call("jobs", "a", "cancel", [cron?.id])).toBe(false);
  });

  test("a cron line whose last time has come runs once more and is gone", async () => {
    await using agents = await startAgents({ files: FILES });
    const at = new Date(Date.now() + 1_500).toISOString().slice(0, 19);
    await agents.call("jobs", "a", "plan", [at, "last"]);
    await until(async () => ((await agents.call("jobs", "a", "plans", [])) as unknown[]).length === 0);
    expect(await agents.call("jobs", "a", "seen", [])).toEqual(['work "last"']);
    expect(agents.lines.filter((line) => line.level === "error")).toEqual([]);
  });

  test("eight run side by side, and the ninth when one of them has ended", async () => {
    await using agents = await startAgents({
      files: {
        "many.ts": `import { Agent, callable } from "gatehouse";
          export class Many extends Agent {
            running = 0; most = 0; gate = Promise.withResolvers<void>();
            @callable() async plan(count: number) { for (let index = 0; index < count; index++) await this.schedule(0, "gated", index); }
            async gated() { this.most = Math.max(this.most, ++this.running); await this.gate.promise; this.running--; }
            @callable() seen() { return [this.running, this.most, this.getSchedules().length]; }
            @callable() open() { this.gate.resolve(); }
          }`,
      },
    });
    const seen = () => agents.call("many", "a", "seen", []) as Promise<number[]>;
    await agents.call("many", "a", "plan", [9]);
    await until(async () => (await seen())[0] === 8);
    await agents.call("many", "a", "open", []);
    await until(async () => (await seen())[2] === 0);
    expect((await seen())[1]).toBe(8);
  });

  test("one that is cancelled while its last attempt fails leaves no dead letter", async () => {
    await using agents = await startAgents({
      files: {
        "fickle.ts": `import { Agent, callable } from "gatehouse";
          export class Fickle extends Agent {
            @callable() plan() { return this.schedule(0, "cancels", null, { retry: { maxAttempts: 1 } }); }
            async cancels(_: null, { id }) { await this.cancelSchedule(id); throw new Error("after all"); }
          }`,
      },
    });
    await agents.call("fickle", "a", "plan", []);
    await until(() => agents.lines.some((line) => line.event === "agent.error" && line.message === "after all"));
    expect(await agents.house("fickle", "a", "dead")).toEqual([]);
  });

  test("one whose attempt cannot be written down is tried again after a while, not in a loop", async () => {
    await using agents = await startAgents({
      files: {
        // A trigger that fails stands for a full disk, and counts.
        "full.ts": `import { Agent, callable } from "gatehouse";
          export class Full extends Agent {
            @callable() fill() {
              this.sql\`create table tries (at text)\`;
              this.ctx.storage.sql.exec("create trigger full before update on gatehouse_schedules begin insert into tries values (1); select raise(fail, 'no room'); end");
              return this.schedule(0, "work");
            }
            @callable() free() { this.sql\`drop trigger full\`; }
            @callable() tries() { return this.sql\`select count(*) as n from tries\`[0].n; }
            @callable() left() { return this.getSchedules().length; }
            work() {}
          }`,
      },
    });
    await agents.call("full", "a", "fill", []);
    await until(() => agents.lines.some((line) => line.event === "agent.error"));
    for (let turn = 0; turn < 50; turn++) await agents.call("full", "a", "left", []);
    expect(await agents.call("full", "a", "tries", [])).toBe(1);
    await agents.call("full", "a", "free", []);
    await until(async () => (await agents.call("full", "a", "left", [])) === 0);
  });

  test("a sleeping agent is woken when its time comes", async () => {
    await using agents = await startAgents({ files: FILES, limits: { idleMs: 20 } });
    await agents.call("jobs", "a", "plan", [1, "later"]);
    await until(() => agents.roster.threadCount === 0);
    await until(() => agents.roster.threadCount === 1);
    await until(async () => ((await agents.call("jobs", "a", "seen", [])) as Seen).includes('work "later"'));
    expect(await agents.call("jobs", "a", "plans", [])).toEqual([]);
  });
});

test("an agent that was woken for its work does it before it gives its thread to another", async () => {
  const slowly = `await Bun.sleep(200);\n${JOBS}`; // so that it is asked to sleep before it has started
  await using agents = await startAgents({
    files: { "jobs.ts": slowly },
    limits: { liveMax: 1, sparesMax: 0, idleMs: 50 },
  });
  await agents.call("jobs", "a", "plan", [1, "due"]);
  await until(() => agents.roster.threadCount === 0);
  await until(() => agents.roster.seat("jobs", "a")?.phase === "live");
  expect(await agents.call("jobs", "b", "seen", [])).toEqual([]);
  const database = new Database(agents.pathOf("jobs", "a"), { readonly: true });
  expect(database.query("select what from seen").all()).toEqual([{ what: 'work "due"' }]);
  database.close();
});

test("retry() tries as often as it may and no more", async () => {
  await using agents = await startAgents({ files: FILES });
  expect(await agents.call("jobs", "a", "tries", [3, {}])).toEqual(["done", 3]);
  expect((await failure(agents.call("jobs", "a", "tries", [3, { maxAttempts: 2 }]))).message).toBe("again");
});

test("a fiber is accepted once per key, keeps its last checkpoint, and tells how it ended", async () => {
  await using agents = await startAgents({ files: FILES });
  expect(await agents.call("jobs", "a", "fiber", ["k"])).toMatchObject({
    accepted: true,
    status: "completed",
    snapshot: { at: 2 },
  });
  expect(await agents.call("jobs", "a", "fiber", ["k"])).toMatchObject({ accepted: false, status: "completed" });
  expect(await agents.call("jobs", "a", "seen", [])).toEqual(["fiber"]);
  expect(await agents.call("jobs", "a", "fiber", ["bad", true])).toMatchObject({
    accepted: true,
    status: "error",
    error: "broke",
  });
  expect(await agents.call("jobs", "a", "inspect", ["k"])).toMatchObject({ metadata: { m: 1 }, idempotencyKey: "k" });
});
