// How much an agent is doing right now, visible to the main thread, so that a working one is never put to sleep.
import { COUNTER } from "../protocol.ts";

export type Work = ReturnType<typeof createWork>;

export function createWork(counters: Int32Array, handlerMsMax: number, now: () => number) {
  const items = new Map<symbol, number>();
  let draining = false;
  let idle: PromiseWithResolvers<void> | undefined;

  /** Counts as work until the returned function is called, or until nobody could still be waiting for it. */
  function begin(): () => void {
    const item = Symbol();
    items.set(item, now() + handlerMsMax);
    Atomics.add(counters, COUNTER.atWork, 1);
    return () => end(item);
  }

  function end(item: symbol): void {
    if (!items.delete(item)) return;
    Atomics.sub(counters, COUNTER.atWork, 1);
    if (items.size === 0) idle?.resolve();
  }

  return {
    begin,
    async run<T>(task: () => T | Promise<T>): Promise<T> {
      const done = begin();
      try {
        return await task();
      } finally {
        done();
      }
    },
    /** A handler past its limit keeps running if it must, but no longer keeps the thread alive. */
    sweep(): void {
      for (const [item, untilMs] of items) if (untilMs <= now()) end(item);
    },
    get size() {
      return items.size;
    },
    /** From here on jobs stay in their tables. */
    drain(): Promise<void> {
      draining = true;
      idle = Promise.withResolvers<void>();
      if (items.size === 0) idle.resolve();
      return idle.promise;
    },
    get draining() {
      return draining;
    },
  };
}
