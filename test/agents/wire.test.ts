// The wire, spoken by the unmodified client library over real sockets.
import { describe, expect, test } from "bun:test";
import { agentFetch } from "agents/client";
import { openClient, startAgentHouse } from "../support/agent-house.ts";
import { failure, until } from "../support/agents.ts";

const ROOM = `
import { Agent, callable, getCurrentAgent, type Connection, type StreamingResponse } from "agents";
export class ChatRoom extends Agent<Record<string, string>, { count: number; heard: string[] }> {
  initialState = { count: 0, heard: [] as string[] };
  validateStateChange(next: { count: number }) { if (next.count < 0) throw new Error("private reason"); }
  shouldConnectionBeReadonly(_: Connection, { request }: { request: Request }) { return request.url.includes("readonly=1"); }
  shouldSendProtocolMessages(_: Connection, { request }: { request: Request }) { return !request.url.includes("quiet=1"); }
  onConnect(connection: Connection) { connection.send("welcome " + connection.id); }
  onMessage(connection: Connection, message: string | ArrayBuffer) {
    if (message === "close oddly") {
      const odd = [[0], [1005], [1006, "x"], [5000], ["abc", 3]].filter(([code, reason]) => {
        try { connection.close(code, reason); return true; } catch { return false; }
      });
      connection.send("closed with " + JSON.stringify(odd));
      connection.close(4000, 7);
    } else if (typeof message === "string") connection.send("echo " + message);
    else {
      const bytes = new Uint8Array(message).map((byte) => byte + 1);
      connection.send(bytes);
      bytes.fill(0); // its buffer is its own again as soon as send returns
    }
  }
  @callable() add(by = 1) { this.setState({ ...this.state, count: this.state.count + by }); return this.state.count; }
  @callable() nothing() {}
  @callable() fail() { throw new Error("not today"); }
  @callable() failOddly() { throw "a string"; }
  @callable() big() { return 10n; }
  @callable() who() { return getCurrentAgent().connection?.id; }
  @callable({ streaming: true }) count(stream: StreamingResponse, to: number) {
    for (let i = 1; i < to; i++) stream.send(i);
    stream.end(to);
  }
  @callable({ streaming: true }) stops(stream: StreamingResponse) { stream.send(1); }
  @callable({ streaming: true }) breaks() { throw new Error("in mid-air"); }
  secret() { return 1; }
  announce() { this.broadcast("to all"); }
  @callable() shout() { this.announce(); }
}
export class Plain extends Agent { @callable() ping() { return "pong"; } }
`;
const FILES = { "room.ts": ROOM };

describe("who may not enter is accepted and then closed with a code the client takes as final", () => {
  test.each([
    ["no token", "chat-room", undefined, 4401],
    ["a wrong token", "chat-room", "gh_wrong", 4401],
    ["a token for something else", "chat-room", "tags", 4403],
    ["a token for another agent", "chat-room", "other", 4403],
    ["an unknown class", "nobody", "edit", 4404],
    ["an agent that does not exist, for one who may only look", "chat-room", "read", 4404],
    ["another transport", "chat-room", "capnweb", 4415],
    ["a name that is too long", "chat-room", "long", 4404],
  ])("%s", async (_, agent, kind, code) => {
    await using house = await startAgentHouse({ files: FILES });
    const tokens: Record<string, string> = {
      tags: house.token(["tags:edit"]),
      other: house.token(["agents:edit"], { agentClass: "chat-room", agentName: "elsewhere" }),
      edit: house.token(["agents:edit"]),
      read: house.token(["agents:read"]),
    };
    const token = kind === undefined ? undefined : (tokens[kind] ?? kind);
    const errors: number[] = [];
    const query = kind === "capnweb" ? { query: { token: tokens.edit, __agents_transport: "capnweb" } } : {};
    const name = kind === "long" ? "x".repeat(129) : "lobby";
    using client = openClient(house, agent, name, token, {
      ...query,
      onConnectionError: (error) => void errors.push(error.code ?? 0),
    });
    await until(() => errors.length > 0);
    expect(client.closes[0]?.code).toBe(code);
    expect(client.frames).toEqual([]);
    expect(house.parts.agents.exists("chat-room", "lobby")).toBe(false);
  });
});

test("identity comes first, then state, then mcp, then what the agent says itself", async () => {
  await using house = await startAgentHouse({ files: FILES });
  using client = openClient(house, "ChatRoom", "lobby", house.token(["agents:edit"]), { id: "me" });
  await client.ready;
  await until(() => client.frames.length === 4);
  expect(client.frames).toEqual([
    { type: "cf_agent_identity", name: "lobby", agent: "chat-room", stateFollows: true },
    { type: "cf_agent_state", state: { count: 0, heard: [] } },
    { type: "cf_agent_mcp_servers", mcp: { prompts: [], resources: [], servers: {}, tools: [] } },
    { raw: "welcome me" },
  ]);
  expect(client.state).toEqual({ count: 0, heard: [] });
});

test("without a state no state is promised, and the client is ready all the same", async () => {
  await using house = await startAgentHouse({ files: FILES });
  using client = openClient(house, "plain", "x", house.token(["agents:edit"]));
  await client.ready;
  expect(client.frames[0]).toEqual({ type: "cf_agent_identity", name: "x", agent: "plain" });
  expect(await client.call("ping")).toBe("pong");
  expect(client.frames.some((frame) => frame.type === "cf_agent_state")).toBe(false);
});

describe("calls", () => {
  test("a call sent before the greeting is answered after it, and undefined has no result", async () => {
    await using house = await startAgentHouse({ files: FILES });
    using client = openClient(house, "chat-room", "lobby", house.token(["agents:edit"]));
    expect(await client.call("add", [5])).toBe(5);
    expect(client.frames.findIndex((frame) => frame.type === "rpc")).toBeGreaterThan(3);
    expect(await client.call("nothing")).toBeUndefined();
    expect(await client.call("who")).toBe(client.id);
    expect(client.frames.at(-2)).not.toHaveProperty("result");
  });

  test("errors are the sentences clients know, or the method's own", async () => {
    await using house = await startAgentHouse({ files: FILES });
    using client = openClient(house, "chat-room", "lobby", house.token(["agents:edit"]));
    const message = (method: string) =>
      client.call(method).then(
        () => "no error",
        (error) => error.message,
      );
    expect(await message("missing")).toBe("Method missing does not exist");
    expect(await message("secret")).toBe("Method secret is not callable");
    expect(await message("constructor")).toBe("Method constructor is not callable");
    expect(await message("fail")).toBe("not today");
    expect(await message("failOddly")).toBe("Unknown error occurred");
    expect(await message("big")).toContain("BigInt");
    expect(JSON.stringify(client.frames)).not.toContain("room.ts");
  });

  test("streams arrive in order; one that forgets to end is ended, one that throws is an error", async () => {
    await using house = await startAgentHouse({ files: FILES });
    using client = openClient(house, "chat-room", "lobby", house.token(["agents:edit"]));
    const chunks: unknown[] = [];
    const last = await client.call("count", [4], { stream: { onChunk: (chunk) => void chunks.push(chunk) } });
    expect([chunks, last]).toEqual([[1, 2, 3], 4]);
    expect(await client.call("stops", [], { stream: {} })).toBeUndefined();
    expect((await failure(client.call("breaks", [], { stream: {} }))).message).toContain("in mid-air");
  });

  test("a hundred raw messages sent at once come back in order; bytes stay bytes", async () => {
    await using house = await startAgentHouse({ files: FILES });
    using client = openClient(house, "chat-room", "lobby", house.token(["agents:edit"]));
    await client.ready;
    for (let index = 0; index < 100; index++) client.send(`m${index}`);
    await until(() => client.frames.filter((frame) => String(frame.raw).startsWith("echo")).length === 100);
    const echoes = client.frames.map((frame) => String(frame.raw)).filter((text) => text.startsWith("echo"));
    expect(echoes).toEqual(Array.from({ length: 100 }, (_, index) => `echo m${index}`));
    client.binaryType = "arraybuffer";
    const bytes = Promise.withResolvers<ArrayBuffer>();
    client.addEventListener("message", ({ data }: MessageEvent) => data instanceof ArrayBuffer && bytes.resolve(data));
    client.send(new Uint8Array([1, 2, 254]));
    expect([...new Uint8Array(await bytes.promise)]).toEqual([2, 3, 255]);
  });
});

test("a close code that no close frame may hold is refused where it is written", async () => {
  await using house = await startAgentHouse({ files: FILES });
  using client = openClient(house, "chat-room", "lobby", house.token(["agents:edit"]));
  await client.ready;
  client.send("close oddly");
  await until(() => client.closes.length > 0);
  expect(client.frames.at(-1)).toEqual({ raw: "closed with []" });
  expect(client.closes).toEqual([{ code: 4000, reason: "7" }]);
});

describe("state", () => {
  const states = (client: { frames: { type?: string }[] }) =>
    client.frames.filter((frame) => frame.type === "cf_agent_state");

  test("a client's change reaches everyone else, a server's change everyone, before the call's answer", async () => {
    await using house = await startAgentHouse({ files: FILES });
    const token = house.token(["agents:edit"]);
    // Two clients under one id: exclusion is by socket, so they must not starve each other.
    using one = openClient(house, "chat-room", "lobby", token, { id: "twin" });
    using two = openClient(house, "chat-room", "lobby", token, { id: "twin" });
    await Promise.all([one.ready, two.ready]);
    one.setState({ count: 7, heard: [] });
    await until(() => states(two).length === 2);
    expect(states(one).length).toBe(1);
    await one.call("add");
    await until(() => states(two).length === 3);
    expect(one.frames.slice(-2).map((frame) => frame.type)).toEqual(["cf_agent_state", "rpc"]);
    expect(two.state).toEqual({ count: 8, heard: [] });
  });

  test("a refused change is told without the reason, and the true state is sent again", async () => {
    await using house = await startAgentHouse({ files: FILES });
    const errors: string[] = [];
    using client = openClient(house, "chat-room", "lobby", house.token(["agents:edit"]), {
      onStateUpdateError: (error) => void errors.push(error),
    });
    await client.ready;
    client.setState({ count: -1, heard: [] });
    await until(() => errors.length > 0 && states(client).length === 2);
    expect(errors).toEqual(["State update rejected"]);
    expect(client.state).toEqual({ count: 0, heard: [] });
  });

  test("a readonly connection hears state and may not change it, by itself or through a call", async () => {
    await using house = await startAgentHouse({ files: FILES });
    const token = house.token(["agents:edit"]);
    const errors: string[] = [];
    using reader = openClient(house, "chat-room", "lobby", undefined, {
      query: { token, readonly: "1" },
      onStateUpdateError: (error) => void errors.push(error),
    });
    await reader.ready;
    reader.setState({ count: 5, heard: [] });
    await until(() => errors.length > 0);
    expect(errors).toEqual(["Connection is readonly"]);
    expect((await failure(reader.call("add"))).message).toContain("Connection is readonly");
    using writer = openClient(house, "chat-room", "lobby", token);
    expect(await writer.call("add")).toBe(1);
    await until(() => states(reader).length === 3);
  });

  test("a connection without protocol frames gets none, but can call and hears broadcasts", async () => {
    await using house = await startAgentHouse({ files: FILES });
    const token = house.token(["agents:edit"]);
    using quiet = openClient(house, "chat-room", "lobby", undefined, { query: { token, quiet: "1" } });
    using other = openClient(house, "chat-room", "lobby", token);
    await other.ready;
    expect(await quiet.call("add")).toBe(1);
    await other.call("shout");
    await until(() => quiet.frames.some((frame) => frame.raw === "to all"));
    expect(quiet.frames.filter((frame) => frame.type?.startsWith("cf_"))).toEqual([]);
  });
});

describe("permissions on an open connection", () => {
  test("one who may only look sees state and cannot call, send or write", async () => {
    await using house = await startAgentHouse({ files: FILES });
    using editor = openClient(house, "chat-room", "lobby", house.token(["agents:edit"]));
    await editor.call("add");
    const errors: string[] = [];
    using reader = openClient(house, "chat-room", "lobby", house.token(["agents:read"]), {
      onStateUpdateError: (error) => void errors.push(error),
    });
    await reader.ready;
    expect(reader.state).toEqual({ count: 1, heard: [] });
    expect((await failure(reader.call("add"))).message).toContain("Connection is readonly");
    reader.setState({ count: 9, heard: [] });
    reader.send("hello?");
    await until(() => errors.length > 0);
    const counted = (count: number) => Bun.deepEquals(reader.state, { count, heard: [] });
    await until(() => counted(1));
    expect(editor.state).toEqual({ count: 1, heard: [] });
    await editor.call("add");
    await until(() => counted(2));
    expect(reader.frames.some((frame) => String(frame.raw).startsWith("echo"))).toBe(false);
  });

  test("a revoked token closes its connections at once", async () => {
    await using house = await startAgentHouse({ files: FILES });
    const { id, token } = house.parts.tokens.mint({ name: "t", permissions: ["agents:edit"] });
    using client = openClient(house, "chat-room", "lobby", token);
    await client.ready;
    house.parts.tokens.revoke(id);
    await until(() => client.closes.length > 0);
    expect(client.closes[0]?.code).toBe(4401);
  });

  test("a ticket opens its one agent, with no more than its maker may do", async () => {
    await using house = await startAgentHouse({ files: FILES });
    using editor = openClient(house, "chat-room", "lobby", house.token(["agents:edit"]));
    await editor.ready;
    const { body } = await house.api("POST", "/api/agents/chat-room/lobby/ticket", {}, house.token(["agents:read"]));
    expect(body.result.permission).toBe("agents:read");
    using reader = openClient(house, "chat-room", "lobby", body.result.token);
    await reader.ready;
    expect((await failure(reader.call("add"))).message).toContain("Connection is readonly");
    using elsewhere = openClient(house, "chat-room", "cellar", body.result.token);
    await until(() => elsewhere.closes.length > 0);
    expect(elsewhere.closes[0]?.code).toBe(4401);
  });
});

test("names are taken raw from the URL and told back so", async () => {
  await using house = await startAgentHouse({ files: FILES });
  using client = openClient(house, "chat-room", "my room", house.token(["agents:edit"]));
  await client.ready;
  expect(client.frames[0]).toMatchObject({ name: "my%20room" });
});

test("agentFetch reaches the same agent over HTTP; without onRequest it is 404", async () => {
  await using house = await startAgentHouse({ files: FILES });
  const headers = { authorization: `Bearer ${house.token(["agents:edit"])}` };
  const options = { agent: "chat-room", name: "lobby", host: new URL(house.url).host, protocol: "http" as const };
  const answer = await agentFetch(options, { headers });
  expect([answer.status, await answer.text()]).toEqual([404, "Not implemented"]);
  const unknown = await agentFetch({ ...options, agent: "nobody" }, { headers });
  expect(unknown.status).toBe(404);
});
