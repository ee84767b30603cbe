// The one who writes logs: batches in, rows out, old rows away. Lives in a thread, so it may take its time.
import type { Database } from "bun:sqlite";
import type { Pricing } from "../pricing.ts";
import { toCondition } from "./condition.ts";
import { type KeptBody, withoutKeys } from "./keys.ts";
import type { Captured, Feedback, GatewayCap, PackedRecord, Removal, Retention, Selection } from "./protocol.ts";
import { ORDER_COLUMNS } from "./reader.ts";
import { isCharged, type Row, toRow } from "./row.ts";
import { timeOfId } from "./schema.ts";

type WriterParts = {
  db: Database;
  pricing: Pricing;
  retention: Retention;
  caps: readonly GatewayCap[];
  now: () => number;
  /** Lets waiting messages in between two slices of a long deletion. */
  pause: () => Promise<void>;
};

/** Deleted in one transaction: small enough that a batch waiting behind it is not late. */
const SLICE_ROWS = 2_000;
/** Stored by one statement: half the cost of a row goes into the call. */
const INSERT_ROWS = 10;
const BODY_BYTES_MAX = 256 * 1024; // of each stored body; the rest of a long one is not evidence anybody reads
const DAY_MS = 86_400_000;

type Entry = { row: Row; captured: Captured };

export function createLogWriter({ db, pricing, retention, caps, now, pause }: WriterParts) {
  const lastSeq = db.prepare<{ seq: number | null }, []>("select max(seq) as seq from logs");
  const insertOne = db.prepare(insertOf(1));
  const insertSome = db.prepare(insertOf(INSERT_ROWS));
  const insertBodies = db.prepare(
    `insert into bodies (seq, request, request_encoding, request_complete, response, response_encoding, response_complete)
     values (?, ?, ?, ?, ?, ?, ?)`,
  );
  const capOf = new Map(caps.map((cap) => [cap.gateway, cap]));
  let rowsOf = new Map(
    db
      .query<{ gateway: string; rows: number }, []>("select gateway, count(*) as rows from logs group by gateway")
      .all()
      .map(({ gateway, rows }) => [gateway, rows]),
  );
  const pageBytes = db.query<{ page_size: number }, []>("pragma page_size").get()?.page_size ?? 4_096;

  async function write(records: PackedRecord[], bytes: Uint8Array): Promise<number> {
    if (records.some(isCharged)) await pricing.load();
    const entries: Entry[] = [];
    const counts = new Map(rowsOf); // believed once the rows are stored: a full disk turns all of them away
    for (const record of records) {
      const { gateway, request, head, tail } = record;
      const cap = capOf.get(gateway);
      const stored = counts.get(gateway) ?? 0;
      if (cap?.whenFull === "stop" && stored >= cap.rowsMax) continue;
      counts.set(gateway, stored + 1);
      const captured: Captured = {};
      if (request) captured.request = bytes.subarray(request[0], request[0] + request[1]);
      if (head) captured.head = bytes.subarray(head[0], head[0] + head[1]);
      if (tail) captured.tail = bytes.subarray(tail[0], tail[0] + tail[1]);
      entries.push({ row: toRow(record, captured, pricing), captured });
    }
    store(entries);
    rowsOf = counts;
    await trim();
    return entries.length;
  }

  const store = db.transaction((entries: Entry[]) => {
    const seq = (lastSeq.get()?.seq ?? 0) + 1; // of the first; said and not left to SQLite, because bodies follow by it
    const values = entries.map(({ row }, index) => toValues(seq + index, row));
    let at = 0;
    for (; at + INSERT_ROWS <= values.length; at += INSERT_ROWS)
      insertSome.run(...values.slice(at, at + INSERT_ROWS).flat());
    for (; at < values.length; at++) insertOne.run(...(values[at] ?? []));
    for (const [index, { row, captured }] of entries.entries())
      if (row.record.payload) keepBodies(seq + index, row.record, captured);
  });

  function keepBodies(seq: number, record: Row["record"], { request, head, tail }: Captured): void {
    if (!request && !head) return;
    const { keys } = record;
    const sent = request && withoutKeys({ bytes: request, encoding: record.requestEncoding }, keys);
    const got = head && withoutKeys({ bytes: head, encoding: record.responseEncoding }, keys);
    const sentWhole = (request?.byteLength ?? 0) === record.requestBytes;
    const gotWhole = !tail && (head?.byteLength ?? 0) === record.responseBytes;
    const fits = (body: KeptBody | undefined): boolean => (body?.bytes.byteLength ?? 0) <= BODY_BYTES_MAX;
    insertBodies.run(
      seq,
      sent?.bytes.subarray(0, BODY_BYTES_MAX) ?? null,
      sent?.encoding ?? null,
      sentWhole && fits(sent) ? 1 : 0,
      got?.bytes.subarray(0, BODY_BYTES_MAX) ?? null,
      got?.encoding ?? null,
      gotWhole && fits(got) ? 1 : 0,
    );
  }

  /**
   * Counts are checked after every batch. They are kept in memory: counting a million rows is not free. One slice of
   * each goes, so that the next batch does not wait for all that a lowered cap leaves over.
   */
  async function trim(): Promise<number> {
    let gone = 0;
    for (const [gateway, cap] of capOf) {
      const over = Math.min((rowsOf.get(gateway) ?? 0) - cap.rowsMax, SLICE_ROWS);
      if (cap.whenFull === "delete" && over > 0)
        gone += await forget("gateway = ? order by created_ms, seq", [gateway], over);
    }
    const over = Math.min(total() - retention.rowsMax, SLICE_ROWS);
    if (retention.rowsMax > 0 && over > 0) gone += await forget("true order by seq", [], over);
    return gone;
  }

  /** Age, size and what `trim` has left: once a minute is enough. */
  async function sweep(): Promise<void> {
    for (let gone = await trim(); gone > 0; ) gone = await trim();
    if (retention.daysMax > 0) {
      const before = now() - retention.daysMax * DAY_MS;
      // Rows lie in the order they were written, so the old ones are at the front and the scan ends with them.
      const last = db
        .query<{ seq: number }, [number]>("select seq from logs where created_ms >= ? order by seq limit 1")
        .get(before)?.seq;
      await forget("created_ms < ? and seq < ? order by seq", [before, last ?? Number.MAX_SAFE_INTEGER], Infinity);
    }
    if (retention.bytesMax === 0) return;
    for (let used = usedBytes(); used > retention.bytesMax && total() > 0; used = usedBytes()) {
      // As many as are too many if all are alike: a fixed number of rows with large bodies would be most of the logs.
      const rows = Math.ceil(((used - retention.bytesMax) / used) * total());
      await forget("true order by seq", [], Math.min(rows, SLICE_ROWS));
    }
  }

  /** In slices of the table's front. Freed pages are used again by the next rows; nothing is rewritten. */
  async function forget(where: string, values: (string | number)[], rowsMax: number): Promise<number> {
    const statement = db.prepare<{ gateway: string }, (string | number)[]>(
      `delete from logs where seq in (select seq from logs where ${where} limit ?) returning gateway`,
    );
    let gone = 0;
    while (gone < rowsMax) {
      const slice = Math.min(SLICE_ROWS, rowsMax - gone);
      const deleted = statement.all(...values, slice);
      for (const { gateway } of deleted) rowsOf.set(gateway, (rowsOf.get(gateway) ?? 1) - 1);
      gone += deleted.length;
      if (deleted.length < slice) break;
      await pause();
    }
    statement.finalize();
    return gone;
  }

  async function remove(selection: Selection, { limit = Infinity, orderBy, descending }: Removal): Promise<number> {
    const { where, values } = toCondition(selection);
    const column = ORDER_COLUMNS[orderBy ?? ""] ?? "created_ms";
    const direction = descending ? "desc" : "asc";
    return forget(`${where} order by ${column} ${direction}, seq ${direction}`, values, limit);
  }

  function setFeedback(gateway: string, logId: string, change: Feedback): boolean {
    const entries = Object.entries(change).filter(([name]) => FEEDBACK_COLUMNS.has(name));
    if (entries.length === 0) return find(gateway, logId);
    const sets = entries.map(([name]) => `${name} = ?`).join(", ");
    const values = entries.map(([, value]) => value ?? null);
    return (
      db
        .query(`update logs set ${sets} where gateway = ? and created_ms = ? and id = ?`)
        .run(...values, gateway, timeOfId(logId), logId).changes > 0
    );
  }

  function find(gateway: string, logId: string): boolean {
    return (
      db
        .query("select 1 from logs where gateway = ? and created_ms = ? and id = ?")
        .get(gateway, timeOfId(logId), logId) !== null
    );
  }

  function total(): number {
    let rows = 0;
    for (const count of rowsOf.values()) rows += count;
    return rows;
  }

  /** What rows and bodies take, without the pages that are free for the next ones. */
  function usedBytes(): number {
    const pages = db.query<{ page_count: number }, []>("pragma page_count").get()?.page_count ?? 0;
    const free = db.query<{ freelist_count: number }, []>("pragma freelist_count").get()?.freelist_count ?? 0;
    return (pages - free) * pageBytes;
  }

  return {
    write,
    sweep,
    remove,
    setFeedback,
    setCap: (cap: GatewayCap) => void capOf.set(cap.gateway, cap),
  };
}

const FEEDBACK_COLUMNS = new Set(["feedback", "score", "metadata"]);

const COLUMNS = [
  "seq",
  "id",
  "gateway",
  "created_ms",
  "provider",
  "model",
  "model_type",
  "method",
  "path",
  "status",
  "success",
  "outcome",
  "duration_ms",
  "first_byte_ms",
  "tokens_in",
  "tokens_out",
  "tokens_cached",
  "tokens_cache_write",
  "tokens_reasoning",
  "estimated",
  "cost",
  "custom_cost",
  "request_type",
  "response_type",
  "request_bytes",
  "response_bytes",
  "event_id",
  "metadata",
  "token_id",
  "token_name",
  "authentication",
  "user_agent",
] as const;

function insertOf(rows: number): string {
  const row = `(${COLUMNS.map(() => "?").join(", ")})`;
  return `insert into logs (${COLUMNS.join(", ")}) values ${Array(rows).fill(row).join(", ")}`;
}

/** In the order of the columns above. Spelled out: this runs for every request. */
function toValues(seq: number, row: Row): (string | number | null)[] {
  const { record, usage } = row;
  return [
    seq,
    record.id,
    record.gateway,
    row.createdMs,
    record.provider,
    row.model ?? null,
    row.modelType ?? null,
    record.method,
    record.path,
    record.status,
    row.success ? 1 : 0,
    record.outcome,
    record.durationMs,
    record.firstByteMs ?? null,
    usage.tokensIn ?? null,
    usage.tokensOut ?? null,
    usage.cachedIn ?? null,
    usage.cacheWriteIn ?? null,
    usage.reasoningOut ?? null,
    row.estimated ? 1 : 0,
    row.cost,
    row.customCost ? 1 : 0,
    record.requestType ?? null,
    record.responseType ?? null,
    record.requestBytes,
    record.responseBytes,
    record.eventId ?? null,
    row.metadata ?? null,
    record.tokenId ?? null,
    record.tokenName ?? null,
    record.authentication ? 1 : 0,
    record.userAgent ?? null,
  ];
}
