// Wakes sleeping agents when the ledger says that they have something to do; those awake have timers of their own.
import type { Ledger, LedgerRow } from "./ledger.ts";

type DueParts = {
  ledger: Ledger;
  now: () => number;
  /** Only these load: the others' work waits until their code does. */
  classNames: () => string[];
  canWake: (className: string, name: string) => boolean;
  /** How many could run at this moment. */
  room: () => number;
  wake: (className: string, name: string) => void;
  retryMs: number;
};

const PAGE_ROWS = 500;
const CHECK_MS_MAX = 60_000; // clocks jump; a look at the ledger once a minute is cheap

export function createDueWatch({ ledger, now, classNames, canWake, room, wake, retryMs }: DueParts) {
  let timer: Timer | undefined;
  let stopped = false;

  /** The first of those who are due and can be woken: whoever is awake already, or rests after a crash, is passed by. */
  function sleepers(most: number): LedgerRow[] {
    const found: LedgerRow[] = [];
    for (let offset = 0; ; offset += PAGE_ROWS) {
      const page = ledger.due(now(), classNames(), PAGE_ROWS, offset);
      found.push(...page.filter(({ class: className, name }) => canWake(className, name)));
      if (found.length >= most || page.length < PAGE_ROWS) return found.slice(0, most);
    }
  }

  function lookIn(ms: number): void {
    clearTimeout(timer);
    if (stopped) return;
    timer = setTimeout(look, Math.min(Math.max(ms, 0), CHECK_MS_MAX));
    timer.unref();
  }

  function arm(): void {
    const nextMs = ledger.nextDueMs(now());
    lookIn(sleepers(1).length > 0 ? 0 : nextMs === null ? CHECK_MS_MAX : nextMs - now());
  }

  /** Only as many at once as could run. */
  function look(): void {
    const places = Math.max(room(), 0);
    const waiting = sleepers(places + 1);
    for (const { class: className, name } of waiting.slice(0, places)) wake(className, name);
    if (waiting.length > places) lookIn(retryMs);
    else arm();
  }

  return {
    arm(): void {
      if (!stopped) arm();
    },
    stop(): void {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
