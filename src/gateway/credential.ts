// The gateway's own credential: where a caller may put it, and that it goes no further.

export const TOKEN_PREFIX = "gh_";
/** Provider credentials travel here; ours may too, and is told apart by its prefix. */
const SHARED = ["authorization", "x-api-key", "api-key", "x-goog-api-key"] as const;
const SHARED_NAMES: ReadonlySet<string> = new Set(SHARED);

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
 * Does this header hold something of ours, valid or not? Then it goes no further. `isToken` knows tokens that lack the
 * prefix.
 */
export function holdsToken(name: string, headers: Headers, isToken: (value: string) => boolean): boolean {
  if (!SHARED_NAMES.has(name)) return false;
  const token = bare(headers.get(name) ?? "");
  return token.startsWith(TOKEN_PREFIX) || isToken(token);
}

function bare(value: string): string {
  return value.startsWith("Bearer ") || /^bearer /i.test(value) ? value.slice(7).trim() : value;
}
