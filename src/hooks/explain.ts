// What would become of this request, stage by stage, in sentences. Never the secret, never the expected signature.
import { readPayload } from "../platform/payload.ts";
import {
  type Check,
  type Incoming,
  needsSecret,
  precheck,
  type SignatureCheck,
  type Verdict,
  verify,
} from "../platform/signature.ts";
import { allHeaders } from "./credentials.ts";
import { PRESET_NAMES, presetOf } from "./presets.ts";
import { readDeliveries, signatureChecks } from "./reading.ts";
import type { SavedRequest } from "./saved-request.ts";
import { type Source, variablesOf } from "./sources.ts";
import { parseTarget } from "./target.ts";

export type StageReport = { stage: string; ok: boolean; says: string };
export type Explanation = { source: string | null; fits: string[]; stages: StageReport[]; accepted: boolean };

type ExplainParts = {
  find: (name: string) => Source | undefined;
  secretsOf: (name: string) => string[];
  publicUrl: string | undefined;
  nowMs: number;
  /** Judged as if it had come here; the address in it may be another server's. */
  as?: string;
};

export async function explain(
  saved: SavedRequest,
  { find, secretsOf, publicUrl, nowMs, as }: ExplainParts,
): Promise<Explanation> {
  // As a server sees them: text that is not ASCII arrives byte by byte.
  const headers = new Headers(saved.headers.map(([name, value]) => [name, Buffer.from(value).toString("latin1")]));
  const [pathname = "", search = ""] = saved.path.split(/\?(.*)/s);
  const query = new URLSearchParams(search);
  const fits = fitting(headers);
  const stages: StageReport[] = [];
  const say = (stage: string, ok: boolean, says: string): boolean => {
    stages.push({ stage, ok, says });
    return ok;
  };
  const end = (source: string | null, accepted = false): Explanation => ({ source, fits, stages, accepted });

  const tail = as ?? pathname.replace(/^.*?\/webhooks\//, "").replace(/^\//, "");
  const target = parseTarget(tail, find);
  if (!target.ok) {
    say(
      "route",
      false,
      target.why === "unknown" ? "The address names no source: 404." : "The address holds a bad escape: 400.",
    );
    return end(null);
  }
  const { source } = target;
  say(
    "route",
    true,
    `Goes to source ${source.name} (${presetOf(source.preset).label})${target.entity === undefined ? ", entity from the payload" : `, entity "${target.entity}" from the path`}.`,
  );
  if (!source.methods.includes(saved.method)) {
    say("method", false, `${saved.method} is refused with 405; this source takes ${source.methods.join(", ")}.`);
    return end(source.name);
  }
  const incoming: Incoming = {
    headers,
    query,
    address: "",
    nowMs,
    body: saved.body,
    ...(target.token !== undefined && { pathToken: target.token }),
    ...(publicUrl !== undefined && { url: `${publicUrl}${saved.path}` }),
  };
  if (!judge(source, secretsOf(source.name), incoming, say)) return end(source.name);

  const payload = await readPayload(headers.get("content-type") ?? "", query, saved.body);
  if (!say("payload", payload.ok, payload.ok ? "The payload can be read." : `${payload.reason}: 400.`) || !payload.ok)
    return end(source.name);
  const reading = { headers, query, payload: payload.json };
  if (source.handshakes.some(({ matches }) => matches(reading))) {
    say("handshake", true, "This is the sender's own test; it is answered without waking an agent.");
    return end(source.name, true);
  }
  const read = readDeliveries({
    source,
    reading,
    ...(target.entity !== undefined && { entity: target.entity }),
    method: saved.method,
    path: pathname,
    address: "",
    headers: [],
    body: saved.body,
    receivedMs: nowMs,
    newId: () => "",
  });
  if (!read.ok) {
    say("entity", false, `No entity was found: 400. Looked for ${source.templates.entity.join(", ")}.`);
    return end(source.name);
  }
  for (const { identifier, type, deliveryId, className } of read.appends.slice(0, 20)) {
    const id = deliveryId === "" ? "without an id of its own, so never a duplicate" : `delivery id ${deliveryId}`;
    say("entity", true, `Event "${type}" for ${className}, entity "${identifier}", ${id}.`);
  }
  return end(source.name, true);
}

function judge(
  { name, checks: all }: Source,
  secrets: string[],
  incoming: Incoming,
  say: (stage: string, ok: boolean, says: string) => boolean,
): boolean {
  if (all === "none") return say("verify", true, "This source verifies nothing: everyone may send.");
  const ranges = all.flatMap((check) => (check.kind === "address" ? [check.ranges.join(", ")] : []));
  const checks = all.filter(({ kind }) => kind !== "address");
  if (ranges.length > 0)
    say("address", true, `It must come from ${ranges.join(" and ")}; a saved request does not say where it came from.`);
  if (checks.length === 0) return true;
  const early = precheck(checks, incoming);
  const expected = checks.map(describeCheck).join("; and ");
  if (early === "stale")
    return say("credential", false, `${staleness(checks, secrets, incoming)} Expected: ${expected}.`);
  if (early !== "ok") return say("credential", false, `${PROBLEMS[early]} Expected: ${expected}.`);
  say("credential", true, "A credential of the right form is there.");
  if (secrets.length === 0 && needsSecret(checks)) {
    return say(
      "verify",
      false,
      `Source ${name} has no secret, so everything is refused: run "gatehouse hook secret ${name}" or set ${variablesOf(name)[0]}.`,
    );
  }
  const verdict = verify(checks, secrets, incoming);
  if (verdict === "ok") return say("verify", true, "The sender is who it claims to be.");
  return say(
    "verify",
    false,
    `${verdict === "stale" ? staleness(checks, secrets, incoming) : PROBLEMS[verdict]}${almost(checks, secrets, incoming)} Expected: ${expected}.`,
  );
}

const PROBLEMS: Record<Exclude<Verdict, "ok">, string> = {
  missing: "No credential was sent, or an empty one.",
  malformed: "The credential does not have the form it must have (length, alphabet, lower case, exactly one).",
  stale: "The timestamp is too far from our clock.",
  mismatch: "The credential does not fit: another secret, or the body was changed after it was signed.",
  unconfigured:
    "Something of ours is missing: public_url is not set, or the secret is not of the kind this sender uses.",
};

/** How far off, and whether the signature was right at its time. */
function staleness(checks: readonly Check[], secrets: readonly string[], incoming: Incoming): string {
  const stamped = signatureChecks(checks).find(({ stamp }) => stamp?.from === "header" || stamp?.from === "item");
  const text =
    stamped?.stamp?.from === "header" ? incoming.headers.get(stamped.stamp.name) : itemOf(stamped, incoming.headers);
  const atMs = Number(text) * (stamped?.stamp?.format === "milliseconds" ? 1 : 1000);
  if (!Number.isFinite(atMs)) return PROBLEMS.stale;
  const seconds = Math.round((incoming.nowMs - atMs) / 1000);
  const then = secrets.length > 0 ? verify(checks, secrets, { ...incoming, nowMs: atMs }) : "mismatch";
  const right = then === "ok" ? " At that time the signature was right." : "";
  return `It was signed ${Math.abs(seconds)} s ${seconds >= 0 ? "ago" : "in the future"}, and ${(stamped?.stamp?.toleranceMs ?? 0) / 1000} s are allowed.${right}`;
}

function itemOf(check: SignatureCheck | undefined, headers: Headers): string | undefined {
  const items = (headers.get(check?.header ?? "") ?? "").split(check?.separator ?? ",");
  return items.find((item) => item.startsWith(`${check?.stamp?.name}=`))?.split("=")[1];
}

/** The mistakes that saving a request most often makes. */
function almost(checks: readonly Check[], secrets: readonly string[], incoming: Incoming): string {
  const text = Buffer.from(incoming.body).toString("utf8");
  const variants: [string, string][] = [
    ["the line break at its end is removed", text.replace(/\r?\n$/, "")],
    ["a line break is added at its end", `${text}\n`],
    ["CRLF line breaks become LF", text.replaceAll("\r\n", "\n")],
    ["LF line breaks become CRLF", text.replace(/\r?\n/g, "\r\n")],
  ];
  const found = variants.find(
    ([, body]) => body !== text && verify(checks, secrets, { ...incoming, body: Buffer.from(body) }) === "ok",
  );
  return found ? ` It does fit if ${found[0]}: the body was changed on its way.` : "";
}

const SHARED = "x-webhook-token"; // any sender that cannot sign may use it, so it tells nobody apart

/** Senders that have a header of their own, or sign in their own way. */
function fitting(headers: Headers): string[] {
  return PRESET_NAMES.filter((name) =>
    allHeaders(presetOf(name).verify).some((header) => header !== SHARED && headers.has(header)),
  );
}

export function describeCheck(check: Check): string {
  switch (check.kind) {
    case "any":
      return `one of (${check.of.map(describeCheck).join(" | ")})`;
    case "first":
      return `the first present of (${check.of.map(describeCheck).join(" | ")})`;
    case "signature": {
      const length =
        check.algorithm === "ed25519" ? "an Ed25519 signature" : `an HMAC-${check.algorithm.toUpperCase()}`;
      const list = check.separator === undefined ? "" : ` in a list separated by "${check.separator}"`;
      const stamp = check.stamp ? `, at most ${check.stamp.toleranceMs / 1000} s old` : "";
      return `header ${check.header}: "${check.prefix ?? ""}" and ${length} of "${check.signed}" in ${check.encoding}${list}${stamp}`;
    }
    case "twilio":
      return "header X-Twilio-Signature over the public address and the form's fields";
    case "header":
      return `header ${check.header} with the secret`;
    case "bearer":
      return "Authorization: Bearer and the secret";
    case "basic":
      return "Authorization: Basic with the secret as password";
    case "query":
      return `the secret as ?${check.name}=`;
    case "path":
      return "the secret as the last path segment";
    case "address":
      return `a sender's address in ${check.ranges.join(", ")}`;
  }
}
