// The agents folder: which classes are found, what is reported when a file is broken, and how a change takes over.
import { describe, expect, test } from "bun:test";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { toKebab } from "../../src/agents/runtime/names.ts";
import { failure, startAgents, until, writeFiles } from "../support/agents.ts";

const agent = (name: string, body = "") =>
  `import { Agent, callable } from "gatehouse";\nexport class ${name} extends Agent {\n  ${body}\n}\n`;
const version = (value: number) => agent("Thing", `@callable() version() { return ${value}; }`);
const classNames = (agents: Awaited<ReturnType<typeof startAgents>>) =>
  agents.catalog.list().map((entry) => entry.className);

test.each([
  ["ChatRoom", "chat-room"],
  ["AIAssistant", "a-i-assistant"],
  ["LOUD_AGENT", "loud-agent"],
  ["snake_case", "snake-case"],
  ["already-kebab", "already-kebab"],
  ["Trailing_", "trailing"],
])("%s is %s, as the clients have it", (name, kebab) => {
  expect(toKebab(name)).toBe(kebab);
});

describe("broken files are reported with file, line and message, and the rest runs", () => {
  test.each([
    ["a syntax error", `import { Agent } from "gatehouse";\n\nexport class Bad extends Agent { oops( }`, 3, "Expected"],
    [
      "an import that leads nowhere",
      `import { Agent } from "gatehouse";\nimport x from "./nowhere.ts";\nexport class Bad extends Agent { y = x; }`,
      2,
      "nowhere",
    ],
    [
      "a package that is not there",
      `import { Agent } from "gatehouse";\nimport x from "no-such-package";\nexport class Bad extends Agent { y = x; }`,
      2,
      "no-such-package",
    ],
    [
      "a throw while loading",
      `import { Agent } from "gatehouse";\nexport class Bad extends Agent {}\nthrow new Error("no luck");`,
      3,
      "no luck",
    ],
    [
      "an export the SDK does not have",
      `import { Agent, nonsense } from "gatehouse";\nexport class Bad extends Agent { y = nonsense; }`,
      undefined,
      "nonsense",
    ],
    ["an exit while loading", `process.exit(0);`, undefined, "ended its thread"],
    [
      "a file that never finishes loading",
      `await new Promise(() => {}); export const x = 1;`,
      undefined,
      "not loaded after",
    ],
    ["a file that loops", `for (;;);`, undefined, "not loaded after"],
    ["a class of a name that is taken", agent("Good"), 2, "already in a-good.ts"],
  ])("%s", async (_, text, line, words) => {
    await using agents = await startAgents({
      files: { "a-good.ts": agent("Good", `@callable() hi() { return "hi"; }`), "bad.ts": text },
      limits: { describeMsMax: 1_500 },
    });
    const [broken, ...more] = agents.catalog.broken();
    expect(more).toEqual([]);
    expect(broken?.file).toEndWith("bad.ts");
    expect(broken?.problem.message).toContain(words);
    if (line !== undefined) expect(broken?.problem.line).toBe(line);
    expect(agents.lines.filter((one) => one.event === "agents.broken_file").length).toBe(1);
    expect(await agents.call("good", "a", "hi", [])).toBe("hi");
  });
});

test("classes are named by export, by class name when default, by file when anonymous; helpers are none", async () => {
  await using agents = await startAgents({
    files: {
      "a.ts": `import { Agent } from "agents"; class Inner extends Agent {} export { Inner as Renamed };`,
      "b.ts": `import { Agent } from "agents"; export default class NamedDefault extends Agent {}`,
      "file_name.ts": `import { Agent } from "agents"; export default class extends Agent {}`,
      "two.ts": `import { Agent } from "agents"; export class One extends Agent {} export class Two extends One {} export default { fetch() {} };`,
      "helper.ts": `export const help = () => 1;`,
      "types.d.ts": `declare const x: number;`,
      "some.test.ts": `throw new Error("tests are not agents");`,
      ".hidden.ts": `throw new Error("hidden");`,
      "sub/deep.ts": `throw new Error("folders hold helpers");`,
      "node_modules/x/index.ts": `throw new Error("packages are not agents");`,
    },
  });
  expect(agents.catalog.broken()).toEqual([]);
  expect(
    classNames(agents)
      .filter((name) => name !== "webhook-agent")
      .sort(),
  ).toEqual(["file-name", "named-default", "one", "renamed", "two"].sort());
});

test("a missing folder is an empty one, and files count once it is there", async () => {
  await using agents = await startAgents();
  expect(classNames(agents)).not.toContain("thing");
  await agents.write({ "thing.ts": version(1) });
  await until(() => agents.catalog.get("thing"));
  expect(await agents.call("thing", "a", "version", [])).toBe(1);
});

describe("a change", () => {
  test("in the file, in what it imports, or by renaming over it takes over; running calls finish on the old code", async () => {
    await using agents = await startAgents({
      files: {
        "thing.ts": `import { Agent, callable } from "gatehouse"; import { value } from "./lib/value.ts";
          export class Thing extends Agent { @callable() version() { return value; }
            @callable() async slow() { await new Promise((done) => setTimeout(done, 400)); return value; } }`,
        "lib/value.ts": "export const value = 1;",
      },
    });
    const slow = agents.call("thing", "a", "slow", []);
    expect(await agents.call("thing", "a", "version", [])).toBe(1);
    await agents.write({ "lib/value.ts": "export const value = 2;" });
    await until(async () => (await agents.call("thing", "a", "version", [])) === 2);
    expect(await slow).toBe(1);
    await writeFiles(agents.dataFolder, { "new.ts": version(3) });
    await rename(join(agents.dataFolder, "new.ts"), join(agents.agentsFolder, "thing.ts"));
    await until(async () => (await agents.call("thing", "a", "version", [])) === 3);
  });

  test("in one class leaves the threads of another alone", async () => {
    const other = agent("Other", `@callable() lives() { return (globalThis.lives = (globalThis.lives ?? 0) + 1); }`);
    await using agents = await startAgents({ files: { "thing.ts": version(1), "other.ts": other } });
    expect(await agents.call("other", "a", "lives", [])).toBe(1);
    await agents.write({ "thing.ts": version(2) });
    await until(async () => (await agents.call("thing", "a", "version", [])) === 2);
    expect(await agents.call("other", "a", "lives", [])).toBe(2);
  });

  test("that breaks the file leaves running agents running; removing the file ends the class", async () => {
    await using agents = await startAgents({ files: { "thing.ts": version(1) } });
    expect(await agents.call("thing", "a", "version", [])).toBe(1);
    await agents.write({ "thing.ts": "export class {" });
    await until(() => agents.catalog.isBroken("thing"));
    expect(agents.roster.seat("thing", "a")?.phase).toBe("live");
    expect((await failure(agents.call("thing", "b", "version", []))).code).toBe("agent.broken");
    const closes: unknown[] = [];
    const ws = { send() {}, close: (code?: number) => void closes.push(code), subscribe() {}, publish() {} };
    agents.connect("thing", "a", { ws, id: "x", url: "http://test/", headers: [], mayEdit: true, mayWriteState: true });
    await rm(join(agents.agentsFolder, "thing.ts"));
    await until(() => !agents.catalog.isBroken("thing"));
    expect((await failure(agents.call("thing", "a", "version", []))).code).toBe("agent.class");
    await until(() => agents.roster.threadCount === 0);
    expect(closes).toEqual([4404]);
  });

  test("that moves a class out of a file that broke takes over", async () => {
    await using agents = await startAgents({ files: { "thing.ts": version(1) } });
    expect(await agents.call("thing", "a", "version", [])).toBe(1);
    await agents.write({ "thing.ts": "export class {", "moved.ts": version(2) });
    await until(async () => (await agents.call("thing", "a", "version", [])) === 2);
    expect(agents.catalog.broken().length).toBe(1);
  });

  test("that makes the folder, or takes it away and brings it back, is seen too", async () => {
    await using agents = await startAgents();
    for (const made of [1, 2]) {
      await rm(agents.agentsFolder, { recursive: true, force: true });
      await until(() => agents.catalog.get("thing") === undefined);
      await agents.write({ "thing.ts": version(made) });
      await until(() => agents.catalog.get("thing") !== undefined);
      expect(await agents.call("thing", "a", "version", [])).toBe(made);
    }
  });

  test("may use a package that was installed after the folder was first looked at", async () => {
    await using agents = await startAgents({ files: { "thing.ts": version(1) } });
    await agents.write({
      "node_modules/fresh/package.json": `{ "name": "fresh", "exports": { ".": "./dist/main.js" } }`,
      "node_modules/fresh/dist/main.js": "export const fresh = 2;",
    });
    await agents.write({
      "thing.ts": `import { fresh } from "fresh";\n${version(0).replace("return 0", "return fresh")}`,
    });
    await until(() => agents.lines.filter((line) => /^agents\.(classes|broken_file)$/.test(line.event)).length > 1);
    expect(agents.catalog.broken()).toEqual([]);
    expect(await agents.call("thing", "a", "version", [])).toBe(2);
  });

  test("under node_modules is not watched", async () => {
    await using agents = await startAgents({
      files: { "thing.ts": version(1), "node_modules/pack/index.js": "module.exports = 1;" },
    });
    let looks = 0;
    const before = agents.catalog.get("thing");
    await agents.write({ "node_modules/pack/index.js": "module.exports = 2;", "node_modules/pack/more.js": "" });
    await agents.write({ "marker.ts": agent("Marker") });
    await until(() => agents.catalog.get("marker"));
    looks += agents.lines.filter((line) => line.event === "agents.classes").length;
    expect(looks).toBe(2);
    expect(agents.catalog.get("thing")?.fingerprint).toBe(before?.fingerprint ?? "");
  });
});

test("decorators of the older kind are refused with a sentence that says what to do", async () => {
  const { callable } = await import("../../src/agents/sdk/callable.ts");
  const legacy: unknown = callable();
  expect(() => typeof legacy === "function" && legacy({}, "method", {})).toThrow("experimentalDecorators");
});
