// The parameters of a search, read from the address: `tag`, `type` and `id` may repeat, which a plain object would lose.
import { AppError } from "../platform/errors.ts";
import { isLongerThan, parseFilters } from "./filter.ts";
import type { ResourceTypes } from "./resource-types.ts";
import type { Query } from "./search.ts";

export const IDS_MAX = 50; // `id` parameters of one request
export const NAME_CHARS_MAX = 256;

export function parseQuery(params: URLSearchParams, types: ResourceTypes): Query {
  const parsed = parseFilters(params.getAll("tag"));
  if (!parsed.ok) throw new AppError(parsed.code);
  const wanted = new Set(params.getAll("type"));
  if (![...wanted].every((type) => types.has(type))) throw new AppError("tags.type");
  const ids = params.getAll("id");
  if (ids.length > IDS_MAX) throw invalid(`too many id parameters (maximum ${IDS_MAX})`);
  const name = params.get("name") ?? undefined;
  if (name !== undefined && isLongerThan(name, NAME_CHARS_MAX)) {
    throw invalid(`name too long (maximum ${NAME_CHARS_MAX} characters)`);
  }
  const folding = params.get("case_insensitive") ?? "false";
  if (folding !== "true" && folding !== "false") throw invalid("case_insensitive must be true or false");
  return { filters: { all: parsed.filters, foldCase: folding === "true" }, types: [...wanted], ids, name };
}

/** Not Elysia's own: that keeps the last of several equal names. */
export function queryOf(request: Request): URLSearchParams {
  return new URL(request.url).searchParams;
}

function invalid(say: string): AppError {
  return new AppError("input.invalid", { say });
}
