import { describe, expect, test } from "bun:test";
import { createOriginRule } from "../../src/platform/origin.ts";

const rule = (settings: Partial<Parameters<typeof createOriginRule>[0]> = {}) =>
  createOriginRule({ allowed_hosts: [], cors_origins: [], ...settings });
const from = (host: string, origin?: string) =>
  new Request("http://ignored/", { headers: { host, ...(origin !== undefined && { origin }) } });

describe("without a credential", () => {
  test.each([
    ["evil.example"],
    ["evil.example:8787"],
    ["x.local.evil.example"],
    ["local"],
    ["localhost.evil.example"],
    ["gate.example.evil.example"],
    ["gate.example:1"],
    [""],
  ])("the host %p is refused", (host) => {
    const { requireOurs } = rule({ public_url: "https://gate.example" });
    expect(() => requireOurs(from(host))).toThrow("not one of ours");
  });

  test.each([
    ["gate.example"],
    ["GATE.example"],
    ["Lab.example:8787"],
    ["LOCALHOST:8787"],
    ["PI.local"],
    ["192.168.1.7:8787"],
    ["[fe80::1]:8787"],
  ])("the host %p is answered", (host) => {
    rule({ public_url: "https://gate.example", allowed_hosts: ["LAB.example"] }).requireOurs(from(host));
  });

  test("a page of another port, of another name or of nowhere is refused, and a listed one is not", () => {
    const { requireOurs } = rule({ cors_origins: ["https://friend.example"] });
    for (const origin of ["http://pi.local:81", "http://nas.local:80", "null", "", "https://friend.example:444"]) {
      expect(() => requireOurs(from("pi.local:80", origin))).toThrow("origin");
    }
    requireOurs(from("pi.local:80", "http://pi.local:80"));
    requireOurs(from("pi.local:80", "https://friend.example"));
  });
});

test("the public URL is our own page under whatever host a proxy sends", () => {
  const { isSameOrigin } = rule({ public_url: "https://gate.example" });
  expect(isSameOrigin(from("127.0.0.1:8787"), "https://gate.example")).toBe(true);
  expect(isSameOrigin(from("127.0.0.1:8787"), "http://gate.example")).toBe(false);
});

test("every page is answered with a star, never with its own name, which would allow credentials", () => {
  const { corsOrigin } = rule({ cors_origins: ["*"] });
  expect(corsOrigin("https://any.example")).toBe("*");
  expect(corsOrigin(null)).toBeUndefined();
});
