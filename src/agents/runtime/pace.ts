// When an agent has to do something next: one timer here, and the same time in the central ledger, never later than true.

export type Pace = ReturnType<typeof createPace>;

const TIMER_MS_MAX = 2 ** 31 - 1; // setTimeout fires at once past it

type PaceParts = {
  now: () => number;
  ledgerDueMs: number | null;
  /** Resolves once the ledger has it on disk. */
  note: (atMs: number) => Promise<void>;
  /** Earliest due time of all lanes, read from their tables. */
  earliest: () => number | null;
  onDue: () => void;
};

export function createPace({ now, ledgerDueMs, note, earliest, onDue }: PaceParts) {
  let inLedgerMs = ledgerDueMs;
  let noting: Promise<void> | undefined;
  let timer: Timer | undefined;
  const storing = new Set<Promise<unknown>>();

  /** Before work due at `atMs` is stored: a crash in between costs one needless wake, never a forgotten job. */
  async function announce(atMs: number): Promise<void> {
    while (inLedgerMs === null || atMs < inLedgerMs) {
      noting ??= note(atMs)
        .then(() => {
          inLedgerMs = inLedgerMs === null ? atMs : Math.min(inLedgerMs, atMs);
        })
        .finally(() => {
          noting = undefined;
        });
      await noting;
    }
  }

  function arm(): void {
    clearTimeout(timer);
    const atMs = earliest();
    if (atMs !== null) timer = setTimeout(onDue, Math.min(Math.max(atMs - now(), 0), TIMER_MS_MAX));
  }

  return {
    arm,
    halt: () => clearTimeout(timer),
    /** Announces, then stores, in the order of the calls. */
    store<T>(atMs: number, put: () => T): Promise<T> {
      const stored = announce(atMs).then(() => {
        const result = put();
        arm();
        return result;
      });
      storing.add(stored);
      const done = (): void => void storing.delete(stored);
      stored.then(done, done);
      return stored;
    },
    /** An answer waits for this: what a handler queued without awaiting is stored before its caller hears "accepted". */
    async settled(): Promise<void> {
      if (storing.size > 0) await Promise.allSettled(storing);
    },
    /** Something is on its way into a table, or due and not begun: not the moment to sleep. */
    get busy(): boolean {
      return storing.size > 0 || (earliest() ?? Number.POSITIVE_INFINITY) <= now();
    },
  };
}
