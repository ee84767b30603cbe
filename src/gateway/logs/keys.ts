// A provider may answer with the headers it was sent: the caller's key is made unreadable in what a log keeps. Pure.
import { decodeBody } from "./body.ts";

export type KeptBody = { bytes: Uint8Array; encoding: string | undefined };

/** The same bytes when no key is in them; else a copy, no longer compressed, with a star for each of the key's bytes. */
export function withoutKeys({ bytes, encoding }: KeptBody, keys: readonly string[]): KeptBody {
  if (keys.length === 0) return { bytes, encoding };
  const plain = decodeBody(bytes, encoding) ?? bytes; // what cannot be decoded may be plain in spite of its label
  const look = Buffer.from(plain.buffer, plain.byteOffset, plain.byteLength);
  const found = keys.filter((key) => look.includes(key));
  if (found.length === 0) return { bytes, encoding };
  const copy = Buffer.from(look);
  for (const key of found) {
    for (let at = copy.indexOf(key); at !== -1; at = copy.indexOf(key, at + key.length)) {
      copy.fill("*", at, at + key.length);
    }
  }
  return { bytes: copy, encoding: undefined };
}
