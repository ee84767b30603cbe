// The body of a request on its way up: whole when it is small, watched when it is not.
import { createCapture, HEAD_BYTES_MAX } from "./capture.ts";
import type { Passage } from "./passage.ts";
import { watchStream } from "./stream.ts";

/** Read whole before it is sent on: for small bodies that is faster than a stream. */
const REQUEST_BYTES_MAX = 256 * 1024;

export type Sent = {
  bytes?: Uint8Array<ArrayBuffer>;
  stream?: ReadableStream<Uint8Array>;
  kept(): Uint8Array;
  total(): number;
};

const NOTHING = new Uint8Array(0);
const NO_BODY: Sent = { kept: () => NOTHING, total: () => 0 };

export async function bodyOf(request: Request, { method, given }: Passage): Promise<Sent> {
  const length = given["content-length"];
  const chunked = given["transfer-encoding"] !== undefined;
  // Our HTTP client refuses a body on these two, and no provider expects one.
  if (method === "GET" || method === "HEAD" || (!chunked && (length === undefined || length === "0"))) return NO_BODY;
  if (length !== undefined && Number(length) <= REQUEST_BYTES_MAX) {
    const bytes = await request.bytes();
    return { bytes, kept: () => bytes, total: () => bytes.byteLength };
  }
  if (!request.body) return NO_BODY;
  const capture = createCapture(HEAD_BYTES_MAX, 0);
  const stream = watchStream(request.body, { waiting() {}, chunk: capture.add, end() {} });
  return { stream, kept: capture.head, total: () => capture.total };
}
