// The one outbound request: what it carries, how long it may be silent, and that it ends when the client leaves.
/** Why we ended it ourselves. */
export type CutReason = "client_left" | "upstream_silent" | "timeout";

export type Call = {
  url: string;
  method: string;
  headers: Record<string, string>;
  body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null;
  /** The client's own: aborts when it leaves. */
  signal: AbortSignal;
  /** Until the head of the answer; undefined: only silence is bounded. */
  firstByteMsMax: number | undefined;
};

export type Exchange = {
  response: Response;
  /** Set as soon as we cut it; undefined when the provider ended it. */
  cut(): CutReason | undefined;
  /** A read is outstanding from now on; `heard` ends the wait. */
  waiting(): void;
  heard(): void;
  /** Called at the moment it is cut: a reader that nobody pulls any more would never hear of it. */
  whenCut(tell: () => void): void;
  /** Nothing more will come: forget it. */
  close(): void;
};

const SWEEP_MS = 500;

/** No whole answer came, and why. */
export class UpstreamFailure extends Error {
  readonly reason: CutReason | "upstream_failed";

  constructor(reason: CutReason | "upstream_failed", cause: unknown) {
    super(reason, { cause });
    this.reason = reason;
  }
}

type Live = { sinceMs: number; limitMs: number; reason: CutReason; cut(reason: CutReason): void };

export type Upstream = ReturnType<typeof createUpstream>;

export function createUpstream({ idleMsMax, now }: { idleMsMax: number; now: () => number }) {
  const live = new Set<Live>();
  // One timer for all instead of one per read: a stream of a thousand chunks sets a thousand fields, not timers.
  const sweeper = setInterval(() => {
    const at = now();
    for (const one of live) if (at - one.sinceMs >= one.limitMs) one.cut(one.reason);
  }, SWEEP_MS);
  sweeper.unref();

  async function send({ url, method, headers, body, signal, firstByteMsMax }: Call): Promise<Exchange> {
    const controller = new AbortController();
    let cutBy: CutReason | undefined;
    let tell = (): void => {};
    const cut = (reason: CutReason): void => {
      if (cutBy !== undefined) return;
      cutBy = reason;
      controller.abort();
      tell();
    };
    const left = (): void => cut("client_left");
    if (signal.aborted) left();
    signal.addEventListener("abort", left, { once: true });
    const entry: Live = { sinceMs: now(), limitMs: idleMsMax, reason: "upstream_silent", cut };
    live.add(entry);
    // A caller's own limit is often shorter than the sweep.
    const timer = firstByteMsMax === undefined ? undefined : setTimeout(cut, firstByteMsMax, "timeout");
    const close = (): void => {
      live.delete(entry);
      signal.removeEventListener("abort", left);
    };
    try {
      const response = await fetch(url, {
        method,
        headers,
        body,
        signal: controller.signal,
        redirect: "manual", // passed on: where it leads is not in our table
        decompress: false, // the bytes and their encoding header belong together
        timeout: false, // ours is the one above
      });
      entry.sinceMs = Infinity;
      return {
        response,
        cut: () => cutBy,
        waiting() {
          entry.sinceMs = now();
        },
        heard() {
          entry.sinceMs = Infinity;
        },
        whenCut(listener) {
          tell = listener;
        },
        close,
      };
    } catch (cause) {
      close();
      throw new UpstreamFailure(cutBy ?? "upstream_failed", cause);
    } finally {
      clearTimeout(timer);
    }
  }

  return { send, stop: () => clearInterval(sweeper) };
}
