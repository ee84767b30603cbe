// Where a resource stands in the one order all lists follow: type, id, zone, parent, each by code point.
import { AppError } from "../platform/errors.ts";

/** Zone and parent are `""` where a type has none. Two zones may use the same id for different records. */
export type Position = { type: string; id: string; zoneId: string; parentId: string };

export type PositionRow = { type: string; id: string; zone_id: string; parent_id: string };

/** Before everything, and after everything: no text is empty, and none reaches the last code point. */
export const FIRST: Position = { type: "", id: "", zoneId: "", parentId: "" };
export const LAST: Position = { type: "\u{10FFFF}", id: "", zoneId: "", parentId: "" };

/** The columns as SQLite compares them; text is UTF-8 there, so byte order is code point order. */
export const POSITION = "(type, id, zone_id, parent_id)";
export const IN_ORDER = "type, id, zone_id, parent_id";

export function toParams({ type, id, zoneId, parentId }: Position): [string, string, string, string] {
  return [type, id, zoneId, parentId];
}

export function toPosition(row: PositionRow): Position {
  return { type: row.type, id: row.id, zoneId: row.zone_id, parentId: row.parent_id };
}

/** A half-open stretch of the order: from the first, up to but without the second. */
export type Stretch = { from: Position; to: Position };

export const EVERYTHING: Stretch = { from: FIRST, to: LAST };

/** All of one type, up to what would sort right behind it (type names hold no control character). */
export function stretchOfType(type: string): Stretch {
  return { from: { ...FIRST, type }, to: { ...FIRST, type: behindType(type) } };
}

export function behindType(type: string): string {
  return `${type}\u0001`;
}

/** What comes right behind a position: nothing sorts between a text and the same text with a NUL, which no text of ours holds. */
export function behind(position: Position): Position {
  return { ...position, parentId: `${position.parentId}\0` };
}

export function comparePositions(a: Position, b: Position): number {
  return (
    compareTexts(a.type, b.type) ||
    compareTexts(a.id, b.id) ||
    compareTexts(a.zoneId, b.zoneId) ||
    compareTexts(a.parentId, b.parentId)
  );
}

/** By code point, as SQLite orders them. JavaScript compares code units, which would put U+10000 before U+FFFD. */
function compareTexts(a: string, b: string): number {
  if (a === b) return 0;
  let at = 0;
  while (at < a.length && at < b.length && a.charCodeAt(at) === b.charCodeAt(at)) at += 1;
  return at === a.length || at === b.length ? a.length - b.length : rank(a.charCodeAt(at)) - rank(b.charCodeAt(at));
}

/** Surrogates stand for code points above all others. */
function rank(unit: number): number {
  return unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit;
}

/** A cursor names the last thing seen, not a number of things, so writes in between move nothing. */
export function toCursor(after: readonly string[]): string {
  return Buffer.from(JSON.stringify(after)).toString("base64url");
}

export function parseCursor<N extends 1 | 4>(cursor: string, parts: N): N extends 1 ? [string] : FourStrings;
export function parseCursor(cursor: string, parts: number): string[] {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(cursor, "base64url").toString());
  } catch (cause) {
    throw new AppError("input.invalid", { say: "cursor is not one of ours", cause });
  }
  if (!Array.isArray(value) || value.length !== parts || !value.every(isText)) {
    throw new AppError("input.invalid", { say: "cursor is not one of ours" });
  }
  return value;
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

type FourStrings = [type: string, id: string, zoneId: string, parentId: string];
