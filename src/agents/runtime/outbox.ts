// What a thread says to the main thread: gathered over one turn into one message, and bounded.
import { COUNTER, type FromAgent } from "../protocol.ts";

export type Outbox = ReturnType<typeof createOutbox>;

const MESSAGE_BYTES = 64; // what an empty message weighs, so that a flood of empty ones is counted too

export function createOutbox(post: (batch: FromAgent[]) => void, counters: Int32Array, bytesMax: number) {
  let batch: FromAgent[] = [];

  function flush(): void {
    const messages = batch;
    batch = [];
    if (messages.length > 0) post(messages);
  }

  function put(message: FromAgent): void {
    Atomics.add(counters, COUNTER.outputBytes, sizeOf(message));
    if (batch.push(message) === 1) queueMicrotask(flush);
  }

  return {
    put,
    flush,
    /** For what an agent's code sends of its own will: refused while too much is on its way, even inside one loop. */
    putBounded(message: FromAgent): void {
      if (Atomics.load(counters, COUNTER.outputBytes) + sizeOf(message) > bytesMax) {
        throw new Error("Too much is waiting to be sent; let the event loop turn, or send less");
      }
      put(message);
    },
  };
}

export function sizeOf(message: FromAgent): number {
  const data = "data" in message ? message.data : "bytes" in message ? message.bytes : undefined;
  const payload = typeof data === "string" || data instanceof Uint8Array ? data.length : 0;
  const body = message.type === "head" ? (message.body?.length ?? 0) : 0;
  return MESSAGE_BYTES + payload + body;
}
