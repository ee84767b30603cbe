// gatehouse tags as a person types it: its own process, with a server and without.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type House, startHouse, tempFolder } from "../support/house.ts";

setDefaultTimeout(60_000); // a dozen processes, one after the other

const INDEX = join(import.meta.dir, "../../src/index.ts");
const folder = tempFolder();
let house: House;

beforeAll(async () => {
  house = await startHouse();
});
afterAll(async () => {
  await house[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

function start(args: string[], data = join(house.folder, "data")) {
  const env = { PATH: process.env.PATH ?? "", GATEHOUSE_DATA: data };
  const options = { cwd: folder, env, stdin: "pipe", stdout: "pipe", stderr: "pipe" } as const;
  return Bun.spawn([process.execPath, INDEX, "tags", ...args], options);
}

async function run(args: string[], { data, input }: { data?: string; input?: string } = {}) {
  const child = start(args, data);
  if (input !== undefined) child.stdin.write(input);
  await child.stdin.end();
  const [code, out, err] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code, out: out.trimEnd().split("\n"), err: err.trimEnd() };
}

describe("what is called wrongly ends with 2 and a sentence", () => {
  test.each([
    [[], "gatehouse: say get, set, rm, find, keys, values, export, import"],
    [["toString"], "gatehouse: say get, set, rm, find, keys, values, export, import"],
    [["get", "worker"], "gatehouse: usage: gatehouse tags get TYPE ID"],
    [["get", "worker", "w", "x"], "gatehouse: usage: gatehouse tags get TYPE ID"],
    [["values"], "gatehouse: usage: gatehouse tags values KEY [--type T]"],
    [["import", "a", "b"], "gatehouse: usage: gatehouse tags import [FILE] < FILE"],
  ])("%p", async (args, sentence) => {
    const { code, err } = await run(args);
    expect([code, err]).toEqual([2, sentence]);
  });
});

test.each([
  [["get", "worker", "none"], "gatehouse: resource not found: type=worker id=none"],
  [["get", "wrk", "none"], "gatehouse: Invalid resource type"],
  [["find", "=x"], /^gatehouse: tag parameter must be in format/],
  [["keys", "--account", "none"], "gatehouse: This token may not do that"],
  [["import", "missing.ndjson"], "gatehouse: missing.ndjson does not exist"],
  [["import", "."], "gatehouse: . is not a file"],
])("what fails ends with 1 and the server's sentence: %p", async (args, sentence) => {
  const { code, err } = await run(args);
  expect(code).toBe(1);
  if (typeof sentence === "string") expect(err).toBe(sentence);
  else expect(err).toMatch(sentence);
});

test("set, get, merge, rm and find, against the running server", async () => {
  expect((await run(["set", "worker", "w", "env=prod", "note", "sum=1+1=2"])).out).toEqual([
    "env=prod",
    "note=",
    "sum=1+1=2",
  ]);
  expect((await run(["set", "worker", "w", "--merge", "team=a"])).out).toEqual([
    "env=prod",
    "note=",
    "sum=1+1=2",
    "team=a",
  ]);
  expect((await run(["rm", "worker", "w", "note", "sum"])).out).toEqual(["env=prod", "team=a"]);
  expect((await run(["get", "worker", "w"])).out).toEqual(["env=prod", "team=a"]);
  await run(["set", "dns_record", "www", "--zone", "example.org", "env=dev"]);
  await run(["set", "worker_version", "1", "--worker", "w", "ENV=prod"]);
  expect((await run(["find", "env=prod,dev", "!sum"])).out).toEqual([
    "dns_record  www  env=dev",
    "worker  w  env=prod  team=a",
  ]);
  expect((await run(["find", "env=PROD", "-i", "-t", "worker_version", "--name", "1"])).out).toEqual([
    "worker_version  1  ENV=prod",
  ]);
  const [json = ""] = (await run(["find", "--id", "w", "--json"])).out;
  expect(JSON.parse(json)).toMatchObject({ type: "worker", id: "w", tags: { env: "prod", team: "a" } });
  expect((await run(["keys"])).out).toEqual(["ENV", "env", "team"]);
  expect((await run(["keys", "--json"])).out).toEqual(['"ENV"', '"env"', '"team"']);
  expect((await run(["values", "env", "--type", "worker"])).out).toEqual(["prod"]);
  expect((await run(["rm", "worker", "w"])).code).toBe(0);
  expect((await run(["get", "worker", "w"])).code).toBe(1);
});

test("export and import carry tags to a folder that no server has open", async () => {
  const resources = Array.from({ length: 150 }, (_, n) => ({
    resource_type: "queue",
    resource_id: `q${n}`,
    tags: { carried: "yes", n: String(n) },
  }));
  await house.api("POST", "/api/accounts/home/tags/bulk", { resources });
  const { out } = await run(["export", "carried"]);
  expect(out.length).toBe(150);
  const data = join(folder, "other");
  expect((await run(["import"], { data, input: out.join("\n") })).out).toEqual(["imported 150 resources"]);
  expect((await run(["export"], { data })).out).toEqual(out);
  const file = join(folder, "bad.ndjson");
  writeFileSync(file, `${out[0]}\n{}\n`);
  const bad = await run(["import", file], { data });
  expect([bad.code, bad.err]).toEqual([1, "gatehouse: line 2: Invalid set payload; 1 resources before it were stored"]);
  expect((await run(["find", "n=1", "carried"], { data })).out).toEqual(["queue  q1  carried=yes  n=1"]);
});

test("an import that takes longer than a second says how far it is", async () => {
  const child = start(["import"]);
  child.stdin.write(`${JSON.stringify({ resource_type: "worker", resource_id: "slow", tags: {} })}\n`);
  await child.stdin.flush();
  const reader = child.stderr.getReader();
  const { value } = await reader.read(); // nothing is said before the first second, so this waits for it
  expect(new TextDecoder().decode(value)).toMatch(/^\d+ lines sent\n/);
  await child.stdin.end();
  expect([await child.exited, await new Response(child.stdout).text()]).toEqual([0, "imported 1 resources\n"]);
});

test("a value that a terminal would obey reaches a pipe as it is, and a terminal without its teeth", async () => {
  const args = ["find", "evil", "--name", "escape"];
  await house.api("PUT", "/api/accounts/home/tags", {
    resource_type: "worker",
    resource_id: "escape",
    tags: { evil: "a\u001b[2J\u009b2Jb\tc" },
  });
  expect((await run(args)).out).toEqual(["worker  escape  evil=a\u001b[2J\u009b2Jb\tc"]);
  let shown = "";
  const decoder = new TextDecoder();
  const child = Bun.spawn([process.execPath, INDEX, "tags", ...args], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? "", GATEHOUSE_DATA: join(house.folder, "data") },
    terminal: {
      data(_, bytes) {
        shown += decoder.decode(bytes, { stream: true });
      },
    },
  });
  await child.exited;
  while (!shown.includes("\n")) await Bun.sleep(1);
  expect(shown.replaceAll(/\t| {2,}/g, " ").trim()).toBe("worker escape evil=a�[2J�2Jb c");
});
