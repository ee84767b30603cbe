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
};

const NO_BODY: Sent = {};
const NOTHING = new Uint8Array(0);

export async function bodyOf(request: Request): Promise<Sent> {
  const { method, headers } = request;
  const length = headers.get("content-length");
  // Our HTTP client refuses a body on these two, and no provider expects one.
  if (method === "GET" || method === "HEAD") return NO_BODY;
  if (length === null ? !headers.has("transfer-encoding") : length === "0") return NO_BODY;
  if (length !== null && Number(length) <= REQUEST_BYTES_MAX) return { bytes: await request.bytes() };
  if (!request.body) return NO_BODY;
  const seen = createCapture(HEAD_BYTES_MAX, 0);
  return { seen, stream: watchStream(request.body, { waiting() {}, chunk: seen.add, end() {} }) };
}

export function keptOf({ bytes, seen }: Sent): Uint8Array {
  return bytes ?? seen?.head() ?? NOTHING;
}

export function sizeOf({ bytes, seen }: Sent): number {
  return bytes?.byteLength ?? seen?.total ?? 0;
}
