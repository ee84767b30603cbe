// Destroying an agent for good, in an order that a crash cannot spoil: condemned on disk, thread, files, row.
import { rm } from "node:fs/promises";
import { AppError } from "../platform/errors.ts";
import { CLOSE } from "./clients.ts";
import type { Ledger } from "./ledger.ts";
import type { LedgerEntry } from "./ledger-entries.ts";
import { databasePath } from "./runtime/names.ts";
import type { Seat } from "./seat.ts";

type DestructionParts = {
  folder: string;
  ledger: Ledger;
  record: (seat: Seat, entry: LedgerEntry) => Promise<void>;
  onStuck: (seat: Seat) => void;
  /** The place is free again: whoever waited meanwhile meets a new agent, or the old one if it could not be removed. */
  onFree: (seat: Seat) => void;
  onDestroyed: (className: string, name: string) => void;
};

export function createDestruction({ folder, ledger, record, onStuck, onFree, onDestroyed }: DestructionParts) {
  function destroy(seat: Seat): Promise<void> {
    if (seat.condemned) return seat.condemned.promise;
    const condemned = Promise.withResolvers<void>();
    seat.condemned = condemned;
    seat.audience.closeAll(CLOSE.destroyed);
    record(seat, { do: "condemn", className: seat.className, name: seat.name })
      .then(() => endThread(seat))
      .catch((error) => {
        seat.condemned = undefined;
        condemned.reject(error);
        onFree(seat);
      });
    return condemned.promise;
  }

  /** With a thread, `erase` follows when it has ended. */
  async function endThread(seat: Seat): Promise<void> {
    const { host } = seat;
    if (!host) return erase(seat);
    const how = await host.end(new AppError("agent.destroyed"));
    if (how !== "stuck" || seat.host !== host) return;
    onStuck(seat);
    // It stays condemned: its files go when the thread lets go of them, or at the next start.
    seat.condemned?.reject(new AppError("agent.stuck"));
  }

  async function erase(seat: Seat): Promise<void> {
    const { className, name, condemned } = seat;
    const failed = await removeAll(seat).catch((error: unknown) => ({ error }));
    seat.condemned = undefined;
    seat.known = false; // also what could not be removed: it is condemned until somebody needs it again, or the next start
    seat.ledgerDueMs = null;
    if (failed) condemned?.reject(failed.error);
    else {
      onDestroyed(className, name);
      condemned?.resolve();
    }
    onFree(seat);
  }

  async function removeAll(seat: Seat): Promise<void> {
    const { className, name } = seat;
    await removeFiles(className, name);
    await record(seat, { do: "forget", className, name });
  }

  async function removeFiles(className: string, name: string): Promise<void> {
    const path = databasePath(folder, className, name);
    for (const suffix of ["", "-wal", "-shm"]) await rm(`${path}${suffix}`, { force: true });
  }

  return {
    destroy,
    erase,
    /** What a crash left half removed. */
    async finish(): Promise<void> {
      for (const { class: className, name } of ledger.condemned()) {
        await removeFiles(className, name);
        await ledger.write({ do: "forget", className, name });
        onDestroyed(className, name);
      }
    },
  };
}
