// Trying again: how often, and how long to wait in between. The clock and chance come from the caller.

export type RetryOptions = { maxAttempts?: number; baseDelayMs?: number; maxDelayMs?: number };
export type Retry = Required<RetryOptions>;

export const RETRY: Retry = { maxAttempts: 3, baseDelayMs: 100, maxDelayMs: 3_000 };
const ATTEMPTS_MAX = 1_000; // a typing mistake should not become an endless loop

/** Checked when the work is handed over, so that a wrong option fails where it was written. */
export function parseRetry(given: RetryOptions | undefined, base: Retry): Retry {
  const retry = { ...base, ...dropUndefined(given) };
  if (!Number.isInteger(retry.maxAttempts) || retry.maxAttempts < 1 || retry.maxAttempts > ATTEMPTS_MAX) {
    throw new Error(`retry.maxAttempts must be a whole number from 1 to ${ATTEMPTS_MAX}`);
  }
  for (const name of ["baseDelayMs", "maxDelayMs"] as const) {
    if (!Number.isFinite(retry[name]) || retry[name] <= 0) throw new Error(`retry.${name} must be greater than 0`);
  }
  if (retry.baseDelayMs > retry.maxDelayMs) throw new Error("retry.baseDelayMs must not exceed retry.maxDelayMs");
  return retry;
}

/** Full jitter: anything from nothing to the doubled delay, so that many failures do not come back together. */
export function retryDelayMs(attempt: number, retry: Retry, random: () => number): number {
  return Math.floor(random() * Math.min(2 ** attempt * retry.baseDelayMs, retry.maxDelayMs));
}

const final = new WeakSet<object>();

/** Marks an error after which no further attempt makes sense, however many are left. */
export function asFinal(error: unknown): unknown {
  if (typeof error === "object" && error !== null) final.add(error);
  return error;
}

export const isFinal = (error: unknown): boolean => typeof error === "object" && error !== null && final.has(error);

/** What is told of a failure that was thrown. */
export const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export async function tryAgain<T>(
  task: (attempt: number) => Promise<T>,
  retry: Retry,
  shouldRetry: (error: unknown, nextAttempt: number) => boolean,
  random: () => number,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await task(attempt);
    } catch (error) {
      if (attempt >= retry.maxAttempts || !shouldRetry(error, attempt + 1)) throw error;
      await Bun.sleep(retryDelayMs(attempt, retry, random));
    }
  }
}

function dropUndefined(given: RetryOptions | undefined): RetryOptions {
  return Object.fromEntries(
    (["maxAttempts", "baseDelayMs", "maxDelayMs"] as const).flatMap((name) =>
      given?.[name] === undefined ? [] : [[name, given[name]]],
    ),
  );
}
