// Questions about stored logs. Lives in a thread of its own: a long answer keeps nobody from writing or proxying.
import type { Database } from "bun:sqlite";
import { decodeBody } from "./body.ts";
import { type Condition, toCondition } from "./condition.ts";
import type { ListQuery, StatsQuery } from "./protocol.ts";
import { timeOfId } from "./schema.ts";

export type StoredLog = {
  seq: number;
  id: string;
  created_ms: number;
  provider: string;
  model: string | null;
  model_type: string | null;
  method: string;
  path: string;
  status: number;
  success: number;
  outcome: string;
  cached: number;
  duration_ms: number;
  first_byte_ms: number | null;
  tokens_in: number | null;
  tokens_out: number | null;
  tokens_cached: number | null;
  tokens_cache_write: number | null;
  tokens_reasoning: number | null;
  estimated: number;
  cost: number | null;
  custom_cost: number;
  request_type: string | null;
  response_type: string | null;
  request_bytes: number;
  response_bytes: number;
  event_id: string | null;
  metadata: string | null;
  token_id: string | null;
  token_name: string | null;
  authentication: number;
  user_agent: string | null;
  attempts: number;
  step: number;
  feedback: number | null;
  score: number | null;
};
export type LogPage = { rows: StoredLog[]; total: number; meta?: MetaInfo };
export type MetaInfo = Record<
  `${"min" | "max"}_${"cost" | "duration" | "tokens_in" | "tokens_out" | "total_tokens"}`,
  number | null
>;
export type StoredBody = { bytes: Uint8Array; complete: boolean; type: string | null };
export type LogDetail = { row: StoredLog; request: StoredBody | undefined; response: StoredBody | undefined };
export type LogStats = {
  requests: number;
  failed: number;
  tokens_in: number;
  tokens_out: number;
  tokens_cached: number;
  cost: number | null;
  unpriced: number;
  average_ms: number | null;
  average_first_byte_ms: number | null;
};
export type StatsRow = LogStats & { provider: string; model: string | null };
export type StatsAnswer = { totals: LogStats; models: StatsRow[] };

export const ORDER_COLUMNS: Readonly<Record<string, string>> = {
  created_at: "created_ms",
  provider: "provider",
  model: "model",
  model_type: "model_type",
  success: "success",
  cached: "cached",
  cost: "cost",
  tokens_in: "tokens_in",
  tokens_out: "tokens_out",
  duration: "duration_ms",
  feedback: "feedback",
  /** As they were written: a request that took long comes after those that began later and ended before it. */
  written: "seq",
};
/** The orders in which a row has a place that others come after. */
export const CURSOR_ORDERS: readonly string[] = ["created_at", "written"];
const HEAD_BYTES_MAX = 64 * 1024; // of a body shown with its row; the whole has an address of its own
/** Where not one price is known the sum is not known either; where nothing was asked there is nothing to pay. */
const COST_SUM = "case when count(*) > 0 and count(cost) = 0 then null else coalesce(sum(cost), 0.0) end";
const STATS_MODELS_MAX = 500;

export function createLogReader(db: Database) {
  function list(query: ListQuery): LogPage {
    const { where, values } = toCondition(query);
    const total = count(where, values);
    const direction = query.descending ? "desc" : "asc";
    const column = ORDER_COLUMNS[query.orderBy] ?? "created_ms";
    const past = pastOf(query);
    const offset = past ? 0 : (query.page - 1) * query.perPage;
    const rows = db
      .query<StoredLog, (string | number)[]>(
        `select * from logs where ${where}${past ? ` and ${past.where}` : ""}
         order by ${column} ${direction}, seq ${direction} limit ? offset ?`,
      )
      .all(...values, ...(past?.values ?? []), query.perPage, offset);
    return query.metaInfo ? { rows, total, meta: metaInfo(where, values) } : { rows, total };
  }

  function pastOf({ gateway, after, orderBy, descending }: ListQuery): Condition | undefined {
    if (after === undefined) return undefined;
    const side = descending ? "<" : ">";
    const row = find(gateway, after);
    if (row && orderBy === "written") return { where: `seq ${side} ?`, values: [row.seq] };
    if (row) return { where: `(created_ms, seq) ${side} (?, ?)`, values: [row.created_ms, row.seq] };
    // Deleted since it was seen. Its id still says where it stood; to begin anew would be a walk without an end.
    return { where: `(created_ms, id) ${side} (?, ?)`, values: [timeOfId(after), after] };
  }

  function count(where: string, values: (string | number)[]): number {
    return (
      db.query<{ rows: number }, (string | number)[]>(`select count(*) as rows from logs where ${where}`).get(...values)
        ?.rows ?? 0
    );
  }

  function metaInfo(where: string, values: (string | number)[]): MetaInfo {
    const fields = {
      cost: "cost",
      duration: "duration_ms",
      tokens_in: "tokens_in",
      tokens_out: "tokens_out",
      total_tokens: "(tokens_in + tokens_out)",
    };
    const columns = Object.entries(fields).flatMap(([name, sql]) => [
      `min(${sql}) as min_${name}`,
      `max(${sql}) as max_${name}`,
    ]);
    const row = db
      .query<MetaInfo, (string | number)[]>(`select ${columns.join(", ")} from logs where ${where}`)
      .get(...values);
    if (!row) throw new Error("an aggregate always has a row");
    return row;
  }

  function find(gateway: string, id: string): StoredLog | null {
    return db
      .query<StoredLog, [string, number, string]>("select * from logs where gateway = ? and created_ms = ? and id = ?")
      .get(gateway, timeOfId(id), id);
  }

  function get(gateway: string, id: string): LogDetail | undefined {
    const row = find(gateway, id);
    if (!row) return undefined;
    return { row, request: head(bodyOf(row, "request")), response: head(bodyOf(row, "response")) };
  }

  function body(gateway: string, id: string, side: "request" | "response"): StoredBody | undefined {
    const row = find(gateway, id);
    return row ? bodyOf(row, side) : undefined;
  }

  /** As text that a person can read: undone from its content encoding where that is possible. */
  function bodyOf(row: StoredLog, side: "request" | "response"): StoredBody | undefined {
    const stored = db
      .query<{ bytes: Uint8Array | null; encoding: string | null; complete: number }, [number]>(
        `select ${side} as bytes, ${side}_encoding as encoding, ${side}_complete as complete from bodies where seq = ?`,
      )
      .get(row.seq);
    if (!stored?.bytes) return undefined;
    const plain = decodeBody(stored.bytes, stored.encoding ?? undefined);
    return {
      bytes: plain ?? stored.bytes,
      complete: stored.complete === 1,
      type: plain ? row[`${side}_type`] : "application/octet-stream",
    };
  }

  function stats({ gateway, sinceMs }: StatsQuery): StatsAnswer {
    const sums = `count(*) as requests, coalesce(sum(1 - success), 0) as failed,
      coalesce(sum(tokens_in), 0) as tokens_in, coalesce(sum(tokens_out), 0) as tokens_out,
      coalesce(sum(tokens_cached), 0) as tokens_cached, ${COST_SUM} as cost,
      coalesce(sum(cost is null and tokens_in is not null), 0) as unpriced,
      avg(duration_ms) as average_ms, avg(first_byte_ms) as average_first_byte_ms`;
    const where = "gateway = ? and created_ms >= ?";
    const totals = db
      .query<LogStats, [string, number]>(`select ${sums} from logs where ${where}`)
      .get(gateway, sinceMs);
    if (!totals) throw new Error("an aggregate always has a row");
    const models = db
      .query<StatsRow, [string, number, number]>(
        `select provider, model, ${sums} from logs where ${where}
         group by provider, model order by requests desc, provider, model limit ?`,
      )
      .all(gateway, sinceMs, STATS_MODELS_MAX);
    return { totals, models };
  }

  return { list, get, body, stats };
}

function head(body: StoredBody | undefined): StoredBody | undefined {
  if (!body || body.bytes.byteLength <= HEAD_BYTES_MAX) return body;
  return { ...body, bytes: body.bytes.slice(0, HEAD_BYTES_MAX), complete: false };
}
