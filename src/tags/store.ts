// The tags of every account: written in transactions that keep all indexes in step, read in one order.
import type { Database } from "bun:sqlite";
import { AppError } from "../platform/errors.ts";
import { openDatabase } from "../platform/sqlite.ts";
import { etagOf, isMatch, toCanonical } from "./etag.ts";
import type { Tags } from "./filter.ts";
import { createLists } from "./lists.ts";
import { naming } from "./naming.ts";
import { IN_ORDER, POSITION, type Position, toParams, toPosition } from "./position.ts";
import { createPostings } from "./postings.ts";
import { TAG_TABLES } from "./schema.ts";
import { createSearch, type Query, type ResourceRow } from "./search.ts";
import { createSegments } from "./segments.ts";
import { SLOTS } from "./slots.ts";
import { createTerms } from "./terms.ts";

export type TagStore = ReturnType<typeof createTagStore>;
/** A resource and what it carries; `name` is its human name where one is known, else its id. */
export type Tagged = Position & { name: string; tags: Tags; etag: string; updatedAtMs: number };
/** `where` is what a refusal is to name when this is one of many. */
export type Write = { position: Position; tags: Tags; ifMatch?: string | undefined; where?: string };
export type Patch = { position: Position; tags: Readonly<Record<string, string | null>>; ifMatch?: string | undefined };
export type NameOf = (type: string, id: string, accountId: string) => string | undefined;

export type TagStoreOptions = {
  now: () => number;
  nameOf?: NameOf;
  /** Tags an account may hold; 0 is no limit. */
  tagsMax?: number;
};

type StoredRow = ResourceRow & { place: number };
type Counts = { resources: number; tags: number };

const PAGE_ROWS = 100; // the interface's page size, which a caller cannot change

export function createTagStore(path: string, { now, nameOf = () => undefined, tagsMax = 0 }: TagStoreOptions) {
  const db = openDatabase(path, TAG_TABLES, "FULL");
  db.run(`pragma cache_size = -${CACHE_KIB}`);
  const terms = createTerms(db);
  const postings = createPostings(db);
  const segments = createSegments(db, postings, terms.termsOf);
  const nameFor = (account: string, type: string, id: string) => nameOf(type, id, account) ?? id;
  const search = createSearch({ db, terms, postings, segments, nameOf: nameFor });
  const lists = createLists(db, PAGE_ROWS);
  const sql = statements(db);

  const toTagged = (account: string, row: ResourceRow): Tagged => ({
    ...toPosition(row),
    name: nameFor(account, row.type, row.id),
    tags: JSON.parse(row.tags),
    etag: etagOf(row.tags),
    updatedAtMs: row.updated_at_ms,
  });

  /** All of `change`, or nothing of it. */
  function transact<T>(change: () => T): T {
    try {
      return db
        .transaction(() => {
          const result = change();
          postings.flush();
          terms.flush();
          return result;
        })
        .immediate();
    } finally {
      // After a commit there is nothing left in them; after a rollback they hold what never happened.
      postings.discard();
      terms.discard();
    }
  }

  function put(account: string, position: Position, ifMatch: string | undefined, next: (held: Tags) => Tags): Tagged {
    const row = sql.find.get(account, ...toParams(position));
    if (!isMatch(ifMatch, row?.tags)) throw new AppError("tags.precondition");
    if (position.zoneId !== "") claimZone(position.zoneId, account);
    const held: Tags = row ? JSON.parse(row.tags) : {};
    const tags = next(held);
    count(account, row ? 0 : 1, Object.keys(tags).length - Object.keys(held).length);
    const place = row?.place ?? segments.place(account, position);
    index(account, position.type, place, held, tags);
    // Strictly later than before, even within one millisecond or after the clock was set back: it is a version too.
    const updatedAtMs = Math.max(now(), (row?.updated_at_ms ?? 0) + 1);
    const text = toCanonical(tags);
    if (row) sql.update.run(text, updatedAtMs, place);
    else sql.insert.run(place, account, ...toParams(position), text, updatedAtMs);
    const { type, id, zoneId: zone_id, parentId: parent_id } = position;
    return toTagged(account, { type, id, zone_id, parent_id, tags: text, updated_at_ms: updatedAtMs });
  }

  function drop(account: string, position: Position, ifMatch: string | undefined): void {
    const row = sql.find.get(account, ...toParams(position));
    if (!isMatch(ifMatch, row?.tags)) throw new AppError("tags.precondition");
    if (!row) return;
    const held: Tags = JSON.parse(row.tags);
    count(account, -1, -Object.keys(held).length);
    index(account, position.type, row.place, held, {});
    segments.release(row.place);
    sql.drop.run(row.place);
  }

  function index(account: string, type: string, place: number, held: Tags, next: Tags): void {
    const [segment, slot] = [Math.floor(place / SLOTS), place % SLOTS];
    for (const [key, value] of Object.entries(held)) {
      if (next[key] === value) continue;
      for (const term of terms.count(account, type, key, value, -1)) postings.remove(term, segment, slot);
    }
    for (const [key, value] of Object.entries(next)) {
      if (held[key] === value) continue;
      for (const term of terms.count(account, type, key, value, 1)) postings.add(term, segment, slot);
    }
  }

  function count(account: string, resources: number, tags: number): void {
    const total = sql.count.get(account, resources, tags)?.tags ?? 0;
    if (tags > 0 && tagsMax > 0 && total > tagsMax) throw new AppError("tags.account_full");
  }

  /** A zone is the account's that first tags something in it. */
  function claimZone(zoneId: string, account: string): void {
    const owner = sql.claim.get(zoneId, account)?.account_id;
    if (owner !== account) throw new AppError("access.denied");
  }

  return {
    read(account: string, position: Position): Tagged | undefined {
      const row = sql.find.get(account, ...toParams(position));
      return row ? toTagged(account, row) : undefined;
    },
    replace: (account: string, { position, tags, ifMatch }: Write): Tagged =>
      transact(() => put(account, position, ifMatch, () => tags)),
    /** All of them in one transaction: one that is refused leaves none. */
    replaceAll: (account: string, writes: readonly Write[]): Tagged[] =>
      transact(() =>
        writes.map(({ position, tags, ifMatch, where }) =>
          naming(where, () => put(account, position, ifMatch, () => tags)),
        ),
      ),
    merge: (account: string, { position, tags, ifMatch }: Patch): Tagged =>
      transact(() => put(account, position, ifMatch, (held) => merged(held, tags))),
    remove: (account: string, position: Position, ifMatch?: string): void =>
      transact(() => drop(account, position, ifMatch)),
    /** When a thing is gone its tags go too, in whichever account they were given. */
    forget: (type: string, id: string, account?: string): void =>
      transact(() => {
        const accounts = account === undefined ? sql.accounts.all().map(({ account_id }) => account_id) : [account];
        for (const one of accounts) {
          for (const row of sql.findAll.all(one, type, id)) drop(one, toPosition(row), undefined);
        }
      }),
    ownerOfZone: (zoneId: string): string | undefined => sql.owner.get(zoneId)?.account_id,
    async find(account: string, query: Query, after: Position | undefined, rowsMax = PAGE_ROWS) {
      const { rows, more } = await search.page(account, query, after, rowsMax);
      return { items: rows.map((row) => toTagged(account, row)), more };
    },
    ...lists,
    counts: (): Counts => sql.counts.get() ?? { resources: 0, tags: 0 },
    close: (): void => db.close(),
  };
}

function merged(held: Tags, patch: Patch["tags"]): Tags {
  const all = Object.entries({ ...held, ...patch });
  return Object.fromEntries(all.filter((entry): entry is [string, string] => entry[1] !== null));
}

const CACHE_KIB = 16_384; // pages SQLite keeps in memory; the hot part of a million resources' bitmaps fits

type FourTexts = [string, string, string, string];

function statements(db: Database) {
  const row = `place, ${IN_ORDER}, tags, updated_at_ms`;
  return {
    find: db.prepare<StoredRow, [string, ...FourTexts]>(
      `select ${row} from resources where account_id = ? and ${POSITION} = (?, ?, ?, ?)`,
    ),
    findAll: db.prepare<StoredRow, [string, string, string]>(
      `select ${row} from resources where account_id = ? and type = ? and id = ?`,
    ),
    insert: db.prepare<never, [number, string, ...FourTexts, string, number]>(
      `insert into resources (place, account_id, ${IN_ORDER}, tags, updated_at_ms) values (?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    update: db.prepare<never, [string, number, number]>(
      "update resources set tags = ?, updated_at_ms = ? where place = ?",
    ),
    drop: db.prepare<never, [number]>("delete from resources where place = ?"),
    count: db.prepare<{ tags: number }, [string, number, number]>(
      `insert into accounts (account_id, resources, tags) values (?, ?, ?) on conflict do update
       set resources = resources + excluded.resources, tags = tags + excluded.tags returning tags`,
    ),
    counts: db.prepare<Counts, []>(
      "select coalesce(sum(resources), 0) as resources, coalesce(sum(tags), 0) as tags from accounts",
    ),
    accounts: db.prepare<{ account_id: string }, []>("select account_id from accounts"),
    owner: db.prepare<{ account_id: string }, [string]>("select account_id from zones where zone_id = ?"),
    claim: db.prepare<{ account_id: string }, [string, string]>(
      `insert into zones (zone_id, account_id) values (?, ?)
       on conflict do update set account_id = account_id returning account_id`,
    ),
  };
}
