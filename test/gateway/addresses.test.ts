// Which upstream addresses may be contacted, in every spelling an address has.
import { describe, expect, test } from "bun:test";
import { createAddressRule, type Listener, reachOf } from "../../src/gateway/addresses.ts";

test.each([
  ["169.254.169.254", "refused"],
  ["169.254.0.1", "refused"],
  ["::ffff:169.254.169.254", "refused"],
  ["::ffff:a9fe:a9fe", "refused"],
  ["fe80::1", "refused"],
  ["fe80::1%eth0", "refused"],
  ["fd00:ec2::254", "refused"],
  ["100.100.100.200", "refused"],
  ["168.63.129.16", "refused"],
  ["192.0.0.192", "refused"],
  ["224.0.0.1", "refused"],
  ["255.255.255.255", "refused"],
  ["ff02::1", "refused"],
  ["127.0.0.1", "private"],
  ["0.0.0.0", "private"],
  ["::1", "private"],
  ["::", "private"],
  ["::ffff:7f00:1", "private"],
  ["10.1.2.3", "private"],
  ["172.16.0.1", "private"],
  ["172.31.255.255", "private"],
  ["192.168.1.1", "private"],
  ["100.64.0.1", "private"],
  ["fd12::1", "private"],
  ["64:ff9b::7f00:1", "private"],
  ["172.32.0.1", "public"],
  ["100.128.0.1", "public"],
  ["8.8.8.8", "public"],
  ["2606:4700::1", "public"],
])("%s is %s", (address, reach) => expect(reachOf(address)).toBe(reach as never));

const rule = (names: Record<string, string[]>, listener: Partial<Listener> = {}, clock = { nowMs: 0 }) =>
  createAddressRule({
    listener: () => ({ host: "0.0.0.0", port: 8787, publicUrl: undefined, ...listener }),
    now: () => clock.nowMs,
    resolve: async (host) => names[host] ?? Promise.reject(new Error("no such name")),
  });

describe("by name", () => {
  test("every address a name has counts, not only the first", async () => {
    const { problemOf } = rule({ mixed: ["8.8.8.8", "169.254.169.254"], inside: ["8.8.8.8", "10.0.0.1"] });
    expect(await problemOf("http://mixed/v1")).toBe("refused");
    expect(await problemOf("http://inside/v1")).toBe("private");
  });

  test("a name that does not resolve is left to the request", async () =>
    expect(await rule({}).problemOf("http://nowhere/")).toBeUndefined());

  test("a name that moves is caught once its verdict is old", async () => {
    const names: Record<string, string[]> = { shifty: ["8.8.8.8"] };
    const clock = { nowMs: 0 };
    const { check } = rule(names, {}, clock);
    expect(await check("http://shifty/")).toBeUndefined();
    names.shifty = ["169.254.169.254"];
    clock.nowMs = 29_999;
    expect(check("http://shifty/")).toBeUndefined();
    clock.nowMs = 30_000;
    expect(await check("http://shifty/")).toBe("refused");
  });
});

describe("ourselves", () => {
  test.each([
    [{}, "http://127.0.0.1:8787", "self"],
    [{}, "http://0.0.0.0:8787", "self"],
    [{}, "http://[::1]:8787/v1", "self"],
    [{}, "http://127.9.9.9:8787", "self"],
    [{}, "http://127.0.0.1:8080", "private"],
    [{ host: "127.0.0.1" }, "http://127.0.0.1:8787", "self"],
    [{ host: "127.0.0.1" }, "http://127.0.0.2:8787", "self"],
    [{ host: "127.0.0.1" }, "http://192.168.99.99:8787", "private"],
    [{ host: "192.168.99.99" }, "http://192.168.99.99:8787", "self"],
    [{ host: "192.168.99.99" }, "http://127.0.0.1:8787", "private"],
    [{ port: 80 }, "http://127.0.0.1", "self"],
    [{ port: 443 }, "https://127.0.0.1", "self"],
    [{ publicUrl: "https://pi.example.org" }, "https://pi.example.org/v1", "self"],
    [{ publicUrl: "https://pi.example.org" }, "https://other.example.org", undefined],
  ] as const)("listening on %p, %s is %p", async (listener, base, problem) =>
    expect(await rule({}, listener).problemOf(base)).toBe(problem as never),
  );
});
