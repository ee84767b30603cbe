// The gateway's own credential: where a caller may put it, and that it goes no further.

export const TOKEN_PREFIX = "gh_";
/** Provider credentials travel here; ours may too, and is told apart by its prefix. */
const SHARED = ["authorization", "x-api-key", "api-key", "x-goog-api-key"] as const;
/** Nobody offers ours in the last one, but a client that has only one field for a key may put it there. */
const KEPT_HERE: ReadonlySet<string> = new Set([...SHARED, "xi-api-key"]);
const KEY_IN_QUERY = /[?&]key=([^&]+)/;
const TOKEN_IN_QUERY = /=gh_[\w-]{43}$/;

/**
 * The token that a caller offers. The gateway's own header decides alone when it is there: a wrong one is not rescued
 * by another header.
 */
export function offeredToken(headers: Headers): string | undefined {
  const own = headers.get("gw-aig-authorization") ?? headers.get("cf-aig-authorization");
  if (own !== null) return bare(own);
  for (const name of SHARED) {
    const value = headers.get(name);
    if (value !== null && bare(value).startsWith(TOKEN_PREFIX)) return bare(value);
  }
  return undefined;
}

/**
 * Does this header hold something of ours, valid or not, under any scheme or beside another value? Then it goes no
 * further. `isToken` knows tokens that lack the prefix.
 */
export function holdsToken(name: string, headers: Headers, isToken: (value: string) => boolean): boolean {
  if (!KEPT_HERE.has(name)) return false;
  const value = headers.get(name) ?? "";
  const parts = value.split(/[\s,]+/);
  // The last word whole as well: a token that somebody chose may have a comma in it.
  return (
    isToken(value.slice(value.lastIndexOf(" ") + 1)) ||
    parts.some((part) => part.startsWith(TOKEN_PREFIX) || isToken(part))
  );
}

/** Some providers take a key in the query, so a client may put ours there. Every other pair stays as it was written. */
export function withoutToken(query: string): string {
  if (!query.includes("=gh_")) return query;
  const pairs = query.slice(1).split("&");
  const kept = pairs.filter((pair) => !TOKEN_IN_QUERY.test(pair));
  return kept.length === 0 ? "" : `?${kept.join("&")}`;
}

const KEY_CHARS_MIN = 8; // a shorter one is a placeholder, and would be found in words that mean something else

/** What a provider is given to know the caller by. It may come back in an answer, and must not come into a log. */
export function keysOf(given: Headers, query: string, stored: Readonly<Record<string, string>> = {}): string[] {
  const values = Object.values(stored);
  for (const name of KEPT_HERE) {
    const value = given.get(name);
    if (value !== null) values.push(value.slice(value.indexOf(" ") + 1)); // what follows the scheme
  }
  const inQuery = query === "" ? undefined : KEY_IN_QUERY.exec(query)?.[1];
  if (inQuery !== undefined) values.push(inQuery);
  return values.filter((value) => value.length >= KEY_CHARS_MIN);
}

function bare(value: string): string {
  return value.startsWith("Bearer ") || /^bearer /i.test(value) ? value.slice(7).trim() : value;
}
