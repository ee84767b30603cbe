// A webhook handed to an agent: the request as it was sent, what was verified beside it, and every way it can fail.
import { describe, expect, test } from "bun:test";
import type { Delivery } from "../../src/agents/agents.ts";
import { startAgents, until } from "../support/agents.ts";

const RECEIVER = `
import { Agent } from "gatehouse";
export class Receiver extends Agent {
  async onRequest(request: Request) {
    const body = await request.text();
    if (body === "throw") throw new Error("no");
    if (body === "exit") process.exit(3);
    if (body === "wait") await new Promise(() => {});
    return new Response(JSON.stringify({ body, type: request.headers.get("x-event-type"), facts: this.delivery }), {
      status: 202, headers: { "x-answer": "yes" } });
  }
}
export class Fragile extends Agent { onStart() { throw new Error("cannot start"); } }`;

let last = 0;
const delivery = (text: string, id = `d-${++last}`): Delivery => ({
  method: "POST",
  url: "http://test/webhooks/github/acme",
  headers: [["x-event-type", "push"]],
  body: new TextEncoder().encode(text),
  facts: { source: "github", verdict: "ok", id, type: "push", title: "A push" },
});
const code = (promise: Promise<unknown>) =>
  promise.then(
    () => "ok",
    (error) => error.code,
  );

describe("refusals", () => {
  test("an agent that throws, exits, hangs or cannot start is told apart, and answers again afterwards", async () => {
    await using agents = await startAgents({ files: { "receiver.ts": RECEIVER }, limits: { handlerMsMax: 2_000 } });
    expect(await code(agents.deliver("nobody", "a", delivery("x")))).toBe("agent.class");
    expect(await code(agents.deliver("receiver", "a", delivery("throw")))).toBe("agent.failed");
    expect(await code(agents.deliver("receiver", "a", delivery("wait")))).toBe("agent.slow");
    expect(await code(agents.deliver("receiver", "a", delivery("exit")))).toBe("agent.gone");
    expect(await code(agents.deliver("fragile", "a", delivery("x")))).toBe("agent.failed");
    expect((await agents.deliver("receiver", "a", delivery("x"))).status).toBe(202);
  });

  test("calls beyond the bound are refused as busy while the ones before are under way", async () => {
    await using agents = await startAgents({
      files: { "receiver.ts": RECEIVER },
      limits: { callsMax: 2, handlerMsMax: 2_000 },
    });
    await agents.deliver("receiver", "a", delivery("x"));
    const first = [1, 2].map(() => code(agents.deliver("receiver", "a", delivery("wait"))));
    expect(await code(agents.deliver("receiver", "a", delivery("x")))).toBe("agent.busy");
    expect(await Promise.all(first)).toEqual(["agent.slow", "agent.slow"]);
  });

  test("code that does not load any more is broken, and works again when it is mended", async () => {
    await using agents = await startAgents({ files: { "receiver.ts": RECEIVER } });
    await agents.write({ "receiver.ts": "export class {" });
    await until(() => agents.catalog.isBroken("receiver"));
    expect(await code(agents.deliver("receiver", "a", delivery("x")))).toBe("agent.broken");
    await agents.write({ "receiver.ts": RECEIVER });
    await until(() => agents.catalog.get("receiver"));
    expect((await agents.deliver("receiver", "a", delivery("x"))).status).toBe(202);
  });
});

test("the agent sees the raw body, the headers and what was verified; its answer comes back whole", async () => {
  await using agents = await startAgents({ files: { "receiver.ts": RECEIVER } });
  const sent = '{"a": 1.0, "ü":"\\u00e9"}';
  const answer = await agents.deliver("receiver", "acme", delivery(sent, "d1"));
  expect(answer.status).toBe(202);
  expect(new Headers(answer.headers).get("x-answer")).toBe("yes");
  expect(JSON.parse(new TextDecoder().decode(answer.body))).toEqual({
    body: sent,
    type: "push",
    facts: { source: "github", verdict: "ok", id: "d1", type: "push", title: "A push" },
  });
});
