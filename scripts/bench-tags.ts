// What a page of tagged resources costs as the table grows: p50 and p99 in milliseconds at each size.
//   scripts/bench tags [SIZE ...]      default: 10000 100000 1000000
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseFilters } from "../src/tags/filter.ts";
import { FIRST, type Position } from "../src/tags/position.ts";
import { createTagStore, type TagStore } from "../src/tags/store.ts";

const ACCOUNT = "home";
const ROUNDS = 200;
const WARM_UP_ROUNDS = 20;
const BATCH = 1_000;
const ENVS = ["prod", "staging", "dev", "test"];
const TEAMS = [..."abcdefghijklmnopqrst"];

/** Ids in no order, as hashes and UUIDs are: the hardest case for an ordered table. Types in four stretches. */
function positionOf(n: number): Position {
  const type = ["worker", "queue", "image", "agent"][n % 4] ?? "worker";
  return { ...FIRST, type, id: new Bun.CryptoHasher("md5").update(String(n)).digest("hex") };
}

/** Five tags: two common, two that split the table in halves (`half=left` never meets `side=b`), one unique. */
function tagsOf(n: number) {
  const isLeft = (n >> 2) % 2 === 0;
  return {
    env: ENVS[(n >> 3) % ENVS.length] ?? "",
    team: TEAMS[(n * 31) % TEAMS.length] ?? "",
    half: isLeft ? "left" : "right",
    side: isLeft ? "a" : "b",
    serial: `sn-${n}`,
  };
}

const many = (key: string) => `${key}=${[...ENVS, "u", "v", "w", "x", "y", "z"].join(",")}`;
const QUERIES: Record<string, string[]> = {
  "env=prod & team=a,b": ["env=prod", "team=a,b"],
  "env=prod (a quarter)": ["env=prod"],
  "has team (all)": ["team"],
  "serial=one (a single match)": ["serial=sn-4711"],
  "half=left & side=b (halves that never meet)": ["half=left", "side=b"],
  "half=left & !serial (all minus all)": ["half=left", "!serial"],
  "env!=prod & !archived": ["env!=prod", "!archived"],
  "20 filters, 65 values, no match": [
    ...Array.from({ length: 6 }, () => many("env")),
    ...Array.from({ length: 12 }, () => "half=left,right"),
    "half=left",
    "side=b",
  ],
};

async function measure(round: (n: number) => unknown): Promise<[number, number]> {
  for (let n = 0; n < WARM_UP_ROUNDS; n += 1) await round(n);
  const times: number[] = [];
  for (let n = 0; n < ROUNDS; n += 1) {
    const start = performance.now();
    await round(n);
    times.push(performance.now() - start);
  }
  times.sort((a, b) => a - b);
  return [times[ROUNDS >> 1] ?? 0, times[Math.floor(ROUNDS * 0.99)] ?? 0];
}

function load(store: TagStore, size: number): number {
  const start = performance.now();
  for (let at = 0; at < size; at += BATCH) {
    const numbers = Array.from({ length: Math.min(BATCH, size - at) }, (_, n) => at + n);
    store.replaceAll(
      ACCOUNT,
      numbers.map((n) => ({ position: positionOf(n), tags: tagsOf(n) })),
    );
  }
  return performance.now() - start;
}

async function run(size: number): Promise<Map<string, string>> {
  const folder = mkdtempSync(join(tmpdir(), "bench-tags-"));
  const path = join(folder, "tags.db");
  const store = createTagStore(path, { now: Date.now });
  const cells = new Map<string, string>();
  const note = (name: string, [p50, p99]: [number, number]) => cells.set(name, `${p50.toFixed(2)} / ${p99.toFixed(2)}`);
  try {
    const loadMs = load(store, size);
    const find = (tags: string[], after?: Position) => {
      const parsed = parseFilters(tags);
      if (!parsed.ok) throw new Error(parsed.code);
      const filters = { all: parsed.filters, foldCase: false };
      return store.find(ACCOUNT, { filters, types: [], ids: [] }, after);
    };
    for (const [name, tags] of Object.entries(QUERIES)) note(name, await measure(() => find(tags)));
    note(
      "env=prod & team=a,b, behind a random cursor",
      await measure((n) => find(["env=prod", "team=a,b"], positionOf(n * 37))),
    );
    note("no filter, behind a random cursor", await measure((n) => find([], positionOf(n * 37))));
    note("keys", await measure(() => store.keys(ACCOUNT)));
    note("values/serial, a page", await measure((n) => store.values(ACCOUNT, "serial", undefined, `sn-${n}`)));
    note("values/team?type=queue", await measure(() => store.values(ACCOUNT, "team", "queue")));
    note("summary", await measure(() => store.summary(ACCOUNT)));
    note("read one", await measure((n) => store.read(ACCOUNT, positionOf(n * 37))));
    note(
      "replace one (synced to disk)",
      await measure((n) => {
        const one = (n * 37) % size;
        return store.replace(ACCOUNT, { position: positionOf(one), tags: tagsOf(one + 8) });
      }),
    );
    note(
      "insert one (synced to disk)",
      await measure((n) => store.replace(ACCOUNT, { position: positionOf(size + n), tags: tagsOf(size + n) })),
    );
    note("remove one (synced to disk)", await measure((n) => store.remove(ACCOUNT, positionOf(size + n))));
    cells.set("loaded, resources a second", String(Math.round(size / (loadMs / 1_000))));
  } finally {
    store.close();
    cells.set("file, bytes a resource", String(Math.round(statSync(path).size / size)));
    rmSync(folder, { recursive: true });
  }
  return cells;
}

const given = Bun.argv.slice(2).map(Number);
const sizes = given.length > 0 ? given : [10_000, 100_000, 1_000_000];
const columns: Map<string, string>[] = [];
for (const size of sizes) columns.push(await run(size));
const names = [...(columns[0]?.keys() ?? [])];
console.log(`| p50 / p99 in ms, a page of 100 | ${sizes.map((size) => size.toLocaleString("en")).join(" | ")} |`);
console.log(`| --- |${" --- |".repeat(sizes.length)}`);
for (const name of names) console.log(`| ${name} | ${columns.map((cells) => cells.get(name)).join(" | ")} |`);
