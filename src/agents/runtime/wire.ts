// The frames existing clients speak: identity, state and calls over one WebSocket. Everything else is the agent's own.

import type { Agent } from "../sdk/agent.ts";
import { type Connection, checkTags, infoOf, keepConnection } from "./connections.ts";
import { withOccasion } from "./context.ts";
import { type ClientFrame, parseFrame, rpcErrorFrame, stateErrorFrame, stateFrame } from "./frames.ts";
import type { Runtime } from "./life.ts";
import { findCallable, messageOf, NotCallable, runStreaming } from "./rpc.ts";

const MCP_FRAME = `{"type":"cf_agent_mcp_servers","mcp":{"prompts":[],"resources":[],"servers":{},"tools":[]}}`;

/** Identity, state, mcp, in this order, and only then the agent's own greeting. */
export async function greet(agent: Agent, runtime: Runtime, connection: Connection): Promise<void> {
  const info = infoOf(connection);
  const request = new Request(info.uri, { headers: info.headers });
  const context = { request };
  await withOccasion({ connection, request }, async () => {
    const tags = checkTags(await agent.getConnectionTags(connection, context));
    const readonly = agent.shouldConnectionBeReadonly(connection, context);
    const protocol = agent.shouldSendProtocolMessages(connection, context);
    // Seeds the initial state, if this is the first look at it, before this socket can hear the seed's broadcast.
    const state = runtime.stateText();
    keepConnection(connection, { ...info.kept, tags, readonly, protocol });
    if (protocol) {
      if (runtime.options.sendIdentityOnConnect !== false) {
        const identity = { type: "cf_agent_identity", name: runtime.name, agent: runtime.className };
        connection.send(JSON.stringify(state === undefined ? identity : { ...identity, stateFollows: true }));
      }
      if (state !== undefined) connection.send(stateFrame(state));
      connection.send(MCP_FRAME);
    }
    runtime.emit("connect", { connectionId: connection.id });
    await agent.onConnect(connection, context);
  });
}

export async function hear(
  agent: Agent,
  runtime: Runtime,
  connection: Connection,
  data: string | Uint8Array,
): Promise<void> {
  const frame = typeof data === "string" ? parseFrame(data) : undefined;
  await withOccasion({ connection }, async () => {
    if (frame?.type === "state") writeState(agent, runtime, connection, frame.state);
    else if (frame?.type === "rpc") await answer(agent, runtime, connection, frame);
    else await agent.onMessage(connection, typeof data === "string" ? data : toArrayBuffer(data));
  });
}

function writeState(agent: Agent, runtime: Runtime, connection: Connection, state: unknown): void {
  const info = infoOf(connection);
  let refusal: string | undefined;
  if (info.kept.readonly || !info.mayWriteState) refusal = "Connection is readonly";
  else {
    try {
      runtime.changeState(state, connection);
    } catch (error) {
      refusal = "State update rejected";
      runtime.report(error);
    }
  }
  if (refusal === undefined) return;
  connection.send(stateErrorFrame(refusal));
  // The client changed its own copy already and is never told otherwise: show it what is true.
  const text = runtime.stateText();
  if (text !== undefined && agent.isConnectionProtocolEnabled(connection)) connection.send(stateFrame(text));
}

async function answer(
  agent: Agent,
  runtime: Runtime,
  connection: Connection,
  { id, method, args }: Extract<ClientFrame, { type: "rpc" }>,
): Promise<void> {
  const reply = (fields: Record<string, unknown>) => connection.send(JSON.stringify({ type: "rpc", id, ...fields }));
  try {
    const { run, streaming } = findCallable(agent, method);
    runtime.emit("rpc", { method, ...(streaming ? { streaming } : {}) });
    if (streaming) {
      await runStreaming(run, args, {
        chunk: (result) => reply({ success: true, result, done: false }),
        end: (result) => reply({ success: true, result, done: true }),
        error: (error) => connection.send(rpcErrorFrame(id, error)),
      });
      return;
    }
    const result = await run(args);
    await runtime.settled();
    reply({ success: true, result, done: true });
  } catch (error) {
    if (!(error instanceof NotCallable)) runtime.emit("rpc:error", { method, error: messageOf(error) });
    connection.send(rpcErrorFrame(id, messageOf(error)));
  }
}

function toArrayBuffer(bytes: Uint8Array): ArrayBuffer {
  return bytes.slice().buffer;
}
