// Twilio's own scheme: the address the sender called plus its sorted form fields, HMAC-SHA1. No row can say this.
import type { Incoming, Verdict } from "./signature.ts";

export function proveTwilio(secrets: readonly string[], { headers, url, body }: Incoming): Verdict {
  if (url === undefined) return "unconfigured";
  const given = headers.get("x-twilio-signature") ?? "";
  if (given === "") return "missing";
  if (!/^[A-Za-z0-9+/]{27}=$/.test(given)) return "malformed";
  const fields = signedFields(url, headers.get("content-type") ?? "", body);
  if (fields === undefined) return "mismatch";
  const mac = Buffer.from(given, "base64");
  const matches = secrets.flatMap((secret) =>
    spellings(url).map((address) => crypto.timingSafeEqual(mac, twilioMac(secret, `${address}${fields}`))),
  );
  return matches.includes(true) ? "ok" : "mismatch";
}

/** The signature for one address and its form fields, as a sender makes it. */
export function signTwilio(secret: string, url: string, form: URLSearchParams): string {
  return twilioMac(secret, `${url}${sortedFields(form)}`).toString("base64");
}

/** undefined: part of what was sent is covered by nothing. */
function signedFields(url: string, contentType: string, body: Uint8Array): string | undefined {
  const hash = new URLSearchParams(url.split("?")[1] ?? "").get("bodySHA256");
  if (hash !== null) return hash === new Bun.CryptoHasher("sha256").update(body).digest("hex") ? "" : undefined;
  if (body.length === 0) return "";
  if (!/^application\/x-www-form-urlencoded\b/i.test(contentType)) return undefined;
  return sortedFields(new URLSearchParams(Buffer.from(body).toString("utf8")));
}

/** Names sorted; the values of a repeated name sorted too, each once. */
function sortedFields(form: URLSearchParams): string {
  const names = [...new Set(form.keys())].sort();
  return names.flatMap((name) => [...new Set(form.getAll(name))].sort().map((value) => `${name}${value}`)).join("");
}

/** Twilio's back ends disagree about the port and about the query's escapes, so its own library tries these too. */
function spellings(url: string): string[] {
  const [, scheme = "", user = "", host = "", port = "", rest = ""] =
    /^(https?:\/\/)((?:[^/?#@]*@)?)(\[[^\]]*\]|[^/?#:]*)((?::\d+)?)(.*)$/i.exec(url) ?? [];
  const standardPort = scheme.toLowerCase() === "https://" ? ":443" : ":80";
  const plain = [`${scheme}${user}${host}${rest}`, `${scheme}${user}${host}${port || standardPort}${rest}`];
  return [...new Set([...plain, ...plain.map(withLegacyQuery)])];
}

function withLegacyQuery(url: string): string {
  const { parse, stringify } = process.getBuiltinModule("node:querystring"); // asked for only here, so loaded only then
  const at = url.indexOf("?");
  return at < 0 ? url : `${url.slice(0, at)}?${stringify(parse(url.slice(at + 1)))}`;
}

function twilioMac(secret: string, text: string): Buffer {
  return Buffer.from(new Bun.CryptoHasher("sha1", secret).update(text).digest());
}
