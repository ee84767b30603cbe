// May this upstream address be contacted? Ourselves and the link-local range never, the private network with leave.
import { lookup } from "node:dns/promises";
import { networkInterfaces } from "node:os";
import { inRange, isAddress, plainAddress } from "../platform/address.ts";

export type Reach = "public" | "private" | "refused";

/** Where cloud machines ask who they are, and what is not one host. No operator's provider lives there. */
const REFUSED = [
  "169.254.0.0/16",
  "fe80::/10",
  "fd00:ec2::254/128",
  "100.100.100.200/32",
  "168.63.129.16/32",
  "192.0.0.0/24",
  "224.0.0.0/4",
  "255.255.255.255/32",
  "ff00::/8",
];
const PRIVATE = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "::/128",
  "::1/128",
  "fc00::/7",
  "64:ff9b::/96", // translates to any IPv4 address, private ones included
];
const LOOPBACK = ["127.0.0.0/8", "0.0.0.0/8", "::1/128", "::/128"];
const REFUSED_NAMES = /^(?:metadata\.google\.internal|instance-data(?:\..*)?)\.?$/i;

export function reachOf(address: string): Reach {
  const plain = mapped(address);
  if (REFUSED.some((range) => inRange(plain, range))) return "refused";
  return PRIVATE.some((range) => inRange(plain, range)) ? "private" : "public";
}

/** A URL writes `::ffff:127.0.0.1` as `::ffff:7f00:1`; it is the same machine. */
function mapped(address: string): string {
  const plain = plainAddress(address);
  const [, high, low] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/i.exec(plain) ?? [];
  if (high === undefined || low === undefined) return plain;
  const [a, b] = [Number.parseInt(high, 16), Number.parseInt(low, 16)];
  return [a >> 8, a & 255, b >> 8, b & 255].join(".");
}

export type Listener = { host: string; port: number; publicUrl: string | undefined };

type AddressParts = {
  /** Asked each time: the port is known only once the server listens. */
  listener: () => Listener;
  now: () => number;
  resolve?: (host: string) => Promise<string[]>;
};

export type AddressProblem = "refused" | "private" | "self";
export type AddressRule = ReturnType<typeof createAddressRule>;

const VERDICT_MS = 30_000; // how long a name's address is believed; a name that moves is caught within this
const VERDICTS_MAX = 1_000;

export function createAddressRule({ listener, now, resolve = resolveAll }: AddressParts) {
  const verdicts = new Map<string, { untilMs: number; problem: AddressProblem | undefined }>();

  /** Undefined when nothing speaks against it, or when the name does not resolve: then the request will say so itself. */
  async function problemOf(base: string): Promise<AddressProblem | undefined> {
    const url = new URL(base);
    const host = url.hostname.replace(/^\[|\]$/g, "");
    if (REFUSED_NAMES.test(host)) return "refused";
    const addresses = isAddress(host) ? [host] : await resolve(host).catch(() => []);
    const port = Number(url.port || (url.protocol === "https:" ? 443 : 80));
    if (addresses.some((address) => reachOf(address) === "refused")) return "refused";
    if (isPublicUrl(url) || addresses.some((address) => isOurs(mapped(address), port))) return "self";
    return addresses.some((address) => reachOf(address) === "private") ? "private" : undefined;
  }

  function isPublicUrl(url: URL): boolean {
    const { publicUrl } = listener();
    return publicUrl !== undefined && new URL(publicUrl).host === url.host;
  }

  function isOurs(address: string, port: number): boolean {
    const { host, port: ours } = listener();
    if (port !== ours) return false;
    if (host === "0.0.0.0" || host === "::" || !isAddress(host)) return isThisMachine(address);
    const loops = (one: string): boolean => LOOPBACK.some((range) => inRange(one, range));
    return address === plainAddress(host) || (loops(address) && loops(host));
  }

  /** For every request: the last verdict while it is fresh, so that only the first one waits for a name. */
  function check(base: string): AddressProblem | undefined | Promise<AddressProblem | undefined> {
    const known = verdicts.get(base);
    if (known && now() < known.untilMs) return known.problem;
    return problemOf(base).then((problem) => {
      if (verdicts.size >= VERDICTS_MAX) verdicts.clear();
      verdicts.set(base, { untilMs: now() + VERDICT_MS, problem });
      return problem;
    });
  }

  return { check, problemOf };
}

function isThisMachine(address: string): boolean {
  if (LOOPBACK.some((range) => inRange(address, range))) return true;
  const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return own.some((one) => plainAddress(one.address) === address);
}

async function resolveAll(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}
