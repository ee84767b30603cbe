// One HTTP exchange byte by byte, for what no client library would send.
import { connect } from "node:net";

export type RawAnswer = { status: number; headers: Headers; body: string };

export function raw(url: string, text: string): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  const { promise, resolve, reject } = Promise.withResolvers<RawAnswer>();
  const chunks: Buffer[] = [];
  const socket = connect(Number(port), hostname, () => socket.write(text));
  socket.on("data", (chunk) => {
    chunks.push(Buffer.from(chunk));
    const answer = toAnswer(Buffer.concat(chunks).toString());
    if (!answer) return;
    resolve(answer);
    socket.destroy();
  });
  socket.on("error", reject);
  socket.on("close", () => reject(new Error("closed without an answer")));
  return promise;
}

function toAnswer(text: string): RawAnswer | undefined {
  const end = text.indexOf("\r\n\r\n");
  if (end === -1) return undefined;
  const [first = "", ...lines] = text.slice(0, end).split("\r\n");
  const headers = new Headers(lines.map((line) => line.split(/:\s*(.*)/s, 2) as [string, string]));
  const body = text.slice(end + 4);
  if (body.length < Number(headers.get("content-length") ?? 0)) return undefined;
  return { status: Number(first.split(" ")[1]), headers, body };
}
