// One agent's life inside its thread: from opening its database to the last thing it says.

import type { Assignment, FromAgent, Load } from "../protocol.ts";
import type { Agent, AgentOptions, Observability } from "../sdk/agent.ts";
import { AgentContext } from "../sdk/agent-context.ts";
import { createEnv } from "../sdk/namespace.ts";
import { type Connection, createConnections } from "./connections.ts";
import { withOccasion } from "./context.ts";
import { bytesOf, createSqlTag, openAgentDatabase, type SqlTag } from "./database.ts";
import { createDeadLetters } from "./dead-letters.ts";
import { createDeliveries } from "./deliveries.ts";
import { createFibers, type Fibers } from "./fibers.ts";
import { stateFrame } from "./frames.ts";
import { runHouseVerb } from "./house-verbs.ts";
import { createInbox } from "./inbox.ts";
import { createObservability } from "./observability.ts";
import type { Outbox } from "./outbox.ts";
import { createOutgoing, type Outgoing } from "./outgoing.ts";
import { createPace } from "./pace.ts";
import { createPeers, type Peers } from "./peers.ts";
import { createQueue, type Queue } from "./queue.ts";
import type { Report } from "./reports.ts";
import { parseRetry, RETRY, type Retry } from "./retry.ts";
import { findMethod, hasMethod } from "./rpc.ts";
import { createSchedules, type Schedules } from "./schedules.ts";
import { createStateStore } from "./state.ts";
import type { Work } from "./work.ts";

export type AgentClass = typeof Agent;
export type Life = ReturnType<typeof createLife>;

/** What the SDK's members reach through. */
export type Runtime = {
  name: string;
  className: string;
  options: AgentOptions;
  observability: Observability;
  sql: SqlTag;
  exec(query: string, values: unknown[]): Record<string, unknown>[];
  transaction<T>(task: () => T): T;
  connections: ReturnType<typeof createConnections>;
  queue: Queue;
  schedules: Schedules;
  fibers: Fibers;
  peers: Peers;
  outgoing: Outgoing;
  work: Work;
  retry: () => Retry;
  random: () => number;
  stateValue(): unknown;
  stateText(): string | undefined;
  changeState(next: unknown, source: Connection | "server"): void;
  requireMethod(callback: string): void;
  settled(): Promise<void>;
  emit(type: string, payload: Record<string, unknown>): void;
  report(error: unknown): void;
  destroy(): Promise<void>;
};

export type Tools = {
  outbox: Outbox;
  work: Work;
  now: () => number;
  random: () => number;
  newId: () => string;
  report: Report;
  onEventDone: () => void;
};

const RESUME_MS = 1_000; // a lane that could not even read its table (disk full) looks again after this

export function createLife(load: Load, assignment: Assignment, agentClass: AgentClass, tools: Tools) {
  const { className, limits } = load;
  const { outbox, work, now, random, newId, report } = tools;
  const db = openAgentDatabase(assignment.databasePath);
  const state = createStateStore(db);
  const connections = createConnections(outbox);
  const notes = new Map<number, PromiseWithResolvers<void>>();
  let lastNote = 0;
  const options = agentClass.options ?? {};
  const retry = parseRetry(options.retry, RETRY);

  const observability = createObservability(outbox);
  const emit = (type: string, payload: Record<string, unknown>): void => {
    agent.observability?.emit({ type, agent: className, name: assignment.name, payload, timestamp: now() });
  };
  /** The agent's own `onError` first; what it throws, by default the error itself, goes to the log. */
  const fail = async (error: unknown, connection?: Connection): Promise<void> => {
    try {
      await (connection ? agent.onError(connection, error) : agent.onError(error));
    } catch (thrown) {
      report(thrown ?? error);
    }
  };

  const pace = createPace({
    now,
    ledgerDueMs: assignment.ledgerDueMs,
    note: (atMs) => {
      const noted = Promise.withResolvers<void>();
      notes.set(++lastNote, noted);
      outbox.put({ type: "due", id: lastNote, atMs });
      return noted.promise;
    },
    earliest: () => earliestOf(queue.dueMs(), schedules.dueMs()),
    onDue,
  });
  const lane = {
    db,
    pace,
    work,
    dead: createDeadLetters(db, limits.deadMax, now),
    now,
    random,
    newId,
    retry: () => retry,
    invoke: async (callback: string, payload: unknown, item: unknown) =>
      withOccasion({}, () => findMethod(agent, callback)([payload, item])),
    emit,
    onFailure: (error: unknown) => void fail(error),
    onTrouble: resume,
  };
  const queue = createQueue({ ...lane, itemsMax: limits.queueMax });
  const schedules = createSchedules({ ...lane, schedulesMax: limits.schedulesMax, timezone: limits.timezone });
  const fibers = createFibers(lane);
  const peers = createPeers(outbox.put);
  const secretOf = (secret: string): string | undefined => assignment.env[secret];
  const outgoing = createOutgoing({ deny: limits.outgoingDeny ?? [], secretOf, now, random, newId });

  function onDue(): void {
    if (work.draining) return;
    try {
      schedules.run();
      void queue.run().catch(resume);
    } catch (error) {
      resume(error);
    }
  }

  /** The tables themselves failed, as on a full disk: that is nobody's attempt, and asking at once would be a loop. */
  function resume(error: unknown): void {
    report(error);
    setTimeout(pace.arm, RESUME_MS);
  }

  function stateText(): string | undefined {
    const loaded = state.load();
    if (loaded || agent.initialState === undefined) return loaded?.text;
    const text = state.save(agent.initialState);
    connections.broadcastFrame(stateFrame(text), undefined);
    return text;
  }

  /** State is stored before anyone hears of it, but inside a transaction that can still be undone: then they hear of it again. */
  function transaction<T>(task: () => T): T {
    try {
      return db.transaction(task)();
    } catch (error) {
      const told = state.forget();
      const text = state.load()?.text;
      if (text !== undefined && text !== told) connections.broadcastFrame(stateFrame(text), undefined);
      throw error;
    }
  }

  function onNoted(id: number, ok: boolean): void {
    if (ok) notes.get(id)?.resolve();
    else notes.get(id)?.reject(new Error("The work could not be stored; is the disk full?"));
    notes.delete(id);
  }

  const sql = createSqlTag(db);
  const runtime: Runtime = {
    name: assignment.name,
    className,
    options,
    observability,
    sql,
    exec: (query, values) => sql(Object.assign(query.split("?"), { raw: [] }), ...values),
    transaction,
    connections,
    queue,
    schedules,
    fibers,
    peers,
    outgoing,
    work,
    retry: () => retry,
    random,
    stateText,
    stateValue: () => {
      stateText();
      return state.load()?.value;
    },
    changeState(next, source) {
      agent.validateStateChange(next, source);
      const text = state.save(next);
      connections.broadcastFrame(stateFrame(text), source === "server" ? undefined : source);
      emit("state:update", {});
      // Not awaited by setState; its errors are its own.
      void (async () => agent.onStateChanged(next, source))().catch((error) => fail(error));
    },
    requireMethod(callback) {
      // The author's mistake, not that of whoever called the method which makes it.
      if (!hasMethod(agent, callback)) throw new Error(`Method ${callback} does not exist`);
    },
    settled: () => pace.settled(),
    emit,
    report,
    destroy: () => {
      outbox.put({ type: "destroy" });
      return new Promise<void>(() => {}); // the thread ends here: what follows in the caller would write to a removed file
    },
  };

  const house = (verb: string, args: unknown[]) => runHouseVerb(verb, args, { runtime, db, dead: lane.dead });
  const env = createEnv({ ...assignment.env }, assignment.classes, peers);
  const agent: Agent = new agentClass(new AgentContext(runtime), env);
  for (const info of assignment.sockets) connections.add(info);

  const take = createInbox({
    agent,
    runtime,
    outbox,
    deliveries: createDeliveries(db, now),
    fail,
    house,
    onNoted,
    onEventDone: tools.onEventDone,
  });

  /** Nothing is stored after this; says what the ledger must know until the next life. */
  function end(): Extract<FromAgent, { type: "bye" }> {
    pace.halt();
    const dueMs = earliestOf(queue.storedDueMs(), schedules.storedDueMs(), fibers.storedDueMs());
    const bye = { type: "bye", dueMs, queueLength: queue.length(), bytes: bytesOf(db) } as const;
    db.close();
    return bye;
  }

  /** Once per life, before anything else reaches the agent. */
  async function start(): Promise<void> {
    await work.run(async () => {
      const props = assignment.props === undefined ? undefined : JSON.parse(assignment.props);
      await withOccasion({}, async () => agent.onStart(props));
      await fibers.recover((fiber) => agent.onFiberRecovered(fiber));
    });
    pace.arm();
  }

  return { agent, runtime, start, take, end, busy: () => work.size > 0 || pace.busy };
}

function earliestOf(...times: (number | null)[]): number | null {
  const known = times.filter((time) => time !== null);
  return known.length === 0 ? null : Math.min(...known);
}
