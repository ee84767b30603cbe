import { describe, expect, test } from "bun:test";
import {
  grantProblem,
  may,
  mayGrant,
  type Permission,
  type Principal,
  type Scope,
} from "../../src/platform/permissions.ts";

const principal = (permissions: Permission[], scope: Scope = {}): Principal => ({
  tokenId: "t",
  name: "t",
  permissions: new Set(permissions),
  scope,
});

describe("a principal may not", () => {
  const CASES: [string, Principal, Permission, Scope][] = [
    ["do what it does not hold", principal(["tags:read"]), "tags:edit", { accountId: "home" }],
    ["leave its account", principal(["tags:edit"], { accountId: "home" }), "tags:read", { accountId: "work" }],
    ["list over all accounts when limited to one", principal(["tags:read"], { accountId: "home" }), "tags:read", {}],
    [
      "use another gateway",
      principal(["run"], { accountId: "home", gatewayId: "a" }),
      "run",
      { accountId: "home", gatewayId: "b" },
    ],
    [
      "touch another agent",
      principal(["agents:edit"], { agentClass: "chat", agentName: "a" }),
      "agents:read",
      { agentClass: "chat", agentName: "b" },
    ],
    ["be admin by holding the rest", principal(["run", "tags:edit", "agents:edit", "gateway:edit"]), "admin", {}],
    ["run by editing gateways", principal(["gateway:edit"]), "run", { accountId: "home", gatewayId: "a" }],
  ];
  test.each(CASES)("%s", (_name, who, permission, scope) => expect(may(who, permission, scope)).toBe(false));
});

test("an admin may everything, and editing implies reading", () => {
  expect(may(principal(["admin"]), "run", { accountId: "x", gatewayId: "y" })).toBe(true);
  expect(may(principal(["tags:edit"], { accountId: "home" }), "tags:read", { accountId: "home" })).toBe(true);
});

test.each([
  ["no permission", [], {}],
  ["a limited admin", ["admin"], { accountId: "home" }],
  ["a gateway without its account", ["run"], { gatewayId: "a" }],
  ["agents in an account", ["agents:read"], { accountId: "home" }],
  ["an agent's name without its class", ["agents:read"], { agentName: "a" }],
  ["tags in a gateway", ["run", "tags:read"], { accountId: "home", gatewayId: "a" }],
  ["tags for an agent", ["tags:read"], { agentClass: "chat" }],
] as [string, Permission[], Scope][])("%s makes no token", (_name, permissions, scope) =>
  expect(grantProblem(permissions, scope)).toBeString(),
);

test("a gateway editor hands out run for its own gateways and nothing else", () => {
  const editor = principal(["gateway:edit"], { accountId: "home" });
  const place = { accountId: "home", gatewayId: "default" };
  expect(mayGrant(editor, ["run", "tags:read"], place)).toBe(false);
  expect(mayGrant(editor, ["run"], { accountId: "work", gatewayId: "default" })).toBe(false);
  expect(mayGrant(editor, ["run"], { accountId: "home" })).toBe(false);
  expect(mayGrant(principal(["tags:edit"]), ["run"], place)).toBe(false);
  expect(mayGrant(editor, ["run"], place)).toBe(true);
});
