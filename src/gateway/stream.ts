// Watching a stream without holding it: every byte goes on as it came, one chunk at a time, only when it is asked for.

export type StreamEnd = "done" | "cancelled" | "failed";
export type StreamWatch = {
  /** Before a read that may take long, and after it: silence counts only while somebody waits for the provider. */
  waiting(): void;
  chunk(bytes: Uint8Array): void;
  /** Whatever happens. A read that is under way when the reader leaves ends once more: the first word counts. */
  end(how: StreamEnd): void;
};

/** Never `tee`: its faster branch would buffer all that the slower one has not read. */
export function watchStream(body: ReadableStream<Uint8Array>, watch: StreamWatch): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        watch.waiting();
        try {
          const { done, value } = await reader.read();
          if (done) {
            watch.end("done");
            controller.close();
          } else {
            watch.chunk(value);
            controller.enqueue(value);
          }
        } catch {
          watch.end("failed");
          // The client sees a reset, never an end that the provider did not send. Without the cause: a server in
          // development would print it, and it names the address with whatever key is in its query.
          controller.error(undefined);
        }
      },
      cancel(reason) {
        watch.end("cancelled");
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 }, // nothing is read ahead, so a client that stalls makes the provider stall
  );
}

const LF = 10;
const CR = 13;
const EVENT_BYTES_MAX = 1024 * 1024; // a longer event is not the short last chunk we look for, and goes on unseen

/**
 * Takes out of an event stream the one chunk that our own question for usage put into it: `choices` empty, `usage`
 * filled. Clients that did not ask read `choices[0]` without looking.
 */
export function withoutUsageChunk(body: ReadableStream<Uint8Array>, taken: (event: Uint8Array) => void) {
  let held = new Uint8Array(0);
  return body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        const bytes = held.byteLength === 0 ? chunk : joined(held, chunk);
        let start = 0;
        for (let end = eventEnd(bytes, start); end !== -1; end = eventEnd(bytes, start)) {
          const event = bytes.subarray(start, end);
          start = end;
          if (isUsageChunk(event)) taken(event);
          else controller.enqueue(event);
        }
        held = bytes.slice(start);
        if (held.byteLength > EVENT_BYTES_MAX) {
          controller.enqueue(held);
          held = new Uint8Array(0);
        }
      },
      flush(controller) {
        if (held.byteLength > 0) controller.enqueue(held);
      },
    }),
  );
}

/** One past the blank line that ends the event, whichever line ends the provider writes. */
function eventEnd(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(LF, from); at !== -1; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at + 1] === LF) return at + 2;
    if (bytes[at + 1] === CR && bytes[at + 2] === LF) return at + 3;
  }
  return -1;
}

const decoder = new TextDecoder();

function isUsageChunk(event: Uint8Array): boolean {
  const text = decoder.decode(event);
  return /"choices"\s*:\s*\[\s*\]/.test(text) && /"usage"\s*:\s*\{/.test(text);
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(first.byteLength + second.byteLength);
  both.set(first);
  both.set(second, first.byteLength);
  return both;
}
