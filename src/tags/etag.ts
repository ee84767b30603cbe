// The version of a tag map: a hash of its canonical form, so that equal tags have equal versions on any server.
import { createHash } from "node:crypto";
import type { Tags } from "./filter.ts";

const HASH_BYTES = 16; // half of SHA-256: what clients of this interface already store

/** RFC 8785 for a map of strings: keys by UTF-16 code unit, no spaces. */
export function toCanonical(tags: Tags): string {
  const keys = Object.keys(tags).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${JSON.stringify(tags[key])}`).join(",")}}`;
}

export function etagOf(canonical: string): string {
  return `v1:${createHash("sha256").update(canonical).digest().subarray(0, HASH_BYTES).toString("base64url")}`;
}

export const EMPTY_ETAG = etagOf("{}");

/**
 * May a write go ahead under this `If-Match`? Tags come quoted or bare, one or several. A resource that was never tagged has
 * the version of `{}`, and `*` asks for one that was. A weak version (`W/…`) never matches, as RFC 9110 has it.
 */
export function isMatch(ifMatch: string | undefined, canonical: string | undefined): boolean {
  if (ifMatch === undefined) return true;
  const wanted = ifMatch.split(",").map((item) => item.trim());
  if (wanted.includes("*")) return canonical !== undefined;
  const current = canonical === undefined ? EMPTY_ETAG : etagOf(canonical);
  return wanted.some((item) => item === current || item === `"${current}"`);
}
