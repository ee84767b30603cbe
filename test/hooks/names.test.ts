import { expect, test } from "bun:test";
import { distinctName, isPlain, NAME_CHARACTERS_MAX, parseIdentifier, sanitize } from "../../src/hooks/names.ts";

test("an identifier that is empty or longer than a name may be names nobody", () => {
  expect(parseIdentifier("")).toBeUndefined();
  expect(parseIdentifier("x".repeat(NAME_CHARACTERS_MAX))).toBe("x".repeat(128));
  expect(parseIdentifier("x".repeat(NAME_CHARACTERS_MAX + 1))).toBeUndefined();
  expect(parseIdentifier("é".repeat(10_000))).toBeUndefined();
});

test.each([
  ["Acme/Web", "acme-web"],
  ["acme web", "acme-web"],
  ["cus_1.2-3", "cus_1.2-3"],
  ["../../etc/passwd", "..-..-etc-passwd"],
  [".", "-"],
  ["..", "--"],
  ["CON", "con"],
  ["a\0b\nc", "a-b-c"],
  ["日本", "--"],
  ["%2F", "-2f"],
])("%p becomes %p", (identifier, name) => expect(sanitize(identifier)).toBe(name));

test("identifiers that differ in case alone are one", () => {
  expect(parseIdentifier("Acme/Web")).toBe(parseIdentifier("aCME/wEB"));
});

test("an identifier in sanitized form is its own name; dots alone are not", () => {
  expect(["acme-web", "a.b_c-1"].map(isPlain)).toEqual([true, true]);
  expect(["acme/web", "Acme", ".."].map(isPlain)).toEqual([false, false, false]);
});

test("a distinct name ends in eight hex digits of the identifier's hash and stays within the limit", () => {
  const hash = new Bun.CryptoHasher("sha256").update("acme/web").digest("hex").slice(0, 8);
  expect(distinctName("Acme/Web")).toBe(`acme-web-${hash}`);
  expect(distinctName("/".repeat(128)).length).toBe(NAME_CHARACTERS_MAX);
});
