// A set of the resources of one segment: a bit for each of its slots.

/**
 * Resources a segment holds. A query costs a few bitmap reads per segment in the worst case, a split rewrites half of one:
 * at 2,048 a million resources are 500 to 700 segments, and a split takes tens of milliseconds once in a thousand inserts.
 */
export const SLOTS = 2_048;

export type Slots = Uint32Array<ArrayBuffer>;

const WORDS = SLOTS / 32;
const DENSE_BYTES = SLOTS / 8;

export function emptySlots(): Slots {
  return new Uint32Array(WORDS);
}

/** Stored as a bitmap, or as a list of two-byte numbers while that is shorter: most tags of a large table are rare. */
export function encodeSlots(slots: Slots): Uint8Array {
  const count = countSlots(slots);
  if (count * 2 >= DENSE_BYTES) return new Uint8Array(slots.buffer);
  const list = new Uint8Array(count * 2);
  for (const [index, slot] of listSlots(slots).entries()) {
    list[index * 2] = slot & 0xff;
    list[index * 2 + 1] = slot >> 8;
  }
  return list;
}

export function decodeSlots(bytes: Uint8Array): Slots {
  const slots = emptySlots();
  if (bytes.length === DENSE_BYTES) {
    new Uint8Array(slots.buffer).set(bytes);
    return slots;
  }
  for (let at = 0; at < bytes.length; at += 2) setSlot(slots, (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8));
  return slots;
}

export function hasSlot(slots: Slots, slot: number): boolean {
  return ((slots[slot >> 5] ?? 0) & (1 << (slot & 31))) !== 0;
}

export function setSlot(slots: Slots, slot: number): void {
  slots[slot >> 5] = (slots[slot >> 5] ?? 0) | (1 << (slot & 31));
}

export function clearSlot(slots: Slots, slot: number): void {
  slots[slot >> 5] = (slots[slot >> 5] ?? 0) & ~(1 << (slot & 31));
}

export function freeSlot(slots: Slots): number | undefined {
  const word = slots.findIndex((bits) => bits !== 0xffffffff);
  return word < 0 ? undefined : word * 32 + (31 - Math.clz32(lowestBit(~(slots[word] ?? 0))));
}

export function keepCommon(into: Slots, other: Slots): void {
  for (let word = 0; word < WORDS; word += 1) into[word] = (into[word] ?? 0) & (other[word] ?? 0);
}

export function addAll(into: Slots, other: Slots): void {
  for (let word = 0; word < WORDS; word += 1) into[word] = (into[word] ?? 0) | (other[word] ?? 0);
}

export function dropAll(into: Slots, other: Slots): void {
  for (let word = 0; word < WORDS; word += 1) into[word] = (into[word] ?? 0) & ~(other[word] ?? 0);
}

export function countSlots(slots: Slots): number {
  let count = 0;
  for (let bits of slots) {
    bits -= (bits >>> 1) & 0x55555555;
    bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333);
    count += Math.imul((bits + (bits >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
  }
  return count;
}

export function isEmpty(slots: Slots): boolean {
  for (let word = 0; word < WORDS; word += 1) if (slots[word] !== 0) return false;
  return true;
}

export function listSlots(slots: Slots): number[] {
  const list: number[] = [];
  for (let word = 0; word < WORDS; word += 1) {
    for (let bits = slots[word] ?? 0; bits !== 0; bits &= bits - 1) {
      list.push(word * 32 + (31 - Math.clz32(lowestBit(bits))));
    }
  }
  return list;
}

function lowestBit(bits: number): number {
  return bits & -bits;
}
