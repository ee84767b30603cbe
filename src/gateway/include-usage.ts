// Asking a chat stream for its token counts, where the gateway is set to and the client left it open. Pure.
import { parseJson, toText } from "./usage.ts";

/** The changed body, or undefined when there is nothing to ask or the client has said what it wants. */
export function asksForUsage(path: string, headers: Headers, body: Uint8Array): Uint8Array<ArrayBuffer> | undefined {
  if (!path.endsWith("chat/completions") || headers.has("content-encoding")) return undefined;
  const text = toText(body);
  const request = parseJson(text);
  if (typeof request !== "object" || request === null || !("stream" in request) || request.stream !== true)
    return undefined;
  const options = "stream_options" in request ? request.stream_options : undefined;
  if (options !== undefined && options !== null) {
    if (typeof options !== "object" || "include_usage" in options) return undefined;
  }
  // Put in as text where it can be: written anew, numbers that JavaScript cannot hold would come out as others.
  const changed =
    "stream_options" in request
      ? JSON.stringify({ ...request, stream_options: { ...options, include_usage: true } })
      : text.replace("{", '{"stream_options":{"include_usage":true},');
  return new TextEncoder().encode(changed);
}
