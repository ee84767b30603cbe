// A request as somebody saved it: start line, headers, an empty line, the body. Pure.

export type SavedRequest = { method: string; path: string; headers: [string, string][]; body: Uint8Array };

const HEAD_BYTES_MAX = 64 * 1024;

/** undefined: it does not begin like a request. Line ends may be LF or CRLF; the body is taken byte for byte. */
export function parseSavedRequest(bytes: Uint8Array): SavedRequest | undefined {
  const head = Buffer.from(bytes.subarray(0, HEAD_BYTES_MAX)).toString("latin1");
  const gap = /\r?\n\r?\n/.exec(head);
  const [start = "", ...lines] = head.slice(0, gap?.index).split(/\r?\n/);
  const [, method, target] = /^([A-Z]+) (\S+)(?: HTTP\/[\d.]+)?$/.exec(start.trim()) ?? [];
  if (method === undefined || target === undefined) return undefined;
  const headers: [string, string][] = [];
  for (const line of lines) {
    const [, name, value = ""] = /^([^\s:]+):\s*(.*)$/.exec(line.trim()) ?? [];
    if (name !== undefined) headers.push([name, Buffer.from(value, "latin1").toString("utf8")]);
  }
  const body = gap ? bytes.subarray(gap.index + gap[0].length) : new Uint8Array(0);
  return { method, path: target.replace(/^https?:\/\/[^/]+/, ""), headers, body };
}
