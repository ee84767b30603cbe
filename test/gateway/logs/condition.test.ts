// Filters against real rows: every key and operator, and nothing that a value could break out of.

import type { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { FILTER_COLUMNS, filterProblem, toCondition } from "../../../src/gateway/logs/condition.ts";
import type { Filter } from "../../../src/gateway/logs/protocol.ts";
import { LOG_MIGRATIONS } from "../../../src/gateway/logs/schema.ts";
import { createLogWriter } from "../../../src/gateway/logs/writer.ts";
import { createPricing } from "../../../src/gateway/pricing.ts";
import { openDatabase } from "../../../src/platform/sqlite.ts";
import { recordOf } from "../support/records.ts";

let db: Database;
beforeAll(async () => {
  db = openDatabase(":memory:", LOG_MIGRATIONS, "NORMAL");
  const writer = createLogWriter({
    db,
    pricing: createPricing({}),
    retention: { rowsMax: 0, daysMax: 0, bytesMax: 0 },
    caps: [],
    now: Date.now,
    pause: async () => {},
  });
  await writer.write(
    [
      recordOf({ provider: "openai", status: 200, metadata: '{"team":"red","n":5}', eventId: "e1", durationMs: 10 }),
      recordOf({
        provider: "anthropic",
        status: 500,
        metadata: '{"team":"blue"}',
        authentication: false,
        durationMs: 20,
      }),
      recordOf({ provider: "100%_sure", status: 429, userAgent: "curl/8", durationMs: 30, outcome: "timeout" }),
      recordOf({ gateway: "home/other" }),
    ],
    new Uint8Array(),
  );
});
afterAll(() => db.close());

const providers = (filters: Filter[], search?: string) => {
  const { where, values } = toCondition({
    gateway: "home/default",
    filters,
    ...(search === undefined ? {} : { search }),
  });
  return db
    .query<{ provider: string }, (string | number)[]>(`select provider from logs where ${where} order by seq`)
    .all(...values)
    .map(({ provider }) => provider);
};
const one = (key: string, operator: Filter["operator"], ...value: (string | null)[]) =>
  providers([{ key, operator, value }]);

describe("refuses", () => {
  test.each([
    [{ key: "nope", operator: "eq", value: ["x"] }],
    [{ key: "constructor", operator: "eq", value: ["x"] }],
    [{ key: "cost", operator: "eq", value: ["cheap"] }],
    [{ key: "cost", operator: "eq", value: [""] }],
    [{ key: "success", operator: "eq", value: ["maybe"] }],
    [{ key: "created_at", operator: "gt", value: ["yesterday"] }],
    [{ key: "provider", operator: "eq", value: [] }],
    [{ key: "cost", operator: "gt", value: [null] }],
    [{ key: "created_at", operator: "lt", value: [null, "2026-01-01"] }],
    [{ key: "provider", operator: "contains", value: [null] }],
    [{ key: "provider", operator: "eq", value: Array.from({ length: 51 }, () => "x") }],
  ] satisfies [Filter][])("%p", (filter) => expect(filterProblem(filter)).toBeString());
});

test("every key makes a statement that SQLite accepts, with every operator", () => {
  for (const [key, { kind }] of Object.entries(FILTER_COLUMNS)) {
    const value = { text: "x", number: "1", boolean: "true", time: "2026-01-01" }[kind];
    for (const operator of ["eq", "neq", "contains", "lt", "gt"] as const) {
      expect(filterProblem({ key, operator, value: [value] })).toBeUndefined();
      expect(() => one(key, operator, value, null)).not.toThrow();
    }
  }
});

test.each([
  ["provider", "eq", ["openai", "anthropic"], ["openai", "anthropic"]],
  ["provider", "neq", ["openai"], ["anthropic", "100%_sure"]],
  ["provider", "contains", ["%_"], ["100%_sure"]],
  ["provider", "eq", ["' or 1=1 --"], []],
  ["duration", "gt", ["10"], ["anthropic", "100%_sure"]],
  ["duration", "lt", ["20"], ["openai"]],
  ["success", "eq", ["true"], ["openai"]],
  ["success", "eq", ["false"], ["anthropic", "100%_sure"]],
  ["authentication", "eq", ["false"], ["anthropic"]],
  ["event_id", "eq", [null], ["anthropic", "100%_sure"]],
  ["event_id", "neq", [null], ["openai"]],
  ["event_id", "neq", ["e1"], ["anthropic", "100%_sure"]],
  ["metadata.key", "eq", ["n"], ["openai"]],
  ["metadata.value", "eq", ["blue"], ["anthropic"]],
  ["metadata.value", "contains", ["re"], ["openai"]],
  ["user_agent", "contains", ["CURL"], ["100%_sure"]],
  ["outcome", "eq", ["timeout"], ["100%_sure"]],
  ["created_at", "gt", ["2020-01-01T00:00:00Z"], ["openai", "anthropic", "100%_sure"]],
  ["wholesale", "eq", ["true"], []],
] as const)("%s %s %p", (key, operator, value, expected) =>
  expect(one(key, operator, ...value)).toEqual([...expected]),
);

test("several filters narrow each other, and a search looks at metadata, model, provider, path and ids", () => {
  expect(
    providers([
      { key: "success", operator: "eq", value: ["false"] },
      { key: "duration", operator: "gt", value: ["25"] },
    ]),
  ).toEqual(["100%_sure"]);
  expect(providers([], "RED")).toEqual(["openai"]);
  expect(providers([], "%")).toEqual(["100%_sure"]);
});
