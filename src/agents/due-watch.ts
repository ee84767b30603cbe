// Wakes sleeping agents when the ledger says that they have something to do; those awake have timers of their own.
import type { Ledger } from "./ledger.ts";

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

const ROWS_MAX = 500; // more than can be woken at once; the rest is found at the next look
const CHECK_MS_MAX = 60_000; // clocks jump; a look at the ledger once a minute is cheap

export function createDueWatch({ ledger, now, classNames, canWake, room, wake, retryMs }: DueParts) {
  let timer: Timer | undefined;
  let stopped = false;

  const sleepers = () =>
    ledger.due(now(), classNames(), ROWS_MAX).filter(({ class: className, name }) => canWake(className, name));

  function lookIn(ms: number): void {
    clearTimeout(timer);
    if (stopped) return;
    timer = setTimeout(look, Math.min(Math.max(ms, 0), CHECK_MS_MAX));
    timer.unref();
  }

  function arm(): void {
    const nextMs = ledger.nextDueMs(now());
    lookIn(sleepers().length > 0 ? 0 : nextMs === null ? CHECK_MS_MAX : nextMs - now());
  }

  /** Only as many at once as could run. */
  function look(): void {
    const waiting = sleepers();
    const places = room();
    for (const { class: className, name } of waiting.slice(0, Math.max(places, 0))) wake(className, name);
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
