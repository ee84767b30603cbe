// What a gateway request's URL says: which gateway, which provider, and what is left for the provider. Pure.

export type RequestLine = {
  /** `account/gateway`. */
  gateway: string;
  provider: string;
  /** As the client wrote it: no escape is touched on its way. */
  path: string;
  /** With its question mark, or empty. */
  query: string;
};

const PREFIX_CHARS = "/v1/".length;

/** Cut out of the text once. A router's parameters are decoded, and decoding twice is how paths get confused. */
export function parseLine(url: string): RequestLine {
  const pathAt = url.indexOf("/", "https://".length);
  const queryAt = url.indexOf("?", pathAt);
  const end = queryAt === -1 ? url.length : queryAt;
  const start = pathAt + PREFIX_CHARS;
  const account = next(url, start, end);
  const gateway = next(url, account + 1, end);
  const provider = next(url, gateway + 1, end);
  return {
    gateway: url.slice(start, gateway),
    provider: url.slice(gateway + 1, provider),
    path: url.slice(Math.min(provider + 1, end), end),
    query: url.slice(end),
  };
}

function next(url: string, from: number, end: number): number {
  const at = url.indexOf("/", from);
  return at === -1 || at > end ? end : at;
}
