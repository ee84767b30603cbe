// What a delivery's body says, whatever it was sent as: JSON, a form, multipart, JSON under another name, plain text.

export type Payload =
  /** `json`: the value the sender meant. A body that is no JSON and does not claim to be is its text. */
  { ok: true; json: unknown } | { ok: false; reason: string };

const DEPTH_MAX = 256; // the deepest real payload is about 20; past this, recursive readers run out of stack
const FIELDS_MAX = 1_000; // of a form; the largest real one (Twilio) has about 40
const TOO_DEEP = "The JSON is nested too deeply";
const JSON_FIELDS = ["payload", "data"]; // where senders of forms put JSON: GitHub, Slack, Plex; Uptime Kuma

export async function readPayload(contentType: string, query: URLSearchParams, body: Uint8Array): Promise<Payload> {
  const type = (contentType.split(";")[0] ?? "").trim().toLowerCase();
  if (body.length === 0) return query.size > 0 ? readFields(query.entries()) : refused("The body is empty");
  if (type === "multipart/form-data") return readMultipart(contentType, body);
  const text = toText(body);
  if (text === undefined) return refused("The body is not valid UTF-8");
  if (type === "application/x-www-form-urlencoded") return readForm(text);
  if (type === "application/json" || type.endsWith("+json")) return readJson(text, "required");
  return readJson(text, "tried");
}

function readForm(text: string): Payload {
  // curl -d and careless scripts send JSON under the form type.
  if (/^\s*[[{]/.test(text)) {
    const json = readJson(text, "required");
    if (json.ok || json.reason === TOO_DEEP) return json;
  }
  return readFields(new URLSearchParams(text).entries());
}

async function readMultipart(contentType: string, body: Uint8Array): Promise<Payload> {
  try {
    const form = await new Response(new Uint8Array(body), { headers: { "content-type": contentType } }).formData();
    const fields: [string, string][] = [];
    for (const [name, value] of form.entries()) fields.push([name, typeof value === "string" ? value : "[file]"]);
    return readFields(fields.values());
  } catch {
    return refused("The body is not valid multipart form data");
  }
}

function readFields(entries: Iterator<[string, string]>): Payload {
  const fields: Record<string, string | string[]> = {};
  let count = 0;
  for (const [name, value] of { [Symbol.iterator]: () => entries }) {
    if (++count > FIELDS_MAX) return refused("The form has too many fields");
    const before = Object.hasOwn(fields, name) ? fields[name] : undefined;
    const next = before === undefined ? value : [before, value].flat();
    Object.defineProperty(fields, name, { value: next, enumerable: true, configurable: true, writable: true });
  }
  for (const name of JSON_FIELDS) {
    const value = fields[name];
    if (typeof value === "string" && /^\s*[[{]/.test(value)) return readJson(value, "required");
  }
  return { ok: true, json: fields };
}

function readJson(text: string, json: "required" | "tried"): Payload {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return json === "tried" ? { ok: true, json: text } : refused("The body is not valid JSON");
  }
  return isTooDeep(value) ? refused(TOO_DEEP) : { ok: true, json: value };
}

/** Level by level rather than by recursion, which is the very thing a deep value breaks. */
function isTooDeep(value: unknown): boolean {
  let level: object[] = typeof value === "object" && value !== null ? [value] : [];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth >= DEPTH_MAX) return true;
    const next: object[] = [];
    for (const parent of level) {
      for (const child of Object.values(parent)) if (typeof child === "object" && child !== null) next.push(child);
    }
    level = next;
  }
  return false;
}

/** A byte order mark is dropped: it is no part of the text, and JSON forbids it. */
function toText(body: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch {
    return undefined;
  }
}

function refused(reason: string): Payload {
  return { ok: false, reason };
}
