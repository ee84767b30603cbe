// Slows down whoever keeps guessing: each failed attempt of an address waits behind the one before it.
import { addressBucket } from "./address.ts";

const FREE_FAILURES = 20; // a person mistypes, a forgotten client retries; a guesser needs far more
const STEP_MS = 250;
const WAIT_MS_MAX = 10_000; // a caller told to wait longer is refused at once instead of holding a socket
const FORGET_MS = 15 * 60_000;
const ADDRESSES_MAX = 10_000; // the oldest is forgotten first, so a botnet cannot fill memory

export type Brake = ReturnType<typeof createBrake>;

export function createBrake(now: () => number) {
  const attempts = new Map<string, { failures: number; freeAtMs: number; lastMs: number }>();

  /** How long the refusal must wait; `undefined` means the line is too long. A valid credential never comes here. */
  function fail(address: string): number | undefined {
    const key = addressBucket(address);
    const nowMs = now();
    const known = attempts.get(key);
    const agoMs = known ? nowMs - known.lastMs : FORGET_MS;
    // Less than nothing: the clock was set back, and what was noted by it would hold a caller up for as long.
    const before = known && agoMs >= 0 && agoMs < FORGET_MS ? known : { failures: 0, freeAtMs: 0 };
    const failures = before.failures + 1;
    const stepMs = failures <= FREE_FAILURES ? 0 : STEP_MS * 2 ** Math.min(failures - FREE_FAILURES, 5);
    const freeAtMs = Math.max(nowMs, before.freeAtMs) + stepMs;
    const late = freeAtMs - nowMs > WAIT_MS_MAX;
    attempts.delete(key); // and set again: a Map keeps the order of insertion, so the first key is the oldest
    attempts.set(key, { failures, freeAtMs: late ? before.freeAtMs : freeAtMs, lastMs: nowMs });
    const oldest = attempts.keys().next();
    if (attempts.size > ADDRESSES_MAX && !oldest.done) attempts.delete(oldest.value);
    return late ? undefined : freeAtMs - nowMs;
  }

  return { fail };
}
