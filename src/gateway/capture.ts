// A bounded copy of what flows by: the beginning, and once that is full, the last bytes.

export const HEAD_BYTES_MAX = 256 * 1024; // what a log stores of a body
export const TAIL_BYTES_MAX = 64 * 1024; // token counts stand at the end of a stream
/** The end of a compressed stream cannot be read alone, so more of its beginning is kept instead. */
export const PACKED_HEAD_BYTES_MAX = 1024 * 1024;

const FIRST_BYTES = 2 * 1024;

export type Capture = ReturnType<typeof createCapture>;

export function createCapture(headBytesMax: number, tailBytesMax: number) {
  let head = new Uint8Array(Math.min(FIRST_BYTES, headBytesMax));
  let headUsed = 0;
  let ring: Uint8Array | undefined;
  let total = 0;

  function add(chunk: Uint8Array): void {
    total += chunk.byteLength;
    const room = headBytesMax - headUsed;
    const first = chunk.byteLength <= room ? chunk : chunk.subarray(0, room);
    if (first.byteLength > 0) keepHead(first);
    if (chunk.byteLength > room && tailBytesMax > 0) keepTail(chunk.subarray(room));
  }

  function keepHead(part: Uint8Array): void {
    if (headUsed + part.byteLength > head.byteLength) {
      const size = Math.min(headBytesMax, Math.max(headUsed + part.byteLength, head.byteLength * 2));
      const grown = new Uint8Array(size);
      grown.set(head.subarray(0, headUsed));
      head = grown;
    }
    head.set(part, headUsed);
    headUsed += part.byteLength;
  }

  /** A ring: where the newest bytes overwrite the oldest. Its position follows from the total alone. */
  function keepTail(part: Uint8Array): void {
    ring ??= new Uint8Array(tailBytesMax);
    const last = part.byteLength > tailBytesMax ? part.subarray(part.byteLength - tailBytesMax) : part;
    const end = (total - headUsed) % tailBytesMax;
    const start = (end - last.byteLength + tailBytesMax) % tailBytesMax;
    const fits = Math.min(last.byteLength, tailBytesMax - start);
    ring.set(last.subarray(0, fits), start);
    ring.set(last.subarray(fits), 0);
  }

  function tail(): Uint8Array | undefined {
    if (!ring) return undefined;
    const past = total - headUsed;
    if (past <= tailBytesMax) return ring.subarray(0, past);
    const end = past % tailBytesMax;
    const whole = new Uint8Array(tailBytesMax);
    whole.set(ring.subarray(end));
    whole.set(ring.subarray(0, end), tailBytesMax - end);
    return whole;
  }

  return {
    add,
    head: () => head.subarray(0, headUsed),
    tail,
    get total() {
      return total;
    },
  };
}
