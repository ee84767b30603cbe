// Which headers cross the gateway, in each direction. Pure.
import { holdsToken } from "./credential.ts";

/** Belong to one connection (RFC 9110, 7.6.1), or are made anew by whoever sends. */
const HOP_BY_HOP = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];
/** Ours, the browser's, or somebody's on the way: a provider has no business with them. */
const NOT_UPSTREAM = new Set([
  ...HOP_BY_HOP,
  "host",
  "cookie",
  "origin",
  "expect",
  "forwarded",
  "via",
  "x-real-ip",
  "x-client-ip",
  "x-cluster-client-ip",
  "x-original-forwarded-for",
  "true-client-ip",
  "fastly-client-ip",
  "cdn-loop",
  "cf-connecting-ip",
  "cf-connecting-ipv6",
  "cf-ipcountry",
  "cf-ray",
  "cf-visitor",
  "cf-worker",
  // Who the caller is, as a proxy in front of us found out.
  "remote-user",
  "remote-name",
  "remote-email",
  "remote-groups",
  "tailscale-user-login",
  "tailscale-user-name",
  "tailscale-user-profile-pic",
  "x-auth-request-user",
  "x-auth-request-email",
  "x-auth-request-access-token",
  "x-goog-iap-jwt-assertion",
  "x-amzn-oidc-data",
  "x-amzn-oidc-accesstoken",
]);
/** About the provider's own origin. On ours they would set cookies, pin transports or open doors. */
const NOT_DOWNSTREAM = new Set([
  ...HOP_BY_HOP,
  "set-cookie",
  "alt-svc",
  "strict-transport-security",
  "public-key-pins",
  "clear-site-data",
  "content-security-policy",
  "content-security-policy-report-only",
  "x-content-type-options",
  "service-worker-allowed",
  "report-to",
  "reporting-endpoints",
  "nel",
  "expect-ct",
  "refresh",
  "access-control-allow-origin",
  "access-control-allow-credentials",
  "access-control-allow-headers",
  "access-control-allow-methods",
  "access-control-expose-headers",
  "access-control-max-age",
  "access-control-allow-private-network",
]);

export type Upward = {
  headers: Headers;
  /** The caller asks something of us in a header of its own: `gw-aig-…` or `cf-aig-…`. */
  asks: boolean;
};

/** A native copy and a look at the names: cheaper than any way of building the set anew. */
export function toUpstream(given: Headers, isToken: (value: string) => boolean): Upward {
  const headers = new Headers(given);
  let asks = false;
  for (const name of given.keys()) {
    if (NOT_UPSTREAM.has(name) || holdsToken(name, given, isToken)) headers.delete(name);
    else if (isOurs(name)) {
      headers.delete(name);
      asks ||= !name.endsWith("-authorization");
    } else if (name.startsWith("x-forwarded-")) headers.delete(name);
  }
  const connection = given.get("connection");
  if (connection !== null) for (const name of named(connection)) headers.delete(name);
  // Without one our own client would offer every encoding it knows, and the caller might know none of them.
  if (!headers.has("accept-encoding")) headers.set("accept-encoding", "identity");
  if (!headers.has("user-agent")) headers.set("user-agent", "gatehouse");
  return { headers, asks };
}

/** `cf-access-…` carries the credential of a proxy in front of us. */
function isOurs(name: string): boolean {
  return name.startsWith("gw-aig-") || name.startsWith("cf-aig-") || name.startsWith("cf-access-");
}

export function toDownstream(headers: Headers): void {
  const listed = headers.get("connection");
  const gone = listed === null ? [] : named(listed);
  for (const name of headers.keys()) if (NOT_DOWNSTREAM.has(name)) gone.push(name);
  for (const name of gone) headers.delete(name);
}

/** Headers that the sender declared to be for the next hop alone. */
function named(connection: string): string[] {
  if (connection === "keep-alive" || connection === "close") return [];
  return connection
    .toLowerCase()
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "" && name !== "keep-alive" && name !== "close");
}
