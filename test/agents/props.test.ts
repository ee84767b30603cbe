// Props: plain data that one agent's code hands to the start of another, and that nobody outside can.
import { describe, expect, test } from "bun:test";
import { startAgentHouse } from "../support/agent-house.ts";
import { failure, startAgents, until } from "../support/agents.ts";

const ROOMS = `
import { Agent, callable, getAgentByName } from "agents";
const ODD: Record<string, () => unknown> = {
  text: () => "a text",
  list: () => [1],
  date: () => new Date(0),
  nothing: () => null,
  function: () => ({ inner: { run() {} } }),
  symbol: () => ({ inner: Symbol("s") }),
  bigint: () => ({ inner: 1n }),
  map: () => ({ inner: [new Map()] }),
  instance: () => ({ inner: new (class Own {})() }),
  cycle: () => { const ring: Record<string, unknown> = {}; ring.inner = ring; return ring; },
};
export class Front extends Agent {
  @callable() async open(name: string, props?: Record<string, unknown>) {
    return (await getAgentByName(this.env.Room, name, { props, locationHint: "weur" })).heard();
  }
  @callable() async start(name: string, props: Record<string, unknown>) { await getAgentByName("Room", name, { props }); }
  @callable() async odd(kind: string) { await getAgentByName("Room", "odd", { props: ODD[kind]?.() }); }
  @callable() async viaFetch(name: string, headers: Record<string, string>) {
    return (await (await getAgentByName("Room", name)).fetch("http://x/", { headers })).json();
  }
}
export class Room extends Agent<unknown, unknown, { size?: number; fail?: boolean }> {
  static options = { public: true };
  starts: unknown[] = [];
  async onStart(props?: { size?: number; fail?: boolean }) {
    await new Promise((done) => setTimeout(done, 10));
    if (props?.fail) throw new Error("no such room");
    this.starts.push(props === undefined ? "nothing" : props);
  }
  @callable() heard() { return this.starts; }
  onRequest() { return Response.json(this.starts); }
}`;
const FILES = { "rooms.ts": ROOMS };
const PROPS_BYTES_MAX = 65_536;

describe("refusals", () => {
  test.each([
    ["a text", "text", "must be a plain object"],
    ["a list", "list", "must be a plain object"],
    ["a date", "date", "must be a plain object"],
    ["null", "nothing", "must be a plain object"],
    ["a function inside", "function", '"run" is not'],
    ["a symbol inside", "symbol", '"inner" is not'],
    ["a bigint inside", "bigint", '"inner" is not'],
    ["a map inside", "map", '"0" is not'],
    ["an instance of a class inside", "instance", '"inner" is not'],
    ["a ring", "cycle", "cyclic"],
  ])("%s is refused in words, and starts nothing", async (_, kind, words) => {
    await using agents = await startAgents({ files: FILES });
    expect((await failure(agents.call("front", "a", "odd", [kind]))).message).toContain(words);
    expect(agents.exists("room", "odd")).toBe(false);
  });

  test("the largest size passes, one byte more does not", async () => {
    await using agents = await startAgents({ files: FILES });
    const sized = (bytes: number) => ({ text: `é${"x".repeat(bytes - '{"text":"é"}'.length - 1)}` });
    const past = agents.call("front", "a", "start", ["past", sized(PROPS_BYTES_MAX + 1)]);
    expect((await failure(past)).message).toContain("at most 65536 bytes");
    expect(agents.exists("room", "past")).toBe(false);
    await agents.call("front", "a", "start", ["at", sized(PROPS_BYTES_MAX)]);
    expect(await agents.call("room", "at", "heard", [])).toEqual([sized(PROPS_BYTES_MAX)]);
  });

  test("no header reaches onStart, whoever sends it and however", async () => {
    await using house = await startAgentHouse({ files: FILES });
    const headers = { "x-agents-lifecycle-props": btoa(JSON.stringify({ size: 9 })) };
    const stranger = await house.fetch("/agents/room/a", { headers });
    expect(await stranger.json()).toEqual(["nothing"]);
    const authorization = `Bearer ${house.token(["agents:edit"])}`;
    const editor = await house.fetch("/agents/room/b", { method: "POST", headers: { ...headers, authorization } });
    expect(await editor.json()).toEqual(["nothing"]);
    expect(await house.parts.agents.call("front", "a", "viaFetch", ["c", headers])).toEqual(["nothing"]);
    // Bun's client takes headers; the type of the same name is the browser's, which does not.
    const socket: WebSocket = Reflect.construct(WebSocket, [
      `${house.url.replace("http", "ws")}/agents/room/d`,
      { headers },
    ]);
    await new Promise((resolve) => socket.addEventListener("message", resolve, { once: true }));
    expect(await house.parts.agents.call("room", "d", "heard", [])).toEqual(["nothing"]);
    socket.close();
  });

  test("a start that fails is told to the one who asked for it, and its props are not kept for the next", async () => {
    await using agents = await startAgents({ files: FILES });
    const failed = await failure(agents.call("front", "a", "start", ["a", { fail: true }]));
    expect(failed.message).toBe("The agent failed to answer");
    expect(await until(() => agents.call("room", "a", "heard", []).catch(() => undefined))).toEqual(["nothing"]);
  });
});

test("a life that begins with props hears them once; one that has begun ignores them; any other start has none", async () => {
  await using agents = await startAgents({ files: FILES, limits: { idleMs: 50 } });
  const asleep = () => until(() => agents.roster.seat("room", "a") === undefined);
  expect(await agents.call("front", "a", "open", ["a", { size: 1, gone: undefined, at: [null] }])).toEqual([
    { size: 1, at: [null] },
  ]);
  expect(await agents.call("front", "a", "open", ["a", { size: 2 }])).toEqual([{ size: 1, at: [null] }]);
  await asleep();
  expect(await agents.call("front", "a", "open", ["a"])).toEqual(["nothing"]);
  await asleep();
  expect(await agents.call("front", "a", "open", ["a", { size: 3 }])).toEqual([{ size: 3 }]);
});

test("of those who ask while there is no life yet, the first decides what it hears", async () => {
  await using agents = await startAgents({ files: FILES });
  const first = await Promise.all([
    agents.call("room", "a", "heard", []),
    agents.call("front", "a", "open", ["a", { size: 1 }]),
  ]);
  expect(first).toEqual([["nothing"], ["nothing"]]);
  await agents.call("front", "a", "start", ["b", { size: 1 }]);
  expect(await agents.call("room", "b", "heard", [])).toEqual([{ size: 1 }]);
});
