// What the edge knows of a request that is under way: its id, its start, and who sent it.
import { clientAddress } from "./address.ts";
import { AppError } from "./errors.ts";

/** What `server` in an Elysia context must offer; absent when a command runs the app without listening. */
export type Listener = { requestIP(request: Request): { address: string } | null };

type Entry = { startMs: number; listener: Listener | null; trusted: readonly string[]; id?: string };

// Keyed weakly by the request itself, so nothing has to be cleaned up and no route has to pass it on.
const entries = new WeakMap<Request, Entry>();

export function enter(request: Request, startMs: number, listener: Listener | null, trusted: readonly string[]): void {
  entries.set(request, { startMs, listener, trusted });
}

/** Time ordered, so that ids sort as the requests came. Made on first ask: not every path needs it before the answer. */
export function requestIdOf(request: Request): string {
  const entry = entries.get(request);
  if (!entry) return Bun.randomUUIDv7();
  entry.id ??= Bun.randomUUIDv7();
  return entry.id;
}

export function startOf(request: Request): number | undefined {
  return entries.get(request)?.startMs;
}

/** `local` when the request never crossed a socket. */
export function addressOf(request: Request): string {
  const entry = entries.get(request);
  const peer = entry?.listener?.requestIP(request)?.address;
  return entry && peer ? clientAddress(peer, request.headers.get("x-forwarded-for"), entry.trusted) : "local";
}

const AT_ONCE_BYTES = 64 * 1024; // larger ones are counted as they arrive: announcing a body costs its sender nothing

/**
 * The whole body, or `input.too_large` before more than the limit was held. `hold` hears of every byte that takes memory,
 * and may throw.
 */
export async function readBytes(
  request: Request,
  bytesMax: number,
  hold?: (bytes: number) => void,
): Promise<Uint8Array> {
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (declared > bytesMax) throw tooLarge(bytesMax);
  if (!request.body) return new Uint8Array(0);
  // A declared length within the limit is enforced by the HTTP parser; only a chunked body has to be counted.
  if (declared > 0 && (!hold || declared <= AT_ONCE_BYTES)) {
    hold?.(declared);
    return request.bytes();
  }
  const chunks: Uint8Array[] = [];
  let total = 0;
  for await (const chunk of request.body) {
    total += chunk.byteLength;
    if (total > bytesMax) throw tooLarge(bytesMax);
    hold?.(chunk.byteLength);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, total);
}

function tooLarge(bytesMax: number): AppError {
  return new AppError("input.too_large", { say: `The body is too large (maximum ${bytesMax} bytes)` });
}
