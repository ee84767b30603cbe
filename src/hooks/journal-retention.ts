// How the journal stays within its bounds, also on a disk that has no room left.
import type { Database } from "bun:sqlite";
import { randomBytes } from "node:crypto";
import { existsSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { toAppError } from "../platform/errors.ts";
import type { JournalLimits } from "./journal-schema.ts";

const RESERVE_BYTES = 8 * 1024 * 1024; // deleting needs room too: enough for the log of several rounds
const ROUND_ROWS = 200; // deleted at a time, so that nothing waits long behind it
const DEAD_AGE_FACTOR = 4; // a dead letter waits for a person, so it is kept longer than what went well

const FREE_BYTES_MIN = 16 * 1024 * 1024; // left to everybody else: a full disk also stops what would make room again
const FULL_ROUNDS = 5;
const SHRINK_PAGES = 500; // 2 MB, so at most that much of log
const SHRINK_STEPS = 16;

export type Retention = ReturnType<typeof createRetention>;

export function createRetention(db: Database, databasePath: string, { bytesMax, ageMsMax }: JournalLimits) {
  const reservePath = `${databasePath}-reserve`;
  const oldest = db.prepare<{ seq: number; bytes: number }, [string, number, number]>(
    "select seq, bytes from deliveries where status = ? and received_ms < ? order by seq limit ?",
  );
  const deleteRow = db.prepare<void, [number]>("delete from deliveries where seq = ?");
  const deleteContent = db.prepare<void, [number]>("delete from contents where seq = ?");
  const free = db.prepare<{ freelist_count: number }, []>("pragma freelist_count");
  const diskFree = (): number => {
    if (databasePath === ":memory:") return Number.MAX_SAFE_INTEGER;
    const { bavail, bsize } = statfsSync(dirname(databasePath));
    return bavail * bsize;
  };
  allowShrinking(db);
  let bytes = db.query<{ bytes: number | null }, []>("select sum(bytes) as bytes from deliveries").get()?.bytes ?? 0;

  const deleteOldest = db.transaction((status: "done" | "dead", beforeMs: number): number => {
    const rows = oldest.all(status, beforeMs, ROUND_ROWS);
    for (const { seq } of rows) {
      deleteRow.run(seq);
      deleteContent.run(seq);
    }
    return rows.reduce((sum, row) => sum + row.bytes, rows.length === 0 ? -1 : 0);
  });

  /** One round; false when there was nothing of that kind left. */
  function round(status: "done" | "dead", beforeMs: number): boolean {
    const freed = deleteOldest.immediate(status, beforeMs);
    bytes -= Math.max(freed, 0);
    return freed >= 0;
  }

  /** Finished rows go first, dead letters next, what is undone never. */
  function makeRoom(more: number): boolean {
    while (bytes + more > bytesMax) {
      if (!round("done", Number.MAX_SAFE_INTEGER) && !round("dead", Number.MAX_SAFE_INTEGER)) return false;
    }
    if (more === 0 || diskFree() - more >= FREE_BYTES_MIN) return true;
    for (let rounds = 0; rounds < FULL_ROUNDS && round("done", Number.MAX_SAFE_INTEGER); rounds++);
    shrink();
    return diskFree() - more >= FREE_BYTES_MIN;
  }

  /** Called now and then by the thread. */
  function sweep(nowMs: number): void {
    while (round("done", nowMs - ageMsMax));
    while (round("dead", nowMs - DEAD_AGE_FACTOR * ageMsMax));
    fillReserve();
  }

  /** On a full disk: in the reserve's room, delete what is finished and give its space back; then once more. */
  function withReserve<T>(write: () => T): T {
    try {
      return write();
    } catch (error) {
      if (!isFull(error) || !existsSync(reservePath)) throw error;
      rmSync(reservePath);
      let deleted = false;
      for (let rounds = 0; rounds < FULL_ROUNDS && round("done", Number.MAX_SAFE_INTEGER); rounds++) deleted = true;
      if (deleted) shrink();
      fillReserve(); // before the retry: it is there for deleting, not for storing
      if (!deleted) throw error;
      return write();
    }
  }

  /** Pages that are free inside the file go back to the disk, in steps whose own log fits into the reserve. */
  function shrink(): void {
    db.run("pragma wal_checkpoint(truncate)");
    for (let steps = 0; steps < SHRINK_STEPS; steps++) {
      if ((free.get()?.freelist_count ?? 0) === 0) return;
      db.query(`pragma incremental_vacuum(${SHRINK_PAGES})`).all();
      db.run("pragma wal_checkpoint(truncate)");
    }
  }

  function fillReserve(): void {
    if (databasePath === ":memory:" || existsSync(reservePath)) return;
    try {
      writeFileSync(reservePath, randomBytes(RESERVE_BYTES), { mode: 0o600 }); // random: zeros may take no blocks
    } catch {
      rmSync(reservePath, { force: true }); // no room now; the next sweep tries again
    }
  }

  fillReserve();
  return {
    makeRoom,
    sweep,
    withReserve,
    /** In bytes; less than nothing when something was removed. */
    grew(by: number): void {
      bytes += by;
    },
    bytes: () => bytes,
  };
}

/** Has to be decided before the file has grown; an older, larger one keeps its pages for itself. */
function allowShrinking(db: Database): void {
  const { auto_vacuum, page_count } = {
    ...db.query<{ auto_vacuum: number }, []>("pragma auto_vacuum").get(),
    ...db.query<{ page_count: number }, []>("pragma page_count").get(),
  };
  if (auto_vacuum !== 0 || (page_count ?? 0) > SHRINK_PAGES) return;
  db.run("pragma auto_vacuum = incremental");
  db.run("vacuum");
}

export const isFull = (error: unknown): boolean => toAppError(error).code === "storage.full";
