// The gateway's own credential: where a caller may put it, and that it goes no further.

export const TOKEN_PREFIX = "gh_";
/** Provider credentials travel here; ours may too, and is told apart by its prefix. */
const SHARED = ["authorization", "x-api-key", "api-key", "x-goog-api-key"] as const;

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

/** Removes from `headers` whatever is ours, valid or not. `isOurs` knows tokens that lack the prefix. */
export function stripTokens(headers: Headers, isOurs: (value: string) => boolean): void {
  for (const name of SHARED) {
    const value = headers.get(name);
    if (value === null) continue;
    const token = bare(value);
    if (token.startsWith(TOKEN_PREFIX) || isOurs(token)) headers.delete(name);
  }
}

function bare(value: string): string {
  return value.startsWith("Bearer ") || /^bearer /i.test(value) ? value.slice(7).trim() : value;
}
