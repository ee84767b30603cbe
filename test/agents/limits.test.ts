// Every bound on what clients may do, at it and one past it; and classes that are open to everyone.
import { describe, expect, test } from "bun:test";
import { openClient, startAgentHouse } from "../support/agent-house.ts";
import { failure, startAgents, until } from "../support/agents.ts";

const OPEN = `
import { Agent, callable } from "gatehouse";
class Base extends Agent<unknown, { n: number }> {
  initialState = { n: 0 };
  @callable() add() { this.setState({ n: this.state.n + 1 }); return this.state.n; }
  @callable() wait() { return new Promise(() => {}); }
  @callable() async end() { await this.destroy(); return "never said"; }
  onMessage(connection, message) { connection.send("heard " + message.length); }
}
export class Closed extends Base {}
export class Open extends Base { static options = { public: true }; }
export class Wide extends Base { static options = { public: true, clientState: true }; }
export class Shown extends Base { static options = { public: "read" as const }; }`;
const FILES = { "open.ts": OPEN };

describe("bounds on clients", () => {
  test("one client more than allowed is turned away and told to come back", async () => {
    await using house = await startAgentHouse({ files: FILES, agent: { sockets_max: 2 } });
    using one = openClient(house, "open", "a");
    using two = openClient(house, "open", "a");
    await Promise.all([one.ready, two.ready]);
    using three = openClient(house, "open", "a");
    await until(() => three.closes.length > 0);
    expect(three.closes[0]).toEqual({ code: 1013, reason: "Too many connections" });
    expect(await two.call("add")).toBe(1);
  });

  test("clients that all come at once are all let in, also when they are more than the inbox holds", async () => {
    await using house = await startAgentHouse({ files: FILES, agent: { inbox_max: 2 } });
    const clients = Array.from({ length: 20 }, () => openClient(house, "open", "a"));
    await Promise.all(clients.map((client) => client.ready));
    expect(clients.flatMap((client) => client.closes)).toEqual([]);
    for (const client of clients) client.close();
  });

  test("a client that finds every thread at work is told to come back, and leaves no trace", async () => {
    await using house = await startAgentHouse({ files: FILES, agent: { live_max: 1, wait_ms: 0 } });
    using worker = openClient(house, "open", "busy");
    await worker.ready;
    const working = failure(worker.call("wait"));
    await until(() => house.parts.agents.roster.seat("open", "busy")?.host?.idle === false);
    using client = openClient(house, "open", "a");
    await until(() => client.closes.length > 0);
    expect(client.closes[0]).toEqual({ code: 1013, reason: "The agent is busy" });
    await until(() => house.parts.agents.roster.seat("open", "a") === undefined);
    worker.close();
    await working;
  });

  test("frames beyond what an agent may have in hand close the connection that sends them", async () => {
    await using house = await startAgentHouse({ files: FILES, agent: { frames_max: 4 } });
    using client = openClient(house, "open", "a");
    await client.ready;
    // `call` is the client's own promise: never settled by the agent, rejected when the connection ends.
    const calls = Array.from({ length: 5 }, () => failure(client.call("wait")));
    await until(() => client.closes.length > 0);
    expect(client.closes[0]).toEqual({ code: 1013, reason: "The agent is busy" });
    expect((await Promise.all(calls)).map((error) => error.message)).toEqual(Array(5).fill("Connection closed"));
  });

  test("a frame of the largest size passes, one byte more does not", async () => {
    await using house = await startAgentHouse({ files: FILES, agent: { frame_bytes_max: 2_048 } });
    using client = openClient(house, "open", "a");
    await client.ready;
    client.send("x".repeat(2_048));
    await until(() => client.frames.some((frame) => frame.raw === "heard 2048"));
    client.send("x".repeat(2_049));
    await until(() => client.closes.length > 0);
    expect(client.closes[0]?.code).toBe(1009);
  });
});

describe("a public class", () => {
  test("lets anyone connect and call, but write state only when it says so", async () => {
    await using house = await startAgentHouse({ files: FILES });
    const errors: string[] = [];
    using open = openClient(house, "open", "a", undefined, { onStateUpdateError: (error) => void errors.push(error) });
    expect(await open.call("add")).toBe(1);
    open.setState({ n: 50 });
    await until(() => errors.length > 0);
    using wide = openClient(house, "wide", "a");
    await wide.ready;
    wide.setState({ n: 50 });
    expect(await wide.call("add")).toBe(51);
  });

  test("that is only shown lets anyone look and nobody act", async () => {
    await using house = await startAgentHouse({ files: FILES });
    using client = openClient(house, "shown", "a");
    await client.ready;
    expect(client.state).toEqual({ n: 0 });
    expect((await failure(client.call("add"))).message).toBe("Connection is readonly");
    using editor = openClient(house, "shown", "a", house.token(["agents:edit"]));
    expect(await editor.call("add")).toBe(1);
  });

  test("refuses a page of another origin, also over a WebSocket", async () => {
    await using house = await startAgentHouse({ files: FILES });
    const headers = { origin: "https://evil.example" };
    // Bun's client takes headers; the type of the same name is the browser's, which does not.
    const socket: WebSocket = Reflect.construct(WebSocket, [
      `${house.url.replace("http", "ws")}/agents/open/a`,
      { headers },
    ]);
    const code = await new Promise<number>((resolve) => {
      socket.onclose = (event) => resolve(event.code);
    });
    expect(code).toBe(4403);
    expect(house.parts.agents.exists("open", "a")).toBe(false);
  });
});

test("an agent that destroys itself answers nobody, and its clients are told for good", async () => {
  await using house = await startAgentHouse({ files: FILES });
  using client = openClient(house, "open", "a");
  await client.call("add");
  const { agents } = house.parts;
  expect((await failure(agents.call("open", "a", "end", []))).code).toBe("agent.destroyed");
  await until(() => client.closes.length > 0 && !agents.exists("open", "a"));
  expect(client.closes[0]?.code).toBe(4410);
  expect(await agents.call("open", "a", "add", [])).toBe(1);
});

test("a user's WebhookAgent takes the place of the built-in one", async () => {
  const own = `import { Agent, callable } from "gatehouse"; export class WebhookAgent extends Agent { @callable() mine() { return "mine"; } }`;
  await using agents = await startAgents({ files: { "own.ts": own } });
  expect(agents.catalog.broken()).toEqual([]);
  expect(await agents.call("webhook-agent", "a", "mine", [])).toBe("mine");
});

test("a user's WebhookAgent that does not load is out of order: the built-in one does not take its agents", async () => {
  const text = `import { WebhookAgent as Base } from "gatehouse";\nexport class WebhookAgent extends Base { oops( }`;
  await using house = await startAgentHouse({ files: { "mine.ts": text } });
  expect((await house.api("POST", "/api/agents/webhook-agent/a/call", { method: "getEvents" })).status).toBe(503);
});

test("an agent's events reach its own listeners, and trouble the log", async () => {
  const TELLING = `
import { Agent, callable } from "gatehouse";
import { subscribe } from "node:diagnostics_channel";
const heard: string[] = [];
for (const kind of ["state", "rpc", "schedule", "lifecycle"]) subscribe("agents:" + kind, (event) => heard.push(event.type));
export class Telling extends Agent<unknown, number> {
  static options = { retry: { maxAttempts: 1 } };
  @callable() async work() { await Bun.sleep(1); Bun.gc(true); this.setState(1); await this.queue("fails"); }
  @callable() heard() { return heard; }
  fails() { throw new Error("no"); }
}
export class Silent extends Agent { observability = undefined; @callable() work() { this.setState(1); } }`;
  await using agents = await startAgents({ files: { "telling.ts": TELLING } });
  await agents.call("telling", "a", "work", []);
  await until(() => agents.lines.some((line) => line.event === "agent.event" && line.type === "queue:error"));
  expect(await agents.call("telling", "a", "heard", [])).toEqual(["state:update", "queue:create", "queue:error"]);
  await agents.call("silent", "a", "work", []);
});
