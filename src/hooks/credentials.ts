// Which parts of a request are credentials, and the request without them. Pure.
import { redactText } from "../platform/log.ts";
import type { Check } from "../platform/signature.ts";

const HEADERS_MAX = 60; // of a refused request that are written down
const VALUE_CHARACTERS_MAX = 200;
const PATH_CHARACTERS_MAX = 500;

/** Never handed to an agent, whatever the source checks. `content-length` is the connection's, and the body may differ. */
const NEVER = new Set([
  "authorization",
  "proxy-authorization",
  "cookie",
  "connection",
  "keep-alive",
  "transfer-encoding",
  "content-length",
  "upgrade",
  "te",
  "trailer",
  "gw-aig-authorization",
  "cf-aig-authorization",
]);

/** Signatures stay: an agent's own code may check them once more, and they fit no other body. */
export function withoutCredentials(headers: Headers, checks: readonly Check[] | "none"): [string, string][] {
  const tokens = new Set(
    checks === "none"
      ? []
      : plainChecks(checks).flatMap((check) => ("header" in check ? [check.header.toLowerCase()] : [])),
  );
  return [...headers].filter(([name]) => !NEVER.has(name) && !tokens.has(name));
}

/** The path and query without the token that was in them. */
export function pathWithoutCredentials(
  pathname: string,
  query: URLSearchParams,
  checks: readonly Check[] | "none",
  hasPathToken: boolean,
): string {
  const kept = new URLSearchParams(query);
  kept.delete("token");
  if (checks !== "none") for (const check of plainChecks(checks)) if (check.kind === "query") kept.delete(check.name);
  const path = hasPathToken ? pathname.replace(/\/$/, "").replace(/\/[^/]*$/, "") : pathname;
  return kept.size === 0 ? path : `${path}?${kept}`;
}

/** What may be written down of a refused request. By name, because a secret can be in any header a sender got wrong. */
const SHOWN =
  /^(host|user-agent|content-type|content-length|content-encoding|accept|date|x-forwarded-(for|proto|host)|via)$|-(event|event-key|event-type|delivery|topic|timestamp|resource|retry-num|retry-reason)$/;

/** For the log of what was refused: every name, few values. */
export function forRejectionLog(headers: Headers, checks: readonly Check[] | "none"): [string, string][] {
  const ours = new Set(checks === "none" ? [] : allHeaders(checks));
  return [...headers]
    .slice(0, HEADERS_MAX)
    .map(([name, value]) => [
      name,
      SHOWN.test(name) && !ours.has(name)
        ? redactText(value).slice(0, VALUE_CHARACTERS_MAX)
        : `[${value.length} characters]`,
    ]);
}

export function forRejectionPath(path: string): string {
  return redactText(path).slice(0, PATH_CHARACTERS_MAX);
}

function plainChecks(checks: readonly Check[]): Check[] {
  return checks.flatMap((check) => ("of" in check ? plainChecks(check.of) : check.kind === "signature" ? [] : [check]));
}

/** In lower case. */
export function allHeaders(checks: readonly Check[]): string[] {
  return checks.flatMap((check) => {
    if ("of" in check) return allHeaders(check.of);
    if (check.kind === "twilio") return ["x-twilio-signature"];
    return "header" in check ? [check.header.toLowerCase()] : [];
  });
}
