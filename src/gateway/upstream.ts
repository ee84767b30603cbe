// The one outbound request: what it carries, how long it may be silent, and that it ends when the client leaves.

/** Why we ended it ourselves. */
export type CutReason = "client_left" | "upstream_silent" | "upstream_failed" | "timeout";

export type Call = {
  url: string;
  method: string;
  headers: Headers;
  body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null;
  /** The client's own: aborts when it leaves. */
  signal: AbortSignal;
  /** Until the head of the answer; undefined: only silence is bounded. */
  firstByteMsMax: number | undefined;
};

const SWEEP_MS = 500;
const SPARE_MAX = 256; // controllers kept for the next requests; more are never in use at once for long

export type Upstream = ReturnType<typeof createUpstream>;

export function createUpstream({ idleMsMax, now }: { idleMsMax: number; now: () => number }) {
  const live = new Set<Exchange>();
  // A controller that was never aborted serves the next request: making one is dear, because it has to be finalized.
  const spare: AbortController[] = [];
  // One timer for all instead of one per read: a stream of a thousand chunks sets a thousand fields, not timers.
  const sweeper = setInterval(() => {
    const at = now();
    for (const one of live) if (at - one.sinceMs >= idleMsMax) one.cut("upstream_silent");
  }, SWEEP_MS);
  sweeper.unref();

  const closed = (done: Exchange): void => {
    live.delete(done);
    if (done.cutBy === undefined && spare.length < SPARE_MAX) spare.push(done.controller);
  };

  /** Begins a call. The caller awaits `response` and closes the exchange, whatever comes. */
  function send({ url, method, headers, body, signal, firstByteMsMax }: Call): Exchange {
    const exchange = new Exchange(signal, spare.pop() ?? new AbortController(), now, closed);
    live.add(exchange);
    // A caller's own limit is often shorter than the sweep.
    if (firstByteMsMax !== undefined) exchange.timer = setTimeout(() => exchange.cut("timeout"), firstByteMsMax);
    exchange.response = fetch(url, {
      method,
      headers,
      body,
      signal: exchange.controller.signal,
      redirect: "manual", // passed on: where it leads is not in our table
      decompress: false, // the bytes and their encoding header belong together
      timeout: false, // ours is the one above
    });
    return exchange;
  }

  return { send, count: () => live.size, stop: () => clearInterval(sweeper) };
}

/** One call under way. A class, because every request makes one: methods on a prototype cost it nothing. */
export class Exchange {
  /** The head of the answer, once it is there. */
  response: Promise<Response> = NO_RESPONSE;
  timer: Timer | undefined;
  /** Set as soon as we cut it; undefined when the provider ended it. */
  cutBy: CutReason | undefined;
  /** Since when somebody waits for the provider; never, while nobody does. */
  sinceMs: number;
  /** Told at the moment it is cut: a reader that nobody pulls any more would never hear of it. */
  whenCut: (() => void) | undefined;
  readonly controller: AbortController;
  readonly #client: AbortSignal;
  readonly #now: () => number;
  #closed: ((exchange: Exchange) => void) | undefined;

  constructor(client: AbortSignal, controller: AbortController, now: () => number, closed: (it: Exchange) => void) {
    this.#client = client;
    this.controller = controller;
    this.#now = now;
    this.#closed = closed;
    this.sinceMs = now();
    if (client.aborted) this.cut("client_left");
    client.onabort = () => this.cut("client_left"); // ours alone: nobody else listens to a request that is proxied
  }

  cut(reason: CutReason): void {
    if (this.cutBy !== undefined) return;
    this.cutBy = reason;
    this.controller.abort();
    this.whenCut?.();
  }

  /** A read is outstanding from now on. */
  waiting(): void {
    this.sinceMs = this.#now();
  }

  /** A piece of the request is on its way: until all of it is there, nobody waits for an answer. */
  sending(): void {
    if (this.sinceMs !== Infinity) this.sinceMs = this.#now();
  }

  heard(): void {
    this.sinceMs = Infinity;
    if (this.timer !== undefined) clearTimeout(this.timer);
  }

  /** Nothing more will come: forget it. Once only, or two requests would share a controller. */
  close(): void {
    this.heard();
    this.#client.onabort = null;
    this.#closed?.(this);
    this.#closed = undefined;
  }
}

const NO_RESPONSE = Promise.resolve(new Response(null));
