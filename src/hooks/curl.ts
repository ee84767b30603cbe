// A stored delivery as a command that sends it again. Pure.
import { needsSecret } from "../platform/signature.ts";
import { describeCheck } from "./explain.ts";
import type { Taken } from "./journal-schema.ts";
import { signatureChecks } from "./reading.ts";
import type { Source } from "./sources.ts";

const SKIPPED = new Set(["host", "accept-encoding", "user-agent", "accept"]);
const ARGUMENT_BYTES_MAX = 100_000; // Linux takes 128 KiB for one; a shell's own printf has no such bound

/** Signatures go along: they fit this body and no other. Tokens were never stored, so their place is named instead. */
export function toCurl({ row, content }: Taken, origin: string, checks: Source["checks"]): string {
  const { headers, body } = content;
  const piped = body.length > ARGUMENT_BYTES_MAX || toText(body) === undefined;
  const parts = [
    `curl -X ${row.method} ${quote(`${origin}${row.path}`)}`,
    ...headers.filter(([name]) => !SKIPPED.has(name)).map(([name, value]) => `-H ${quote(toHeader(name, value))}`),
    // Or curl would call it a form.
    ...(body.length > 0 && !headers.some(([name]) => name === "content-type") ? ["-H 'content-type:'"] : []),
    // Not --data-binary: a body that begins with @ would be the name of a file to it.
    ...(body.length === 0 ? [] : piped ? ["--data-binary @-"] : [`--data-raw ${quote(toText(body) ?? "")}`]),
  ];
  const command = parts.join(" \\\n  ");
  return `${missing(headers, checks)}${piped ? `${printed(body)} | ` : ""}${command}\n`;
}

function missing(headers: readonly [string, string][], checks: Source["checks"]): string {
  if (checks === "none" || !needsSecret(checks)) return "";
  const signatures = new Set([
    ...signatureChecks(checks).map(({ header }) => header.toLowerCase()),
    "x-twilio-signature",
  ]);
  if (headers.some(([name]) => signatures.has(name))) return "";
  const expected = checks.map(describeCheck).join("; and ").replace(/\s+/g, " "); // a comment ends with its line
  return `# Its credential was not stored; add it: ${expected}.\n`;
}

/** A semicolon is curl's way to send a header without a value. */
function toHeader(name: string, value: string): string {
  return value === "" ? `${name};` : `${name}: ${value}`;
}

function printed(body: Uint8Array): string {
  const text = toText(body);
  if (text !== undefined) return `printf %s ${quote(text)}`;
  return `printf %s ${quote(Buffer.from(body).toString("base64"))} | base64 -d`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** undefined: bytes that a command line cannot carry. */
function toText(body: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}
