// Records on their way to the log thread: facts as one text, captures as one block of bytes, both bounded.
import type { Captured, PackedRecord, Span } from "./protocol.ts";

export type Batch = { text: string; bytes: Uint8Array<ArrayBuffer>; count: number };

const FIRST_BYTES = 16 * 1024;

/**
 * Captures are copied at once, so a request's own buffers are free as soon as it is answered. One string and one
 * block cross to the thread far cheaper than thousands of small objects would.
 */
export function createBatch() {
  let records: PackedRecord[] = [];
  let bytes = new Uint8Array(FIRST_BYTES);
  let used = 0;

  function put(capture: Uint8Array): Span {
    const start = used;
    used += capture.byteLength;
    if (used > bytes.byteLength) {
      const grown = new Uint8Array(Math.max(used, bytes.byteLength * 2));
      grown.set(bytes.subarray(0, start));
      bytes = grown;
    }
    bytes.set(capture, start);
    return [start, capture.byteLength];
  }

  /** Takes the record over: spans are written into it. */
  function add(record: PackedRecord, { request, head, tail }: Captured): void {
    if (request && request.byteLength > 0) record.request = put(request);
    if (head && head.byteLength > 0) record.head = put(head);
    if (tail && tail.byteLength > 0) record.tail = put(tail);
    records.push(record);
  }

  function take(): Batch {
    const batch = { text: JSON.stringify(records), bytes: bytes.slice(0, used), count: records.length };
    records = [];
    used = 0;
    if (bytes.byteLength > 16 * FIRST_BYTES) bytes = new Uint8Array(FIRST_BYTES); // one large body is not every body
    return batch;
  }

  return {
    add,
    take,
    get count() {
      return records.length;
    },
    get byteLength() {
      return used;
    },
  };
}
