// Did someone who holds the secret send these bytes? One row of data per way of proving it; `verify` reads the rows.
// Pure, and free of Elysia: intake and an agent's own code use it. The caller brings the clock and the raw body, so
// nothing here can re-serialise JSON or drift in a test. No node:crypto at load: it costs an agent's thread 8 ms to wake.
import { inRange } from "./address.ts";
import { proveTwilio } from "./twilio-signature.ts";

/** `malformed`: a credential is there but cannot be one. `unconfigured`: the check lacks something of ours. */
export type Verdict = "ok" | "missing" | "malformed" | "stale" | "mismatch" | "unconfigured";

export type Incoming = {
  headers: Headers;
  query: URLSearchParams;
  /** What followed the entity in the path, where the sender can only keep a secret in its address. */
  pathToken?: string;
  /** The address as the sender wrote it; from `public_url`, never from a header. */
  url?: string;
  /** The caller's address, trusted proxies applied. */
  address: string;
  nowMs: number;
  body: Uint8Array;
};

export type Stamp = {
  /** `item` is a member of the signature header's own list, `body` a dotted path in the signed JSON. */
  from: "header" | "item" | "body";
  name: string;
  format: "seconds" | "milliseconds" | "rfc3339";
  toleranceMs: number;
};

export type SignatureCheck = {
  kind: "signature";
  header: string;
  /** For ed25519 the "secret" is the sender's public key. */
  algorithm: "sha1" | "sha256" | "sha512" | "ed25519";
  encoding: "hex" | "base64";
  /** How the secret's text becomes key bytes. `whsec` and `whpk` are Standard Webhooks' prefixes over base64. */
  key: "text" | "hex" | "base64" | "whsec" | "whpk";
  /** Stands before each signature; in a list, members without it are something else. */
  prefix?: string;
  /** Given when the header holds a list. */
  separator?: "," | ";" | " ";
  stamp?: Stamp;
  /** What is signed: text with `{timestamp}`, `{header:NAME}` and, last or alone, `{body}`. */
  signed: string;
  /** `payload-field`: a form delivery is signed over the JSON inside its `payload` field, not over the form. */
  form?: "payload-field";
};

export type Check =
  | SignatureCheck
  | { kind: "twilio" }
  | { kind: "header"; header: string; prefix?: string }
  | { kind: "bearer" }
  | { kind: "basic" }
  | { kind: "query"; name: string }
  | { kind: "path" }
  | { kind: "address"; ranges: readonly string[] }
  | { kind: "any"; of: readonly Check[] }
  /** The first whose credential is there decides; a wrong one is not rescued by the next. */
  | { kind: "first"; of: readonly Check[] };

export const SIGNATURES_MAX = 4; // a sender lists two while it rotates a secret; more is someone guessing
const HEADER_CHARACTERS_MAX = 4_096; // the longest real one (four base64 Ed25519 signatures) has about 400

/** Checks are joined by "and"; within one check any of the secrets will do, so that a secret can be rotated. */
export function verify(checks: readonly Check[], secrets: readonly string[], incoming: Incoming): Verdict {
  if (checks.length === 0) throw new Error("no checks would let everyone in");
  if (secrets.includes("")) throw new Error("an empty secret signs everything");
  return firstFailure(checks.map((check) => prove(check, secrets, incoming)));
}

/** What can be said before the body is read: "ok" means that reading it may be worth the while. */
export function precheck(checks: readonly Check[], incoming: Omit<Incoming, "body">): Verdict {
  return firstFailure(checks.map((check) => preview(check, incoming)));
}

/** Does any of these checks need a secret to be set? */
export function needsSecret(checks: readonly Check[]): boolean {
  return checks.some((check) => ("of" in check ? needsSecret(check.of) : check.kind !== "address"));
}

/** The signature a holder of `secret` would send for this body, without its prefix. */
export function macOf(check: SignatureCheck, secret: string, prefix: string, body: Uint8Array): string {
  const key = keyBytes(check, secret);
  if (!key || check.algorithm === "ed25519") throw new Error("this secret cannot sign");
  return new Bun.CryptoHasher(check.algorithm, key).update(prefix).update(body).digest(check.encoding);
}

const SECRET_CHARACTERS_MIN = 8;

/** Several secrets in one variable, separated by spaces. A phrase of short words is one secret, not many weak ones. */
export function toSecrets(text: string): string[] {
  const parts = text.trim().split(/\s+/);
  if (text.trim() === "") return [];
  return parts.every((part) => part.length >= SECRET_CHARACTERS_MIN) ? parts : [text.trim()];
}

/** Outgoing and generic form: `sha256=` and the lower-case hex HMAC-SHA256 of the exact bytes. */
export function signBody(secret: string, body: Uint8Array | string): string {
  return `sha256=${new Bun.CryptoHasher("sha256", secret).update(body).digest("hex")}`;
}

/** The text before `{body}` with its places filled; undefined when a header it needs is missing or ambiguous. */
export function signedPrefix(check: SignatureCheck, headers: Headers, timestamp: string): string | undefined {
  let whole = true;
  const text = check.signed.slice(0, check.signed.indexOf("{body}"));
  const filled = text.replace(/\{(timestamp|header:([^}]+))\}(.?)/g, (_, place: string, name = "", next = "") => {
    const value = place === "timestamp" ? timestamp : (headers.get(name) ?? "");
    // A value that holds the character behind it could be cut elsewhere and mean another message.
    // (A timestamp is held to its format and to the clock instead.)
    if (value === "" || (place !== "timestamp" && next !== "" && value.includes(next))) whole = false;
    return `${value}${next}`;
  });
  return whole ? filled : undefined;
}

/** What stands before the body in the message that this request says was signed. */
export function claimedPrefix(check: SignatureCheck, headers: Headers): string | undefined {
  const items = (headers.get(check.header) ?? "").split(check.separator ?? "\n"); // no header holds a line break
  return signedPrefix(check, headers, check.stamp ? stampText(check.stamp, headers, items) : "");
}

/** Equal in constant time, whatever the lengths: both sides are hashed first. */
export function sameText(given: string, expected: string): boolean {
  const digest = (text: string) => new Bun.CryptoHasher("sha256").update(text).digest();
  return crypto.timingSafeEqual(digest(given), digest(expected));
}

type Claim = { macs: Buffer[]; prefix: string };

function prove(check: Check, secrets: readonly string[], incoming: Incoming): Verdict {
  if (check.kind === "any") return best(check.of.map((one) => prove(one, secrets, incoming)));
  if (check.kind === "first") return firstThere(check.of.map((one) => prove(one, secrets, incoming)));
  if (check.kind === "address") return preview(check, incoming);
  if (check.kind === "signature") return proveSignature(check, secrets, incoming);
  if (check.kind === "twilio") return proveTwilio(secrets, incoming);
  const given = plainCredential(check, incoming);
  if (given === undefined) return "missing";
  const same = secrets.map((secret) => sameText(given, check.kind === "basic" ? basicForm(given, secret) : secret));
  return same.includes(true) ? "ok" : "mismatch";
}

function preview(check: Check, incoming: Omit<Incoming, "body">): Verdict {
  switch (check.kind) {
    case "any":
      return best(check.of.map((one) => preview(one, incoming)));
    case "first":
      return firstThere(check.of.map((one) => preview(one, incoming)));
    case "address":
      return check.ranges.some((range) => inRange(incoming.address, range)) ? "ok" : "mismatch";
    case "signature": {
      const claim = readClaim(check, incoming);
      return typeof claim === "string" ? claim : "ok";
    }
    case "twilio":
      if (incoming.url === undefined) return "unconfigured";
      return /^[A-Za-z0-9+/]{27}=$/.test(incoming.headers.get("x-twilio-signature") ?? "") ? "ok" : "missing";
    default:
      return plainCredential(check, incoming) === undefined ? "missing" : "ok";
  }
}

function proveSignature(check: SignatureCheck, secrets: readonly string[], incoming: Incoming): Verdict {
  const claim = readClaim(check, incoming);
  if (typeof claim === "string") return claim;
  const body = signedBody(check, incoming);
  if (!body) return "malformed";
  const keys = secrets.flatMap((secret) => keyBytes(check, secret) ?? []);
  if (keys.length === 0) return secrets.length === 0 ? "mismatch" : "unconfigured";
  const message = Buffer.concat([Buffer.from(claim.prefix), body]);
  if (!keys.some((key) => claim.macs.some((mac) => isSignedBy(check, key, message, mac)))) return "mismatch";
  if (check.stamp?.from !== "body") return "ok";
  return isFresh(check.stamp, textAt(body, check.stamp.name), incoming.nowMs) ? "ok" : "stale";
}

function isSignedBy(check: SignatureCheck, key: Buffer, message: Buffer, mac: Buffer): boolean {
  if (check.algorithm === "ed25519") return mac.length === 64 && isSignedByOwner(key, message, mac);
  const expected = new Bun.CryptoHasher(check.algorithm, key).update(message).digest();
  return mac.length === expected.length && crypto.timingSafeEqual(mac, expected);
}

function readClaim(check: SignatureCheck, { headers, nowMs }: Omit<Incoming, "body">): Claim | Verdict {
  const text = headers.get(check.header) ?? "";
  const { prefix = "", separator, stamp } = check;
  if (text === "" || text === prefix) return "missing"; // Gitea without a secret sends the bare prefix
  if (text.length > HEADER_CHARACTERS_MAX) return "malformed";
  const items = separator === undefined ? [text] : text.split(separator);
  const macs = items
    .filter((item) => item.startsWith(prefix))
    .map((item) => item.slice(prefix.length))
    .filter((item) => SHAPES[check.algorithm][check.encoding].test(item))
    .slice(0, SIGNATURES_MAX)
    .map((item) => Buffer.from(item, check.encoding));
  if (macs.length === 0) return "malformed";
  const at = stamp ? stampText(stamp, headers, items) : "";
  if (stamp && stamp.from !== "body" && !isFresh(stamp, at, nowMs)) return at === "" ? "malformed" : "stale";
  const before = signedPrefix(check, headers, at);
  return before === undefined ? "malformed" : { macs, prefix: before };
}

/** Exact: anchored, the right length, the right alphabet, lower-case hex. */
const SHAPES = {
  sha1: { hex: /^[0-9a-f]{40}$/, base64: /^[A-Za-z0-9+/]{27}=$/ },
  sha256: { hex: /^[0-9a-f]{64}$/, base64: /^[A-Za-z0-9+/]{43}=$/ },
  sha512: { hex: /^[0-9a-f]{128}$/, base64: /^[A-Za-z0-9+/]{86}==$/ },
  ed25519: { hex: /^[0-9a-f]{128}$/, base64: /^[A-Za-z0-9+/]{86}==$/ },
} as const;

function stampText(stamp: Stamp, headers: Headers, items: readonly string[]): string {
  if (stamp.from === "body") return "";
  if (stamp.from === "header") return headers.get(stamp.name) ?? "";
  const found = items.filter((item) => item.startsWith(`${stamp.name}=`));
  return found.length === 1 ? (found[0] ?? "").slice(stamp.name.length + 1) : ""; // two would leave the choice to the caller
}

/**
 * Phrased as "within", so that NaN from a garbled timestamp is not fresh. Against a stamp of whole seconds our own clock
 * counts whole seconds too, as the senders' libraries do: one that is just as old as allowed is not a fraction too old.
 */
function isFresh({ format, toleranceMs }: Stamp, text: string, nowMs: number): boolean {
  const digits = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (format === "seconds") return Math.abs(Math.floor(nowMs / 1000) - digits) * 1000 <= toleranceMs;
  return Math.abs(nowMs - (format === "milliseconds" ? digits : Date.parse(text))) <= toleranceMs;
}

function signedBody(check: SignatureCheck, { headers, body, query }: Incoming): Uint8Array | undefined {
  if (check.form !== "payload-field") return body;
  if (body.length === 0) return Buffer.from(query.get("payload") ?? "");
  if (!/^application\/x-www-form-urlencoded\b/i.test(headers.get("content-type") ?? "")) return body;
  const payload = new URLSearchParams(Buffer.from(body).toString("utf8")).get("payload");
  return payload === null ? undefined : Buffer.from(payload);
}

/** undefined: this secret is of another kind than the check needs. */
function keyBytes({ key: form, algorithm }: SignatureCheck, secret: string): Buffer | undefined {
  const bytes = decodeKey(form, secret);
  return algorithm === "ed25519" && bytes?.length !== 32 ? undefined : bytes;
}

function decodeKey(form: SignatureCheck["key"], secret: string): Buffer | undefined {
  if (form === "text") return Buffer.from(secret, "utf8");
  if (form === "hex") return /^([0-9a-f]{2})+$/i.test(secret) ? Buffer.from(secret, "hex") : undefined;
  const prefix = form === "base64" ? "" : `${form}_`;
  const text = secret.startsWith(prefix) ? secret.slice(prefix.length) : form === "whpk" ? "" : secret;
  return /^[A-Za-z0-9+/]+={0,2}$/.test(text) ? Buffer.from(text, "base64") : undefined;
}

const ED25519_SPKI = Buffer.from("302a300506032b6570032100", "hex"); // RFC 8410: what stands before the 32 key bytes

function isSignedByOwner(publicKey: Buffer, message: Buffer, mac: Buffer): boolean {
  const { createPublicKey, verify: verifyWithKey } = process.getBuiltinModule("node:crypto");
  const der = Buffer.concat([ED25519_SPKI, publicKey]);
  return verifyWithKey(null, message, createPublicKey({ key: der, format: "der", type: "spki" }), mac);
}

type PlainCheck = Extract<Check, { kind: "header" | "bearer" | "basic" | "query" | "path" }>;

/** An empty value is a missing one. */
function plainCredential(check: PlainCheck, incoming: Omit<Incoming, "body">): string | undefined {
  const authorization = incoming.headers.get("authorization") ?? "";
  switch (check.kind) {
    case "header": {
      const { header, prefix = "" } = check;
      const text = incoming.headers.get(header) ?? "";
      return (text.startsWith(prefix) && text.slice(prefix.length)) || undefined;
    }
    case "bearer":
      return /^bearer +(\S+)$/i.exec(authorization)?.[1];
    case "basic": {
      const encoded = /^basic +([A-Za-z0-9+/]+={0,2})$/i.exec(authorization)?.[1];
      return encoded && Buffer.from(encoded, "base64").toString("utf8");
    }
    case "query":
      return incoming.query.get(check.name) || undefined;
    case "path":
      return incoming.pathToken || undefined;
  }
}

/** A secret without a colon is the password alone: some senders insist on a user name, and any will do. */
function basicForm(given: string, secret: string): string {
  return secret.includes(":") ? secret : `${given.slice(0, given.indexOf(":"))}:${secret}`;
}

function textAt(body: Uint8Array, path: string): string {
  try {
    const found = path
      .split(".")
      .reduce<unknown>(
        (value, key) => (typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined),
        JSON.parse(Buffer.from(body).toString("utf8")),
      );
    return typeof found === "string" || typeof found === "number" ? String(found) : "";
  } catch {
    return ""; // signed, but not JSON: it has no timestamp, which the caller treats as stale
  }
}

const BEST_FIRST: readonly Verdict[] = ["ok", "mismatch", "stale", "malformed", "unconfigured", "missing"];

function best(verdicts: readonly Verdict[]): Verdict {
  return BEST_FIRST.find((verdict) => verdicts.includes(verdict)) ?? "missing";
}

function firstThere(verdicts: readonly Verdict[]): Verdict {
  return verdicts.find((verdict) => verdict !== "missing") ?? "missing";
}

function firstFailure(verdicts: readonly Verdict[]): Verdict {
  return verdicts.find((verdict) => verdict !== "ok") ?? "ok";
}
