// Token counts to dollars, from a price table that is embedded, dated and overridable. Runs in the log thread alone.
import type { ModelInfo, ModelPrice, Provider as PriceProvider } from "@pydantic/genai-prices";
import type { Usage } from "./usage.ts";

/** What the table is and when it was made; shown with every figure that came from it. */
export const PRICE_TABLE = { source: "@pydantic/genai-prices", version: "0.1.8", date: "2026-09-23" } as const;

/** Dollars per million tokens, as the operator writes them under `[gateway.prices."MODEL"]`. */
export type PriceSetting = { input: number; output: number; cache_read?: number; cache_write?: number };

/** `gw-aig-custom-cost`: a caller who knows better than any table. Dollars per token, or the whole. */
export type CustomCost = {
  perTokenIn?: number;
  perTokenOut?: number;
  perCacheRead?: number;
  perCacheWrite?: number;
  total?: number;
};

export type Priced = {
  /** As it stands in a gateway's path. */
  slug: string;
  /** Its name in the table, where it has one. */
  provider: string | undefined;
  base: string;
  /** The model by every name it is known by, the most exact first. */
  models: readonly string[];
};
export type Pricing = {
  /** Before the first `cost`; afterwards it is free. */
  load(): Promise<void>;
  cost(usage: Usage, priced: Priced, atMs: number): number | null;
};

type Named = Pick<Priced, "provider" | "base"> & { model: string };
type Library = typeof import("@pydantic/genai-prices");
type Rates = { input: number; output: number; cacheRead: number; cacheWrite: number };
/** Found once per model: either plain rates, or the library's own rule for prices with steps. */
type Found = { untilMs: number; rates?: Rates; provider?: PriceProvider; model?: ModelInfo };

const FOUND_MS_MAX = 60_000; // a price may depend on the hour; a minute late is nobody's loss
const FOUND_MAX = 2_000; // distinct models kept; callers choose the names, so the map needs an end
const MILLION = 1_000_000;

export function createPricing(overrides: Readonly<Record<string, PriceSetting>>): Pricing {
  const ours = new Map(Object.entries(overrides)); // callers choose the names that are looked up here
  const found = new Map<string, Found>();
  let library: Library | undefined;

  /** 25 MB and 50 ms: paid when the first request needs a price, not by a house that only routes webhooks. */
  async function load(): Promise<void> {
    library ??= await import("@pydantic/genai-prices");
  }

  function cost(usage: Usage, priced: Priced, atMs: number): number | null {
    if (usage.cost !== undefined) return usage.cost;
    if (usage.tokensIn === undefined && usage.tokensOut === undefined) return null;
    for (const model of priced.models) {
      // Before the table is asked by any name: a provider answers with a dated name, the operator wrote the plain one.
      const own = ours.get(`${priced.slug}/${model}`) ?? ours.get(`${priced.provider}/${model}`) ?? ours.get(model);
      if (own) return flat(usage, ratesOf(own));
    }
    if (!library) return null;
    for (const model of priced.models) {
      const dollars = costFrom(library, usage, { ...priced, model }, atMs);
      if (dollars !== null) return dollars;
    }
    return null;
  }

  function costFrom(prices: Library, usage: Usage, priced: Named, atMs: number): number | null {
    const it = find(prices, priced, atMs);
    if (it.rates && usage.cacheWriteHourIn === undefined) return flat(usage, it.rates);
    if (!it.provider || !it.model) return null;
    const options = { provider: it.provider, timestamp: new Date(atMs) };
    return prices.calcPrice(toLibrary(usage), it.model.id, options)?.total_price ?? null;
  }

  function find(prices: Library, priced: Named, atMs: number): Found {
    const key = `${priced.provider ?? priced.base} ${priced.model}`;
    const known = found.get(key);
    if (known && atMs < known.untilMs) return known;
    if (found.size >= FOUND_MAX) found.clear();
    const fresh = { untilMs: atMs + FOUND_MS_MAX, ...look(prices, priced, atMs) };
    found.set(key, fresh);
    return fresh;
  }

  return { load, cost };
}

function look(prices: Library, { provider, base, model }: Named, atMs: number): Omit<Found, "untilMs"> {
  // Never by the model's name alone: a home server may call its model anything.
  const seller = prices.findProvider(provider ? { providerId: provider } : { providerApiUrl: base });
  if (!seller) return {};
  const options = { provider: seller, timestamp: new Date(atMs) };
  const result = prices.calcPrice({ input_tokens: 1, output_tokens: 1 }, model, options);
  if (!result) return {};
  const rates = plainRates(result.model_price);
  // One model instead of hundreds to search through: a third of the library's time per call.
  return { ...(rates ? { rates } : {}), provider: { ...result.provider, models: [result.model] }, model: result.model };
}

function plainRates(price: ModelPrice): Rates | undefined {
  const { input_mtok: input, output_mtok: output, cache_read_mtok: read, cache_write_mtok: write } = price;
  if (typeof input !== "number" || (output !== undefined && typeof output !== "number")) return undefined;
  if ((read !== undefined && typeof read !== "number") || (write !== undefined && typeof write !== "number"))
    return undefined;
  if (price.output_reasoning_mtok !== undefined) return undefined;
  return {
    input: input / MILLION,
    output: (output ?? 0) / MILLION,
    cacheRead: (read ?? input) / MILLION,
    cacheWrite: (write ?? input) / MILLION,
  };
}

function ratesOf({ input, output, cache_read = input, cache_write = input }: PriceSetting): Rates {
  return {
    input: input / MILLION,
    output: output / MILLION,
    cacheRead: cache_read / MILLION,
    cacheWrite: cache_write / MILLION,
  };
}

/** The caller's own price; a cache rate that is missing is the prompt's. */
export function customCost(usage: Usage, custom: CustomCost): number | null {
  if (custom.total !== undefined) return custom.total;
  const { perTokenIn: input = 0, perTokenOut: output = 0 } = custom;
  if (usage.tokensIn === undefined && usage.tokensOut === undefined) return null;
  return flat(usage, {
    input,
    output,
    cacheRead: custom.perCacheRead ?? input,
    cacheWrite: custom.perCacheWrite ?? input,
  });
}

function flat(usage: Usage, rates: Rates): number {
  const total = usage.tokensIn ?? 0;
  const read = Math.min(usage.cachedIn ?? 0, total);
  const written = Math.min(usage.cacheWriteIn ?? 0, total - read);
  const fresh = total - read - written;
  return (
    fresh * rates.input + read * rates.cacheRead + written * rates.cacheWrite + (usage.tokensOut ?? 0) * rates.output
  );
}

/** The library throws when a part exceeds its whole; a provider's odd figures must not cost us the row. */
function toLibrary(usage: Usage): Record<string, number> {
  const input = usage.tokensIn ?? 0;
  const output = usage.tokensOut ?? 0;
  const read = Math.min(usage.cachedIn ?? 0, input);
  const written = Math.min(usage.cacheWriteIn ?? 0, input - read);
  return {
    input_tokens: input,
    output_tokens: output,
    cache_read_tokens: read,
    cache_write_tokens: written,
    cache_write_1h_tokens: Math.min(usage.cacheWriteHourIn ?? 0, written),
    output_reasoning_tokens: Math.min(usage.reasoningOut ?? 0, output),
  };
}
