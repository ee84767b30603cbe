// The limits of the agents from the settings, and no more threads than the machine can carry.
import { readFileSync } from "node:fs";
import { totalmem } from "node:os";
import type { Settings } from "../platform/settings.ts";
import type { AgentsParts } from "./agents.ts";

const DESCRIPTORS_EACH = 5; // database, WAL, shared memory, and two of the thread itself
const DESCRIPTORS_OURS = 200; // listener, clients, the house's own databases
const MEMORY_BYTES_EACH = 10 * 1024 * 1024; // a thread that imports a real package; a plain one takes less than half
const MEMORY_SHARE = 0.5; // of the machine, for threads alone
const BEAT_MS = 1_000;
const SPARE_IDLE_MS = 10 * 60_000;
const THREAD_STOP_MS = 3_000;
const RELOAD_MS_MAX = 30_000;

export type Machine = { descriptorsMax: number; memoryBytes: number };

export function liveBound(wanted: number, { descriptorsMax, memoryBytes }: Machine): number {
  const byDescriptors = Math.floor((descriptorsMax - DESCRIPTORS_OURS) / DESCRIPTORS_EACH);
  const byMemory = Math.floor((memoryBytes * MEMORY_SHARE) / MEMORY_BYTES_EACH);
  return Math.max(1, Math.min(wanted, byDescriptors, byMemory));
}

export function toLimits(agent: Settings["agent"], machine: Machine): AgentsParts["limits"] {
  return {
    liveMax: liveBound(agent.live_max, machine),
    sparesMax: agent.spares_max,
    spareIdleMs: SPARE_IDLE_MS,
    idleMs: agent.idle_ms,
    inboxMax: agent.inbox_max,
    waitMsMax: agent.wait_ms,
    socketsMax: agent.sockets_max,
    callsMax: agent.calls_max,
    eventsMax: agent.frames_max,
    stopMsMax: THREAD_STOP_MS,
    reloadMsMax: RELOAD_MS_MAX,
    heartbeatMsMax: agent.heartbeat_ms_max,
    handlerMsMax: agent.handler_ms_max,
    beatMs: Math.min(BEAT_MS, Math.floor(agent.heartbeat_ms_max / 4), agent.idle_ms),
    outputBytesMax: agent.output_bytes_max,
    queueMax: agent.queue_max,
    schedulesMax: agent.schedules_max,
    deadMax: agent.dead_letters_max,
    timezone: agent.timezone,
    describeMsMax: agent.load_ms_max,
    filesMax: agent.files_max,
  };
}

/** Bun raises the soft limit to the hard one by itself, so the hard one counts. */
export function thisMachine(): Machine {
  let descriptorsMax = Number.MAX_SAFE_INTEGER;
  try {
    const [, , hard] = /^Max open files\s+(\S+)\s+(\S+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    if (hard && /^\d+$/.test(hard)) descriptorsMax = Number(hard);
  } catch {
    // no /proc: not Linux, and its limit is not ours to guess
  }
  return { descriptorsMax, memoryBytes: totalmem() };
}
