// The clients connected to this agent, as objects its code can hold; the sockets themselves stay in the main thread.
import type { KeptConnection, SocketInfo } from "../protocol.ts";
import type { Outbox } from "./outbox.ts";

export type Connections = ReturnType<typeof createConnections>;

const TAGS_MAX = 9;
const TAG_CHARS_MAX = 256;
const CLOSE_REASON_BYTES_MAX = 123; // RFC 6455
const CLOSE_CODES = [
  [1000, 1003],
  [1007, 1014],
  [3000, 4999],
] as const;

/** Whatever its author keeps on it. */
// biome-ignore lint/suspicious/noExplicitAny: the state's type stands in both directions, so no other type fits all of them
type AnyConnection = Connection<any>;

/** One client. Made by the runtime only. */
export class Connection<State = unknown> {
  readonly id: string;
  readonly uri: string;
  readonly #info: SocketInfo;
  readonly #outbox: Outbox;
  #open = true;

  constructor(info: SocketInfo, outbox: Outbox) {
    this.id = info.id;
    this.uri = info.uri;
    this.#info = info;
    this.#outbox = outbox;
  }

  get state(): State | null {
    return this.#info.kept.state as State | null; // the author's claim about what they stored themselves
  }

  setState(next: State | null | ((previous: State | null) => State | null)): State | null {
    const value = typeof next === "function" ? (next as (previous: State | null) => State | null)(this.state) : next;
    JSON.stringify(value); // what cannot be kept over hibernation fails here, not when the agent wakes
    Connection.keep(this, { state: value });
    return value;
  }

  get tags(): readonly string[] {
    return [this.id, ...this.#info.kept.tags];
  }

  get readyState(): number {
    return this.#open ? WebSocket.OPEN : WebSocket.CLOSED;
  }

  send(message: string | ArrayBuffer | ArrayBufferView): void {
    if (this.#open) this.#outbox.putBounded({ type: "send", socket: this.#info.socket, data: toData(message) });
  }

  close(code = 1000, reason = ""): void {
    if (!this.#open) return;
    if (!isCloseCode(code)) throw new RangeError(`${code} is no code that a connection can be closed with`);
    this.#open = false;
    this.#outbox.put({ type: "close", socket: this.#info.socket, code, reason: toReason(String(reason ?? "")) });
  }

  static infoOf(connection: AnyConnection): SocketInfo {
    return connection.#info;
  }

  static markClosed(connection: AnyConnection): void {
    connection.#open = false;
  }

  static keep(connection: AnyConnection, change: Partial<KeptConnection>): void {
    Object.assign(connection.#info.kept, change);
    connection.#outbox.put({ type: "kept", socket: connection.#info.socket, kept: { ...connection.#info.kept } });
  }
}

/** RFC 6455, 7.4: what may stand in a close frame. */
const isCloseCode = (code: unknown): boolean =>
  Number.isInteger(code) && CLOSE_CODES.some(([least, most]) => Number(code) >= least && Number(code) <= most);

export const infoOf = Connection.infoOf;
export const keepConnection = Connection.keep;

export function createConnections(outbox: Outbox) {
  const bySocket = new Map<number, Connection>();
  return {
    add(info: SocketInfo): Connection {
      const connection = new Connection(info, outbox);
      bySocket.set(info.socket, connection);
      return connection;
    },
    bySocket: (socket: number) => bySocket.get(socket),
    remove(socket: number): Connection | undefined {
      const connection = bySocket.get(socket);
      bySocket.delete(socket);
      if (connection) Connection.markClosed(connection);
      return connection;
    },
    get(id: string): Connection | undefined {
      const found = [...bySocket.values()].filter((connection) => connection.id === id);
      if (found.length > 1) throw new Error(`${found.length} connections share the id ${id}; use getConnections()`);
      return found[0];
    },
    all(tag?: string): Connection[] {
      const open = [...bySocket.values()].filter((connection) => connection.readyState === WebSocket.OPEN);
      return tag === undefined ? open : open.filter((connection) => connection.tags.includes(tag));
    },
    /** Raw bytes or text to everyone; `without` holds connection ids, as agent code names them. */
    broadcast(message: string | ArrayBuffer | ArrayBufferView, without: readonly string[] = []): void {
      if (bySocket.size === 0) return;
      const skipped = [...bySocket.values()].filter((connection) => without.includes(connection.id));
      outbox.putBounded({
        type: "broadcast",
        data: toData(message),
        to: "all",
        without: skipped.map((connection) => infoOf(connection).socket),
      });
    },
    /** A protocol frame to everyone who speaks the protocol, except one socket: ids may be shared, sockets are not. */
    broadcastFrame(frame: string, without: Connection | undefined): void {
      if (bySocket.size === 0) return;
      outbox.putBounded({
        type: "broadcast",
        data: frame,
        to: "protocol",
        without: without ? [infoOf(without).socket] : [],
      });
    },
    get size() {
      return bySocket.size;
    },
  };
}

export function checkTags(tags: unknown): string[] {
  if (!Array.isArray(tags) || tags.length > TAGS_MAX) throw new Error(`A connection has at most ${TAGS_MAX} tags`);
  for (const tag of tags) {
    if (typeof tag !== "string" || tag === "" || tag.length > TAG_CHARS_MAX) {
      throw new Error(`A connection tag is text of 1 to ${TAG_CHARS_MAX} characters`);
    }
  }
  return tags;
}

function toData(message: string | ArrayBuffer | ArrayBufferView): string | Uint8Array {
  if (typeof message === "string") return message;
  const bytes =
    message instanceof ArrayBuffer
      ? new Uint8Array(message)
      : new Uint8Array(message.buffer, message.byteOffset, message.byteLength);
  return bytes.slice(); // the batch leaves at the end of the turn, and the caller may reuse its buffer before that
}

function toReason(reason: string): string {
  const bytes = new TextEncoder().encode(reason);
  return bytes.length <= CLOSE_REASON_BYTES_MAX
    ? reason
    : new TextDecoder().decode(bytes.subarray(0, CLOSE_REASON_BYTES_MAX)).replace(/\uFFFD$/, "");
}
