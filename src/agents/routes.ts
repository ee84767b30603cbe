// The face of agents: HTTP and WebSocket on /agents/{class}/{name}. An ordinary route upgrades, so frames stay untouched.
import { randomUUID } from "node:crypto";
import { Elysia } from "elysia";
import { AppError, toAppError } from "../platform/errors.ts";
import { type Address, parseAddress, toAgentHeaders } from "./address.ts";
import type { Agents } from "./agents.ts";
import { CLOSE, type Socket } from "./clients.ts";
import { PIECE_BYTES_MAX } from "./protocol.ts";
import { type Rights, type RightsParts, rightsOf } from "./rights.ts";

type RouteParts = RightsParts & {
  agents: Agents;
  cookieName: () => string;
  onRevoked: (listener: (tokenId: string) => void) => void;
};
/** What we need of the listener; absent when a command runs the app without one. */
type Listener = {
  upgrade(request: Request, options: { data: SocketHandlers }): boolean;
  timeout(request: Request, seconds: number): void;
} | null;
/** Elysia hands every WebSocket event to the functions found in the socket's data. */
type SocketHandlers = {
  open(ws: Socket): void;
  message(ws: Socket, data: string | Uint8Array): void;
  close(ws: Socket, code: number, reason: string): void;
};

const LOOKING = new Set(["GET", "HEAD", "OPTIONS"]);
const CONNECTION_ID_CHARS_MAX = 128;

export function agentRoutes(parts: RouteParts) {
  const { agents, access, tickets } = parts;
  /** Open sockets by the token that opened them: revoking it closes them. */
  const byToken = new Map<string, Set<Socket>>();
  parts.onRevoked((tokenId) => {
    tickets.revoke(tokenId);
    for (const ws of byToken.get(tokenId) ?? []) ws.close(...CLOSE.unauthorized);
  });

  async function respond(request: Request, server: Listener): Promise<Response | undefined> {
    const address = parseAddress(request.url);
    await agents.ready();
    if (request.headers.get("upgrade")?.toLowerCase() === "websocket" && server) return link(request, server, address);
    if (!address) throw new AppError("agent.name");
    server?.timeout(request, 0); // an agent may think for minutes; its own limit ends the call
    return exchange(request, address);
  }

  async function exchange(request: Request, address: Address): Promise<Response> {
    const { className, name, url } = address;
    const entry = agents.catalog.lastKnown(className);
    const rights = rightsOf(request, address, entry, parts);
    if (!rights.mayEdit && !LOOKING.has(request.method)) throw new AppError("access.denied");
    const { options } = entry ?? agents.classOf(className);
    if (!rights.mayCreate && !agents.exists(className, name)) throw new AppError("agent.unknown");
    const response = await agents.fetch(className, name, {
      method: request.method,
      url,
      headers: headersFor(request),
      body: await bodyOf(request),
      signal: request.signal,
    });
    const policy = response.headers.has("content-security-policy");
    // The edge leaves alone what is set: this asks for nothing, and a policy of the agent's own holds beside the sandbox.
    if (options.sandbox === false && !policy) response.headers.set("content-security-policy", "");
    else if (options.sandbox !== false && policy) response.headers.append("content-security-policy", "sandbox");
    return response;
  }

  /** Always accepted first: existing clients take a refused handshake for a passing fault and retry for ever. */
  function link(request: Request, server: NonNullable<Listener>, address: Address | undefined): Response | undefined {
    const admission = address ? admit(request, address) : { close: CLOSE.unknownAgent };
    let handlers: ReturnType<Agents["connect"]> | undefined;
    let tokenId: string | undefined;
    const data: SocketHandlers = {
      open(ws) {
        if ("close" in admission) {
          ws.close(...admission.close);
          return;
        }
        const { rights, address } = admission;
        const id = address.connectionId || randomUUID();
        tokenId = rights.tokenId;
        if (tokenId !== undefined) byToken.set(tokenId, (byToken.get(tokenId) ?? new Set()).add(ws));
        const { mayEdit, mayWriteState } = rights;
        const headers = headersFor(request);
        const input = { ws, id, url: address.url, headers, mayEdit, mayWriteState };
        handlers = agents.connect(address.className, address.name, input);
      },
      message: (_, frame) => handlers?.message(frame),
      close(ws, code, reason) {
        if (tokenId !== undefined && byToken.get(tokenId)?.delete(ws) && byToken.get(tokenId)?.size === 0) {
          byToken.delete(tokenId);
        }
        handlers?.close(code, reason);
      },
    };
    if (server.upgrade(request, { data })) return undefined;
    throw new AppError("input.invalid", { say: "This is no valid WebSocket handshake" });
  }

  type Admission = { rights: Rights; address: Address } | { close: readonly [number, string] };

  function admit(request: Request, address: Address): Admission {
    const { className, name, transport, connectionId } = address;
    try {
      const entry = agents.catalog.lastKnown(className);
      const rights = rightsOf(request, address, entry, parts);
      if (transport !== undefined && transport !== "cf-websocket") return { close: CLOSE.transport };
      if (connectionId.length > CONNECTION_ID_CHARS_MAX) throw new AppError("agent.name");
      if (!entry) agents.classOf(className);
      if (!rights.mayCreate && !agents.exists(className, name)) return { close: CLOSE.unknownAgent };
      return { rights, address };
    } catch (error) {
      return { close: CLOSE_BY_CODE[toAppError(error).code] ?? CLOSE.failed };
    }
  }

  const headersFor = (request: Request) =>
    toAgentHeaders(request.headers, { access, tickets, cookie: parts.cookieName() });

  const hidden = { hide: true } as const;
  return new Elysia({ prefix: "/agents", tags: ["Agents"] })
    .all("/:class/:name", ({ request, server }) => respond(request, server as Listener), {
      parse: "none",
      detail: {
        summary: "Reach an agent",
        description:
          "Handed to the agent's onRequest, or a WebSocket in the agents protocol when the request asks for an upgrade. " +
          "GET needs agents:read, everything else agents:edit, unless the class is public.",
      },
    })
    .all("/:class/:name/*", ({ request, server }) => respond(request, server as Listener), {
      parse: "none",
      detail: hidden,
    });
}

const CLOSE_BY_CODE: Partial<Record<string, readonly [number, string]>> = {
  "access.missing": CLOSE.unauthorized,
  "access.slow_down": CLOSE.unauthorized,
  "access.denied": CLOSE.forbidden,
  "access.origin": CLOSE.forbidden,
  "access.host": CLOSE.forbidden,
  "agent.class": CLOSE.unknownClass,
  "agent.name": CLOSE.unknownAgent,
};

/** A small body is read whole, which is one message instead of four; everything else streams. */
async function bodyOf(request: Request): Promise<Uint8Array | ReadableStream<Uint8Array> | null> {
  if (!request.body) return null;
  const length = request.headers.get("content-length");
  return length !== null && Number(length) <= PIECE_BYTES_MAX ? request.bytes() : request.body;
}
