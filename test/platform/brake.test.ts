import { expect, test } from "bun:test";
import { createBrake } from "../../src/platform/brake.ts";

test("the twenty-first failure waits, each one behind the last, until the line is too long", () => {
  const brake = createBrake(() => 0);
  const waits = Array.from({ length: 27 }, () => brake.fail("203.0.113.1"));
  expect(waits.slice(0, 20).every((wait) => wait === 0)).toBe(true);
  expect(waits.slice(20)).toEqual([500, 1_500, 3_500, 7_500, undefined, undefined, undefined]);
});

test("another address is not slowed by this one, but the same IPv6 network is", () => {
  const brake = createBrake(() => 0);
  for (let n = 0; n < 20; n++) brake.fail("2001:db8::1");
  expect(brake.fail("203.0.113.2")).toBe(0);
  expect(brake.fail("2001:db8::2")).toBe(500);
});

test("a quarter of an hour later all is forgotten", () => {
  let nowMs = 0;
  const brake = createBrake(() => nowMs);
  for (let n = 0; n < 24; n++) brake.fail("203.0.113.1");
  nowMs = 15 * 60_000;
  expect(brake.fail("203.0.113.1")).toBe(0);
});
