// Agents that do harm, each beside a healthy one that never notices.
import { describe, expect, test } from "bun:test";
import { createReport } from "../../src/agents/runtime/reports.ts";
import { type Errand, restMs } from "../../src/agents/seat.ts";
import { failure, startAgents, until } from "../support/agents.ts";

const HEALTHY = `
import { Agent, callable } from "gatehouse";
export class Healthy extends Agent<unknown, { count: number }> {
  initialState = { count: 0 };
  @callable() add() { this.setState({ count: this.state.count + 1 }); return this.state.count; }
}`;
const BAD = `
import { Agent, callable } from "gatehouse";
import { parentPort } from "node:worker_threads";
export class Bad extends Agent {
  @callable() hello() { return "hello"; }
  @callable() late(ms: number) { return new Promise((done) => setTimeout(done, ms)); }
  @callable() hang() { return new Promise(() => {}); }
  @callable() loop() { for (;;); }
  @callable() endlessSql() { return this.sql\`with recursive n(x) as (select 1 union all select x + 1 from n) select max(x) from n\`; }
  @callable() exit() { process.exit(1); }
  @callable() flood() {
    const text = "x".repeat(1024 * 1024);
    let sent = 0;
    try { for (;;) { this.broadcast(text); sent++; } } catch (error) { return [sent, error.message]; }
  }
  @callable() post() {
    const outcomes = [];
    for (const way of [() => postMessage("raw"), () => self.postMessage("raw"), () => parentPort.postMessage("raw")]) {
      try { way(); outcomes.push("sent"); } catch { outcomes.push("refused"); }
    }
    return outcomes;
  }
  @callable() environment() { return [Object.keys(process.env), Object.keys(this.env as object)]; }
  async onRequest() { return new Response(new Uint8Array(50 * 1024 * 1024)); }
}
export class Unstartable extends Agent { onStart() { throw new Error("cannot start"); } @callable() hello() {} }
export class Sleepy extends Agent { onStart() { return new Promise(() => {}); } @callable() hello() {} }`;
const FILES = { "healthy.ts": HEALTHY, "bad.ts": BAD };
type Started = Awaited<ReturnType<typeof startAgents>>;

/** A client that only notes how it was closed. */
function connect(agents: Started, className: string, name: string): number[] {
  const closes: number[] = [];
  const ws = { send() {}, close: (code?: number) => void closes.push(code ?? 0), subscribe() {}, publish() {} };
  const url = `http://test/agents/${className}/${name}`;
  agents.connect(className, name, { ws, id: "x", url, headers: [], mayEdit: true, mayWriteState: true });
  return closes;
}

/** Calls the healthy agent all the while, and says how many of its answers were wrong. */
async function beside(agents: Started, harm: () => Promise<void>): Promise<number> {
  let over = false;
  let expected = 0;
  let wrong = 0;
  const calls = (async () => {
    while (!over) if ((await agents.call("healthy", "a", "add", [])) !== ++expected) wrong++;
  })();
  await harm();
  over = true;
  await calls;
  expect(expected).toBeGreaterThan(0);
  return wrong;
}

describe("a thread that does not let go", () => {
  test("an endless loop is ended by the watchdog; its callers hear of it and the agent starts again", async () => {
    await using agents = await startAgents({ files: FILES, limits: { heartbeatMsMax: 2_000 } });
    await agents.call("bad", "a", "hello", []);
    const wrong = await beside(agents, async () => {
      expect((await failure(agents.call("bad", "a", "loop", []))).code).toBe("agent.gone");
      expect(await agents.call("bad", "a", "hello", [])).toBe("hello");
    });
    expect(wrong).toBe(0);
    expect(agents.lines.some((line) => line.event === "agent.stalled")).toBe(true);
  }, 20_000);

  test("an endless SQL statement cannot be ended: it is shown as stuck, counts, and its database is left alone", async () => {
    const agents = await startAgents({ files: FILES, limits: { heartbeatMsMax: 2_000, stopMsMax: 300 } });
    await agents.call("bad", "a", "hello", []);
    const wrong = await beside(agents, async () => {
      expect((await failure(agents.call("bad", "a", "endlessSql", []))).code).toBe("agent.gone");
      await until(() => agents.roster.seat("bad", "a")?.phase === "stuck");
      expect((await failure(agents.call("bad", "a", "hello", []))).code).toBe("agent.stuck");
      expect(agents.roster.threadCount).toBe(2);
      expect(await agents.call("bad", "b", "hello", [])).toBe("hello");
      for (const event of ["agent.stalled", "agent.stuck"])
        expect(agents.lines.filter((line) => line.event === event).length).toBe(1);
      expect((await failure(agents.destroy("bad", "a"))).code).toBe("agent.stuck");
      expect((await failure(agents.destroy("bad", "a"))).code).toBe("agent.stuck");
    });
    expect(wrong).toBe(0);
    // Stopping does not wait for it for ever; the thread itself ends with the process.
    await agents.stop();
  }, 20_000);
});

describe("a thread that ends", () => {
  test("exiting ends the agent's own thread; after three times it rests, and says for how long", async () => {
    await using agents = await startAgents({ files: FILES });
    const wrong = await beside(agents, async () => {
      for (let times = 0; times < 3; times++) {
        expect((await failure(agents.call("bad", "a", "exit", []))).code).toBe("agent.gone");
      }
      const rests = await failure(agents.call("bad", "a", "hello", []));
      expect([rests.code, rests.headers]).toEqual(["agent.resting", { "retry-after": String(restMs(3) / 1000) }]);
      expect(await agents.call("bad", "b", "hello", [])).toBe("hello");
      expect(await until(() => agents.call("bad", "a", "hello", []).catch(() => undefined))).toBe("hello");
    });
    expect(wrong).toBe(0);
  });

  test("one that throws in onStart fails its callers, each start anew, and logs why", async () => {
    await using agents = await startAgents({ files: FILES });
    expect((await failure(agents.call("unstartable", "a", "hello", []))).code).toBe("agent.failed");
    expect((await failure(agents.call("unstartable", "a", "hello", []))).code).toBe("agent.failed");
    await until(() => agents.roster.threadCount === 0);
    const crashes = agents.lines.filter((line) => line.event === "agent.crashed");
    expect(crashes).toMatchObject([
      { message: "cannot start", crashes: 1 },
      { message: "cannot start", crashes: 2 },
    ]);
    const closes = connect(agents, "unstartable", "b");
    await until(() => closes.length > 0);
    expect(closes).toEqual([1011]); // it comes back by itself
  });

  test("one whose onStart never ends is slow, not busy for ever", async () => {
    await using agents = await startAgents({ files: FILES, limits: { handlerMsMax: 150, stopMsMax: 100 } });
    expect((await failure(agents.call("sleepy", "a", "hello", []))).code).toBe("agent.slow");
    await until(() => agents.roster.threadCount === 0);
    expect(agents.lines.find((line) => line.event === "agent.crashed")?.message).toContain("onStart");
  });

  test("a method that never ends keeps its agent awake no longer than a handler may take", async () => {
    await using agents = await startAgents({ files: FILES, limits: { handlerMsMax: 150, idleMs: 50 } });
    expect((await failure(agents.call("bad", "a", "hang", []))).code).toBe("agent.slow");
    await until(() => agents.roster.threadCount === 0);
    expect(await agents.call("bad", "a", "hello", [])).toBe("hello");
    expect(agents.lines.filter((line) => line.event === "agent.crashed")).toEqual([]);
  });

  test("nor does one that ends after all, when nobody waits for it any more", async () => {
    await using agents = await startAgents({ files: FILES, limits: { handlerMsMax: 150, idleMs: 700 } });
    expect((await failure(agents.call("bad", "a", "late", [300]))).code).toBe("agent.slow");
    await until(() => agents.roster.threadCount === 0);
  });
});

describe("a thread that pours", () => {
  test("a flood of messages is refused inside the thread at the bound, even in one synchronous loop", async () => {
    await using agents = await startAgents({ files: FILES, limits: { outputBytesMax: 4 * 1024 * 1024 } });
    await agents.call("bad", "a", "hello", []);
    connect(agents, "bad", "a");
    const wrong = await beside(agents, async () => {
      const [sent, message] = (await agents.call("bad", "a", "flood", [])) as [number, string];
      expect(sent).toBe(3);
      expect(message).toContain("Too much is waiting");
      expect(await agents.call("bad", "a", "flood", [])).toEqual([3, message]); // what has left has left
    });
    expect(wrong).toBe(0);
  });

  test("errors are told to the log, twenty in a second; the rest are counted with the next one", () => {
    let nowMs = 0;
    const told: unknown[] = [];
    const report = createReport(
      (message) => told.push(message.type === "problem" ? message.problem : message),
      () => nowMs,
    );
    for (let index = 0; index < 25; index++) report(new Error(`error ${index}`));
    expect(told.length).toBe(20);
    nowMs = 1_000;
    report(new Error("later"));
    expect(told.at(-1)).toMatchObject({ message: "later", untold: 5 });
    report(new Error("last"));
    expect(told.at(-1)).not.toHaveProperty("untold");
  });

  test("no other way to the main thread is open", async () => {
    await using agents = await startAgents({ files: FILES });
    expect(await agents.call("bad", "a", "post", [])).toEqual(["refused", "refused", "refused"]);
  });

  test("a body of fifty megabytes waits in the thread for a reader who is slow", async () => {
    await using agents = await startAgents({ files: FILES });
    const wrong = await beside(agents, async () => {
      const answer = await agents.fetch("bad", "a");
      const reader = answer.body?.getReader();
      await reader?.read();
      const before = process.memoryUsage().rss;
      for (let turns = 0; turns < 20; turns++) await agents.call("bad", "a", "hello", []);
      expect(process.memoryUsage().rss - before).toBeLessThan(20 * 1024 * 1024);
      await reader?.cancel();
    });
    expect(wrong).toBe(0);
  });
});

test("a thread inherits nothing of the process's environment", async () => {
  await using agents = await startAgents({
    files: FILES,
    secretsOf: (className): Record<string, string> => (className === "bad" ? { KEY: "v" } : {}),
  });
  expect(await agents.call("bad", "a", "environment", [])).toEqual([[], ["KEY"]]);
});

test("an errand is always given or refused", async () => {
  await using agents = await startAgents({ files: FILES, limits: { stopMsMax: 100 } });
  const outcomes: string[] = [];
  const errand: Errand = { give: () => outcomes.push("given"), refuse: (error) => outcomes.push(error.code) };
  for (const [className, name] of [
    ["healthy", "a"],
    ["nobody", "a"],
    ["healthy", "a"],
  ] as const)
    agents.roster.enter(className, name, errand);
  await until(() => outcomes.length === 3);
  expect(outcomes.sort()).toEqual(["agent.class", "given", "given"]);
});
