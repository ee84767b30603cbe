// Agents inside the built executable: what only shows there, and what only a killed process shows.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { openClient } from "../support/agent-house.ts";
import { until, writeFiles } from "../support/agents.ts";
import { buildExecutable, EXECUTABLE, type Running, start } from "../support/executable.ts";
import { tempFolder } from "../support/house.ts";

const BUILD_MS_MAX = 120_000; // on a Pi
const TOKEN = "an-admin-token-of-more-than-32-characters";
const COUNTER = `
import { Agent, callable } from "gatehouse";
export class Counter extends Agent<Record<string, string>, { count: number }> {
  initialState = { count: 0 };
  @callable() add() { this.setState({ count: this.state.count + 1 }); return this.state.count; }
}`;
const WORKER = `
import { Agent, callable } from "gatehouse";
export class Worker extends Agent {
  onStart() { this.sql\`create table if not exists done (what text)\`; }
  @callable() async push(ids: string[]) { for (const id of ids) await this.queue("work", id); }
  @callable() async plan(seconds: number) { return this.schedule(seconds, "work", "planned"); }
  @callable() done() { return this.sql<{ what: string }>\`select what from done order by rowid\`.map((row) => row.what); }
  @callable() async fiber(key: string) {
    return this.startFiber("long", () => new Promise(() => {}), { idempotencyKey: key }); }
  async onFiberRecovered(fiber) { this.sql\`insert into done values (\${"recovered " + fiber.name})\`; return { status: "completed" }; }
  async work(id: string, item) {
    this.sql\`insert into done values (\${"start " + id + " " + (item?.attempts ?? "")})\`;
    if (id === "slow" && this.sql<{ n: number }>\`select count(*) as n from done where what like 'start slow%'\`[0].n < 2) {
      await new Promise(() => {});
    }
    if (id === "killer") process.kill(process.pid, "SIGKILL");
    this.sql\`insert into done values (\${"end " + id})\`;
  }
}`;

const folders: string[] = [];
const running = new Set<Running>();

beforeAll(buildExecutable, BUILD_MS_MAX);
afterAll(async () => {
  for (const server of running) await server.stop("SIGKILL");
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

async function newFolder(files: Record<string, string>): Promise<string> {
  const folder = tempFolder();
  folders.push(folder);
  await mkdir(join(folder, "agents"));
  await writeFiles(folder, files);
  return folder;
}

async function serve(cwd: string, ...flags: string[]) {
  const args = ["--host", "127.0.0.1", "--port", "0", ...flags];
  const server = await start({ executable: EXECUTABLE, cwd, args, env: { GATEHOUSE_ADMIN_TOKEN: TOKEN } });
  running.add(server);
  const api = async (method: string, path: string, body?: unknown) => {
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
    const answer = await fetch(`${server.url}${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return answer.json();
  };
  const call = async (agent: string, method: string, ...args: unknown[]) => {
    const answer = await api("POST", `/api/agents/${agent}/call`, { method, args });
    return answer.success ? answer.result.output : answer.errors[0].message;
  };
  return { ...server, api, call };
}

describe("after SIGKILL", () => {
  test("state is there, the task in flight runs again at once, and nothing queued is lost", async () => {
    const folder = await newFolder({ "agents/worker.ts": WORKER, "agents/counter.ts": COUNTER });
    const first = await serve(folder);
    for (let index = 0; index < 5; index++) await first.call("counter/a", "add");
    await first.call("worker/a", "push", ["slow", "second", "third"]);
    await until(async () => String(await first.call("worker/a", "done")).includes("start slow"));
    await first.stop("SIGKILL");
    const second = await serve(folder);
    // Nobody asks for the agent: the ledger knows that it has work, and the work itself says that it is done.
    const done = await until(async () => {
      const seen: string[] = await second.call("worker/a", "done");
      return seen.includes("end third") && seen;
    });
    expect(done).toEqual([
      "start slow 1",
      "start slow 2",
      "end slow",
      "start second 1",
      "end second",
      "start third 1",
      "end third",
    ]);
    expect(await second.call("counter/a", "add")).toBe(6);
  }, 30_000);

  test("an agent nobody touches wakes by itself for a schedule that came due while down, once", async () => {
    const folder = await newFolder({ "agents/worker.ts": WORKER });
    const first = await serve(folder);
    await first.call("worker/a", "plan", 1);
    await first.stop("SIGKILL");
    await Bun.sleep(1_100); // the time the schedule is for has to pass while nobody runs
    const second = await serve(folder);
    await until(async () => {
      const { result } = await second.api("GET", "/api/agents/worker");
      return result[0].phase === "live" || result[0].next_due_at === null;
    });
    const done = await until(async () => {
      const seen: string[] = await second.call("worker/a", "done");
      return seen.includes("end planned") && seen;
    });
    expect(done.filter((what) => what === "end planned")).toEqual(["end planned"]);
  }, 30_000);

  test("a task that kills the process is tried its three times over restarts, then kept as a dead letter", async () => {
    const folder = await newFolder({ "agents/worker.ts": WORKER });
    const first = await serve(folder);
    void first.call("worker/a", "push", ["killer"]).catch(() => {});
    for (let life = 0; life < 2; life++) {
      await until(() =>
        fetch(`${first.url}/healthz`).then(
          () => false,
          () => true,
        ),
      );
      await serve(folder).then(
        (next) =>
          until(() =>
            fetch(`${next.url}/healthz`).then(
              () => false,
              () => true,
            ),
          ),
        () => {},
      );
    }
    const last = await serve(folder);
    const dead = await until(async () => {
      const { result } = await last.api("GET", "/api/agents/worker/a/dead");
      return result?.length > 0 && result;
    });
    expect(dead).toMatchObject([{ kind: "queue", callback: "work", payload: "killer", attempts: 3 }]);
  }, 60_000);

  test("a fiber that was cut off is told to the agent", async () => {
    const folder = await newFolder({ "agents/worker.ts": WORKER });
    const first = await serve(folder);
    expect(await first.call("worker/a", "fiber", "k1")).toMatchObject({ accepted: true, status: "running" });
    expect(await first.call("worker/a", "fiber", "k1")).toMatchObject({ accepted: false });
    await first.stop("SIGKILL");
    const second = await serve(folder);
    expect(
      await until(async () => {
        const done: string[] = await second.call("worker/a", "done");
        return done.length > 0 && done;
      }),
    ).toEqual(["recovered long"]);
    expect(await second.call("worker/a", "fiber", "k1")).toMatchObject({ accepted: false, status: "completed" });
  }, 30_000);
});

describe("agent files", () => {
  test("relative imports, JSON, and packages beside the file work, one with an exports map too", async () => {
    const folder = await newFolder({
      "agents/shop.ts": `
        import { Agent, callable } from "agents";
        import { plain } from "plain-package";
        import { mapped } from "mapped-package/sub";
        import prices from "./data/prices.json";
        import { tax } from "./lib/tax.ts";
        export class Shop extends Agent { @callable() all() { return [plain(), mapped(), prices.apple, tax(10)]; } }`,
      "agents/data/prices.json": `{ "apple": 3 }`,
      "agents/lib/tax.ts": `export const tax = (price: number): number => price * 2;`,
      "agents/node_modules/plain-package/package.json": `{ "name": "plain-package", "version": "1.0.0", "main": "index.js" }`,
      "agents/node_modules/plain-package/index.js": `exports.plain = () => "plain";`,
      "agents/node_modules/mapped-package/package.json": `{ "name": "mapped-package", "version": "1.0.0", "type": "module", "exports": { "./sub": "./hidden/place.js" } }`,
      "agents/node_modules/mapped-package/hidden/place.js": `export const mapped = () => "mapped";`,
    });
    const server = await serve(folder);
    expect(await server.call("shop/a", "all")).toEqual(["plain", "mapped", 3, 20]);
  }, 30_000);

  test("a changed file takes over with state and clients kept; a broken one is reported with its line, the rest runs", async () => {
    const folder = await newFolder({ "agents/counter.ts": COUNTER, "agents/worker.ts": WORKER });
    const server = await serve(folder);
    using client = openClient(server, "counter", "a", TOKEN);
    expect(await client.call("add")).toBe(1);
    await writeFiles(folder, { "agents/counter.ts": COUNTER.replace("count + 1", "count + 100") });
    await until(async () => ((await client.call("add")) as number) > 100);
    expect(client.closes).toEqual([]);
    await writeFiles(folder, {
      "agents/counter.ts": `import { Agent } from "gatehouse";\nexport class Counter extends Agent {\n  broken(\n}`,
    });
    const [broken] = await until(async () => {
      const { result } = await server.api("GET", "/api/agents");
      return result.broken.length > 0 && result.broken;
    });
    expect(broken).toMatchObject({ line: 4, classes: ["counter"] });
    expect(broken.file).toEndWith("counter.ts");
    expect(await server.call("worker/a", "done")).toEqual([]);
    expect(typeof (await client.call("add"))).toBe("number");
  }, 30_000);
});

test("an error nobody caught is logged with its line, and the thread lives on", async () => {
  const CARELESS = `
import { Agent, callable } from "gatehouse";
let calls = 0;
export class Careless extends Agent {
  @callable() crash() { setTimeout(() => { throw new Error("later"); }, 1); return ++calls; }
  @callable() rejects() { void Promise.reject(new Error("nobody waits")); return ++calls; }
}`;
  const folder = await newFolder({ "agents/careless.ts": CARELESS });
  const server = await serve(folder);
  for (const [index, method, message] of [
    [1, "crash", "later"],
    [2, "rejects", "nobody waits"],
  ] as const) {
    expect(await server.call("careless/a", method)).toBe(index);
    const line = await until(() =>
      server
        .printed()
        .split("\n")
        .find((one) => one.includes(`"message":"${message}"`)),
    );
    expect(JSON.parse(line)).toMatchObject({ event: "agent.error", agent: "careless/a", line: index + 4 });
  }
}, 30_000);

test("five hundred agents wake, sleep and wake again with their state right, never more threads than allowed", async () => {
  const folder = await newFolder({ "agents/counter.ts": COUNTER });
  const server = await serve(folder, "--agent-live-max", "8", "--agent-wait-ms", "30000");
  const names = Array.from({ length: 500 }, (_, index) => `agent-${index}`);
  let most = 0;
  const round = async () => {
    const results = new Set<unknown>();
    const next = names.values();
    const runner = async () => {
      for (const name of next) {
        results.add(await server.call(`counter/${name}`, "add"));
        const { result } = await server.api("GET", "/api/agents");
        most = Math.max(most, result.threads.live);
      }
    };
    await Promise.all(Array.from({ length: 4 }, runner));
    return [...results];
  };
  expect(await round()).toEqual([1]);
  expect(await round()).toEqual([2]);
  expect(most).toBeLessThanOrEqual(8);
  expect(most).toBeGreaterThan(4);
}, 120_000);
