// Thread entry point: load one class, become one agent of it, and end when told to.
import { type Assignment, COUNTER, type FromAgent, type Load, type ToAgent } from "./protocol.ts";
import { type AgentClass, createLife, type Life } from "./runtime/life.ts";
import { loadClass, provideSdk, toProblem } from "./runtime/loader.ts";
import { holdChannels } from "./runtime/observability.ts";
import { createOutbox, type Outbox } from "./runtime/outbox.ts";
import { rehearse } from "./runtime/rehearsal.ts";
import { createReport, type Report } from "./runtime/reports.ts";
import { createWork, type Work } from "./runtime/work.ts";
import { createSdk } from "./sdk/module.ts";

declare const self: Worker & { postMessage(message: FromAgent[]): void };

/** Before any agent code runs: what an agent sends goes through the outbox, which is bounded. */
const post = takePostMessage();
let loaded:
  | { load: Load; agentClass: AgentClass; outbox: Outbox; work: Work; counters: Int32Array; report: Report }
  | undefined;
let life: Life | undefined;
let started = false;
/** What arrives before the agent has started, in order. The main thread bounds it. */
let held: ToAgent[] = [];

provideSdk(createSdk(() => life));
self.onmessage = ({ data }: MessageEvent<ToAgent>) => receive(data);

function receive(message: ToAgent): void {
  if (message.type === "load") void load(message);
  // An answer is what a starting agent may be waiting for, so it never waits in line.
  else if (life && (started || message.type === "noted" || message.type === "answered")) give(life, message);
  else {
    held.push(message);
    if (message.type === "assign") void become(message);
  }
}

function give(to: Life, message: ToAgent): void {
  if (message.type === "stop") void stop(to, message.drainMs);
  else if (message.type !== "assign") to.take(message);
}

async function load(message: Load): Promise<void> {
  const counters = new Int32Array(message.counters);
  const outbox = createOutbox(post, counters, message.limits.outputBytesMax);
  const work = createWork(counters, message.limits.handlerMsMax, Date.now);
  const report = createReport(outbox.put, Date.now);
  // Without these an error nobody caught would end the thread, and an unhandled rejection would do it silently.
  process.on("uncaughtException", report);
  process.on("unhandledRejection", report);
  setInterval(() => {
    Atomics.add(counters, COUNTER.beats, 1);
    work.sweep();
  }, message.limits.beatMs);
  try {
    if ("uses" in message.source && message.source.uses.workerThreads) closePort();
    if ("uses" in message.source && message.source.uses.diagnosticsChannel) holdChannels();
    const agentClass = await loadClass(message.source);
    loaded = { load: message, agentClass, outbox, work, counters, report };
    outbox.put({ type: "loaded" });
  } catch (error) {
    outbox.put({ type: "unloadable", problem: toProblem(error) });
    return;
  }
  const assignment = held.find((one) => one.type === "assign");
  if (assignment) await become(assignment);
  else if (message.spare) await rehearse(message).catch(report);
}

async function become(assignment: Assignment): Promise<void> {
  if (!loaded) return; // still importing: `load` comes back to it
  const { load, outbox, work, counters, agentClass, report } = loaded;
  try {
    life = createLife(load, assignment, agentClass, {
      outbox,
      work,
      now: Date.now,
      random: Math.random,
      newId: () => crypto.randomUUID().replaceAll("-", "").slice(0, 20),
      report,
      onEventDone: () => void Atomics.add(counters, COUNTER.eventsDone, 1),
    });
    await within(load.limits.handlerMsMax, life.start());
  } catch (error) {
    outbox.put({ type: "unstartable", problem: toProblem(error) });
    return;
  }
  outbox.put({ type: "started" });
  started = true;
  const waiting = held;
  held = [];
  for (const message of waiting) give(life, message);
}

/** Nothing reaches an agent before it has started, so one that never does would keep everybody waiting for ever. */
async function within(msMax: number, start: Promise<void>): Promise<void> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`onStart did not end within ${msMax} ms`)), msMax);
  await Promise.race([start, late.promise]).finally(() => clearTimeout(timer));
}

async function stop(ending: Life, drainMs: number | null): Promise<void> {
  if (!loaded) return;
  const { outbox, work } = loaded;
  if (drainMs === null && ending.busy()) {
    outbox.put({ type: "busy" });
    return;
  }
  await Promise.race([work.drain(), Bun.sleep(drainMs ?? 0)]);
  outbox.put(ending.end());
  outbox.flush();
  process.exit(0);
}

function takePostMessage(): (batch: FromAgent[]) => void {
  const own = self.postMessage.bind(self);
  const refuse = (): never => {
    throw new Error("Agents talk through connections, calls and requests, not through postMessage");
  };
  Object.defineProperty(self, "postMessage", { value: refuse });
  return own;
}

/** The same way out under another name. Loading that module takes longer than all of ours, so only where it is used. */
function closePort(): void {
  Object.defineProperty(process.getBuiltinModule("node:worker_threads"), "parentPort", { value: null });
}
