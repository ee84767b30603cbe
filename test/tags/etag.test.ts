// Versions of tag maps. The first two vectors are the interface's own published ones.
import { expect, test } from "bun:test";
import { etagOf, isMatch, toCanonical } from "../../src/tags/etag.ts";

test.each([
  [{}, "v1:RBNvo1WzZ4oRRq0W9-hkng"],
  [{ team: "engineering", environment: "production" }, "v1:4A2EQwB9GS6VEwLXh5kY3Q"],
] as const)("the version of %p is the published one", (tags, etag) => {
  expect(etagOf(toCanonical(tags))).toBe(etag);
});

test("keys are ordered by code unit and text is escaped as RFC 8785 has it", () => {
  // The property sorting example of RFC 8785, section 3.2.3, as far as its keys are strings a map can hold.
  const tags = { "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew", "1": "One", "\u{1f600}": "Emoji" };
  expect(Object.keys(JSON.parse(toCanonical(tags)))).toEqual(["1", "\r", "\u20ac", "\u{1f600}", "\ufb33"]);
  expect(toCanonical({ a: '"\\\u0007\n/é' })).toBe('{"a":"\\"\\\\\\u0007\\n/é"}');
});

const TEXT = '{"a":"1"}';
const ETAG = etagOf(TEXT);
const EMPTY = "v1:RBNvo1WzZ4oRRq0W9-hkng";

test.each([
  ["v1:wrong", TEXT, false],
  ["", TEXT, false],
  [`W/"${ETAG}"`, TEXT, false],
  [ETAG.slice(3), TEXT, false],
  ["*", undefined, false],
  [ETAG, undefined, false],
  [undefined, undefined, true],
  [undefined, TEXT, true],
  ["*", TEXT, true],
  [ETAG, TEXT, true],
  [`"${ETAG}"`, TEXT, true],
  [`"v1:other", "${ETAG}"`, TEXT, true],
  [`"${EMPTY}"`, undefined, true],
] as const)("If-Match %p on %p is %p", (ifMatch, canonical, expected) => {
  expect(isMatch(ifMatch, canonical)).toBe(expected);
});
