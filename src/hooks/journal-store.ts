// The journal's SQL: one transaction for everything that arrived meanwhile. Synchronous; lives in the journal's thread.
import type { Database } from "bun:sqlite";
import { openDatabase } from "../platform/sqlite.ts";
import { createRetention } from "./journal-retention.ts";
import {
  type Append,
  type Appended,
  type Batch,
  type DeliveryRow,
  type JournalLimits,
  type Mark,
  MIGRATIONS,
  type Rejection,
} from "./journal-schema.ts";
import { distinctName, isPlain, sanitize } from "./names.ts";

export type JournalStore = ReturnType<typeof openJournalStore>;

/** While an attempt is under way its row is due this much later: only a lost attempt ever gets there. */
export const LEASE_MS = 3_600_000;
const REJECTIONS_MAX = 1_000;

export class JournalFull extends Error {}

export function openJournalStore(path: string, limits: JournalLimits) {
  const db = openDatabase(path, MIGRATIONS, "FULL");
  db.run("pragma journal_size_limit = 67108864"); // a burst must not leave a log file of its size behind
  const retention = createRetention(db, path, limits);
  const sql = statements(db);
  let grown = 0; // bytes, in the transaction under way

  function append(one: Append): Appended {
    const name = nameOf(one.className, one.identifier);
    const { dedupe } = one;
    const twin = dedupe && sql.twin.get(dedupe.key, one.source, one.className, name, one.receivedMs - dedupe.sinceMs);
    if (twin && twin.status !== "dead") return { kind: "duplicate", id: twin.id, name };
    if (twin) return revive(twin, one, name); // the sender tries again what we had given up
    const wait = one.ordered && sql.undone.get(one.className, name, one.source) !== null;
    const dueMs = one.receivedMs + (wait ? 0 : LEASE_MS);
    const { seq } = sql.insert.get({
      id: one.id,
      source: one.source,
      class: one.className,
      identifier: one.identifier,
      name,
      delivery_id: one.deliveryId,
      dedupe_key: dedupe?.key ?? null,
      type: one.type,
      action: one.action ?? null,
      title: one.title,
      description: one.description ?? null,
      url: one.url ?? null,
      actor: one.actor ?? null,
      method: one.method,
      path: one.path,
      address: one.address,
      bytes: one.body.byteLength,
      received_ms: one.receivedMs,
      status: one.status,
      ordered: one.ordered ? 1 : 0,
      attempts: one.status === "held" || wait ? 0 : 1,
      due_ms: dueMs,
    }) ?? { seq: 0 };
    sql.insertContent.run(seq, one.headers, one.body);
    grown += one.body.byteLength;
    if (one.route !== undefined) sql.insertRoute.run(one.route);
    return { kind: "stored", seq, id: one.id, name, wait };
  }

  function revive({ seq, id, bytes }: Twin, one: Append, name: string): Appended {
    const size = one.body.byteLength;
    sql.revive.run(one.status, one.status === "held" ? 0 : 1, one.receivedMs + LEASE_MS, size, seq);
    sql.updateContent.run(one.headers, one.body, seq);
    grown += size - bytes;
    return { kind: "stored", seq, id, name, wait: false };
  }

  /** The plain name belongs to the first that asked for it; a different identifier gets one of its own. */
  function nameOf(className: string, identifier: string): string {
    if (isPlain(identifier)) return identifier;
    const known = sql.nameOf.get(className, identifier);
    if (known) return known.name;
    const plain = sanitize(identifier);
    const name = sql.ownerOf.get(className, plain) === null ? plain : distinctName(identifier);
    sql.insertName.run(className, identifier, name);
    return name;
  }

  function mark(one: Mark): void {
    if (one.outcome === "done") sql.done.run(one.answer, one.atMs, one.durationMs, one.seq);
    else if (one.outcome === "dead") sql.dead.run(one.reason, one.answer ?? null, one.atMs, one.seq);
    else sql.retry.run(one.reason, one.answer ?? null, one.dueMs, one.attempts, one.seq);
  }

  function reject({ atMs, source, ...detail }: Rejection): void {
    const { seq } = sql.insertRejection.get(atMs, source, JSON.stringify(detail)) ?? { seq: 0 };
    sql.trimRejections.run(seq - REJECTIONS_MAX);
  }

  const commitAll = db.transaction(({ appends, marks, rejections }: Batch): Appended[] => {
    grown = 0; // a first try may have failed in the middle
    for (const one of marks) mark(one);
    for (const one of rejections) reject(one);
    return appends.map(append);
  });

  /** All or nothing. Full: what is finished makes room, then once more, then the caller is told. */
  function commit(batch: Batch): Appended[] {
    const bytes = batch.appends.reduce((sum, { body }) => sum + body.byteLength, 0);
    if (!retention.makeRoom(bytes)) {
      commitAll.immediate({ ...batch, appends: [] }); // what just finished may be what makes room
      if (!retention.makeRoom(bytes)) throw new JournalFull("the journal holds all it may, and none of it is finished");
      return commit({ appends: batch.appends, marks: [], rejections: [] });
    }
    const appended = retention.withReserve(() => commitAll.immediate(batch));
    retention.grew(grown);
    return appended;
  }

  return { db, commit, retention, close: () => db.close() };
}

type Row = Record<string, string | number | null>;
type Twin = Pick<DeliveryRow, "seq" | "id" | "status" | "bytes">;

function statements(db: Database) {
  return {
    twin: db.prepare<Twin, [string, string, string, string, number]>(
      `select seq, id, status, bytes from deliveries where dedupe_key = ? and source = ? and class = ? and name = ?
       and received_ms >= ? order by seq desc limit 1`,
    ),
    undone: db.prepare<{ seq: number }, [string, string, string]>(
      `select seq from deliveries where class = ? and name = ? and source = ? and ordered = 1
       and status in ('pending', 'held') limit 1`,
    ),
    insert: db.prepare<Pick<DeliveryRow, "seq">, [Row]>(
      `insert into deliveries (id, source, class, identifier, name, delivery_id, dedupe_key, type, action, title,
         description, url, actor, method, path, address, bytes, received_ms, status, ordered, attempts, due_ms)
       values ($id, $source, $class, $identifier, $name, $delivery_id, $dedupe_key, $type, $action, $title,
         $description, $url, $actor, $method, $path, $address, $bytes, $received_ms, $status, $ordered, $attempts,
         $due_ms) returning seq`,
    ),
    insertContent: db.prepare<void, [number, string, Uint8Array]>(
      "insert into contents (seq, headers, body) values (?, ?, ?)",
    ),
    updateContent: db.prepare<void, [string, Uint8Array, number]>(
      "update contents set headers = ?, body = ? where seq = ?",
    ),
    insertRoute: db.prepare<void, [string]>("insert or ignore into entity_routes (name) values (?)"),
    revive: db.prepare<void, [string, number, number, number, number]>(
      `update deliveries set status = ?, attempts = ?, due_ms = ?, bytes = ?, replay = 0, reason = null, finished_ms = null
       where seq = ?`,
    ),
    nameOf: db.prepare<{ name: string }, [string, string]>("select name from names where class = ? and identifier = ?"),
    ownerOf: db.prepare<{ identifier: string }, [string, string]>(
      "select identifier from names where class = ? and name = ?",
    ),
    insertName: db.prepare<void, [string, string, string]>(
      "insert into names (class, identifier, name) values (?, ?, ?)",
    ),
    // Only what is still under way is marked: meanwhile its agent may have been destroyed, or it may be on replay.
    done: db.prepare<void, [number, number, number, number]>(
      `update deliveries set status = 'done', answer = ?, finished_ms = ?, duration_ms = ?, reason = null
       where seq = ? and status = 'pending'`,
    ),
    dead: db.prepare<void, [string, number | null, number, number]>(
      `update deliveries set status = 'dead', reason = ?, answer = ?, finished_ms = ?
       where seq = ? and status = 'pending'`,
    ),
    retry: db.prepare<void, [string, number | null, number, number, number]>(
      `update deliveries set reason = ?, answer = ?, due_ms = ?, attempts = ?
       where seq = ? and status = 'pending'`,
    ),
    insertRejection: db.prepare<{ seq: number }, [number, string, string]>(
      "insert into rejections (at_ms, source, detail) values (?, ?, ?) returning seq",
    ),
    trimRejections: db.prepare<void, [number]>("delete from rejections where seq <= ?"),
  };
}
