// From a verified request to the deliveries it holds: entity, id, type and what people want to see of it. Pure.
import { createHash } from "node:crypto";
import { type Check, claimedPrefix, type SignatureCheck } from "../platform/signature.ts";
import type { Append } from "./journal-schema.ts";
import { parseIdentifier } from "./names.ts";
import type { Source } from "./sources.ts";
import type { Reading } from "./template.ts";

export type Verified = {
  source: Source;
  /** From the path; the payload is not asked then. */
  entity?: string;
  route?: string;
  reading: Reading;
  method: string;
  /** Without credentials. */
  path: string;
  address: string;
  headers: [string, string][];
  body: Uint8Array;
  receivedMs: number;
  newId: () => string;
};
export type Read = { ok: true; appends: Append[] } | { ok: false; why: "entity" | "too_many" };

const FAN_OUT_MAX = 5_000; // members of one array; a sender that groups more is told so, and nothing is stored
const ID_CHARACTERS_MAX = 256; // longer ones are known by their hash

export function readDeliveries(verified: Verified): Read {
  const { source, reading } = verified;
  const members = source.fanOut === undefined ? undefined : arrayAt(reading.payload, source.fanOut);
  if (!members || members.length === 1) return collect([readOne(verified, reading, verified, "")]);
  if (members.length > FAN_OUT_MAX) return { ok: false, why: "too_many" };
  // Each member travels alone in the sender's own form: the same payload with an array of one.
  const unsigned = withoutSignatures(verified.headers, source.checks);
  return collect(
    members.map((member, index) => {
      const payload = withArray(reading.payload, source.fanOut ?? "", [member]);
      const body = Buffer.from(JSON.stringify(payload));
      return readOne(verified, { ...reading, payload }, { headers: unsigned, body }, `#${index}`);
    }),
  );
}

function collect(appends: (Append | undefined)[]): Read {
  const whole = appends.filter((append) => append !== undefined);
  return whole.length === appends.length ? { ok: true, appends: whole } : { ok: false, why: "entity" };
}

function readOne(
  { source, entity, route, method, path, address, receivedMs, newId, ...verified }: Verified,
  reading: Reading,
  { headers, body }: { headers: [string, string][]; body: Uint8Array },
  member: string,
): Append | undefined {
  const identifier = parseIdentifier(entity ?? source.find.entity(reading) ?? "");
  if (identifier === undefined) return undefined;
  const id = newId();
  const type = source.find.type(reading) ?? "unknown";
  const known = idOf(source, reading, verified.reading.headers, verified.body);
  const action = source.find.action(reading);
  const description = source.find.description(reading);
  const url = source.find.url(reading);
  const actor = source.find.actor(reading);
  return {
    id,
    source: source.name,
    className: source.className,
    identifier,
    ...(route !== undefined && { route }),
    deliveryId: known === undefined ? id : `${known}${member}`,
    ...dedupeOf(source, known === undefined ? undefined : `${known}${member}`, body, receivedMs),
    type,
    title: source.find.title(reading) ?? `${source.name} ${type}`,
    ...(action !== undefined && { action }),
    ...(description !== undefined && { description }),
    ...(url !== undefined && { url }),
    ...(actor !== undefined && { actor }),
    method,
    path,
    address,
    headers: JSON.stringify(headers),
    body,
    receivedMs,
    status: source.paused ? "held" : "pending",
    ordered: source.ordered,
  };
}

/**
 * The sender's own id; else, where a timestamp is signed, the signed message, which then never repeats by chance. Not the
 * header that held the signature: whoever recorded a delivery can add to it what nobody checks.
 */
function idOf(source: Source, reading: Reading, headers: Headers, body: Uint8Array): string | undefined {
  const given = source.find.id(reading);
  if (given !== undefined) return given.length <= ID_CHARACTERS_MAX ? given : `sha256:${sha256(given)}`;
  if (source.checks === "none") return undefined;
  const stamped = signatureChecks(source.checks).find(({ stamp, header }) => {
    return stamp && headers.get(header) && (stamp.from !== "header" || headers.get(stamp.name));
  });
  const before = stamped && claimedPrefix(stamped, headers);
  return before === undefined ? undefined : `signature:${sha256(Buffer.concat([Buffer.from(before), body]))}`;
}

function dedupeOf(
  source: Source,
  id: string | undefined,
  body: Uint8Array,
  receivedMs: number,
): Pick<Append, "dedupe"> {
  if (id !== undefined) return { dedupe: { key: id, sinceMs: receivedMs } };
  return source.dedupeBodyMs > 0 ? { dedupe: { key: `body:${sha256(body)}`, sinceMs: source.dedupeBodyMs } } : {};
}

export function signatureChecks(checks: readonly Check[]): SignatureCheck[] {
  return checks.flatMap((check) => {
    if (check.kind === "signature") return [check];
    return "of" in check ? signatureChecks(check.of) : [];
  });
}

/** A signature over the whole body says nothing about a part of it. */
function withoutSignatures(headers: [string, string][], checks: Source["checks"]): [string, string][] {
  const names = new Set(checks === "none" ? [] : signatureChecks(checks).map(({ header }) => header.toLowerCase()));
  const rest = headers.filter(([name]) => !names.has(name) && name !== "content-type");
  return [...rest, ["content-type", "application/json"]];
}

function arrayAt(payload: unknown, path: string): unknown[] | undefined {
  const found = path === "" ? payload : isRecord(payload) ? payload[path] : undefined;
  return Array.isArray(found) ? found : undefined;
}

function withArray(payload: unknown, path: string, members: unknown[]): unknown {
  return path === "" ? members : { ...(isRecord(payload) ? payload : {}), [path]: members };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function sha256(data: string | Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}
