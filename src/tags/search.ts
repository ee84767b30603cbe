// The walk that answers a query: segment by segment in order, bit operations for the filters, until the page is full.
import type { Database } from "bun:sqlite";
import { type Filters, fold, matches } from "./filter.ts";
import {
  behind,
  behindType,
  comparePositions,
  EVERYTHING,
  IN_ORDER,
  POSITION,
  type Position,
  type PositionRow,
  type Stretch,
  stretchOfType,
  toParams,
  toPosition,
} from "./position.ts";
import { EVERY, type Postings } from "./postings.ts";
import type { Segments } from "./segments.ts";
import {
  addAll,
  countSlots,
  dropAll,
  emptySlots,
  hasSlot,
  isEmpty,
  keepCommon,
  listSlots,
  SLOTS,
  type Slots,
} from "./slots.ts";
import type { Clause, Terms } from "./terms.ts";

export type Query = {
  filters: Filters;
  /** Empty: any. */
  types: readonly string[];
  ids: readonly string[];
  /** Part of the name, in any case. */
  name?: string | undefined;
};
export type ResourceRow = PositionRow & { tags: string; updated_at_ms: number };
export type Page = { rows: ResourceRow[]; more: boolean };

type Candidate = PositionRow & { place: number };
type FourTexts = [string, string, string, string];
/** A step is over before the walk pauses, and the next begins at a position: a split in between changes nothing. */
type Step = { candidates: Iterable<Candidate>; work: number; unchecked?: boolean };

const NOTHING: Step = { candidates: [], work: 0 };
const RARE_RESOURCES_MAX = 256; // a clause this rare is looked up whole and sorted, instead of being met on a walk
const SPARSE_SLOTS_MAX = 128; // below it, fetching and sorting a segment's matches beats walking its whole stretch
const WALK_ROWS = 512; // rows read at a time from the ordered index
const SEGMENTS_AT_ONCE = 32;
const WORK_MAX = 4_000; // bitmaps and rows looked at (some five milliseconds) before other requests get a turn
const PAGE_BYTES_MAX = 8 * 1_048_576; // a page of resources with enormous tags ends early rather than hold 100 MB

type SearchParts = {
  db: Database;
  terms: Terms;
  postings: Postings;
  segments: Segments;
  nameOf(account: string, type: string, id: string): string;
};

export function createSearch({ db, terms, postings, segments, nameOf }: SearchParts) {
  const selectStretch = db.prepare<Candidate, [string, ...FourTexts, ...FourTexts, number]>(
    `select place, ${IN_ORDER} from resources
     where account_id = ? and ${POSITION} >= (?, ?, ?, ?) and ${POSITION} < (?, ?, ?, ?) order by ${IN_ORDER} limit ?`,
  );
  const selectPlaces = db.prepare<Candidate, [string, ...FourTexts, ...FourTexts]>(
    `select place, ${IN_ORDER} from resources where place in (select value from json_each(?))
     and ${POSITION} >= (?, ?, ?, ?) and ${POSITION} < (?, ?, ?, ?) order by ${IN_ORDER}`,
  );
  const selectIds = db.prepare<Candidate, [string, string, string, ...FourTexts, number]>(
    `select place, ${IN_ORDER} from resources
     where account_id = ? and type = ? and id in (select value from json_each(?)) and ${POSITION} >= (?, ?, ?, ?)
     order by ${IN_ORDER} limit ?`,
  );
  const selectRow = db.prepare<ResourceRow, [number]>(
    `select ${IN_ORDER}, tags, updated_at_ms from resources where place = ?`,
  );
  const selectTypeFrom = db.prepare<{ type: string }, [string, string]>(
    "select type from resources where account_id = ? and type >= ? order by type limit 1",
  );

  /** One page behind `after`, in order. Pauses now and then, so that a long walk holds nobody up. */
  async function page(account: string, query: Query, after: Position | undefined, rowsMax: number): Promise<Page> {
    const clauses = terms.compile(account, query.filters);
    if (!clauses) return { rows: [], more: false };
    const part = query.name === undefined ? undefined : fold(query.name);
    const rows: ResourceRow[] = [];
    let bytes = 0;
    let work = 0;
    for (const step of walk(account, query, clauses, after)) {
      work += step.work;
      for (const candidate of step.candidates) {
        if (part !== undefined && !fold(nameOf(account, candidate.type, candidate.id)).includes(part)) continue;
        const row = selectRow.get(candidate.place);
        if (!row || (step.unchecked && !matches(JSON.parse(row.tags), query.filters))) continue;
        if (rows.length === rowsMax || bytes > PAGE_BYTES_MAX) return { rows, more: true };
        rows.push(row);
        bytes += row.tags.length;
      }
      if (work < WORK_MAX) continue;
      work = 0;
      await new Promise(setImmediate);
    }
    return { rows, more: false };
  }

  function* walk(account: string, query: Query, clauses: Clause[], after: Position | undefined): Generator<Step> {
    const { ids, types } = query;
    if (ids.length === 0 && isRare(clauses[0])) {
      yield gather(clauses, types, after ? behind(after) : EVERYTHING.from);
      return;
    }
    const stretches = types.length === 0 ? [EVERYTHING] : types.toSorted().map(stretchOfType);
    for (const { from, to } of stretches) {
      const start = after && comparePositions(after, from) >= 0 ? behind(after) : from;
      if (comparePositions(start, to) >= 0) continue;
      const stretch = { from: start, to };
      if (ids.length > 0) yield* walkIds(account, ids, stretch);
      else if (clauses.length === 0) yield* walkRows(account, stretch);
      else yield* walkSegments(account, clauses, stretch);
    }
  }

  function* walkRows(account: string, { from, to }: Stretch): Generator<Step> {
    for (let at = from; ; ) {
      const candidates = selectStretch.all(account, ...toParams(at), ...toParams(to), WALK_ROWS);
      yield { candidates, work: candidates.length };
      const last = candidates.at(-1);
      if (!last || candidates.length < WALK_ROWS) return;
      at = behind(toPosition(last));
    }
  }

  function* walkIds(account: string, ids: readonly string[], { from, to }: Stretch): Generator<Step> {
    const wanted = JSON.stringify(ids);
    for (let type: string | undefined = from.type; ; type = behindType(type)) {
      type = selectTypeFrom.get(account, type)?.type;
      if (type === undefined || comparePositions(stretchOfType(type).from, to) >= 0) return;
      for (let at: Position | undefined = from; at; ) {
        const found = selectIds.all(account, type, wanted, ...toParams(at), WALK_ROWS);
        const candidates = found.filter((row) => comparePositions(toPosition(row), to) < 0);
        yield { candidates, work: ids.length + found.length, unchecked: true };
        const last = candidates.at(-1);
        at = last && found.length === WALK_ROWS ? behind(toPosition(last)) : undefined;
      }
    }
  }

  function* walkSegments(account: string, clauses: Clause[], { from, to }: Stretch): Generator<Step> {
    const bitmaps = clauses.reduce((sum, { terms: wanted }) => sum + wanted.length, 0);
    for (let at: Position | undefined = from; at; ) {
      const known = segments.changes();
      const batch = segments.list(account, at, SEGMENTS_AT_ONCE);
      for (const { segment, from: start, to: end } of batch) {
        if (comparePositions(start, to) >= 0) return;
        const slots = evaluate(clauses, segment);
        const low: Position = comparePositions(start, at) > 0 ? start : at;
        const high = comparePositions(end, to) < 0 ? end : to;
        at = end;
        const step = slots ? inSegment(account, segment, slots, { from: low, to: high }) : NOTHING;
        yield { candidates: step.candidates, work: bitmaps + step.work };
        if (segments.changes() !== known) break; // in a pause: go on from where we are, by today's borders
      }
      if (segments.changes() === known && batch.length < SEGMENTS_AT_ONCE) at = undefined;
    }
  }

  /** Every match of a rare clause at once; there are few, so sorting them is cheaper than visiting every segment. */
  function gather(clauses: Clause[], types: readonly string[], from: Position): Step {
    const touched = new Set(clauses[0]?.terms.flatMap((term) => postings.segmentsOf(term)));
    const places = [...touched].flatMap((segment) => placesOf(segment, evaluate(clauses, segment) ?? emptySlots()));
    const found = selectPlaces.all(JSON.stringify(places), ...toParams(from), ...toParams(EVERYTHING.to));
    const candidates = types.length === 0 ? found : found.filter(({ type }) => types.includes(type));
    return { candidates, work: touched.size * clauses.length };
  }

  function inSegment(account: string, segment: number, slots: Slots, { from, to }: Stretch): Step {
    const count = countSlots(slots);
    if (count > SPARSE_SLOTS_MAX) return { candidates: amongRows(account, slots, { from, to }), work: SLOTS };
    const places = JSON.stringify(placesOf(segment, slots));
    return { candidates: selectPlaces.all(places, ...toParams(from), ...toParams(to)), work: count };
  }

  function* amongRows(account: string, slots: Slots, stretch: Stretch): Generator<Candidate> {
    for (const { candidates } of walkRows(account, stretch)) {
      for (const candidate of candidates) if (hasSlot(slots, candidate.place % SLOTS)) yield candidate;
    }
  }

  /** The slots of a segment that satisfy all clauses; undefined when none does. */
  function evaluate(clauses: readonly Clause[], segment: number): Slots | undefined {
    let left: Slots | undefined;
    for (const { terms: wanted, negate } of clauses) {
      if (negate) {
        left ??= postings.read(EVERY, segment);
        if (!left) return undefined;
        for (const term of wanted) {
          const slots = postings.read(term, segment);
          if (slots) dropAll(left, slots);
        }
      } else {
        const any = anyOf(wanted, segment);
        if (!any) return undefined;
        if (left) keepCommon(left, any);
        else left = any;
      }
      if (!left || isEmpty(left)) return undefined;
    }
    return left;
  }

  function anyOf(wanted: readonly number[], segment: number): Slots | undefined {
    let any: Slots | undefined;
    for (const term of wanted) {
      const slots = postings.read(term, segment);
      if (any && slots) addAll(any, slots);
      else any ??= slots;
    }
    return any;
  }

  return { page };
}

function isRare(clause: Clause | undefined): boolean {
  return clause !== undefined && !clause.negate && clause.resources <= RARE_RESOURCES_MAX;
}

function placesOf(segment: number, slots: Slots): number[] {
  return listSlots(slots).map((slot) => segment * SLOTS + slot);
}
