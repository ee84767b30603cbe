// Pure: the text of `tag` parameters to a predicate over a resource's tags.
import type { ErrorCode } from "../platform/errors.ts";

export type Tags = Readonly<Record<string, string>>;

/** `any`: has the key. `in`: its value is one of these. `none`: the key is absent. `out`: its value is none of these. */
export type Filter = { key: string; want: "any" | "none" } | { key: string; want: "in" | "out"; values: string[] };
export type Filters = { all: readonly Filter[]; foldCase: boolean };
export type FilterResult = { ok: true; filters: Filter[] } | { ok: false; code: ErrorCode };

export const FILTERS_MAX = 20; // spec, section 8: `tag` parameters of one request
export const VALUES_MAX = 10; // spec, section 8: alternatives of one filter
export const KEY_CHARS_MAX = 256; // spec, section 8; counted in code points
export const VALUE_CHARS_MAX = 1_024; // spec, section 8; counted in code points

const KEY = /^[\p{L}\p{N}_.-]+$/u;

/**
 * When several rules are broken the first row here decides, over all filters: a client that sent too many or garbled
 * ones learns that before it is told about a single key.
 */
const RULES: readonly (readonly [ErrorCode, (filter: Filter | undefined) => boolean])[] = [
  ["tags.filter", (filter) => filter === undefined],
  ["tags.values_max", (filter) => valuesOf(filter).length > VALUES_MAX],
  ["tags.key_long", (filter) => keyFault(filter?.key ?? "") === "tags.key_long"],
  ["tags.key", (filter) => keyFault(filter?.key ?? "") === "tags.key"],
  ["tags.value_long", (filter) => valuesOf(filter).some(isValueLong)],
];

export function parseFilters(texts: readonly string[]): FilterResult {
  if (texts.length > FILTERS_MAX) return { ok: false, code: "tags.filters_max" };
  const parsed = texts.map(parseFilter);
  for (const [code, breaks] of RULES) if (parsed.some(breaks)) return { ok: false, code };
  return { ok: true, filters: parsed.filter((filter) => filter !== undefined) };
}

/** What is wrong with a tag key, wherever it came from: a body, a filter or a path. */
export function keyFault(key: string): "tags.key_long" | "tags.key" | undefined {
  if (isLongerThan(key, KEY_CHARS_MAX)) return "tags.key_long";
  // `__proto__` fits the alphabet, but a client that copies tags into an object would lose or misuse it.
  return KEY.test(key) && key !== "__proto__" ? undefined : "tags.key";
}

export function isValueLong(value: string): boolean {
  return isLongerThan(value, VALUE_CHARS_MAX);
}

export function matches(tags: Tags, { all, foldCase }: Filters): boolean {
  const alike = foldCase ? (a: string, b: string) => fold(a) === fold(b) : (a: string, b: string) => a === b;
  return all.every((filter) => {
    const held = Object.entries(tags).filter(([key]) => alike(key, filter.key));
    if (!("values" in filter)) return held.length > 0 === (filter.want === "any");
    const hit = held.some(([, value]) => filter.values.some((wanted) => alike(value, wanted)));
    return hit === (filter.want === "in");
  });
}

/** Upper case first, so that `ß` meets `SS` and a final sigma meets any other. */
export function fold(text: string): string {
  return text.toUpperCase().toLowerCase();
}

export function isLongerThan(text: string, charsMax: number): boolean {
  if (text.length <= charsMax) return false; // never fewer code units than code points
  if (text.length > 2 * charsMax) return true;
  let chars = 0;
  for (const _ of text) chars += 1;
  return chars > charsMax;
}

function parseFilter(text: string): Filter | undefined {
  const equals = text.indexOf("=");
  if (text.startsWith("!")) {
    return equals >= 0 || text === "!" ? undefined : { key: text.slice(1), want: "none" };
  }
  if (text === "" || equals === 0) return undefined;
  if (equals < 0) return { key: text, want: "any" };
  const isNot = text[equals - 1] === "!";
  const values = text.slice(equals + 1).split(",", VALUES_MAX + 1); // one more than allowed is enough to refuse it
  return { key: text.slice(0, isNot ? equals - 1 : equals), want: isNot ? "out" : "in", values };
}

function valuesOf(filter: Filter | undefined): string[] {
  return filter && "values" in filter ? filter.values : [];
}
