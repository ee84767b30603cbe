// What an agent tells about itself: a diagnostics channel per kind inside its thread, and trouble to the house's log.
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
/** Every call and every state change would double the traffic for a log line nobody asked for. */
const TROUBLE = /:(error|retry|failed|interrupted)$|^destroy$/;

/** `heard`: the agent's code knows of diagnostics channels, so that somebody may listen; else loading them is wasted. */
export function createObservability(outbox: Outbox, heard: boolean): Observability {
  const channels = heard ? process.getBuiltinModule("node:diagnostics_channel") : undefined;
  return {
    emit(event) {
      const kind = event.type.split(":")[0] ?? event.type;
      channels?.channel(CHANNELS[kind] ?? `agents:${kind}`).publish(event);
      const { type, payload, timestamp }: AgentEvent = event;
      if (TROUBLE.test(type)) outbox.put({ type: "event", event: { type, payload, timestamp } });
    },
  };
}
