// Threads come and go under the agents: bounded in number, asleep when idle, woken by whatever happens next.
import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { liveBound } from "../../src/agents/bounds.ts";
import { restMs } from "../../src/agents/seat.ts";
import { AppError } from "../../src/platform/errors.ts";
import { openClient, startAgentHouse } from "../support/agent-house.ts";
import { failure, startAgents, tempFolder, until } from "../support/agents.ts";

const COUNTER = `
import { Agent, callable } from "gatehouse";
let lives = 0;
export class Counter extends Agent<unknown, { count: number }> {
  initialState = { count: 0 };
  starts = 0;
  onStart() { lives++; this.starts++; this.sql\`create table if not exists starts (clients integer)\`; this.sql\`insert into starts values (\${[...this.getConnections()].length})\`; }
  @callable() clientsAtStart() { return this.sql\`select clients from starts order by rowid\`.map((row) => row.clients); }
  onConnect(connection) { connection.setState({ seen: 1 }); }
  onMessage(connection, message) { connection.setState({ seen: connection.state.seen + 1 }); connection.send(message + " " + connection.state.seen); }
  @callable() add() { this.setState({ count: this.state.count + 1 }); return this.state.count; }
  @callable() starts_() { return [lives, this.starts]; }
  @callable() async wait(ms: number) { await new Promise((done) => setTimeout(done, ms)); return "waited"; }
}`;
const FILES = { "counter.ts": COUNTER };
const code = (promise: Promise<unknown>) =>
  promise.then(
    () => "ok",
    (error) => error.code,
  );

describe("bounds", () => {
  test("the machine's descriptors and memory bound the threads, whatever the setting says", () => {
    const plenty = { descriptorsMax: 1_000_000, memoryBytes: 2 ** 40 };
    expect(liveBound(64, plenty)).toBe(64);
    expect(liveBound(64, { ...plenty, descriptorsMax: 300 })).toBe(20);
    expect(liveBound(64, { ...plenty, memoryBytes: 512 * 1024 * 1024 })).toBe(25);
    expect(liveBound(64, { descriptorsMax: 10, memoryBytes: 1 })).toBe(1);
  });

  test("the first two crashes cost no rest, then it doubles up to a minute", () => {
    expect([1, 2, 3, 4, 5, 8, 9, 50].map(restMs)).toEqual([0, 0, 1_000, 2_000, 4_000, 32_000, 60_000, 60_000]);
  });

  test("when every thread works, a request waits its time and is then refused as busy", async () => {
    await using agents = await startAgents({ files: FILES, limits: { liveMax: 2, waitMsMax: 100 } });
    const working = ["a", "b"].map((name) => agents.call("counter", name, "wait", [1_000]));
    expect(await code(agents.call("counter", "c", "add", []))).toBe("agent.busy");
    expect(await Promise.all(working)).toEqual(["waited", "waited"]);
    expect(await agents.call("counter", "c", "add", [])).toBe(1);
  });

  test("events beyond the inbox are refused while an agent has no thread", async () => {
    await using agents = await startAgents({ files: FILES, limits: { liveMax: 1, inboxMax: 2 } });
    const working = agents.call("counter", "a", "wait", [300]);
    const waiting = [1, 2].map(() => agents.call("counter", "b", "add", []));
    expect(await code(agents.call("counter", "b", "add", []))).toBe("agent.busy");
    expect(await Promise.all([working, ...waiting])).toEqual(["waited", 1, 2]);
  });
});

describe("hibernation", () => {
  test("an idle agent gives up its thread, and its next life starts from its database", async () => {
    await using agents = await startAgents({ files: FILES, limits: { idleMs: 50 } });
    expect(await agents.call("counter", "a", "add", [])).toBe(1);
    await until(() => agents.roster.threadCount === 0);
    expect(await agents.call("counter", "a", "starts_", [])).toEqual([1, 1]);
    expect(await agents.call("counter", "a", "add", [])).toBe(2);
  });

  test("an agent that is working is not put to sleep", async () => {
    await using agents = await startAgents({ files: FILES, limits: { idleMs: 20 } });
    expect(await agents.call("counter", "a", "wait", [400])).toBe("waited");
  });

  test("clients stay connected while it sleeps; a frame wakes it, and connection state is still there", async () => {
    await using house = await startAgentHouse({ files: FILES, agent: { idle_ms: 100 } });
    const token = house.token(["agents:edit"]);
    using one = openClient(house, "counter", "a", token);
    using two = openClient(house, "counter", "a", token);
    await Promise.all([one.ready, two.ready]);
    one.send("hello");
    await until(() => one.frames.some((frame) => frame.raw === "hello 2"));
    await until(() => house.parts.agents.roster.threadCount === 0);
    one.send("again");
    await until(() => one.frames.some((frame) => frame.raw === "again 3"));
    await until(() => house.parts.agents.roster.threadCount === 0);
    expect(await house.parts.agents.call("counter", "a", "add", [])).toBe(1);
    const atStart = (await house.parts.agents.call("counter", "a", "clientsAtStart", [])) as number[];
    expect([atStart[0], atStart.at(-1)]).toEqual([0, 2]); // the first life had not greeted anybody yet
    await until(() => two.frames.filter((frame) => frame.type === "cf_agent_state").length === 2);
    expect([one.closes, two.closes]).toEqual([[], []]);
    const identities = two.frames.filter((frame) => frame.type === "cf_agent_identity");
    expect(identities.length).toBe(1);
  });
});

test("a spare thread of the class is ready after the first wake, and its rehearsal is seen by nobody", async () => {
  const LISTENER = `
import { channel } from "node:diagnostics_channel";
import { Agent, callable } from "gatehouse";
const seen: unknown[] = [];
channel("agents:state").subscribe((event) => seen.push(event));
export class Listener extends Agent { @callable() seen() { return seen.length; } }`;
  await using agents = await startAgents({ files: { "listener.ts": LISTENER } });
  await agents.call("listener", "a", "seen", []);
  await until(() => agents.roster.spareCount === 1);
  expect(await agents.call("listener", "b", "seen", [])).toBe(0);
  expect(agents.ledger.list("listener", { prefix: "", after: "", limit: 9 }).map(({ name }) => name)).toEqual([
    "a",
    "b",
  ]);
  expect(agents.lines.filter(({ level }) => level !== "debug")).toEqual([]);
});

test("agents call each other by class, name and binding, and a failing one is told to the caller", async () => {
  const PAIR = `
import { Agent, callable, getAgentByName } from "agents";
export class Asker extends Agent {
  @callable() async ask(name: string) { return (await getAgentByName(this.env.Answerer, name)).answer(this.name, 2); }
  @callable() async viaBinding(name: string) { return this.env.ANSWERER.getByName(name).answer(this.name, 3); }
  @callable() async fetches(name: string) {
    const answer = await (await getAgentByName("Answerer", name)).fetch("http://x/some/path", { method: "POST", body: "hi" });
    return [answer.status, await answer.text()];
  }
  @callable() async fails(name: string) { return (await getAgentByName(this.env.Answerer, name)).broken(); }
  @callable() async missing(name: string) { return (await getAgentByName("nobody", name)).answer(); }
}
export class Answerer extends Agent {
  answer(who: string, by: number) { return [this.name, who, by]; }
  broken() { throw new Error("own words"); }
  async onRequest(request: Request) { return new Response(await request.text() + new URL(request.url).pathname, { status: 201 }); }
}
export default { async fetch() { return new Response("unused"); } };`;
  await using agents = await startAgents({ files: { "pair.ts": PAIR } });
  expect(await agents.call("asker", "a", "ask", ["b"])).toEqual(["b", "a", 2]);
  expect(await agents.call("asker", "a", "viaBinding", ["b"])).toEqual(["b", "a", 3]);
  expect(await agents.call("asker", "a", "fetches", ["b"])).toEqual([201, "hi/some/path"]);
  expect((await failure(agents.call("asker", "a", "fails", ["b"]))).message).toContain("own words");
  expect((await failure(agents.call("asker", "a", "missing", ["b"]))).message).toContain("no agent class");
});

test("an answer that was meant for an earlier life does not reach a later one", async () => {
  const PAIR = `
import { Agent, callable } from "gatehouse";
export class Asker extends Agent {
  @callable() askAndEnd() { void this.env.Answerer.getByName("slow").late(); setTimeout(() => process.exit(1), 50); return new Promise(() => {}); }
  @callable() ask() { return this.env.Answerer.getByName("quick").gated(); }
}
export class Answerer extends Agent {
  gate = Promise.withResolvers();
  @callable() open(text: string) { this.gate.resolve(text); }
  @callable() waits() { return this.waiting === true; }
  late() { this.waiting = true; return this.gate.promise; }
  gated() { this.waiting = true; return this.gate.promise; }
}`;
  await using agents = await startAgents({ files: { "pair.ts": PAIR } });
  expect(await code(agents.call("asker", "a", "askAndEnd", []))).toBe("agent.gone");
  const asked = agents.call("asker", "a", "ask", []);
  await until(() => agents.call("answerer", "quick", "waits", []));
  await agents.call("answerer", "slow", "open", ["of the earlier life"]);
  await agents.call("answerer", "quick", "open", ["of this life"]);
  expect(await asked).toBe("of this life");
});

describe("destroying", () => {
  test("that a crash cut off is finished at the next start", async () => {
    await using folder = await tempFolder();
    {
      await using agents = await startAgents({ files: FILES, folder: folder.path });
      await agents.call("counter", "a", "add", []);
      await agents.call("counter", "b", "add", []);
      await agents.ledger.write({ do: "condemn", className: "counter", name: "a" });
    }
    await using agents = await startAgents({ folder: folder.path });
    expect([agents.exists("counter", "a"), agents.ledger.condemned()]).toEqual([false, []]);
    expect([existsSync(agents.pathOf("counter", "a")), existsSync(agents.pathOf("counter", "b"))]).toEqual([
      false,
      true,
    ]);
  });

  /** The ledger fails to write these until told otherwise. */
  const failing = ({ ledger }: Awaited<ReturnType<typeof startAgents>>, what: string) => {
    const { write } = ledger;
    ledger.write = (entry) => (entry.do === what ? Promise.reject(new AppError("storage.full")) : write(entry));
    return () => void Object.assign(ledger, { write });
  };

  test.each(["condemn", "forget"])("that the disk refuses (%s) fails, and the agent answers again", async (what) => {
    await using agents = await startAgents({ files: FILES });
    await agents.call("counter", "a", "add", []);
    const mend = failing(agents, what);
    const destroyed = failure(agents.destroy("counter", "a"));
    expect((await destroyed).code).toBe("storage.full");
    expect(await agents.call("counter", "a", "add", [])).toBeGreaterThan(0);
    mend();
    await agents.destroy("counter", "a");
    expect(await agents.call("counter", "a", "add", [])).toBe(1);
  });

  test("removes what a crash left beside the database too", async () => {
    await using agents = await startAgents({ files: FILES, limits: { idleMs: 20 } });
    await agents.call("counter", "a", "add", []);
    await until(() => agents.roster.threadCount === 0);
    const path = agents.pathOf("counter", "a");
    for (const suffix of ["-wal", "-shm"]) await Bun.write(`${path}${suffix}`, "");
    await agents.destroy("counter", "a");
    expect(await Array.fromAsync(new Bun.Glob("agents/**/*.db*").scan(agents.dataFolder))).toEqual([]);
  });

  test("that the disk refuses does not strand whoever waits for a sleeping agent", async () => {
    await using agents = await startAgents({ files: FILES, limits: { idleMs: 20 } });
    await agents.call("counter", "a", "add", []);
    await until(() => agents.roster.threadCount === 0);
    failing(agents, "condemn");
    const destroyed = failure(agents.destroy("counter", "a"));
    expect(await agents.call("counter", "a", "add", [])).toBe(2);
    expect((await destroyed).code).toBe("storage.full");
  });

  test("one that waits for a thread leaves the line: the new one has one thread and not two", async () => {
    await using agents = await startAgents({ files: FILES, limits: { liveMax: 1, idleMs: 20 } });
    await agents.call("counter", "b", "add", []);
    await until(() => agents.roster.threadCount === 0);
    const working = agents.call("counter", "a", "wait", [200]);
    await until(() => agents.roster.threadCount === 1);
    const waiting = agents.call("counter", "b", "add", []);
    await until(() => agents.roster.seat("counter", "b")?.phase === "waiting");
    const { write } = agents.ledger;
    const known = Promise.withResolvers<void>();
    agents.ledger.write = async (entry) => {
      if (entry.do === "know") await known.promise;
      return write(entry);
    };
    await agents.destroy("counter", "b");
    await working;
    await until(() => agents.roster.threadCount === 0);
    known.resolve();
    expect(await waiting).toBe(1);
    expect(await agents.call("counter", "b", "starts_", [])).toEqual([1, 1]);
    expect(agents.roster.threadCount).toBe(1);
    expect(agents.lines.filter((line) => line.event === "agent.crashed")).toEqual([]);
  });
});

test("a destroyed agent is gone with its files; its clients are told for good, and it can start afresh", async () => {
  await using house = await startAgentHouse({ files: FILES });
  const { agents } = house.parts;
  const told: string[] = [];
  agents.onDestroyed((className, name) => told.push(`${className}/${name}`));
  using client = openClient(house, "counter", "a", house.token(["agents:edit"]));
  expect(await client.call("add")).toBe(1);
  expect((await house.api("DELETE", "/api/agents/counter/a")).status).toBe(200);
  await until(() => client.closes.length > 0);
  expect(client.closes[0]?.code).toBe(4410);
  expect(agents.exists("counter", "a")).toBe(false);
  expect(told).toEqual(["counter/a"]);
  expect(await Array.fromAsync(new Bun.Glob("data/agents/**/*.db*").scan(house.folder))).toEqual([]);
  expect((await house.api("DELETE", "/api/agents/counter/a")).status).toBe(404);
  expect(await agents.call("counter", "a", "add", [])).toBe(1);
});
