// Token counts for answers whose provider did not count. Estimates, and marked as such. Pure.
import { estimateTokenCount } from "tokenx";
import { parseJson } from "../usage.ts";

/** Fields whose text a model reads or writes; everything else is plumbing. */
const TEXT_FIELDS = new Set([
  "content",
  "text",
  "input",
  "prompt",
  "system",
  "instructions",
  "message",
  "arguments",
  "thinking",
  "reasoning_content",
  "reasoning",
  "response",
  "delta",
  "partial_json",
]);
const TEXT_CHARS_MAX = 1_000_000; // what was captured is smaller; escapes can only shrink it
const DEPTH_MAX = 12; // no provider nests text deeper; a hostile body ends here
const EMBEDDED_DATA = /^data:|^[A-Za-z0-9+/=]{2000,}$/; // an image in a prompt is not counted by its letters

/** `scale`: how many times longer the body was than the part that was kept. */
export function estimateTokens(text: string, scale: number): number | undefined {
  const words = textOf(text);
  return words === "" ? undefined : Math.ceil(estimateTokenCount(words) * scale);
}

/** Is this a request that makes a model read something? Lists and deletions have no tokens to estimate. */
export function isPrompt(requestText: string): boolean {
  return /"(?:messages|input|prompt|contents|message|inputs|texts)"\s*:/.test(requestText);
}

function textOf(body: string): string {
  const parts: string[] = [];
  let room = TEXT_CHARS_MAX;
  const walk = (value: unknown, counts: boolean, depth: number): void => {
    if (depth > DEPTH_MAX || room <= 0) return;
    if (typeof value === "string") {
      if (!counts || EMBEDDED_DATA.test(value)) return;
      parts.push(value);
      room -= value.length;
    } else if (Array.isArray(value)) for (const item of value) walk(item, counts, depth + 1);
    else if (typeof value === "object" && value !== null) {
      for (const [name, item] of Object.entries(value)) walk(item, TEXT_FIELDS.has(name), depth + 1);
    }
  };
  const whole = parseJson(body);
  if (whole !== undefined) walk(whole, false, 0);
  else {
    for (const line of body.split("\n")) {
      const json = line.startsWith("data:") ? line.slice(5) : line;
      walk(parseJson(json.trim()), false, 0);
    }
  }
  return parts.join("");
}
