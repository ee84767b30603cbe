// Which slots of a segment carry a term: read through a cache that lasts one transaction, written once at its end.
import type { Database } from "bun:sqlite";
import { clearSlot, decodeSlots, emptySlots, encodeSlots, isEmpty, type Slots, setSlot } from "./slots.ts";

export type Postings = ReturnType<typeof createPostings>;

/** The term that every resource has. */
export const EVERY = 0;

export function createPostings(db: Database) {
  const select = db.prepare<{ slots: Uint8Array }, [number, number]>(
    "select slots from postings where term = ? and segment = ?",
  );
  const upsert = db.prepare<never, [number, number, Uint8Array]>(
    "insert into postings (term, segment, slots) values (?, ?, ?) on conflict do update set slots = excluded.slots",
  );
  const drop = db.prepare<never, [number, number]>("delete from postings where term = ? and segment = ?");
  const selectSegments = db.prepare<{ segment: number }, [number]>("select segment from postings where term = ?");
  const changed = new Map<number, Map<number, Slots>>(); // segment -> term -> slots

  function read(term: number, segment: number): Slots | undefined {
    const row = select.get(term, segment);
    return row ? decodeSlots(row.slots) : undefined;
  }

  function edit(term: number, segment: number): Slots {
    const terms = changed.get(segment) ?? new Map<number, Slots>();
    changed.set(segment, terms);
    const slots = terms.get(term) ?? read(term, segment) ?? emptySlots();
    terms.set(term, slots);
    return slots;
  }

  return {
    read,
    /** For a write: what the transaction will leave behind, not what is stored. */
    held: edit,
    add: (term: number, segment: number, slot: number): void => setSlot(edit(term, segment), slot),
    remove: (term: number, segment: number, slot: number): void => clearSlot(edit(term, segment), slot),
    segmentsOf: (term: number): number[] => selectSegments.all(term).map(({ segment }) => segment),
    flush(): void {
      for (const [segment, terms] of changed) {
        for (const [term, slots] of terms) {
          if (isEmpty(slots)) drop.run(term, segment);
          else upsert.run(term, segment, encodeSlots(slots));
        }
      }
      changed.clear();
    },
    discard: (): void => changed.clear(),
  };
}
