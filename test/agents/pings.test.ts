// Quiet clients: pinged by the protocol and kept, however long they say nothing; cut off once they do not even answer.
import { expect, test } from "bun:test";
import { connect } from "node:net";
import { startAgentHouse } from "../support/agent-house.ts";
import { until } from "../support/agents.ts";

const ECHO = `
import { Agent } from "gatehouse";
export class Echo extends Agent {
  static options = { public: true };
  onMessage(connection, message) { connection.send("heard " + message); }
}`;
const [TEXT, PING, PONG] = [0x81, 0x89, 0x8a]; // each a whole frame's first byte
const IDLE_SECONDS = 8; // the least there is; a ping comes after half of it

test("a quiet client is pinged and stays, also while its agent sleeps; one that does not answer is cut off", async () => {
  await using house = await startAgentHouse({
    files: { "echo.ts": ECHO },
    agent: { socket_idle_seconds: IDLE_SECONDS, idle_ms: 100 },
  });
  await using quiet = openRaw(house.url, "/agents/echo/a", true);
  await using mute = openRaw(house.url, "/agents/echo/a", false);
  await until(() => mute.closed);
  expect([mute.pings(), quiet.closed]).toEqual([1, false]);
  await until(() => quiet.pings() >= 2); // past the time that cut the other off
  expect(house.parts.agents.roster.seat("echo", "a")?.phase).toBe("asleep");
  quiet.send(TEXT, "still here");
  await until(() => quiet.frames.some(({ text }) => text === "heard still here"));
});

/** A client that is nothing but a socket: no library answers a ping behind the test's back. */
function openRaw(url: string, path: string, answers: boolean) {
  const { hostname, port, host } = new URL(url);
  const frames: { first: number; text: string }[] = [];
  let received = Buffer.alloc(0);
  let upgraded = false;
  const client = { frames, closed: false, pings: () => frames.filter(({ first }) => first === PING).length };
  const handshake = [
    `GET ${path} HTTP/1.1`,
    `Host: ${host}`,
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
  ];
  const socket = connect(Number(port), hostname, () => socket.write(`${handshake.join("\r\n")}\r\n\r\n`));
  socket.on("close", () => {
    client.closed = true;
  });
  socket.on("data", (chunk) => {
    received = Buffer.concat([received, Buffer.from(chunk)]);
    if (!upgraded) {
      const end = received.indexOf("\r\n\r\n");
      if (end === -1) return;
      upgraded = true;
      received = received.subarray(end + 4);
    }
    for (let size = sizeOf(received); size !== undefined && received.length >= size.end; size = sizeOf(received)) {
      const frame = { first: received[0] ?? 0, text: received.subarray(size.start, size.end).toString() };
      received = received.subarray(size.end);
      frames.push(frame);
      if (frame.first === PING && answers) send(PONG, frame.text);
    }
  });

  /** Clients mask what they send; with a mask of zeros the bytes stay as they are. */
  function send(first: number, text: string): void {
    socket.write(Buffer.concat([Buffer.from([first, 0x80 | text.length, 0, 0, 0, 0]), Buffer.from(text)]));
  }
  return Object.assign(client, { send, [Symbol.asyncDispose]: async () => void socket.destroy() });
}

/** Where the payload of the first frame begins and ends; servers do not mask, and no frame here is longer than 64 KiB. */
function sizeOf(bytes: Buffer): { start: number; end: number } | undefined {
  const short = bytes[1];
  if (short === undefined || (short === 126 && bytes.length < 4)) return undefined;
  return short === 126 ? { start: 4, end: 4 + bytes.readUInt16BE(2) } : { start: 2, end: 2 + short };
}
