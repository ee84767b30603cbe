// The store against a plain array: whatever the indexes do, the pages must be what a filter over all resources gives.
import { Database } from "bun:sqlite";
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "../../src/platform/errors.ts";
import { parseFilters, type Tags } from "../../src/tags/filter.ts";
import { FIRST, type Position } from "../../src/tags/position.ts";
import { SLOTS } from "../../src/tags/slots.ts";
import { createTagStore, type TagStore, type TagStoreOptions } from "../../src/tags/store.ts";

setDefaultTimeout(60_000); // thousands of writes, perhaps beside a build on two cores

const folders: string[] = [];
const stores: TagStore[] = [];

function openStore(options: Partial<TagStoreOptions> = {}, path = newPath()): TagStore {
  const store = createTagStore(path, { now: () => 1_000, ...options });
  stores.push(store);
  return store;
}

function newPath(): string {
  const folder = mkdtempSync(join(tmpdir(), "tags-"));
  folders.push(folder);
  return join(folder, "tags.db");
}

afterEach(() => {
  for (const store of stores.splice(0)) store.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

const worker = (id: string): Position => ({ ...FIRST, type: "worker", id });
const nothing = { types: [], ids: [], filters: { all: [], foldCase: false } };

type Ask = { tag?: string[]; types?: string[]; ids?: string[]; name?: string; foldCase?: boolean };

function toQuery({ tag = [], types = [], ids = [], name, foldCase = false }: Ask) {
  const parsed = parseFilters(tag);
  if (!parsed.ok) throw new AppError(parsed.code);
  return { filters: { all: parsed.filters, foldCase }, types, ids, name };
}

async function findAll(store: TagStore, account: string, ask: Ask, rowsMax?: number): Promise<string[]> {
  const found: string[] = [];
  let after: Position | undefined;
  for (;;) {
    const { items, more } = await store.find(account, toQuery(ask), after, rowsMax);
    found.push(...items.map(toLabel));
    if (!more) return found;
    after = items.at(-1);
  }
}

const toLabel = ({ type, id, zoneId }: Position) => `${type}/${id}/${zoneId}`;

/** xorshift: the same numbers on every run, so a failure can be looked at. */
function createRandom(seed: number) {
  let state = seed;
  const next = (below: number): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
  const pick = <T>(items: readonly [T, ...T[]]): T => items[next(items.length)] ?? items[0];
  return { next, pick };
}

const KEYS = ["env", "Env", "team", "größe", "GRÖSSE", "a.b-c_1", "rare"] as const;
const VALUES = ["", "prod", "PROD", "dev", "a", "b", "straße", "STRASSE", "\u{1F600}", "x y"] as const;
const TYPES = ["worker", "account", "account_ruleset", "queue", "zone"] as const;

describe("a page", () => {
  /** What the interface promises, in the plainest words. */
  function isWanted(held: Tags, filter: string, foldCase: boolean): boolean {
    const same = (a: string, b: string) =>
      foldCase ? a.toUpperCase().toLowerCase() === b.toUpperCase().toLowerCase() : a === b;
    const has = (key: string, value?: string) =>
      Object.keys(held).some((one) => same(one, key) && (value === undefined || same(held[one] ?? "", value)));
    if (filter.startsWith("!")) return !has(filter.slice(1));
    const [, key = "", operator, values = ""] = filter.match(/^(.*?)(?:(!=|=)(.*))?$/su) ?? [];
    if (operator === undefined) return has(key);
    const hit = values.split(",").some((value) => has(key, value));
    return operator === "=" ? hit : !hit;
  }

  function byCodePoint(a: Position, b: Position): number {
    for (const part of ["type", "id", "zoneId"] as const) {
      const [left, right] = [[...a[part]], [...b[part]]].map((chars) => chars.map((char) => char.codePointAt(0) ?? 0));
      if (!left || !right) continue;
      for (let at = 0; at < Math.max(left.length, right.length); at += 1) {
        const difference = (left[at] ?? -1) - (right[at] ?? -1);
        if (difference !== 0) return difference;
      }
    }
    return 0;
  }

  test.each([1, 2, 3])(
    "is what filtering every resource would give, through splits, changes and deletions (seed %i)",
    async (seed) => {
      const { next, pick } = createRandom(seed * 7_919);
      const store = openStore({}, ":memory:"); // thousands of commits that nobody needs to survive
      const model = new Map<string, { position: Position; tags: Tags }>();
      const someTags = (): Tags =>
        Object.fromEntries(Array.from({ length: next(4) }, () => [pick(KEYS), pick(VALUES)]));
      const somePosition = (): Position => ({
        type: pick(TYPES),
        id: pick([`n${next(9_999)}`, `\u{FFFD}${next(9_999)}`, `\u{10000}${next(9_999)}`]),
        zoneId: pick(["", "", "z1", "z2"]),
        parentId: "",
      });
      const put = (count: number) => {
        const writes = Array.from({ length: count }, () => ({ position: somePosition(), tags: someTags() }));
        store.replaceAll("home", writes);
        for (const write of writes) model.set(toLabel(write.position), write);
      };
      const check = async () => {
        const sorted = [...model.values()].sort((a, b) => byCodePoint(a.position, b.position));
        for (let round = 0; round < 30; round += 1) {
          const values = () => Array.from({ length: 1 + next(3) }, () => pick(VALUES)).join(",");
          const filter = () =>
            pick([pick(KEYS), `!${pick(KEYS)}`, `${pick(KEYS)}=${values()}`, `${pick(KEYS)}!=${values()}`]);
          const ask = {
            tag: Array.from({ length: next(4) }, filter),
            types: Array.from({ length: next(3) }, () => pick(TYPES)),
            ids: next(6) === 0 ? Array.from({ length: 40 }, () => somePosition().id) : [],
            ...(next(5) === 0 && { name: pick(["N12", "7", "zzz"]) }),
            foldCase: next(2) === 0,
          };
          const wanted = sorted.filter(
            ({ position, tags }) =>
              ask.tag.every((one) => isWanted(tags, one, ask.foldCase)) &&
              (ask.types.length === 0 || ask.types.includes(position.type as (typeof TYPES)[number])) &&
              (ask.ids.length === 0 || ask.ids.includes(position.id)) &&
              (ask.name === undefined || position.id.toLowerCase().includes(ask.name.toLowerCase())),
          );
          const unique = { ...ask, types: [...new Set(ask.types)] };
          expect({ ask, found: await findAll(store, "home", unique, 1 + next(900)) }).toEqual({
            ask,
            found: wanted.map(({ position }) => toLabel(position)),
          });
        }
      };

      for (let batch = 0; batch < 8; batch += 1) put(1_000);
      expect(model.size).toBeGreaterThan(3 * SLOTS);
      await check();
      for (const [label, { position }] of [...model]) {
        if (next(3) === 0) continue;
        store.remove("home", position);
        model.delete(label);
      }
      put(1_000);
      await check();
      const inUse = (pluck: (tags: Tags) => string[]) =>
        [...new Set([...model.values()].flatMap(({ tags }) => pluck(tags)))].sort((a, b) =>
          byCodePoint({ ...FIRST, id: a }, { ...FIRST, id: b }),
        );
      expect(store.keys("home").items).toEqual(inUse(Object.keys));
      for (const key of KEYS) {
        expect(store.values("home", key).items).toEqual(inUse((tags) => (tags[key] === undefined ? [] : [tags[key]])));
      }
      expect(store.counts()).toEqual({
        resources: model.size,
        tags: [...model.values()].reduce((sum, { tags }) => sum + Object.keys(tags).length, 0),
      });
      for (const { position } of model.values()) store.remove("home", position);
      expect([store.counts(), store.keys("home").items, await findAll(store, "home", {})]).toEqual([
        { resources: 0, tags: 0 },
        [],
        [],
      ]);
    },
  );

  test("behind a cursor shows what is there now, once, although the row it names is gone", async () => {
    const store = openStore();
    for (const id of ["a", "b", "c", "d"]) store.replace("home", { position: worker(id), tags: {} });
    const first = await store.find("home", nothing, undefined, 2);
    store.remove("home", worker("b"));
    store.replace("home", { position: worker("aa"), tags: {} });
    store.replace("home", { position: worker("bb"), tags: {} });
    const second = await store.find("home", nothing, first.items.at(-1), 9);
    expect([first, second].map(({ items }) => items.map(({ id }) => id))).toEqual([
      ["a", "b"],
      ["bb", "c", "d"],
    ]);
  });

  test("that takes long pauses, and a segment split in the pause neither repeats nor hides a resource", async () => {
    const store = openStore({ nameOf: (_, id) => (id.startsWith("m") ? "wanted" : id) });
    const ids = Array.from({ length: 6 * SLOTS }, (_, n) => `${n % 97 === 0 ? "m" : "k"}${String(n).padStart(6, "0")}`);
    store.replaceAll(
      "home",
      ids.map((id) => ({ position: worker(id), tags: { all: "yes", none: "no" } })),
    );
    const search = findAll(store, "home", { tag: ["all=yes", "none"], name: "wanted" }, 500);
    store.replaceAll(
      "home",
      ids.map((id) => ({ position: worker(`${id}x`), tags: { other: "yes" } })),
    );
    expect(await search).toEqual(ids.filter((id) => id.startsWith("m")).map((id) => `worker/${id}/`));
  });
});

test("a walk that finds nothing lets others have a turn before it is over", async () => {
  const store = openStore();
  const writes = Array.from({ length: 4_500 }, (_, n) => ({ position: worker(`w${n}`), tags: {} }));
  store.replaceAll("home", writes);
  let turns = 0;
  setImmediate(() => {
    turns += 1;
  });
  const { items } = await store.find("home", toQuery({ name: "nobody" }), undefined);
  expect([items.length, turns]).toEqual([0, 1]);
});

describe("a write", () => {
  test("past the limit of its account is refused, and one that lessens what is already past it is not", () => {
    const path = newPath();
    const before = openStore({}, path);
    before.replace("home", { position: worker("w"), tags: { a: "1", b: "2", c: "3" } });
    const store = openStore({ tagsMax: 1 }, path);
    expect(() => store.replace("home", { position: worker("x"), tags: { a: "1" } })).toThrow("at its tag limit");
    store.replace("home", { position: worker("w"), tags: { a: "1", b: "2" } });
    store.replace("home", { position: worker("x"), tags: {} });
    store.remove("home", worker("w"));
    expect(store.counts()).toEqual({ resources: 1, tags: 0 });
  });

  test("of many that sets one resource twice leaves no trace of the first time", () => {
    const store = openStore();
    const position = worker("w");
    store.replaceAll("home", [
      { position, tags: { gone: "1", kept: "1" } },
      { position, tags: { kept: "2" } },
    ]);
    expect([store.keys("home").items, store.values("home", "kept").items]).toEqual([["kept"], ["2"]]);
  });

  test("that breaks a rule in the middle of many leaves nothing of them behind", async () => {
    const store = openStore({ tagsMax: 3 });
    const write = (id: string, tags: Tags) => ({ position: worker(id), tags });
    expect(() => store.replaceAll("home", [write("a", { x: "1", y: "2" }), write("b", { x: "1", z: "2" })])).toThrow(
      "This account is at its tag limit",
    );
    expect([await findAll(store, "home", {}), store.keys("home").items]).toEqual([[], []]);
    store.replace("home", write("a", { x: "1", y: "2", z: "3" }));
    expect(store.keys("home").items).toEqual(["x", "y", "z"]);
    expect(() => store.merge("home", { position: worker("a"), tags: { four: "4" } })).toThrow(AppError);
    expect(store.merge("home", { position: worker("a"), tags: { four: "4", x: null } }).tags).toEqual({
      y: "2",
      z: "3",
      four: "4",
    });
  });

  test("to a zone that another account was first in is refused and changes nothing", () => {
    const store = openStore();
    const position = { type: "dns_record", id: "r", zoneId: "z", parentId: "" };
    store.replace("home", { position, tags: { a: "1" } });
    expect(() => store.replace("other", { position, tags: { a: "2" } })).toThrow("This token may not do that");
    expect([store.ownerOfZone("z"), store.read("other", position), store.read("home", position)?.tags]).toEqual([
      "home",
      undefined,
      { a: "1" },
    ]);
  });

  test("gets a later time than the one before, whatever the clock says", () => {
    let clock = 5_000;
    const store = openStore({ now: () => clock });
    const first = store.replace("home", { position: worker("a"), tags: {} });
    clock = 1;
    const second = store.replace("home", { position: worker("a"), tags: {} });
    expect([first.updatedAtMs, second.updatedAtMs]).toEqual([5_000, 5_001]);
  });

  test("survives closing and opening the file", async () => {
    const path = newPath();
    const before = createTagStore(path, { now: () => 1 });
    before.replace("home", { position: worker("a"), tags: { env: "prod" } });
    before.close();
    const after = openStore({}, path);
    expect(await findAll(after, "home", { tag: ["env=prod"] })).toEqual(["worker/a/"]);
  });
});

test("a resource has the name that the house knows it by, else its id", async () => {
  const store = openStore({ nameOf: (type, id, account) => (type === "agent" ? `${account}'s ${id}` : undefined) });
  const agent = { ...FIRST, type: "agent", id: "chat/a" };
  const set = [agent, worker("w")].map((position) => store.replace("home", { position, tags: {} }).name);
  const found = await store.find("home", toQuery({ name: "HOME'S" }), undefined);
  expect([set, store.read("home", agent)?.name, found.items.map(({ name }) => name)]).toEqual([
    ["home's chat/a", "w"],
    "home's chat/a",
    ["home's chat/a"],
  ]);
});

test("segments are filled to the brim by ids that grow, and go when they are empty", () => {
  const path = newPath();
  const store = openStore({}, path);
  const segments = () => {
    const db = new Database(path, { readonly: true });
    const row = db.query<{ count: number }, []>("select count(*) as count from segments").get();
    db.close();
    return row?.count;
  };
  const ids = Array.from({ length: 3 * SLOTS }, (_, n) => `w${String(n).padStart(6, "0")}`);
  const write = (id: string) => ({ position: worker(id), tags: {} });
  store.replaceAll("home", ids.map(write));
  const seen = [segments()];
  for (const change of [
    () => store.replace("home", write("w000000a")), // between others: the full one splits
    () => store.replace("home", write("z")), // behind all others: one of its own
    () => store.remove("home", worker("z")),
  ]) {
    change();
    seen.push(segments());
  }
  expect(seen).toEqual([3, 4, 5, 4]);
});

test("what is left is found, and new things have a place, after the first segment was emptied", async () => {
  const store = openStore();
  const ids = Array.from({ length: SLOTS + 300 }, (_, n) => `w${String(n).padStart(5, "0")}`);
  store.replaceAll(
    "home",
    ids.map((id) => ({ position: worker(id), tags: { a: "1" } })),
  );
  for (const id of ids.slice(0, SLOTS)) store.remove("home", worker(id));
  expect((await findAll(store, "home", { tag: ["a"] })).length).toBe(300);
  store.replace("home", { position: worker("v"), tags: { a: "1" } });
  expect((await findAll(store, "home", { tag: ["a"] })).slice(0, 2)).toEqual(["worker/v/", `worker/w0${SLOTS}/`]);
});

describe("a list of enormous things ends early and says so:", () => {
  test("resources past 8 MiB of tags", async () => {
    const store = openStore();
    const tags = Object.fromEntries(Array.from({ length: 900 }, (_, n) => [`k${n}`, "x".repeat(1_024)]));
    store.replaceAll(
      "home",
      Array.from({ length: 11 }, (_, n) => ({ position: worker(`w${n + 10}`), tags })),
    );
    const page = await store.find("home", nothing, undefined);
    expect([page.items.length, page.more]).toEqual([10, true]);
    expect(await findAll(store, "home", {})).toHaveLength(11);
  });

  test("a key's values past 1,000 of the summary, and keys past 2 Mi characters", () => {
    const store = openStore();
    const value = (n: number) => String(n).padStart(1_024, "0");
    store.replaceAll(
      "home",
      Array.from({ length: 1_001 }, (_, n) => ({
        position: worker(`w${n}`),
        tags: { a: value(n), b: value(n % 1_000), c: value(n), d: value(n) },
      })),
    );
    const { items, more } = store.summary("home");
    expect(items.map(({ key, values, truncated }) => [key, values.length, truncated])).toEqual([
      ["a", 1_000, true],
      ["b", 1_000, undefined],
      ["c", 1_000, true],
    ]);
    expect([more, store.summary("home", "c").items.map(({ key }) => key)]).toEqual([true, ["d"]]);
  });
});

test("forgetting a thing removes its tags from every account, and nothing else", async () => {
  const store = openStore();
  for (const account of ["home", "other"]) {
    store.replace(account, { position: { ...FIRST, type: "agent", id: "chat/a" }, tags: { x: "1" } });
    store.replace(account, { position: worker("chat/a"), tags: { x: "1" } });
  }
  store.forget("agent", "chat/a");
  expect([await findAll(store, "home", {}), await findAll(store, "other", {})]).toEqual([
    ["worker/chat/a/"],
    ["worker/chat/a/"],
  ]);
});

test("values of a key can be limited to one type, and go with the last resource that carries them", () => {
  const store = openStore();
  const queue = { ...FIRST, type: "queue", id: "a" };
  store.replace("home", { position: worker("a"), tags: { env: "dev" } });
  store.replace("home", { position: queue, tags: { env: "prod" } });
  const values = () => [undefined, "worker", "queue", "image"].map((type) => store.values("home", "env", type).items);
  expect(values()).toEqual([["dev", "prod"], ["dev"], ["prod"], []]);
  store.replace("home", { position: queue, tags: { env: "dev" } });
  expect(values()).toEqual([["dev"], ["dev"], ["dev"], []]);
  store.remove("home", queue);
  expect(values()).toEqual([["dev"], ["dev"], [], []]);
});
