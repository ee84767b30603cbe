// The drawing of the house against the house: import arrows, thread graphs, names, and what pages load.
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { embed } from "../scripts/embed.ts";
import { threadEntries } from "../scripts/threads.ts";
import {
  agentThread,
  bannedWords,
  fileNames,
  firstLine,
  importArrows,
  ownAddress,
  ownFilesOnly,
  type Rule,
  type Source,
  threadGraph,
} from "./support/tidy.ts";

const ROOT = join(import.meta.dir, "..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const glob = (pattern: string): Source[] =>
  Array.from(new Bun.Glob(pattern).scanSync({ cwd: ROOT, onlyFiles: true }), (path) => ({ path, text: read(path) }));

const src = glob("src/**/*.{ts,tsx}");
const code = [...src, ...glob("test/**/*.ts"), ...glob("scripts/**/*.ts")];
/** These hold the rules, and so the words. */
const RULES_THEMSELVES = ["test/tidy.test.ts", "test/support/tidy.ts"];

const at = (path: string, text = "// A file.\n"): Source => ({ path, text });
const importing = (path: string, ...targets: string[]) =>
  at(path, targets.map((target, index) => `import { x${index} } from "${target}";`).join("\n"));

type Row = { rule: Rule; name: string; over: Source[]; good: Source[]; bad: Source[] };

const ROWS: Row[] = [
  {
    name: "imports follow the arrows",
    rule: importArrows,
    over: src,
    bad: [
      importing("src/gateway/routes.ts", "../hooks/intake.ts"),
      importing("src/gateway/logs/worker.ts", "../../tags/store.ts"),
      at("src/hooks/intake.ts", 'import type { Roster } from "../agents/roster.ts";'),
      at("src/hooks/intake.ts", 'import { type Roster } from "../agents/roster.ts";'),
      at("src/hooks/intake.ts", 'const { x } = await import("../agents/roster.ts");'),
      at("src/hooks/intake.ts", 'export { x } from "../agents/roster.ts";'),
      importing("src/platform/edge.ts", "../tags/store.ts"),
      importing("src/platform/edge.ts", "../app.ts"),
      importing("src/tags/routes.ts", "../app.ts"),
      importing("src/tags/routes.ts", "../commands/serve.ts"),
      importing("src/app.ts", "./index.ts"),
    ],
    good: [
      importing("src/index.ts", "./commands/serve.ts", "./parts.ts", "./platform/log.ts"),
      importing("src/commands/serve.ts", "../app.ts", "../parts.ts", "../agents/roster.ts", "./api.ts"),
      importing("src/gateway/logs/worker.ts", "../usage.ts", "../../platform/sqlite.ts", "elysia", "node:fs"),
      importing("src/platform/version.ts", "../../package.json", "./log.ts"),
      at("src/tags/filter.ts", "export const same = <T>(it: T): T => it;"),
    ],
  },
  {
    name: "names say what is inside",
    rule: fileNames,
    over: [...glob("{src,test,scripts}/**/*")],
    bad: ["src/utils.ts", "src/tags/types.ts", "src/lib/x.ts", "src/hooks/service.ts", "src/tags/index.ts"].map(
      (path) => at(path),
    ),
    good: ["src/index.ts", "src/commands/service.ts", "src/console/ui/index.html", "src/tags/resource-types.ts"].map(
      (path) => at(path),
    ),
  },
  {
    name: "nothing is left unfinished or switched off",
    rule: bannedWords,
    over: code.filter(({ path }) => !RULES_THEMSELVES.includes(path)),
    bad: [
      "// TODO: later",
      "// @ts-ignore",
      "x as unknown as Y",
      'test.skip("x")',
      'describe.only("x")',
      'export * from "./x.ts"',
      "class TokenManager {}",
    ].map((text) => at("src/x.ts", text)),
    good: ["// What is left to do is a list.", "type Pager = { service: string }", "test.skipped()"].map((text) =>
      at("src/x.ts", text),
    ),
  },
  {
    name: "only the process's entry asks where it is",
    rule: ownAddress,
    over: src,
    bad: [at("src/agents/roster.ts", 'new URL("./worker.ts", import.meta.url)'), at("src/app.ts", "import.meta.dir")],
    good: [at("src/index.ts", 'new URL("./agents/worker.ts", import.meta.url)'), at("src/app.ts", "import.meta.main")],
  },
  {
    name: "the first line says the idea",
    rule: firstLine,
    over: [...src, ...glob("scripts/**/*.ts")],
    bad: [at("src/x.ts", 'import { x } from "./y.ts";'), at("src/x.ts", "//\n"), at("src/x.ts", "\n// Late.")],
    good: [at("src/x.ts", "// One idea.\n"), at("src/x.ts", "/* One idea. */")],
  },
  {
    name: "sources of pages load from this host alone",
    rule: ownFilesOnly,
    over: glob("src/**/*.{ts,tsx,html,css,svg}"),
    bad: [
      '<script src="https://example.org/x.js"></script>',
      '<link rel="stylesheet" href="//example.org/x.css" />',
      '<img alt="" src="http://example.org/x.png">',
      "a { background: url(https://example.org/x.png) }",
      '@import "https://example.org/x.css";',
      'await import("https://example.org/x.js")',
      'import x from "https://example.org/x.js"',
      'const page = "unpkg.com/swagger-ui"',
      'const page = "https://cdn.example.org/x.js"',
      "https://cdn.jsdelivr.net/npm/x",
    ].map((text) => at("src/console/ui/x.html", text)),
    good: [
      '<a href="https://example.org/">a link</a>',
      '<script type="module" src="./main.tsx"></script>',
      '<svg xmlns="http://www.w3.org/2000/svg">',
      'const openai = "https://api.openai.com/v1"',
      "url(data:image/svg+xml;base64,AAAA)",
    ].map((text) => at("src/console/ui/x.html", text)),
  },
];

describe.each(ROWS)("$name", ({ rule, over, good, bad }) => {
  test("the rule catches what breaks it and leaves the rest alone", () => {
    expect(bad.filter((sample) => rule(sample).length === 0)).toEqual([]);
    expect(good.flatMap(rule)).toEqual([]);
  });

  test("and the house keeps it", () => {
    expect(over.length).toBeGreaterThan(0);
    expect(over.flatMap(rule)).toEqual([]);
  });
});

describe("a thread loads only what it needs", () => {
  const tree = (files: Record<string, string>) => (path: string) => files[path] ?? "";

  test("the rule follows imports and is not fooled by types", () => {
    const heavy = tree({
      "src/agents/worker.ts": 'import { x } from "./runtime/queue.ts"; import type { Y } from "./roster.ts";',
      "src/agents/runtime/queue.ts": 'import { z } from "../../platform/sqlite.ts"; import { t } from "elysia";',
    });
    expect(agentThread("src/agents/worker.ts", heavy)).toEqual([
      "src/agents/worker.ts reaches elysia, through src/agents/runtime/queue.ts",
    ]);
    const wide = tree({
      "src/agents/worker.ts": 'import { x } from "./sdk/agent.ts";',
      "src/agents/sdk/agent.ts": 'import { x } from "../../platform/config.ts";',
      "src/platform/config.ts": 'import { Value } from "@sinclair/typebox/value";',
    });
    expect(agentThread("src/agents/worker.ts", wide)).toEqual([
      "src/agents/worker.ts reaches src/platform/config.ts",
      "src/agents/worker.ts reaches @sinclair/typebox/value, through src/platform/config.ts",
    ]);
  });

  test("the agent thread keeps to its own rooms", () => {
    const entry = "src/agents/worker.ts";
    expect(existsSync(join(ROOT, entry)) ? agentThread(entry, read) : []).toEqual([]);
  });

  test("no thread loads the web framework", () => {
    expect(threadEntries(read("src/index.ts")).flatMap((entry) => threadGraph(entry, read))).toEqual([]);
  });

  test("every thread that the program starts is found by the build", () => {
    const index = 'x(new URL("./agents/worker.ts", import.meta.url)); y(new URL("../dist/embed", import.meta.url));';
    expect(threadEntries(index)).toEqual(["src/agents/worker.ts"]);
    const spelled = read("src/index.ts").match(/new URL\(/g) ?? [];
    const others = read("src/index.ts").match(/new URL\("\.\.\/dist\/embed", import\.meta\.url\)/g) ?? [];
    expect(threadEntries(read("src/index.ts")).length + others.length).toBe(spelled.length);
  });
});

test("what the executable carries loads from this host alone", async () => {
  const files = await embed();
  expect(files.map(({ name }) => name).some((name) => name.includes("swagger"))).toBe(true);
  const packed = Array.from(new Bun.Glob("**/*.gz").scanSync(join(ROOT, "dist/embed")));
  expect(packed.length).toBe(files.length);
  for (const path of packed.filter((name) => !name.endsWith(".txt.gz"))) {
    const bytes = readFileSync(join(ROOT, "dist/embed", path));
    expect(ownFilesOnly({ path, text: new TextDecoder().decode(Bun.gunzipSync(bytes)) })).toEqual([]);
  }
});
