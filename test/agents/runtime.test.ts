// One agent at a time, through the main thread's own entry: state, storage, calls, requests, queue, schedules.
import { describe, expect, test } from "bun:test";
import { failure, startAgents, until } from "../support/agents.ts";

const COUNTER = `
import { Agent, callable } from "gatehouse";
export class Counter extends Agent {
  initialState = { count: 0 };
  onStart() { this.sql\`create table if not exists notes (id integer primary key, text text)\`; }
  @callable() add(by = 1) { this.setState({ count: this.state.count + by }); return this.state.count; }
  @callable() fail() { throw new Error("not today"); }
  @callable() note(text: string) { this.sql\`insert into notes (text) values (\${text})\`; return this.sql\`select text from notes\`; }
  hidden() { return "secret"; }
  async onRequest(request: Request) {
    if (new URL(request.url).pathname.endsWith("/throw")) throw new Error("private text");
    return Response.json({ method: request.method, body: await request.text(), name: this.name, count: this.state.count });
  }
}`;

describe("refusals", () => {
  test("an unknown class, a wrong name, a missing and an unmarked method are told apart", async () => {
    await using agents = await startAgents({ files: { "counter.ts": COUNTER } });
    const code = (promise: Promise<unknown>) =>
      promise.then(
        () => "ok",
        (error) => error.code,
      );
    expect(await code(agents.call("nobody", "a", "add", []))).toBe("agent.class");
    expect(await code(agents.call("counter", "a/b", "add", []))).toBe("agent.name");
    expect(await code(agents.call("counter", "", "add", []))).toBe("agent.name");
    expect(await code(agents.call("counter", "a", "nothing", []))).toBe("agent.method");
    expect(await code(agents.call("counter", "a", "hidden", []))).toBe("agent.method");
    expect(await code(agents.house("counter", "never-made", "state"))).toBe("agent.unknown");
  });

  test("a callable's own message is told, a request's failure is not", async () => {
    await using agents = await startAgents({ files: { "counter.ts": COUNTER } });
    expect(await failure(agents.call("counter", "a", "fail", []))).toMatchObject({
      code: "agent.call_failed",
      message: "not today",
    });
    const failed = await agents.fetch("counter", "a", "/throw").then(
      () => undefined,
      (error) => error,
    );
    expect(failed).toMatchObject({ code: "agent.failed", message: "The agent failed to answer" });
    await until(() => agents.lines.some((line) => line.event === "agent.error" && line.message === "private text"));
  });
});

test("state, storage and name belong to one agent and survive a restart", async () => {
  await using agents = await startAgents({ files: { "counter.ts": COUNTER } });
  expect(await agents.call("counter", "a", "add", [2])).toBe(2);
  expect(await agents.call("counter", "a", "add", [])).toBe(3);
  expect(await agents.call("counter", "b", "add", [])).toBe(1);
  expect(await agents.call("counter", "a", "note", ["one"])).toEqual([{ text: "one" }]);
  const answer = await agents.fetch("counter", "a", "/x?y=1", { method: "POST", body: "hello" });
  expect(await answer.json()).toEqual({ method: "POST", body: "hello", name: "a", count: 3 });
});
