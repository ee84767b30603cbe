// Where a resource lives: the ordered list of an account, cut into segments that split when they are full.
import type { Database } from "bun:sqlite";
import type { Tags } from "./filter.ts";
import {
  comparePositions,
  FIRST,
  IN_ORDER,
  LAST,
  POSITION,
  type Position,
  type PositionRow,
  toParams,
  toPosition,
} from "./position.ts";
import { EVERY, type Postings } from "./postings.ts";
import { countSlots, freeSlot, SLOTS } from "./slots.ts";

export type Segments = ReturnType<typeof createSegments>;
/** A segment and the stretch of the order it covers. */
export type Segment = { segment: number; from: Position; to: Position };

type Row = PositionRow & { segment: number };
type PlacedRow = PositionRow & { place: number; tags: string };
type FourTexts = [string, string, string, string];

const COLUMNS = `segment, ${IN_ORDER}`;

export function createSegments(
  db: Database,
  postings: Postings,
  termsOf: (account: string, type: string, tags: Tags) => number[],
) {
  const selectAt = db.prepare<Row, [string, ...FourTexts]>(
    `select ${COLUMNS} from segments where account_id = ? and ${POSITION} <= (?, ?, ?, ?)
     order by type desc, id desc, zone_id desc, parent_id desc limit 1`,
  );
  const selectBehind = db.prepare<Row, [string, ...FourTexts, number]>(
    `select ${COLUMNS} from segments where account_id = ? and ${POSITION} > (?, ?, ?, ?) order by ${IN_ORDER} limit ?`,
  );
  const insert = db.prepare<{ segment: number }, [string, ...FourTexts]>(
    "insert into segments (account_id, type, id, zone_id, parent_id) values (?, ?, ?, ?, ?) returning segment",
  );
  const drop = db.prepare<never, [number]>("delete from segments where segment = ? and type <> ''");
  const selectRows = db.prepare<PlacedRow, [string, ...FourTexts, ...FourTexts]>(
    `select place, ${IN_ORDER}, tags from resources
     where account_id = ? and ${POSITION} >= (?, ?, ?, ?) and ${POSITION} < (?, ?, ?, ?) order by ${IN_ORDER}`,
  );
  const move = db.prepare<never, [number, number]>("update resources set place = ? where place = ?");

  let borderChanges = 0;

  function create(account: string, from: Position): number {
    borderChanges += 1;
    const row = insert.get(account, ...toParams(from));
    if (!row) throw new Error("an inserted segment has no number");
    return row.segment;
  }

  /** Up to `count` segments in order, beginning with the one that covers `from`. */
  function list(account: string, from: Position, count: number): Segment[] {
    const first = selectAt.get(account, ...toParams(from));
    if (!first) return [];
    const rows = [first, ...selectBehind.all(account, ...toParams(toPosition(first)), count)];
    const segments = rows.map((row, index) => {
      const next = rows[index + 1];
      return { segment: row.segment, from: toPosition(row), to: next ? toPosition(next) : LAST };
    });
    return segments.slice(0, count);
  }

  /** Room for a resource that is not there yet. */
  function place(account: string, position: Position): number {
    const home = selectAt.get(account, ...toParams(position))?.segment;
    const segment = home ?? create(account, FIRST);
    const slot = freeSlot(postings.held(EVERY, segment));
    if (slot === undefined) {
      split(account, position);
      return place(account, position);
    }
    postings.add(EVERY, segment, slot);
    return segment * SLOTS + slot;
  }

  function split(account: string, position: Position): void {
    const [full] = list(account, position, 1);
    const rows = full ? selectRows.all(account, ...toParams(full.from), ...toParams(full.to)) : [];
    const last = rows.at(-1);
    const moved = rows.slice(rows.length >> 1);
    const [first] = moved;
    if (!full || !last || !first) throw new Error("a full segment has no rows");
    // Behind all others: ids that grow with time fill one segment after another to the brim, and nothing has to move.
    if (comparePositions(position, toPosition(last)) > 0) {
      create(account, position);
      return;
    }
    const segment = create(account, toPosition(first));
    for (const [slot, row] of moved.entries()) {
      for (const term of [EVERY, ...termsOf(account, row.type, JSON.parse(row.tags))]) {
        postings.remove(term, full.segment, row.place % SLOTS);
        postings.add(term, segment, slot);
      }
      move.run(segment * SLOTS + slot, row.place);
    }
  }

  /** Gives room back. An empty segment goes, its stretch falling to the one before; the first of an account stays. */
  function release(place: number): void {
    const segment = Math.floor(place / SLOTS);
    postings.remove(EVERY, segment, place % SLOTS);
    if (countSlots(postings.held(EVERY, segment)) > 0) return;
    borderChanges += 1;
    drop.run(segment);
  }

  return {
    list,
    place,
    release,
    /** Another number than before: a list that was read before is out of date. */
    changes: () => borderChanges,
  };
}
