// The thread that writes agents.db: everything that arrived meanwhile shares one commit, and no flush stalls the main thread.
import { openDatabase } from "../platform/sqlite.ts";
import {
  applyEntry,
  LEDGER_MIGRATIONS,
  type LedgerEntry,
  type LedgerReply,
  type LedgerRequest,
} from "./ledger-entries.ts";

declare const self: Worker & { postMessage(message: LedgerReply): void };

let apply: ((entries: LedgerEntry[]) => void) | undefined;
let pending: { id: number; entry: LedgerEntry }[] = [];
let close = (): void => {};

self.onmessage = ({ data }: MessageEvent<LedgerRequest>) => {
  if (data.type === "open") {
    const db = openDatabase(data.path, LEDGER_MIGRATIONS, "FULL");
    apply = db.transaction((entries: LedgerEntry[]) => {
      for (const entry of entries) applyEntry(db, entry);
    }).immediate;
    close = () => db.close();
  } else if (data.type === "write") {
    if (pending.push({ id: data.id, entry: data.entry }) === 1) setImmediate(commit);
  } else {
    commit();
    close();
    process.exit(0);
  }
};

function commit(): void {
  const batch = pending;
  pending = [];
  if (batch.length === 0 || !apply) return;
  let failure: string | undefined;
  try {
    apply(batch.map(({ entry }) => entry));
  } catch (error) {
    failure = error instanceof Error && "code" in error ? String(error.code) : String(error);
  }
  self.postMessage({ ids: batch.map(({ id }) => id), failure });
}
