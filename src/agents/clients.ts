// The WebSocket clients of one agent, on the main side, where they outlive the agent's thread.

import type { SocketMessage } from "./host.ts";
import type { SocketInfo } from "./protocol.ts";
import { type ClientFrame, parseFrame, rpcErrorFrame } from "./runtime/frames.ts";

/** What we use of Bun's server-side WebSocket. */
export type Socket = {
  send(data: string | Uint8Array): unknown;
  close(code?: number, reason?: string): unknown;
  subscribe(topic: string): unknown;
  publish(topic: string, data: string | Uint8Array): unknown;
};
export type Client = {
  ws: Socket;
  info: SocketInfo;
  mayEdit: boolean;
  /** Until the agent has greeted it, a broadcast must not reach it: identity comes first. */
  greeted: boolean;
};

/** Close codes: 4000 and up make existing clients give up, everything else makes them come back. */
export const CLOSE = {
  unauthorized: [4401, "A valid token is required"],
  forbidden: [4403, "This token may not do that"],
  unknownClass: [4404, "There is no agent class of this name"],
  unknownAgent: [4404, "There is no such agent"],
  destroyed: [4410, "The agent was destroyed"],
  transport: [4415, "Only the JSON transport is spoken here"],
  tooMany: [1013, "Too many connections"],
  busy: [1013, "The agent is busy"],
  failed: [1011, "The agent could not be reached"],
  restarting: [1012, "The server is restarting"],
} as const satisfies Record<string, readonly [number, string]>;

export function createClients(topic: string) {
  const clients = new Map<number, Client>();
  const topics = { all: `${topic}#all`, protocol: `${topic}#protocol` };

  /** Bun's own publish is one call for any number of clients; the one publishing does not hear itself. */
  function broadcast(data: string | Uint8Array, to: "all" | "protocol", without: number[]): void {
    const listening = (client: Client) => client.greeted && (to === "all" || client.info.kept.protocol);
    const [spokesman] = without.length === 0 ? [...clients.values()].filter(listening).slice(0, 1) : [];
    if (spokesman) {
      spokesman.ws.publish(topics[to], data);
      spokesman.ws.send(data);
      return;
    }
    const [left] = without.length === 1 ? [clients.get(without[0] ?? -1)] : [];
    if (left && listening(left)) {
      left.ws.publish(topics[to], data);
      return;
    }
    for (const client of clients.values()) {
      if (listening(client) && !without.includes(client.info.socket)) client.ws.send(data);
    }
  }

  return {
    clients,
    take(message: SocketMessage): void {
      if (message.type === "broadcast") {
        broadcast(message.data, message.to, message.without);
        return;
      }
      const client = clients.get(message.socket);
      if (!client) return; // it left; a reply to nobody is dropped
      if (message.type === "send") client.ws.send(message.data);
      else if (message.type === "close") client.ws.close(message.code, message.reason);
      else {
        client.info.kept = message.kept;
        if (client.greeted) return;
        client.greeted = true;
        client.ws.subscribe(topics.all);
        if (message.kept.protocol) client.ws.subscribe(topics.protocol);
      }
    },
    closeAll([code, reason]: readonly [number, string], which: (client: Client) => boolean = () => true): void {
      for (const client of [...clients.values()]) if (which(client)) client.ws.close(code, reason);
    },
  };
}

/** Someone who may only look is answered here: their calls and messages never reach, and never wake, the agent. */
export function refuseFrame(client: Client, data: string | Uint8Array): ClientFrame["type"] | undefined {
  const frame = typeof data === "string" ? parseFrame(data) : undefined;
  if (frame?.type === "rpc") client.ws.send(rpcErrorFrame(frame.id, "Connection is readonly"));
  return frame?.type;
}
