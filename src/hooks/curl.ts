// A stored delivery as a command that sends it again. Pure.
import type { Taken } from "./journal-schema.ts";

const SKIPPED = new Set(["host", "accept-encoding", "user-agent", "accept"]);

/** Signatures go along: they fit this body and no other. Tokens were never stored, so their place is named instead. */
export function toCurl({ row, content }: Taken, origin: string): string {
  const headers = content.headers
    .filter(([name]) => !SKIPPED.has(name))
    .map(([name, value]) => `-H ${quote(`${name}: ${value}`)}`);
  const text = toText(content.body);
  const data = text === undefined ? "--data-binary @-" : `--data-binary ${quote(text)}`;
  const parts = [
    `curl -X ${row.method} ${quote(`${origin}${row.path}`)}`,
    ...headers,
    ...(content.body.length > 0 ? [data] : []),
  ];
  const command = parts.join(" \\\n  ");
  if (text !== undefined) return `${command}\n`;
  return `printf %s ${quote(Buffer.from(content.body).toString("base64"))} | base64 -d | ${command}\n`;
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
