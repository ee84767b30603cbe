// The dictionary: each distinct key and key=value pair of an account as a number, with how many resources carry it.
import type { Database } from "bun:sqlite";
import { type Filter, type Filters, fold, type Tags } from "./filter.ts";

export type Terms = ReturnType<typeof createTerms>;

/** One filter over numbers: resources with any of these terms, or with none of them. */
export type Clause = { terms: number[]; negate: boolean; resources: number };

type Counted = { id: number; resources: number };
/** `made`: by this transaction, so it must go again if nothing came to use it. */
type Entry = { id: number; delta: number; made: boolean };

export function createTerms(db: Database) {
  const findKey = db.prepare<Counted, [string, string]>(
    "select key_id as id, resources from keys where account_id = ? and key = ?",
  );
  const findKeysFolded = db.prepare<Counted, [string, string, string, string]>(
    `select key_id as id, resources from keys where account_id = ? and folded = ?
     union select key_id, resources from keys where account_id = ? and key = ?`,
  );
  const findPair = db.prepare<Counted, [number, string]>(
    "select pair_id as id, resources from pairs where key_id = ? and value = ?",
  );
  const findPairsFolded = db.prepare<Counted, [number, string, number, string]>(
    `select pair_id as id, resources from pairs where key_id = ? and folded = ?
     union select pair_id, resources from pairs where key_id = ? and value = ?`,
  );
  const addKey = db.prepare<{ id: number }, [string, string, string | null]>(
    "insert into keys (account_id, key, folded, resources) values (?, ?, ?, 0) returning key_id as id",
  );
  const addPair = db.prepare<{ id: number }, [number, string, string | null]>(
    "insert into pairs (key_id, value, folded, resources) values (?, ?, ?, 0) returning pair_id as id",
  );
  const countKey = db.prepare<{ resources: number }, [number, number]>(
    "update keys set resources = resources + ? where key_id = ? returning resources",
  );
  const countPair = db.prepare<{ resources: number }, [number, number]>(
    "update pairs set resources = resources + ? where pair_id = ? returning resources",
  );
  const countType = db.prepare<{ resources: number }, [number, string, string, number]>(
    `insert into value_types (key_id, type, value, resources) values (?, ?, ?, ?)
     on conflict do update set resources = resources + excluded.resources returning resources`,
  );
  const dropKey = db.prepare("delete from keys where key_id = ?");
  const dropPair = db.prepare("delete from pairs where pair_id = ?");
  const dropType = db.prepare("delete from value_types where key_id = ? and type = ? and value = ?");

  // What a transaction has touched, written once at its end: the thousand resources of a batch share most of their terms.
  const keys = new Map<string, Entry>();
  const pairs = new Map<string, Entry>();
  const types = new Map<string, { keyId: number; type: string; value: string; delta: number }>();

  function keyEntry(account: string, key: string): Entry {
    const name = `${account}\0${key}`;
    const entry = keys.get(name) ?? toEntry(findKey.get(account, key), () => addKey.get(account, key, foldedOf(key)));
    keys.set(name, entry);
    return entry;
  }

  function pairEntry(keyId: number, value: string): Entry {
    const name = `${keyId}\0${value}`;
    const entry =
      pairs.get(name) ?? toEntry(findPair.get(keyId, value), () => addPair.get(keyId, value, foldedOf(value)));
    pairs.set(name, entry);
    return entry;
  }

  /** The two terms of a tag, after counting that a resource of this type gained (1), lost (-1) or has (0) it. */
  function count(account: string, type: string, key: string, value: string, by: 1 | 0 | -1): [number, number] {
    const ofKey = keyEntry(account, key);
    const ofPair = pairEntry(ofKey.id, value);
    if (by !== 0) {
      ofKey.delta += by;
      ofPair.delta += by;
      const name = `${ofKey.id}\0${type}\0${value}`;
      const ofType = types.get(name) ?? { keyId: ofKey.id, type, value, delta: 0 };
      ofType.delta += by;
      types.set(name, ofType);
    }
    return [ofKey.id * 2, ofPair.id * 2 + 1];
  }

  function termsOf(account: string, type: string, tags: Tags): number[] {
    return Object.entries(tags).flatMap(([key, value]) => count(account, type, key, value, 0));
  }

  function flush(): void {
    for (const { keyId, type, value, delta } of types.values()) {
      if (delta !== 0 && countType.get(keyId, type, value, delta)?.resources === 0) dropType.run(keyId, type, value);
    }
    for (const { id, delta, made } of pairs.values()) {
      if ((made || delta !== 0) && countPair.get(delta, id)?.resources === 0) dropPair.run(id);
    }
    for (const { id, delta, made } of keys.values()) {
      if ((made || delta !== 0) && countKey.get(delta, id)?.resources === 0) dropKey.run(id);
    }
    discard();
  }

  function discard(): void {
    keys.clear();
    pairs.clear();
    types.clear();
  }

  function keysLike(account: string, key: string, foldCase: boolean): Counted[] {
    if (foldCase) return findKeysFolded.all(account, fold(key), account, fold(key));
    return findKey.all(account, key);
  }

  function pairsLike(keyId: number, value: string, foldCase: boolean): Counted[] {
    if (foldCase) return findPairsFolded.all(keyId, fold(value), keyId, fold(value));
    return findPair.all(keyId, value);
  }

  function toClause(account: string, filter: Filter, foldCase: boolean): Clause {
    const held = keysLike(account, filter.key, foldCase);
    const isPair = "values" in filter;
    const found = isPair
      ? held.flatMap(({ id }) => filter.values.flatMap((value) => pairsLike(id, value, foldCase)))
      : held;
    return {
      terms: [...new Set(found.map(({ id }) => id * 2 + Number(isPair)))],
      negate: filter.want === "none" || filter.want === "out",
      resources: found.reduce((sum, { resources }) => sum + resources, 0),
    };
  }

  /** The filters as clauses, the one that rules out most first; undefined when nothing can match. */
  function compile(account: string, { all, foldCase }: Filters): Clause[] | undefined {
    const clauses = all.map((filter) => toClause(account, filter, foldCase));
    if (clauses.some(({ terms, negate }) => !negate && terms.length === 0)) return undefined;
    const needed = clauses.filter(({ terms }) => terms.length > 0);
    return needed.sort((a, b) => Number(a.negate) - Number(b.negate) || a.resources - b.resources);
  }

  return { count, termsOf, flush, discard, compile };
}

function toEntry(found: { id: number } | null, add: () => { id: number } | null): Entry {
  const id = found?.id ?? add()?.id;
  if (id === undefined) throw new Error("an inserted term has no id");
  return { id, delta: 0, made: found === null };
}

function foldedOf(text: string): string | null {
  const folded = fold(text);
  return folded === text ? null : folded;
}
