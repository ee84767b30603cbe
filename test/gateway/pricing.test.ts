// Costs against the price package's own arithmetic, and the cases in which no price is the right answer.
import { describe, expect, test } from "bun:test";
import { calcPrice } from "@pydantic/genai-prices";
import manifest from "../../package.json" with { type: "json" };
import { createPricing, customCost, PRICE_TABLE } from "../../src/gateway/pricing.ts";

const NOW = Date.parse("2026-11-15T12:00:00Z");
const openai = { provider: "openai", base: "https://api.openai.com" };
const home = { provider: undefined, base: "http://127.0.0.1:11434" };
const pricing = createPricing({
  "house-model": { input: 1, output: 2 },
  "ollama/llama3.2": { input: 3, output: 4 },
  "openai/gpt-4o": { input: 10, output: 20, cache_read: 1 },
});
type Asked = { slug?: string; provider: string | undefined; base: string; model: string; asked?: string };
const cost = (usage: object, { model, asked, slug = "openai", ...priced }: Asked) =>
  pricing
    .load()
    .then(() => pricing.cost(usage, { slug, ...priced, models: asked === undefined ? [model] : [model, asked] }, NOW));

describe("is null, never 0", () => {
  test("for an unknown model", async () =>
    expect(await cost({ tokensIn: 5, tokensOut: 5 }, { ...openai, model: "nobody-knows-it" })).toBeNull());
  test("for a known name at a home server", async () =>
    expect(await cost({ tokensIn: 5, tokensOut: 5 }, { ...home, model: "gpt-4o-mini" })).toBeNull());
  test("without counts", async () => expect(await cost({}, { ...openai, model: "gpt-4o-mini" })).toBeNull());
});

describe("equals the package's own figure", () => {
  const USAGES = [
    { tokensIn: 1000, tokensOut: 100 },
    { tokensIn: 1000, tokensOut: 100, cachedIn: 400 },
    { tokensIn: 1000, tokensOut: 1000, reasoningOut: 300 },
    { tokensIn: 300_000, tokensOut: 1000, cachedIn: 1000, cacheWriteIn: 2000 },
    { tokensIn: 5000, tokensOut: 1000, cacheWriteIn: 2000, cacheWriteHourIn: 2000, reasoningOut: 300 },
    { tokensIn: 7 },
  ];
  const MODELS = [
    ["openai", "gpt-4o-mini"],
    ["openai", "gpt-4o-mini-2024-07-18"],
    ["openai", "o3"],
    ["openai", "text-embedding-3-small"],
    ["anthropic", "claude-sonnet-4-5"],
    ["anthropic", "claude-3-5-haiku-latest"],
    ["google", "gemini-2.5-flash"],
    ["google", "gemini-2.5-pro"],
    ["cohere", "command-r-plus"],
    ["deepseek", "deepseek-chat"],
    ["groq", "llama-3.3-70b-versatile"],
    ["perplexity", "sonar-deep-research"],
  ] as const;
  test.each(MODELS)("%s %s", async (provider, model) => {
    for (const usage of USAGES) {
      const theirs = calcPrice(
        {
          input_tokens: usage.tokensIn,
          output_tokens: usage.tokensOut ?? 0,
          cache_read_tokens: usage.cachedIn ?? 0,
          cache_write_tokens: usage.cacheWriteIn ?? 0,
          cache_write_1h_tokens: usage.cacheWriteHourIn ?? 0,
          output_reasoning_tokens: usage.reasoningOut ?? 0,
        },
        model,
        { providerId: provider, timestamp: new Date(NOW) },
      );
      const ours = await cost(usage, { provider, base: "", model });
      expect(ours).toBeCloseTo(theirs?.total_price ?? Number.NaN, 12);
    }
  });
});

test("the seller's own figure wins over any table", async () =>
  expect(await cost({ tokensIn: 1, tokensOut: 1, cost: 0.25 }, { ...openai, model: "gpt-4o-mini" })).toBe(0.25));

test("the operator's price wins over the table, and reaches models the table does not know", async () => {
  expect(await cost({ tokensIn: 1_000_000, tokensOut: 1_000_000 }, { ...home, model: "house-model" })).toBeCloseTo(
    3,
    9,
  );
  expect(await cost({ tokensIn: 100, cachedIn: 100 }, { ...openai, model: "gpt-4o" })).toBeCloseTo(0.0001, 12);
});

test("it is found by the provider's name in the path, which need not be in the table", async () => {
  const million = { tokensIn: 1_000_000, tokensOut: 1_000_000 };
  expect(await cost(million, { ...home, slug: "ollama", model: "llama3.2" })).toBeCloseTo(7, 9);
  expect(await cost(million, { ...home, slug: "vllm", model: "llama3.2" })).toBeNull();
  expect(await cost(million, { ...home, model: "constructor" })).toBeNull();
});

test("and by the name that was asked for, when the answer has a dated one that the table knows", async () =>
  expect(
    await cost({ tokensIn: 1_000_000, tokensOut: 0 }, { ...openai, model: "gpt-4o-2024-08-06", asked: "gpt-4o" }),
  ).toBeCloseTo(10, 9));

test("parts that exceed their whole are cut, not thrown", async () =>
  expect(
    await cost(
      { tokensIn: 1, tokensOut: 1, cachedIn: 9, cacheWriteHourIn: 9 },
      { provider: "anthropic", base: "", model: "claude-sonnet-4-5" },
    ),
  ).toBeGreaterThan(0));

test("nor do they make a price negative", async () =>
  expect(await cost({ tokensIn: 100, cachedIn: 900 }, { ...openai, model: "gpt-4o" })).toBeCloseTo(0.0001, 12));

test("a caller's own cost: the whole, or per token with the prompt's rate for the cache", () => {
  expect(customCost({ tokensIn: 1 }, { total: 0.5 })).toBe(0.5);
  expect(customCost({ tokensIn: 10, cachedIn: 4, tokensOut: 2 }, { perTokenIn: 1, perTokenOut: 3 })).toBe(16);
  expect(
    customCost({ tokensIn: 10, cachedIn: 4, tokensOut: 2 }, { perTokenIn: 1, perTokenOut: 3, perCacheRead: 0 }),
  ).toBe(12);
  expect(customCost({}, { perTokenIn: 1 })).toBeNull();
});

test("the date shown is that of the pinned package", () =>
  expect(manifest.dependencies["@pydantic/genai-prices"]).toBe(PRICE_TABLE.version));
