// What a caller asks of the logs, out of a query string in any of the three forms clients use. Pure.
import { AppError } from "../platform/errors.ts";
import { FILTERS_MAX, filterProblem } from "./logs/condition.ts";
import { type Filter, OPERATORS } from "./logs/protocol.ts";
import { parseJson } from "./usage.ts";

type Loose = { key: string; operator: string; value: (string | null)[] };

/** Old clients name the field itself: `provider=openai`, `min_cost=1`. */
const PLAIN: Readonly<Record<string, readonly [key: string, operator: Filter["operator"]]>> = {
  provider: ["provider", "eq"],
  model: ["model", "eq"],
  model_type: ["model_type", "eq"],
  request_content_type: ["request_content_type", "eq"],
  response_content_type: ["response_content_type", "eq"],
  success: ["success", "eq"],
  cached: ["cached", "eq"],
  feedback: ["feedback", "eq"],
  start_date: ["created_at", "gt"],
  end_date: ["created_at", "lt"],
  min_cost: ["cost", "gt"],
  max_cost: ["cost", "lt"],
  min_duration: ["duration", "gt"],
  max_duration: ["duration", "lt"],
  min_tokens_in: ["tokens_in", "gt"],
  max_tokens_in: ["tokens_in", "lt"],
  min_tokens_out: ["tokens_out", "gt"],
  max_tokens_out: ["tokens_out", "lt"],
  min_total_tokens: ["tokens", "gt"],
  max_total_tokens: ["tokens", "lt"],
};

export function parseFilters(params: URLSearchParams): Filter[] {
  const loose = [...fromPlain(params), ...fromFlat(params), ...params.getAll("filters").flatMap(fromJson)];
  if (loose.length > FILTERS_MAX) throw refuse(`at most ${FILTERS_MAX} filters`);
  return loose.map(checked);
}

export function parseOrder(params: URLSearchParams): { orderBy: string; descending: boolean } {
  const direction = params.get("order_by_direction") ?? params.get("direction") ?? "desc";
  return { orderBy: params.get("order_by") ?? "created_at", descending: direction !== "asc" };
}

function checked({ key, operator, value }: Loose): Filter {
  const known = OPERATORS.find((one) => one === operator);
  if (!known) throw refuse("filters.operator must be eq, neq, contains, lt or gt");
  const filter = { key, operator: known, value };
  const problem = filterProblem(filter);
  if (problem) throw refuse(problem);
  return filter;
}

function fromPlain(params: URLSearchParams): Loose[] {
  return Object.entries(PLAIN).flatMap(([name, [key, operator]]) => {
    const value = params.get(name);
    return value === null || value === "" ? [] : [{ key, operator, value: [value] }];
  });
}

/** `filters.key=a&filters.operator=eq&filters.value=1&filters.value=2&filters.key=b…`: a key begins the next filter. */
function fromFlat(params: URLSearchParams): Loose[] {
  const filters: Loose[] = [];
  for (const [name, text] of params) {
    const last = filters.at(-1);
    if (name === "filters.key") filters.push({ key: text, operator: "eq", value: [] });
    else if (last && name === "filters.operator") last.operator = text;
    else if (last && name === "filters.value") last.value.push(text === "" ? null : text); // how that client writes null
  }
  return filters;
}

function fromJson(text: string): Loose[] {
  const list = parseJson(text);
  if (!Array.isArray(list)) throw refuse("filters must be a JSON list");
  return list.map((item: unknown) => {
    if (typeof item !== "object" || item === null || !("key" in item) || !("operator" in item) || !("value" in item)) {
      throw refuse("each filter has key, operator and value");
    }
    const values: unknown[] = Array.isArray(item.value) ? item.value : [item.value];
    return {
      key: String(item.key),
      operator: String(item.operator),
      value: values.map((one) => (one === null ? null : String(one))),
    };
  });
}

function refuse(sentence: string): AppError {
  return new AppError("input.invalid", { say: `query: ${sentence}` });
}
