// The verbs for agents, run as a person would: from a folder, without a server and beside one.

import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../src/agents/sdk/agent.ts";
import { DECLARATIONS } from "../../src/agents/sdk/declarations.ts";
import { createSdk } from "../../src/agents/sdk/module.ts";
import { agents } from "../../src/commands/agents.ts";
import { parseConfig } from "../../src/platform/config.ts";
import { tempFolder } from "../support/house.ts";

const ROOT = join(import.meta.dir, "../..");

async function gatehouse(cwd: string, args: string[], stdin = "", env: Record<string, string> = {}) {
  const child = Bun.spawn([process.execPath, join(ROOT, "src/index.ts"), ...args], {
    cwd,
    env: { PATH: process.env.PATH ?? "", ...env },
    stdin: new Blob([stdin]),
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, out: out.trim(), err };
}

/** A folder in which something was stored before. */
async function usedFolder(): Promise<string> {
  const folder = tempFolder();
  await gatehouse(folder, ["account", "create", "lab"]);
  return folder;
}

describe("refuses", () => {
  test.each([
    [["agents"], "say one of list"],
    [["agents", "fly"], "say one of list"],
    [["agents", "constructor"], "say one of list"],
    [["agents", "show", "counter"], "help agents"],
    [["agents", "rm", "counter", "never"], "There is no such agent"],
    [["agents", "call", "nobody", "a", "add"], "There is no agent class"],
    [["agents", "export", "webhook-agent", "never", "copy.db"], "There is no such agent"],
    [["secret", "set"], "secret set CLASS NAME"],
    [["secret", "set", "counter", "KEY"], "standard input was empty"],
    [["init", "a", "b"], "unexpected: b"],
    [["init", "data/gatehouse.db"], "gatehouse: cannot write data/gatehouse.db/"],
  ])("%j", async (args, words) => {
    const { code, err } = await gatehouse(await usedFolder(), args);
    expect(code).toBeGreaterThan(0);
    expect(err).toContain(words);
  });
});

test.each([[["help"]], [["config", "--explain"]], [["agents", "list"]]])(
  "%j into a pipe whose reader has left ends without a word",
  async (args) => {
    const index = join(ROOT, "src/index.ts");
    const piped = Bun.spawnSync(["sh", "-c", '"$0" "$@" | true', process.execPath, index, ...args], {
      cwd: await usedFolder(),
      env: { PATH: process.env.PATH ?? "" },
      stderr: "pipe",
    });
    expect(piped.stderr.toString()).toBe("");
  },
);

test("init writes an example that works, its types please the compiler, and what is there is kept", async () => {
  const folder = tempFolder();
  const first = await gatehouse(folder, ["init"]);
  expect(first.out).toContain("written  agents/counter.ts");
  const check = Bun.spawnSync([join(ROOT, "node_modules/.bin/tsc"), "-p", join(folder, "agents")]);
  expect(check.stdout.toString()).toBe("");
  expect(await gatehouse(folder, ["agents", "call", "counter", "demo", "add", "5"])).toMatchObject({
    code: 0,
    out: "5",
  });
  writeFileSync(join(folder, "agents/counter.ts"), "// mine");
  const second = await gatehouse(folder, ["init"]);
  expect(second.out).toContain("kept     agents/counter.ts");
  expect(readFileSync(join(folder, "agents/counter.ts"), "utf8")).toBe("// mine");
}, 30_000);

test("agents are listed, shown, asked, copied and destroyed", async () => {
  const folder = tempFolder();
  await gatehouse(folder, ["init"]);
  await gatehouse(folder, ["agents", "call", "counter", "a", "add", "2"]);
  await gatehouse(folder, ["agents", "call", "counter", "b", "add"]);
  expect((await gatehouse(folder, ["agents", "list"])).out).toContain("counter  2 agents, 0 live  agents/counter.ts");
  const listed = await gatehouse(folder, ["agents", "list", "counter", "--prefix", "a"]);
  expect(listed.out).toMatch(/^a {2}asleep {2}\d+ bytes/);
  const shown = JSON.parse((await gatehouse(folder, ["agents", "show", "counter", "a"])).out);
  expect(shown).toMatchObject({ name: "a", queue_length: 0, state: { count: 2 } });
  const asked = await gatehouse(folder, ["agents", "sql", "counter", "a", "select count as n, 'x' as t from history"]);
  expect(asked.out).toBe("n\tt\n2\tx");
  for (const query of [
    "delete from history",
    "attach 'other.db' as o",
    "vacuum into 'copy.db'",
    "pragma user_version",
  ]) {
    const refused = await gatehouse(folder, ["agents", "sql", "counter", "a", query]);
    expect([refused.code, refused.err]).toEqual([1, expect.stringMatching(/not authorized|authorization denied/)]);
  }
  expect(existsSync(join(folder, "copy.db"))).toBe(false);
  const copied = await gatehouse(folder, ["agents", "export", "counter", "a", "copy.db"]);
  expect(copied.out).toMatch(/^\d+ bytes written to copy\.db$/);
  expect(statSync(join(folder, "copy.db")).mode & 0o777).toBe(0o600);
  const nowhere = await gatehouse(folder, ["agents", "export", "counter", "a", "no/such/copy.db"]);
  expect([nowhere.code, nowhere.err]).toEqual([1, expect.stringContaining("cannot write no/such/copy.db")]);
  using copy = new Database(join(folder, "copy.db"), { readonly: true });
  expect(copy.query("select count from history").all()).toEqual([{ count: 2 }]);
  expect((await gatehouse(folder, ["agents", "rm", "counter", "a"])).out).toBe("destroyed counter/a");
  expect((await gatehouse(folder, ["agents", "list", "counter"])).out).toMatch(/^b /);
  expect((await gatehouse(folder, ["agents", "list"])).out).toContain("counter  1 agent, 0 live");
}, 60_000);

test("a query that does not end is ended", async () => {
  const folder = tempFolder();
  await gatehouse(folder, ["init"]);
  await gatehouse(folder, ["agents", "call", "counter", "a", "add"]);
  const endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select max(x) from n";
  const { code, err } = await gatehouse(folder, ["agents", "sql", "counter", "a", endless]);
  expect([code, err]).toEqual([1, expect.stringContaining("ended after 5000 ms")]);
}, 30_000);

test("secrets come from standard input or from variables, and reach their class alone", async () => {
  const folder = tempFolder();
  await gatehouse(folder, ["init"]);
  const spy = (name: string) =>
    `import { Agent, callable } from "gatehouse"; export class ${name} extends Agent { @callable() all() { return { ...(this.env as object) }; } }`;
  writeFileSync(join(folder, "agents/spies.ts"), `${spy("MySpy")}\n${spy("Other").replace(/^.*?;/, "")}`);
  expect((await gatehouse(folder, ["secret", "set", "MySpy", "API_KEY"], "s3cret\n")).out).toBe(
    "set API_KEY for my-spy",
  );
  const env = { GATEHOUSE_AGENT_ENV_MY_SPY__FROM_ENV: "v", GATEHOUSE_AGENT_ENV_MY_SPY__API_KEY: "loses" };
  const seen = await gatehouse(folder, ["agents", "call", "my-spy", "a", "all"], "", env);
  expect(JSON.parse(seen.out)).toEqual({ API_KEY: "s3cret", FROM_ENV: "v" });
  expect(JSON.parse((await gatehouse(folder, ["agents", "call", "other", "a", "all"], "", env)).out)).toEqual({});
  const listed = await gatehouse(folder, ["secret", "list", "my-spy"]);
  expect(listed.out).toMatch(/^API_KEY {2}stored {2}\d/);
  expect(listed.out).not.toContain("s3cret");
  expect((await gatehouse(folder, ["secret", "rm", "my-spy", "API_KEY"])).out).toBe("removed API_KEY from my-spy");
}, 60_000);

test("the written types name everything the module has", () => {
  const names = [...Object.keys(createSdk(() => undefined)), ...Object.getOwnPropertyNames(Agent.prototype)];
  const missing = names.filter((name) => name !== "constructor" && !new RegExp(`\\b${name}\\b`).test(DECLARATIONS));
  expect(missing).toEqual([]);
});

test("list goes on behind a full page, and ends at one that is not", async () => {
  const time = "2027-01-01T00:00:00.000Z";
  const asked: (string | null)[] = [];
  const lines: string[] = [];
  const call = async (_: string, path: string) => {
    const query = new URL(path, "http://localhost").searchParams;
    asked.push(query.get("cursor"));
    return Array.from({ length: asked.length === 1 ? 1_000 : 1 }, (_, n) => ({
      ...{ class: "counter", name: `${asked.length}-${n}`, phase: "asleep", connections: 0, queue_length: 0, bytes: 1 },
      ...{ created_at: time, last_active_at: time, next_due_at: null },
    }));
  };
  const config = parseConfig({ env: {}, flags: {} });
  if (!config.ok) throw new Error(config.problems.join("\n"));
  const never = () => Promise.reject(new Error("not asked for"));
  const code = await agents.run({
    args: ["list", "counter"],
    options: {},
    config,
    api: { call, ask: never, fetch: never, isServed: never },
    out: (line) => void lines.push(line),
    err: () => {},
    stdin: () => new ReadableStream(),
    pour: never,
  });
  expect([code, asked, lines.length]).toEqual([0, ["", "1-999"], 1_001]);
});
