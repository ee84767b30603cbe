// What an agent tells about itself: a diagnostics channel per kind inside its thread, and trouble to the house's log.
import type { Channel } from "node:diagnostics_channel";
import type { AgentEvent } from "../protocol.ts";
import type { Observability } from "../sdk/agent.ts";
import type { Outbox } from "./outbox.ts";

/** The channel names existing listeners subscribe to; the queue's events are on the schedule channel, as they expect. */
const CHANNELS: Record<string, string> = {
  queue: "agents:schedule",
  connect: "agents:lifecycle",
  disconnect: "agents:lifecycle",
  destroy: "agents:lifecycle",
};
const CHANNEL_NAMES = ["agents:state", "agents:rpc", "agents:schedule", "agents:lifecycle", "agents:fiber"];
const held = new Map<string, Channel>();

/** For a file that knows of channels, before it subscribes; else loading them is wasted. Bun 1.4.4 collects a channel that nobody holds, and its subscribers with it. */
export function holdChannels(): void {
  const { channel } = process.getBuiltinModule("node:diagnostics_channel");
  for (const name of CHANNEL_NAMES) held.set(name, channel(name));
}

/** Every call and every state change would double the traffic for a log line nobody asked for. */
const TROUBLE = /:(error|retry|failed|interrupted)$|^destroy$/;

export function createObservability(outbox: Outbox): Observability {
  return {
    emit(event) {
      const kind = event.type.split(":")[0] ?? event.type;
      held.get(CHANNELS[kind] ?? `agents:${kind}`)?.publish(event);
      const { type, payload, timestamp }: AgentEvent = event;
      if (TROUBLE.test(type)) outbox.put({ type: "event", event: { type, payload, timestamp } });
    },
  };
}
