// The filter language: what is refused and with which code, then what each form means.
import { describe, expect, test } from "bun:test";
import { matches, parseFilters } from "../../src/tags/filter.ts";

const codeOf = (...texts: string[]) => {
  const result = parseFilters(texts);
  return result.ok ? "ok" : result.code;
};
const of = (length: number, char = "k") => char.repeat(length);

describe("is refused", () => {
  test.each(["", "=", "=v", "!", "!k=v", "!=v", "!k!=v"])("as malformed: %p", (text) => {
    expect(codeOf(text)).toBe("tags.filter");
  });

  test.each(["a b", "a/b", "a:b", " a", "a!", "!!a", "!a b", "k\0", "\ud800", "__proto__", "a,b", "a b=c"])(
    "for its key: %p",
    (text) => expect(codeOf(text)).toBe("tags.key"),
  );

  test.each([
    { limit: "20 filters", at: Array(20).fill("k"), past: Array(21).fill("k"), code: "tags.filters_max" },
    { limit: "10 values", at: ["k=,,,,,,,,,"], past: ["k=,,,,,,,,,,"], code: "tags.values_max" },
    { limit: "10 excluded values", at: ["k!=,,,,,,,,,"], past: ["k!=,,,,,,,,,,"], code: "tags.values_max" },
    { limit: "256 characters of a key", at: [of(256)], past: [of(257)], code: "tags.key_long" },
    { limit: "256 letters of two units each", at: [of(256, "𐐀")], past: [of(257, "𐐀")], code: "tags.key_long" },
    {
      limit: "1,024 characters of a value",
      at: [`k=${of(1_024)}`],
      past: [`k=a,${of(1_025)}`],
      code: "tags.value_long",
    },
    { limit: "1,024 emoji", at: [`k!=${of(1_024, "😀")}`], past: [`k!=${of(1_025, "😀")}`], code: "tags.value_long" },
  ])("past $limit, and not at it", ({ at, past, code }) => {
    expect([codeOf(...at), codeOf(...past)]).toEqual(["ok", code]);
  });

  test("for the first broken rule in the documented order, wherever it stands", () => {
    const broken = [
      ["tags.value_long", `k=${of(1_025)}`],
      ["tags.key", "a b"],
      ["tags.key_long", of(257, " ")],
      ["tags.values_max", "k=,,,,,,,,,,"],
      ["tags.filter", "=v"],
    ] as const;
    const seen = broken.map((_, index) => codeOf(...broken.slice(0, index + 1).map(([, text]) => text)));
    expect(seen).toEqual(broken.map(([code]) => code));
    expect(codeOf(...broken.map(([, text]) => text), ...Array(20).fill("k"))).toBe("tags.filters_max");
  });
});

const HELD = { env: "prod", Team: "A", note: "", größe: "Straße" };

test.each([
  ["env", true],
  ["absent", false],
  ["env=prod", true],
  ["env=dev", false],
  ["env=dev,prod", true],
  ["env=PROD", false],
  ["note=", true],
  ["env=", false],
  ["env=,prod", true],
  ["!env", false],
  ["!absent", true],
  ["env!=prod", false],
  ["env!=dev", true],
  ["env!=dev,prod", false],
  ["absent!=x", true],
  ["team", false],
  ["größe=Straße", true],
  ["env=prod=x", false],
  ["toString", false],
] as const)("%s on env=prod, Team=A, note, größe=Straße is %p", (text, expected) => {
  const parsed = parseFilters([text]);
  expect(parsed.ok && matches(HELD, { all: parsed.filters, foldCase: false })).toBe(expected);
});

test.each([
  ["ENV=Prod", true],
  ["team=a", true],
  ["GRÖSSE=STRASSE", true],
  ["!TEAM", false],
  ["Env!=PROD", false],
] as const)("%s is %p without case", (text, expected) => {
  const parsed = parseFilters([text]);
  expect(parsed.ok && matches(HELD, { all: parsed.filters, foldCase: true })).toBe(expected);
});
