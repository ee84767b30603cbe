// IP addresses as numbers: is this one in that range, and where does a request really come from?
// Without node:net, which would cost every agent's thread 8 ms to wake.

type Parsed = { bits: bigint; width: 32 | 128 };

export function isAddressRange(text: string): boolean {
  return parseRange(text) !== undefined;
}

export function inRange(address: string, range: string): boolean {
  const it = parseAddress(address);
  const within = parseRange(range);
  if (!it || !within || it.width !== within.width) return false;
  const shift = BigInt(it.width - within.prefix);
  return it.bits >> shift === within.bits >> shift;
}

export function isAddress(text: string): boolean {
  return parseAddress(text) !== undefined;
}

/** `::ffff:10.0.0.1` is 10.0.0.1: a dual-stack listener reports IPv4 callers that way. */
export function plainAddress(text: string): string {
  const bare = text.replace(/^\[|\]$/g, "").replace(/%.*$/, "");
  return /^::ffff:\d+\.\d+\.\d+\.\d+$/i.test(bare) ? bare.slice(7) : bare;
}

/**
 * The caller's address. A header is believed only as far as trusted proxies vouch for it: read from the right,
 * the first address that is not one of them is the caller.
 */
export function clientAddress(peer: string, forwardedFor: string | null, trusted: readonly string[]): string {
  let caller = plainAddress(peer);
  if (trusted.length === 0 || !forwardedFor) return caller;
  const hops = forwardedFor.split(",").map((hop) => plainAddress(hop.trim()));
  while (trusted.some((range) => inRange(caller, range))) {
    const hop = hops.pop();
    if (hop === undefined || !isAddress(hop)) break;
    caller = hop;
  }
  return caller;
}

/** One household, one bucket: an IPv6 customer owns a /64 and could use a fresh address for every guess. */
export function addressBucket(address: string): string {
  const it = parseAddress(address);
  return it?.width === 128 ? `${(it.bits >> 64n).toString(16)}/64` : address;
}

function parseRange(text: string): (Parsed & { prefix: number }) | undefined {
  const [address = "", prefixText, ...rest] = text.split("/");
  const it = parseAddress(address);
  if (!it || rest.length > 0 || (prefixText !== undefined && !/^\d{1,3}$/.test(prefixText))) return undefined;
  const given = prefixText === undefined ? it.width : Number(prefixText);
  const prefix = it.width === 32 && given > 32 && address.includes(":") ? given - 96 : given; // of the longer spelling
  return prefix < 0 || prefix > it.width ? undefined : { ...it, prefix };
}

function parseAddress(text: string): Parsed | undefined {
  const plain = plainAddress(text);
  if (isIPv4(plain)) return { bits: plain.split(".").reduce((sum, part) => (sum << 8n) | BigInt(part), 0n), width: 32 };
  if (!isIPv6(plain)) return undefined;
  const dotted = plain.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, a, b, c, d) => {
    return `${((Number(a) << 8) | Number(b)).toString(16)}:${((Number(c) << 8) | Number(d)).toString(16)}`;
  });
  const [head = "", tail] = dotted.split("::");
  const left = head === "" ? [] : head.split(":");
  const right = tail ? tail.split(":") : [];
  const zeros = tail === undefined ? [] : Array.from({ length: 8 - left.length - right.length }, () => "0");
  const groups = [...left, ...zeros, ...right];
  const bits = groups.reduce((sum, group) => (sum << 16n) | BigInt(`0x${group || "0"}`), 0n);
  // `::ffff:a00:1` is 10.0.0.1 in another spelling, and connecting to it reaches the same machine.
  return bits >> 32n === 0xffffn ? { bits: bits & 0xffffffffn, width: 32 } : { bits, width: 128 };
}

const OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const IPV4 = new RegExp(`^${OCTET}(\\.${OCTET}){3}$`);

function isIPv4(text: string): boolean {
  return IPV4.test(text);
}

function isIPv6(text: string): boolean {
  return /^[0-9a-f:.]+$/i.test(text) && text.includes(":") && URL.canParse(`http://[${text}]`);
}
