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
  let stores = 0;
  let settled: PromiseWithResolvers<void> | undefined;

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
    earliest,
    /** Announces, then stores, in the order of the calls. */
    async store<T>(atMs: number, put: () => T): Promise<T> {
      stores++;
      try {
        await announce(atMs);
        const result = put();
        arm();
        return result;
      } finally {
        if (--stores === 0) settled?.resolve();
      }
    },
    /** An answer waits for this: what a handler queued without awaiting is stored before its caller hears "accepted". */
    async settled(): Promise<void> {
      if (stores === 0) return;
      settled = Promise.withResolvers<void>();
      await settled.promise;
    },
    get storing() {
      return stores > 0;
    },
  };
}
