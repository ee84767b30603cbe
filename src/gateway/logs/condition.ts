// Filters on logs become one SQL condition. Pure; every value is bound, every column comes from the table below.
import type { Filter, Selection } from "./protocol.ts";

type Column = { sql: string; kind: "text" | "number" | "boolean" | "time" };

const text = (sql: string): Column => ({ sql, kind: "text" });
const number = (sql: string): Column => ({ sql, kind: "number" });
const boolean = (sql: string): Column => ({ sql, kind: "boolean" });

/** A filter's key -> what it looks at. Things we do not have are false or absent for every row. */
export const FILTER_COLUMNS: Readonly<Record<string, Column>> = {
  id: text("id"),
  created_at: { sql: "created_ms", kind: "time" },
  request_content_type: text("request_type"),
  response_content_type: text("response_type"),
  request_type: text("model_type"),
  success: boolean("success"),
  cached: boolean("cached"),
  provider: text("provider"),
  model: text("model"),
  model_type: text("model_type"),
  cost: number("cost"),
  tokens: number("(coalesce(tokens_in, 0) + coalesce(tokens_out, 0))"),
  tokens_in: number("tokens_in"),
  tokens_out: number("tokens_out"),
  duration: number("duration_ms"),
  status_code: number("status"),
  feedback: number("feedback"),
  score: number("score"),
  event_id: text("event_id"),
  "metadata.key": text("metadata.key"),
  "metadata.value": text("metadata.value"),
  authentication: boolean("authentication"),
  wholesale: boolean("0"),
  compatibilityMode: boolean("0"),
  dlp_action: text("null"),
  user_agent: text("user_agent"),
  token_id: text("token_id"),
  outcome: text("outcome"),
};

export const FILTERS_MAX = 20; // more than anybody writes by hand; each costs a look at every row
export const FILTER_VALUES_MAX = 50;

export type Condition = { where: string; values: (string | number)[] };

export function toCondition({ gateway, filters, search }: Selection): Condition {
  const parts = ["gateway = ?"];
  const values: (string | number)[] = [gateway];
  for (const filter of filters) {
    const condition = oneFilter(filter);
    parts.push(condition.where);
    values.push(...condition.values);
  }
  if (search !== undefined && search !== "") {
    const like = toLike(search);
    const places = ["metadata", "model", "provider", "path", "id", "event_id"];
    parts.push(`(${places.map((place) => `${place} like ? escape '\\'`).join(" or ")})`);
    values.push(...places.map(() => like));
  }
  return { where: parts.join(" and "), values };
}

/** Why this filter cannot be answered, or undefined. */
export function filterProblem({ key, operator, value }: Filter): string | undefined {
  const column = columnOf(key);
  if (!column) return "filters.key is not a field of a log";
  if (value.length === 0) return "filters.value must hold at least one value";
  if (operator !== "eq" && operator !== "neq" && value.includes(null))
    return `filters.value of ${operator} must hold a value`;
  if (value.length > FILTER_VALUES_MAX) return `filters.value holds at most ${FILTER_VALUES_MAX} values`;
  const bad = value.some((one) => one !== null && toBound(column, one) === undefined);
  return bad ? `filters.value does not fit ${key}` : undefined;
}

function oneFilter({ key, operator, value }: Filter): Condition {
  const column = columnOf(key) ?? text("null");
  if (column.sql.startsWith("metadata.")) {
    const inner = compare({ sql: `entry.${column.sql.slice(9)}`, kind: "text" }, operator, value);
    return {
      where: `exists (select 1 from json_each(logs.metadata) as entry where ${inner.where})`,
      values: inner.values,
    };
  }
  return compare(column, operator, value);
}

/** Callers choose the keys, so what every object has is none of them. */
function columnOf(key: string): Column | undefined {
  return Object.hasOwn(FILTER_COLUMNS, key) ? FILTER_COLUMNS[key] : undefined;
}

function compare(column: Column, operator: Filter["operator"], value: (string | null)[]): Condition {
  const { sql } = column;
  const values = value.flatMap((one) => (one === null ? [] : [toBound(column, one) ?? ""]));
  const marks = values.map(() => "?").join(", ");
  const orNull = value.includes(null) ? ` or ${sql} is null` : "";
  if (operator === "contains") {
    const likes = values.map(() => `cast(${sql} as text) like ? escape '\\'`).join(" or ");
    return { where: `(${likes})`, values: values.map((one) => toLike(String(one))) };
  }
  if (operator === "eq") return { where: `(${sql} in (${marks})${orNull})`, values };
  if (operator === "neq") {
    const nulls = value.includes(null) ? `and ${sql} is not null` : `or ${sql} is null`;
    return { where: `(${sql} not in (${marks}) ${nulls})`, values };
  }
  return { where: `${sql} ${operator === "lt" ? "<" : ">"} ?`, values: values.slice(0, 1) };
}

function toBound({ kind }: Column, one: string): string | number | undefined {
  if (kind === "text") return one;
  if (kind === "boolean") return /^(true|1)$/i.test(one) ? 1 : /^(false|0)$/i.test(one) ? 0 : undefined;
  const value = kind === "time" ? Date.parse(one) : Number(one === "" ? "x" : one);
  return Number.isFinite(value) ? value : undefined;
}

function toLike(part: string): string {
  return `%${part.replace(/[\\%_]/g, "\\$&")}%`;
}
