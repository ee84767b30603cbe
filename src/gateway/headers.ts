// Which headers cross the gateway, in each direction. Pure.

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
]);
const NOT_UPSTREAM_PREFIXES = ["gw-aig-", "cf-aig-", "x-forwarded-", "cf-access-"];
/** About the provider's own origin. On ours they would set cookies, pin transports or open doors. */
const NOT_DOWNSTREAM = [
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
];

export function toUpstream(given: Record<string, string>): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name in given) {
    if (NOT_UPSTREAM.has(name) || (hasPrefix(name) && NOT_UPSTREAM_PREFIXES.some((prefix) => name.startsWith(prefix))))
      continue;
    kept[name] = given[name] ?? "";
  }
  for (const name of named(given.connection)) delete kept[name];
  // Without one our own client would offer every encoding it knows, and the caller might know none of them.
  kept["accept-encoding"] ??= "identity";
  kept["user-agent"] ??= "gatehouse";
  return kept;
}

/** One look at the first letters spares four comparisons for nearly every header. */
function hasPrefix(name: string): boolean {
  const first = name.charCodeAt(0);
  return first === 99 || first === 103 || first === 120;
}

export function toDownstream(headers: Headers): void {
  const listed = headers.get("connection");
  if (listed !== null) for (const name of named(listed)) headers.delete(name);
  for (const name of NOT_DOWNSTREAM) headers.delete(name);
}

/** Headers that the sender declared to be for the next hop alone. */
function named(connection: string | undefined): string[] {
  if (connection === undefined || connection === "keep-alive" || connection === "close") return [];
  return connection
    .toLowerCase()
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "" && name !== "keep-alive" && name !== "close");
}
