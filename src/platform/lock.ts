// Who owns the data folder: an exclusive SQLite lock, which the kernel frees even after SIGKILL.
import { Database } from "bun:sqlite";
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createPrivate } from "./sqlite.ts";

/** `address` is there once the owner listens; a command that works on the folder has none. */
export type Owner = { pid: number; command: string; startedAt: string; address?: string };

export type FolderLock = {
  /** Tells other commands where to reach us. */
  announce(address: string): void;
  release(): void;
};

/** A verb holds the folder for a moment only, so whoever finds it taken by one tries again for a while. */
export const LOCK_WAIT_MS = 5_000;
export const LOCK_RETRY_MS = 50;

export function lockFolder(folder: string, owner: Owner): FolderLock | undefined {
  const path = join(folder, "lock.db");
  createPrivate(path);
  const db = new Database(path);
  db.run("pragma busy_timeout = 0"); // nothing else before the lock: `journal_mode` would be the one to meet it
  try {
    db.run("begin exclusive");
  } catch (error) {
    db.close();
    if (error instanceof Error && "code" in error && error.code === "SQLITE_BUSY") return undefined;
    throw error;
  }
  writeOwner(folder, owner);
  // The closures below keep `db` alive: a collected Database would drop the lock.
  return {
    announce: (address) => writeOwner(folder, { ...owner, address }),
    release() {
      try {
        rmSync(join(folder, "owner.json"), { force: true });
      } catch {
        // A disk that has become read-only keeps it. It only says where to ask, and whoever asks there hears nothing.
      }
      db.run("rollback");
      db.close();
    },
  };
}

/** Lives beside the lock, not in it: closing a descriptor of `lock.db` in its holder would drop the lock. */
export function readOwner(folder: string): Owner | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(join(folder, "owner.json"), "utf8"));
    return isOwner(value) ? value : undefined;
  } catch {
    return undefined; // not written yet, or by a stopped process: the lock itself is what counts
  }
}

function writeOwner(folder: string, owner: Owner): void {
  const path = join(folder, "owner.json");
  writeFileSync(`${path}.new`, `${JSON.stringify(owner)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

function isOwner(value: unknown): value is Owner {
  return typeof value === "object" && value !== null && "pid" in value && "command" in value && "startedAt" in value;
}
