// The body of a request on its way up: whole when it is small, watched when it is not.
import { type Capture, createCapture, HEAD_BYTES_MAX } from "./capture.ts";
import { watchStream } from "./stream.ts";

/** Read whole before it is sent on: for small bodies that is faster than a stream. */
const REQUEST_BYTES_MAX = 256 * 1024;

export type Sent = {
  bytes?: Uint8Array<ArrayBuffer>;
  stream?: ReadableStream<Uint8Array>;
  /** What has gone by of the stream so far. */
  seen?: Capture;
  /** Told of every piece of the stream that goes up. */
  moved?: () => void;
};

const NO_BODY: Sent = {};
const NOTHING = new Uint8Array(0);

/** Small enough to be read before it is sent on; its length is known, and the HTTP parser holds it to that. */
export function isSmall({ method, headers }: Request): boolean {
  const length = headers.get("content-length");
  return length !== null && length !== "0" && Number(length) <= REQUEST_BYTES_MAX && mayHaveBody(method);
}

/** The body of a request that is not small: none, or one of any size. */
export function streamOf(request: Request): Sent {
  if (!mayHaveBody(request.method) || !request.body) return NO_BODY;
  const seen = createCapture(HEAD_BYTES_MAX, 0);
  const sent: Sent = { seen };
  sent.stream = watchStream(request.body, {
    waiting() {},
    chunk(bytes) {
      seen.add(bytes);
      sent.moved?.();
    },
    end() {},
  });
  return sent;
}

/** Our HTTP client refuses a body on these two, and no provider expects one. */
function mayHaveBody(method: string): boolean {
  return method !== "GET" && method !== "HEAD";
}

export function keptOf({ bytes, seen }: Sent): Uint8Array {
  return bytes ?? seen?.head() ?? NOTHING;
}

export function sizeOf({ bytes, seen }: Sent): number {
  return bytes?.byteLength ?? seen?.total ?? 0;
}
