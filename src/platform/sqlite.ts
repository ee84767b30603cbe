// Opening a database the one way that is safe here.
import { Database } from "bun:sqlite";

/** FULL: an answered write survives a power cut. NORMAL: it survives a crash of the process, which is enough for logs. */
export type Durability = "FULL" | "NORMAL";

/** A step is SQL, or a function for what SQL cannot say. Steps are only ever appended. */
export type Migration = string | ((db: Database) => void);

const BUSY_MS_MAX = 5_000; // a reader in another thread finishes long before; past it the caller gets SQLITE_BUSY

export function openDatabase(path: string, steps: readonly Migration[], durability: Durability = "FULL"): Database {
  const db = openFile(path);
  try {
    db.run(`pragma busy_timeout = ${BUSY_MS_MAX}`); // before WAL: changing the journal mode is what meets a busy file first
    db.run("pragma journal_mode = wal");
    db.run(`pragma synchronous = ${durability}`);
    db.run("pragma foreign_keys = on");
    migrate(db, path, steps);
  } catch (error) {
    db.close();
    throw error;
  }
  return db;
}

function migrate(db: Database, path: string, steps: readonly Migration[]): void {
  const version = db.query<{ user_version: number }, []>("pragma user_version");
  const versionNow = (): number => version.get()?.user_version ?? 0;
  const at = versionNow();
  if (at > steps.length) {
    throw new Error(
      `${path} was written by a newer Gatehouse (schema ${at}, this one knows ${steps.length}); upgrade first`,
    );
  }
  for (const [index, step] of steps.entries()) {
    if (index < at) continue;
    db.transaction(() => {
      if (versionNow() > index) return; // another thread opened the same new file and was first
      if (typeof step === "string") db.run(step);
      else step(db);
      db.run(`pragma user_version = ${index + 1}`);
    }).immediate();
  }
}

function openFile(path: string): Database {
  if (path === ":memory:") return new Database(path, { strict: true });
  try {
    return new Database(path, { readwrite: true, strict: true });
  } catch {
    createPrivate(path); // most likely it is not there yet; whatever else it is, the second try says
    return new Database(path, { create: true, strict: true });
  }
}

/**
 * SQLite would leave the mode to the umask. Only a new file is touched: closing a descriptor of a live one drops its
 * locks. The modules are loaded here because an agent thread, which opens an existing file, would pay 1 ms for them.
 */
export function createPrivate(path: string): void {
  const { closeSync, existsSync, mkdirSync, openSync } = process.getBuiltinModule("node:fs");
  mkdirSync(process.getBuiltinModule("node:path").dirname(path), { recursive: true, mode: 0o700 });
  if (!existsSync(path)) closeSync(openSync(path, "a", 0o600));
}
