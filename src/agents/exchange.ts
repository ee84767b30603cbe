// One HTTP exchange with a thread, on the main side: bodies cross in pieces, each piece needs a credit.
import { AppError } from "../platform/errors.ts";
import { type DeliveryFacts, type FromAgent, PIECE_BYTES_MAX, STREAM_CREDITS, type ToAgent } from "./protocol.ts";

export type Exchanges = ReturnType<typeof createExchanges>;
export type ExchangeInput = {
  method: string;
  url: string;
  headers: [string, string][];
  body: ReadableStream<Uint8Array> | Uint8Array | null;
  signal?: AbortSignal | undefined;
  delivery?: DeliveryFacts | undefined;
};
type Fetched = Extract<FromAgent, { type: "head" | "piece" | "end" | "credit" | "stopBody" }>;

type Exchange = {
  head: PromiseWithResolvers<Response>;
  /** Set once the head is answered and a body follows. */
  body: { pieces: Uint8Array[]; ended: "no" | "yes" | "broken"; wake: () => void } | undefined;
  credits: number;
  wakeUpload: () => void;
  uploadStopped: boolean;
  /** Ends it when nothing has moved for as long as a handler may take. */
  limit: Timer;
  finish: () => void;
};

/** No body may follow these, whatever the agent wrote; a `Response` of Bun 1.4.4 takes one. */
const BODILESS = new Set([101, 204, 205, 304]);

export function createExchanges(post: (message: ToAgent) => void) {
  const open = new Map<number, Exchange>();

  function start(id: number, input: ExchangeInput, msMax: number): Promise<Response> {
    const { method, url, headers, body, signal, delivery } = input;
    const streamed = body instanceof ReadableStream;
    if (signal?.aborted) return Promise.reject(new AppError("agent.gone", { say: "The caller left" }));
    const onAbort = () => cancel(id, new AppError("agent.gone", { say: "The caller left" }));
    const exchange: Exchange = {
      head: Promise.withResolvers<Response>(),
      body: undefined,
      credits: STREAM_CREDITS,
      wakeUpload: () => {},
      uploadStopped: false,
      limit: setTimeout(() => cancel(id, new AppError("agent.slow")), msMax),
      finish() {
        open.delete(id);
        clearTimeout(exchange.limit);
        signal?.removeEventListener("abort", onAbort);
        exchange.uploadStopped = true;
        exchange.wakeUpload();
      },
    };
    open.set(id, exchange);
    signal?.addEventListener("abort", onAbort, { once: true });
    post({ type: "request", id, method, url, headers, delivery, body: streamed ? null : body, streamed });
    if (streamed) void upload(id, exchange, body);
    return exchange.head.promise;
  }

  async function upload(id: number, exchange: Exchange, body: ReadableStream<Uint8Array>): Promise<void> {
    const reader = body.getReader();
    try {
      while (!exchange.uploadStopped) {
        const { done, value } = await reader.read();
        if (done) break;
        for (let at = 0; at < value.length; at += PIECE_BYTES_MAX) {
          while (exchange.credits === 0 && !exchange.uploadStopped) {
            await new Promise<void>((resolve) => {
              exchange.wakeUpload = resolve;
            });
          }
          if (exchange.uploadStopped) break;
          exchange.credits--;
          post({ type: "piece", id, bytes: value.slice(at, at + PIECE_BYTES_MAX) });
        }
      }
      if (open.has(id)) post({ type: "eof", id, broken: false });
    } catch {
      if (open.has(id)) post({ type: "eof", id, broken: true }); // the client went away in mid-body
    } finally {
      // What the agent did not want to read is left unread: the connection ends with its answer.
      void reader.cancel().catch(() => {});
    }
  }

  function cancel(id: number, error: AppError): void {
    const exchange = open.get(id);
    if (!exchange) return;
    post({ type: "cancel", id });
    fail(exchange, error);
  }

  function fail(exchange: Exchange, error: AppError): void {
    exchange.head.reject(error);
    if (exchange.body) {
      exchange.body.ended = "broken";
      exchange.body.wake();
    }
    exchange.finish();
  }

  function onHead(id: number, exchange: Exchange, message: Extract<FromAgent, { type: "head" }>): void {
    const { status, headers, body, last } = message;
    const init = { status, headers };
    if (last || BODILESS.has(status)) {
      if (!last) post({ type: "cancel", id });
      exchange.finish();
      const bytes = BODILESS.has(status) ? null : body;
      exchange.head.resolve(new Response(bytes as Uint8Array<ArrayBuffer> | null, init));
      return;
    }
    const pieces: Uint8Array[] = [];
    const flow: NonNullable<Exchange["body"]> = { pieces, ended: "no", wake: () => {} };
    exchange.body = flow;
    const stream = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          while (pieces.length === 0 && flow.ended === "no") {
            await new Promise<void>((resolve) => {
              flow.wake = resolve;
            });
          }
          const piece = pieces.shift();
          if (piece) {
            controller.enqueue(piece);
            if (open.has(id)) post({ type: "credit", id, pieces: 1 });
          } else if (flow.ended === "yes") controller.close();
          // Resets the client, which must not take half an answer for a whole one. A reason would be printed by Bun.
          else controller.error(undefined);
        },
        cancel: () => cancel(id, new AppError("agent.gone", { say: "The caller left" })),
      },
      { highWaterMark: 0 },
    );
    exchange.head.resolve(new Response(stream, init));
  }

  return {
    start,
    get size() {
      return open.size;
    },
    take(message: Fetched): void {
      const exchange = open.get(message.id);
      if (!exchange) return; // cancelled: what is still on its way has no reader
      if (message.type === "piece" || message.type === "credit") exchange.limit.refresh();
      if (message.type === "head") onHead(message.id, exchange, message);
      else if (message.type === "stopBody") exchange.uploadStopped = true;
      else if (message.type === "credit") exchange.credits += message.pieces;
      else if (exchange.body) {
        if (message.type === "piece") exchange.body.pieces.push(message.bytes);
        else exchange.body.ended = message.broken ? "broken" : "yes";
        exchange.body.wake();
        if (message.type === "end") exchange.finish();
      }
      exchange.wakeUpload();
    },
    /** Before the head, the exchange failed as a whole. `false`: this id is not an exchange. */
    refuse(id: number, error: AppError): boolean {
      const exchange = open.get(id);
      if (exchange) fail(exchange, error);
      return exchange !== undefined;
    },
    failAll(error: AppError): void {
      for (const exchange of [...open.values()]) fail(exchange, error);
    },
  };
}
