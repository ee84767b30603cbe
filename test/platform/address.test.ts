import { expect, test } from "bun:test";
import { addressBucket, clientAddress, inRange, isAddressRange } from "../../src/platform/address.ts";

test.each(["", "10.0.0.0/33", "10.0.0", "10.0.0.0/8/8", "::1/129", "example.org", "10.0.0.0/", "1.2.3.4/-1"])(
  "%p is no range",
  (text) => expect(isAddressRange(text)).toBe(false),
);

test.each([
  ["10.1.2.3", "10.0.0.0/8", true],
  ["11.0.0.0", "10.0.0.0/8", false],
  ["10.0.0.1", "10.0.0.1", true],
  ["10.0.0.2", "10.0.0.1", false],
  ["::ffff:10.0.0.1", "10.0.0.0/8", true],
  ["::ffff:a00:1", "10.0.0.0/8", true],
  ["0:0:0:0:0:ffff:0a00:0001", "10.0.0.0/8", true],
  ["::fffe:a00:1", "10.0.0.0/8", false],
  ["10.0.0.1", "::ffff:10.0.0.0/104", true],
  ["fe80::1%eth0", "fe80::/10", true],
  ["2001:db8::1", "2001:db8::/32", true],
  ["2001:db9::1", "2001:db8::/32", false],
  ["10.0.0.1", "::/0", false],
  ["0.0.0.0", "0.0.0.0/0", true],
])("%p in %p is %p", (address, range, expected) => expect(inRange(address, range)).toBe(expected));

test.each([
  ["a stranger's header is ignored", "203.0.113.9", "1.1.1.1", ["10.0.0.0/8"], "203.0.113.9"],
  ["no proxies, no header", "10.0.0.1", "1.1.1.1", [], "10.0.0.1"],
  ["the last hop that is no proxy counts", "10.0.0.1", "6.6.6.6, 1.1.1.1, 10.0.0.2", ["10.0.0.0/8"], "1.1.1.1"],
  ["garbage ends the walk", "10.0.0.1", "1.1.1.1, evil", ["10.0.0.0/8"], "10.0.0.1"],
  ["only proxies", "10.0.0.1", "10.0.0.2", ["10.0.0.0/8"], "10.0.0.2"],
])("%s", (_name, peer, header, trusted, expected) => expect(clientAddress(peer, header, trusted)).toBe(expected));

test("guesses from one IPv6 network share a bucket, from two they do not", () => {
  expect(addressBucket("2001:db8::1")).toBe(addressBucket("2001:db8::ffff:1"));
  expect(addressBucket("2001:db8::1")).not.toBe(addressBucket("2001:db8:0:1::1"));
});
