// What a page of tagged resources costs as the table grows: p50 and p99 in milliseconds at each size.
//   scripts/bench tags [SIZE ...]      default: 10000 100000 1000000
import { statSync } from "node:fs";
import { join } from "node:path";
import { parseFilters } from "../src/tags/filter.ts";
import { FIRST, type Position } from "../src/tags/position.ts";
import type { Query } from "../src/tags/search.ts";
import type { TagStore } from "../src/tags/store.ts";
import { startHouse } from "../test/support/house.ts";

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
  await using house = await startHouse({ settings: { log: "error" } });
  const store = house.parts.tags;
  const cells = new Map<string, string>();
  const note = async (name: string, round: (n: number) => unknown) => {
    const [p50, p99] = await measure(round);
    cells.set(name, `${p50.toFixed(2)} / ${p99.toFixed(2)}`);
  };
  const find = (tags: string[], after?: Position, more: Partial<Query> = {}) => {
    const parsed = parseFilters(tags);
    if (!parsed.ok) throw new Error(parsed.code);
    const filters = { all: parsed.filters, foldCase: false };
    return store.find(ACCOUNT, { filters, types: [], ids: [], ...more }, after);
  };
  const get = async (path: string) => {
    const headers = { authorization: `Bearer ${house.adminToken}` };
    const answer = await house.fetch(`/api/accounts/${ACCOUNT}/tags/${path}`, { headers });
    if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}`);
    await answer.arrayBuffer();
  };

  const loadMs = load(store, size);
  await note("GET /tags/resources?tag=env=prod&tag=team=a,b over HTTP", () =>
    get("resources?tag=env%3Dprod&tag=team%3Da,b"),
  );
  for (const [name, tags] of Object.entries(QUERIES)) await note(name, () => find(tags));
  await note("env=prod & team=a,b, behind a random cursor", (n) => find(["env=prod", "team=a,b"], positionOf(n * 37)));
  await note("env=prod & type=queue", () => find(["env=prod"], undefined, { types: ["queue"] }));
  await note("env=prod & 50 ids", (n) => {
    return find(["env=prod"], undefined, { ids: Array.from({ length: 50 }, (_, k) => positionOf(n * 50 + k).id) });
  });
  await note("no filter, behind a random cursor", (n) => find([], positionOf(n * 37)));
  await note("keys", () => store.keys(ACCOUNT));
  await note("values/serial, a page", (n) => store.values(ACCOUNT, "serial", undefined, `sn-${n}`));
  await note("values/team?type=queue", () => store.values(ACCOUNT, "team", "queue"));
  await note("summary", () => store.summary(ACCOUNT));
  await note("read one", (n) => store.read(ACCOUNT, positionOf(n * 37)));
  await note("replace one (synced to disk)", (n) => {
    const one = (n * 37) % size;
    return store.replace(ACCOUNT, { position: positionOf(one), tags: tagsOf(one + 8) });
  });
  await note("insert one (synced to disk)", (n) => {
    return store.replace(ACCOUNT, { position: positionOf(size + n), tags: tagsOf(size + n) });
  });
  await note("remove one (synced to disk)", (n) => store.remove(ACCOUNT, positionOf(size + n)));
  const start = performance.now();
  await find([], undefined, { name: "no such name" });
  cells.set("name without a match, which reads every name (once)", (performance.now() - start).toFixed(0));
  cells.set("loaded in batches of 1,000, resources a second", String(Math.round(size / (loadMs / 1_000))));
  cells.set("file, bytes a resource", String(Math.round(statSync(join(house.folder, "data/tags.db")).size / size)));
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
