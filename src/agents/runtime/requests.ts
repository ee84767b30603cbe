// HTTP inside the thread: a message becomes a Request, its Response becomes messages, bodies flow in pieces on credit.
import { isUtf8 } from "node:buffer";
import type { FromAgent, RequestHead, ToAgent } from "../protocol.ts";
import { PIECE_BYTES_MAX, STREAM_CREDITS } from "../protocol.ts";
import type { Outbox } from "./outbox.ts";

export type Requests = ReturnType<typeof createRequests>;

type Incoming = Extract<ToAgent, { type: "request" }>;
type Exchange = {
  abort: AbortController;
  /** Pieces of the request body that arrived and were not read yet; never more than the credits given. */
  pieces: Uint8Array[];
  ended: "no" | "yes" | "broken";
  wakeReader: () => void;
  credits: number;
  wakeWriter: () => void;
};

export function createRequests(outbox: Outbox, respond: (request: Request, head: RequestHead) => Promise<Response>) {
  const exchanges = new Map<number, Exchange>();

  async function take(message: Incoming): Promise<void> {
    const { id, method, url, headers } = message;
    const exchange: Exchange = {
      abort: new AbortController(),
      pieces: [],
      ended: "no",
      wakeReader: () => {},
      credits: STREAM_CREDITS,
      wakeWriter: () => {},
    };
    exchanges.set(id, exchange);
    try {
      const body = message.streamed ? bodyOf(id, exchange) : message.body;
      const init = { method, headers, body: body as BodyInit | null, signal: exchange.abort.signal };
      await send(id, exchange, await respond(new Request(url, init), message), method === "HEAD");
    } finally {
      exchanges.delete(id);
    }
  }

  function bodyOf(id: number, exchange: Exchange): ReadableStream<Uint8Array> {
    return new ReadableStream(
      {
        async pull(controller) {
          while (exchange.pieces.length === 0 && exchange.ended === "no") {
            await new Promise<void>((resolve) => {
              exchange.wakeReader = resolve;
            });
          }
          const piece = exchange.pieces.shift();
          if (piece) {
            controller.enqueue(piece);
            outbox.put({ type: "credit", id, pieces: 1 });
          } else if (exchange.ended === "broken") controller.error(new Error("The client left before its body ended"));
          else controller.close();
        },
        cancel: () => outbox.put({ type: "stopBody", id }),
      },
      { highWaterMark: 0 },
    );
  }

  async function send(id: number, exchange: Exchange, response: Response, headOnly: boolean): Promise<void> {
    const { status } = response;
    if (status < 200) throw new Error(`onRequest answered with status ${status}, which ends no request`);
    const headers = [...response.headers];
    const head = { type: "head" as const, id, status, headers };
    if (!response.body || headOnly || exchange.abort.signal.aborted) {
      outbox.put({ ...head, body: null, last: true });
      await response.body?.cancel();
      return;
    }
    const reader = response.body.getReader();
    exchange.abort.signal.addEventListener("abort", () => void reader.cancel().catch(() => {}), { once: true });
    const first = await reader.read();
    const next = first.done ? first : reader.read();
    await null; // the end of a body that is not a stream is known one turn after its only chunk
    const peeked = first.done ? first : Bun.peek(next);
    const whole = !(peeked instanceof Promise) && "done" in peeked && peeked.done === true;
    // The standard's type for a body that is text; Bun 1.4.4 adds it so late that only its own listener sees it.
    if (whole && first.value && isUtf8(first.value) && !response.headers.has("content-type")) {
      headers.push(["content-type", "text/plain;charset=utf-8"]);
    }
    // A body that is complete after its first chunk, as most are, travels with the head in one message.
    if (whole && (first.value?.length ?? 0) <= PIECE_BYTES_MAX) {
      outbox.put({ ...head, body: first.value ?? null, last: true });
      return;
    }
    outbox.put({ ...head, body: null, last: false });
    try {
      for (let chunk = first; !chunk.done; chunk = chunk === first ? await next : await reader.read()) {
        await sendPieces(id, exchange, chunk.value);
        if (exchange.abort.signal.aborted) return;
      }
      outbox.put({ type: "end", id, broken: false });
    } catch (error) {
      outbox.put({ type: "end", id, broken: true });
      throw error;
    }
  }

  async function sendPieces(id: number, exchange: Exchange, bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += PIECE_BYTES_MAX) {
      while (exchange.credits === 0 && !exchange.abort.signal.aborted) {
        await new Promise<void>((resolve) => {
          exchange.wakeWriter = resolve;
        });
      }
      if (exchange.abort.signal.aborted) return;
      exchange.credits--;
      // A copy: the agent may keep or reuse what it wrote.
      outbox.put({ type: "piece", id, bytes: bytes.slice(at, at + PIECE_BYTES_MAX) } satisfies FromAgent);
    }
  }

  return {
    take,
    piece(id: number, bytes: Uint8Array): void {
      const exchange = exchanges.get(id);
      exchange?.pieces.push(bytes);
      exchange?.wakeReader();
    },
    eof(id: number, broken: boolean): void {
      const exchange = exchanges.get(id);
      if (!exchange) return;
      exchange.ended = broken ? "broken" : "yes";
      exchange.wakeReader();
    },
    credit(id: number, pieces: number): void {
      const exchange = exchanges.get(id);
      if (!exchange) return;
      exchange.credits += pieces;
      exchange.wakeWriter();
    },
    cancel(id: number): void {
      const exchange = exchanges.get(id);
      if (!exchange) return;
      exchange.ended = "broken";
      exchange.abort.abort();
      exchange.wakeReader();
      exchange.wakeWriter();
    },
  };
}
