// Which agents have a thread right now: started on demand, put to sleep when idle, bounded in number, woken when due.
import { join } from "node:path";
import { AppError, toAppError } from "../platform/errors.ts";
import type { Log } from "../platform/log.ts";
import type { AgentClassEntry, Catalog } from "./catalog.ts";
import { CLOSE, type Client } from "./clients.ts";
import { createDestruction } from "./destruction.ts";
import { createDueWatch } from "./due-watch.ts";
import { type Bye, type Ending, type Host, type HostLimits, RETRY_SOON, startHost } from "./host.ts";
import type { Ledger } from "./ledger.ts";
import type { FromAgent, Problem } from "./protocol.ts";
import { databasePath } from "./runtime/names.ts";
import { createSeat, type Errand, forgive, isForgettable, noteCrash, noteRest, type Seat } from "./seat.ts";
import { createSpares } from "./spares.ts";
import { createThreads } from "./threads.ts";

export type Roster = ReturnType<typeof createRoster>;
export type RosterLimits = HostLimits & {
  liveMax: number;
  sparesMax: number;
  spareIdleMs: number;
  idleMs: number;
  /** Events that may wait for one agent while it has no thread. */
  inboxMax: number;
  /** How long an event may wait for a free thread. */
  waitMsMax: number;
  socketsMax: number;
  /** How long an agent may take to finish what it does before it restarts with new code. */
  reloadMsMax: number;
};

export type RosterParts = {
  folder: string;
  worker: string;
  catalog: () => Catalog;
  ledger: Ledger;
  secretsOf: (className: string) => Record<string, string>;
  limits: RosterLimits;
  log: Log;
  now: () => number;
  /** The answer is for this thread alone: the agent's next life may ask something else under the same number. */
  onAsk: (host: Host, message: Extract<FromAgent, { type: "ask" }>) => void;
  onDestroyed: (className: string, name: string) => void;
};

const READY_MS = 10; // preparing a spare takes the time of a core; the answer under way comes first
const ROOMY = 4; // with fewer threads than this, a free place would cost more wakes than it saves
export function createRoster(parts: RosterParts) {
  const { folder, worker, catalog, ledger, secretsOf, limits, log, now, onAsk, onDestroyed } = parts;
  const seats = new Map<string, Seat>();
  const threads = createThreads({
    idleMs: limits.idleMs,
    log,
    now,
    onStuck: (seat) => refuseAll(seat, new AppError("agent.stuck")),
    onBusy(seat, host) {
      const entry = catalog().get(seat.className);
      // Its code changed while it was asked to sleep: then it is not enough that it stays awake.
      if (entry && entry.fingerprint !== seat.fingerprint) void threads.retire(seat, host, limits.reloadMsMax);
      else giveAll(seat, host);
    },
  });
  const waiting = new Set<Seat>();
  const start = ({ className, source }: AgentClassEntry, spare: boolean) =>
    startHost(worker, className, source, limits, now, spare);
  const spares = createSpares((entry) => start(entry, true), limits.sparesMax, now);
  let stopping = false;
  const ticker = setInterval(tick, limits.beatMs);

  function seatOf(className: string, name: string): Seat {
    const key = `${className}/${name}`;
    const known = seats.get(key);
    if (known) return known;
    const seat = createSeat(className, name, ledger.one(className, name), now());
    seats.set(key, seat);
    return seat;
  }

  function enter(className: string, name: string, errand: Errand): void {
    const seat = seatOf(className, name);
    seat.activeMs = now();
    if (seat.phase === "live" && seat.host?.ended) seat.phase = "stopping"; // its thread is about to be gone: wait for it
    if (seat.phase === "live" && seat.host) {
      threads.touch(seat);
      errand.give(seat.host);
    } else if (stopping) errand.refuse(new AppError("server.stopping", RETRY_SOON));
    else if (seat.phase === "stuck") errand.refuse(new AppError("agent.stuck"));
    else if (seat.errands.length >= limits.inboxMax && !errand.isArrival)
      errand.refuse(new AppError("agent.busy", RETRY_SOON));
    else {
      seat.errands.push(errand);
      if (seat.phase === "asleep") wake(seat);
    }
  }

  function wake(seat: Seat): void {
    if (seat.condemned) return; // whoever waits meets the new agent
    if (stopping) {
      refuseAll(seat, new AppError("server.stopping", RETRY_SOON));
      return;
    }
    const entry = catalog().get(seat.className);
    const restsMs = seat.restUntilMs - now();
    if (!entry) refuseAll(seat, new AppError(catalog().isBroken(seat.className) ? "agent.broken" : "agent.class"));
    else if (restsMs > 0) {
      const headers = { "retry-after": String(Math.ceil(restsMs / 1000)) };
      refuseAll(seat, new AppError("agent.resting", { headers }));
    } else if (!seat.known) create(seat);
    else if (threads.size >= limits.liveMax) wait(seat);
    else launch(seat, entry);
  }

  /** In the ledger first: an agent that exists only as a file would be forgotten by a crash. */
  function create(seat: Seat): void {
    seat.phase = "creating";
    const { className, name } = seat;
    record(seat, { do: "know", className, name, atMs: now() }).then(
      () => {
        seat.known = true;
        seat.phase = "asleep";
        wake(seat);
      },
      (error) => refuseAll(seat, toAppError(error)),
    );
  }

  function wait(seat: Seat): void {
    seat.phase = "waiting";
    waiting.add(seat);
    seat.waitTimer = setTimeout(() => refuseAll(seat, new AppError("agent.busy", RETRY_SOON)), limits.waitMsMax);
    threads.makeRoom(waiting.size);
  }

  function leaveLine(seat: Seat): void {
    waiting.delete(seat);
    clearTimeout(seat.waitTimer);
    if (seat.phase === "waiting") seat.phase = "asleep";
  }

  function launch(seat: Seat, entry: AgentClassEntry): void {
    const { className, name, audience } = seat;
    const host = spares.take(entry) ?? start(entry, false);
    seat.phase = "live";
    seat.host = host;
    seat.launchedMs = now();
    seat.fingerprint = entry.fingerprint;
    threads.touch(seat);
    host.assign(
      {
        name,
        databasePath: databasePath(folder, className, name),
        env: secretsOf(className),
        classes: catalog()
          .list()
          .map((one) => one.className),
        sockets: [...audience.clients.values()].filter((client) => client.greeted).map((client) => client.info),
        ledgerDueMs: seat.ledgerDueMs,
        props: seat.errands[0]?.props, // the errand that this life begins with
      },
      {
        started: () => void setTimeout(getReady, READY_MS, entry),
        socket: audience.take,
        ask: (message) => onAsk(host, message),
        due: (dueMs) => {
          seat.ledgerDueMs = seat.ledgerDueMs === null ? dueMs : Math.min(seat.ledgerDueMs, dueMs);
          return record(seat, { do: "due", className, name, dueMs });
        },
        event: ({ type, payload }) => log.debug("agent.event", { agent: seat.key, type, ...payload }),
        problem: (problem) => log.error("agent.error", { agent: seat.key, ...problem }),
        destroy: () =>
          void destruction.destroy(seat).catch((error) => log.error("agent.undestroyed", { agent: seat.key, error })),
        ended: (ending) => onEnded(seat, host, ending),
      },
    );
    giveAll(seat, host);
  }

  /** For the next wake, once this one was answered: a spare of the class, and a free place. */
  function getReady(entry: AgentClassEntry): void {
    if (stopping) return;
    if (catalog().get(entry.className) === entry) spares.prepare(entry);
    if (threads.size >= limits.liveMax && limits.liveMax >= ROOMY && waiting.size === 0) threads.sleepOne();
  }

  function giveAll(seat: Seat, host: Host): void {
    const errands = seat.errands;
    seat.errands = [];
    for (const errand of errands) errand.give(host);
  }

  function refuseAll(seat: Seat, error: AppError): void {
    leaveLine(seat);
    if (seat.phase === "creating") seat.phase = "asleep";
    const errands = seat.errands;
    seat.errands = [];
    for (const errand of errands) errand.refuse(error);
    forgetIfEmpty(seat);
  }

  function onEnded(seat: Seat, host: Host, { bye, problem }: Ending): void {
    if (seat.host !== host) return;
    threads.remove(seat);
    seat.host = undefined;
    if (bye) noteSleep(seat, bye);
    else if (!seat.condemned) onCrash(seat, problem);
    seat.phase = "asleep";
    if (seat.condemned) void destruction.erase(seat);
    else if (seat.errands.length > 0) wake(seat);
    else forgetIfEmpty(seat);
    pump();
  }

  function noteSleep(seat: Seat, { dueMs, bytes, queueLength }: Bye): void {
    const { className, name } = seat;
    seat.ledgerDueMs = dueMs;
    noteRest(seat, now());
    record(seat, { do: "slept", className, name, atMs: now(), dueMs, bytes, queueLength }).then(
      () => due.arm(),
      () => {}, // the ledger logged it; its row says an earlier time, which costs one needless wake
    );
  }

  function onCrash(seat: Seat, problem: Problem | undefined): void {
    const restsMs = noteCrash(seat, now());
    log.error("agent.crashed", { agent: seat.key, crashes: seat.crashes, restsMs, ...problem });
    // A client that was never greeted would wait for ever; it comes back by itself.
    seat.audience.closeAll(CLOSE.failed, (client) => !client.greeted);
    due.arm();
  }

  function forgetIfEmpty(seat: Seat): void {
    if (isForgettable(seat)) seats.delete(seat.key);
  }

  async function record(seat: Seat, entry: Parameters<Ledger["write"]>[0]): Promise<void> {
    seat.writing++;
    try {
      await ledger.write(entry);
    } finally {
      seat.writing--;
      forgetIfEmpty(seat);
    }
  }

  function pump(): void {
    for (const seat of waiting) {
      if (threads.size >= limits.liveMax) break;
      leaveLine(seat);
      wake(seat);
    }
    threads.makeRoom(waiting.size);
  }

  function tick(): void {
    threads.watch();
    if (waiting.size > 0) threads.makeRoom(waiting.size);
    spares.expire(limits.spareIdleMs);
    let rested = false;
    for (const seat of seats.values()) {
      if (seat.crashes === 0) continue;
      rested = forgive(seat, now()) || rested;
      forgetIfEmpty(seat);
    }
    if (rested) due.arm();
  }

  const due = createDueWatch({
    ledger,
    now,
    classNames: () =>
      catalog()
        .list()
        .map((entry) => entry.className),
    canWake(className, name) {
      const seat = seats.get(`${className}/${name}`);
      return !seat || (seat.phase === "asleep" && seat.restUntilMs <= now() && seat.writing === 0 && !seat.condemned);
    },
    room: () => limits.liveMax - waiting.size - threads.working(),
    wake: (className, name) => wake(seatOf(className, name)),
    retryMs: limits.beatMs,
  });
  const destruction = createDestruction({
    folder,
    ledger,
    record,
    onStuck: threads.markStuck,
    onFree(seat) {
      leaveLine(seat); // it may have waited for a thread; the new agent lines up anew
      if (seat.errands.length === 0) forgetIfEmpty(seat);
      else if (seat.phase === "asleep") wake(seat);
    },
    onDestroyed,
  });

  function hangUp(): void {
    for (const seat of seats.values()) seat.audience.closeAll(CLOSE.restarting);
  }

  return {
    hangUp,
    enter,
    destroy: (className: string, name: string) => destruction.destroy(seatOf(className, name)),
    seat: (className: string, name: string) => seats.get(`${className}/${name}`),
    seats: () => [...seats.values()],
    attach(className: string, name: string, client: Client): boolean {
      const { clients } = seatOf(className, name).audience;
      if (clients.size >= limits.socketsMax) return false;
      clients.set(client.info.socket, client);
      return true;
    },
    detach(className: string, name: string, socket: number): void {
      const seat = seats.get(`${className}/${name}`);
      seat?.audience.clients.delete(socket);
      if (seat) forgetIfEmpty(seat);
    },
    get threadCount() {
      return threads.size;
    },
    get spareCount() {
      return spares.size;
    },
    /** New code: agents finish what they do and start again with it; their clients stay connected. */
    renew(changed: string[]): void {
      for (const className of changed) {
        spares.drop(className);
        const gone = !catalog().get(className);
        for (const seat of [...seats.values()]) {
          if (seat.className !== className) continue;
          if (gone) seat.audience.closeAll(CLOSE.unknownClass);
          if (seat.phase === "live" && seat.host) void threads.retire(seat, seat.host, limits.reloadMsMax);
        }
      }
      due.arm();
    },
    /** What a crash left: half-removed agents, and work that is due. */
    async resume(): Promise<void> {
      await destruction.finish();
      due.arm();
    },
    async stop(): Promise<void> {
      stopping = true;
      clearInterval(ticker);
      due.stop();
      for (const seat of [...waiting]) refuseAll(seat, new AppError("server.stopping", RETRY_SOON));
      hangUp();
      await Promise.all([threads.stop(limits.stopMsMax), spares.close()]);
    },
  };
}

export const agentsFolder = (dataFolder: string): string => join(dataFolder, "agents");
