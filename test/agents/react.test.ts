// The React hook of the client library, unmodified, in a rendered page.
import { expect, test } from "bun:test";
import { join } from "node:path";
import { startAgentHouse } from "../support/agent-house.ts";
import { until } from "../support/agents.ts";

const COUNTER = `
import { Agent, callable } from "agents";
export class Counter extends Agent<unknown, { count: number }> {
  initialState = { count: 0 };
  @callable() add(by: number) { this.setState({ count: this.state.count + by }); return this.state.count; }
}`;

test("useAgent shows state, calls, writes state, and hears what others change", async () => {
  await using house = await startAgentHouse({ files: { "counter.ts": COUNTER } });
  const page = Bun.spawn(
    [
      process.execPath,
      join(import.meta.dir, "../support/react-page.ts"),
      new URL(house.url).host,
      house.token(["agents:edit"]),
    ],
    {
      stdout: "pipe",
      stderr: "inherit",
    },
  );
  const lines: Record<string, unknown>[] = [];
  const read = (async () => {
    let text = "";
    for await (const chunk of page.stdout.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      const whole = text.split("\n");
      text = whole.pop() ?? "";
      for (const line of whole) lines.push(JSON.parse(line));
    }
  })();
  try {
    await until(() => lines.some((line) => line.shown === "count 40"));
    await house.parts.agents.call("counter", "page", "add", [2]);
    await until(() => lines.some((line) => line.shown === "count 42"));
    expect(lines).toContainEqual({ name: "page", className: "counter" });
    expect(lines).toContainEqual({ update: { count: 0 }, source: "server" });
    expect(lines).toContainEqual({ result: 1 });
    expect(lines).toContainEqual({ update: { count: 40 }, source: "client" });
    expect(lines).toContainEqual({ update: { count: 42 }, source: "server" });
  } finally {
    page.kill();
    await read;
  }
}, 30_000);
