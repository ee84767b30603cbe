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

test("a clock that is set back makes nobody wait for it to catch up", () => {
  let nowMs = 3_600_000;
  const brake = createBrake(() => nowMs);
  brake.fail("203.0.113.1");
  nowMs = 0;
  expect(brake.fail("203.0.113.1")).toBe(0);
});

test("a step never grows past eight seconds, so that who waits long enough gets an answer", () => {
  let nowMs = 0;
  const brake = createBrake(() => nowMs);
  for (let n = 0; n < 30; n++) {
    brake.fail("203.0.113.1");
    nowMs += 60_000;
  }
  expect(brake.fail("203.0.113.1")).toBe(8_000);
});

test("ten thousand addresses are remembered, and the one that was quiet longest is forgotten first", () => {
  const brake = createBrake(() => 0);
  for (let n = 0; n < 20; n++) for (const address of ["busy", "quiet"]) brake.fail(address);
  for (let n = 0; n < 9_998; n++) brake.fail(`other ${n}`);
  expect(brake.fail("busy")).toBe(500);
  brake.fail("one more");
  expect(brake.fail("quiet")).toBe(0);
  expect(brake.fail("busy")).toBe(1_500);
});

test("who is refused at once makes the line no longer", () => {
  let nowMs = 0;
  const brake = createBrake(() => nowMs);
  for (let n = 0; n < 100; n++) brake.fail("203.0.113.1");
  nowMs = 7_500;
  expect(brake.fail("203.0.113.1")).toBe(8_000);
});
