// Bytes of a body as text: undoes its content encoding, even when the end is missing. Pure.
import { brotliDecompressSync, constants, gunzipSync, inflateSync, zstdDecompressSync } from "node:zlib";

const PLAIN_BYTES_MAX = 8 * 1024 * 1024; // a captured body is at most 1 MiB; past eightfold it is a bomb, not an answer

const cutIsFine = { finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength: PLAIN_BYTES_MAX };
const brotliCutIsFine = { finishFlush: constants.BROTLI_OPERATION_FLUSH, maxOutputLength: PLAIN_BYTES_MAX };

const DECODERS: Readonly<Record<string, (bytes: Uint8Array) => Uint8Array>> = {
  identity: (bytes) => bytes,
  gzip: (bytes) => gunzipSync(bytes, cutIsFine),
  "x-gzip": (bytes) => gunzipSync(bytes, cutIsFine),
  deflate: (bytes) => inflateSync(bytes, cutIsFine),
  br: (bytes) => brotliDecompressSync(bytes, brotliCutIsFine),
  zstd: (bytes) => zstdDecompressSync(bytes, { maxOutputLength: PLAIN_BYTES_MAX }),
};

/** Undefined when we cannot read it: unknown encodings and damaged bytes are the sender's business. */
export function decodeBody(bytes: Uint8Array, encoding: string | undefined): Uint8Array | undefined {
  if (encoding === undefined) return bytes;
  let plain: Uint8Array | undefined = bytes;
  for (const name of encoding.toLowerCase().split(",").reverse()) {
    const decode = DECODERS[name.trim() || "identity"];
    if (!decode || !plain) return undefined;
    try {
      plain = decode(plain);
    } catch {
      return undefined; // cut in a place its format does not forgive, or too large once plain
    }
  }
  return plain;
}
