// Which agents have a thread right now: started on demand, put to sleep when idle, bounded in number, woken when due.
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { AppError, toAppError } from "../platform/errors.ts";
import type { Log } from "../platform/log.ts";
import type { AgentClassEntry, Catalog } from "./catalog.ts";
import { CLOSE, type Client, createClients } from "./clients.ts";
import { type Bye, type Ending, type Host, type HostLimits, RETRY_SOON, startHost } from "./host.ts";
import type { Ledger } from "./ledger.ts";
import type { FromAgent, Problem } from "./protocol.ts";
import { databasePath } from "./runtime/names.ts";
import { createSpares } from "./spares.ts";

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

/** Something on its way to an agent: given to its thread, or refused; never neither. */
export type Errand = {
  give(host: Host): void;
  refuse(error: AppError): void;
  /** Coming and going of clients is bounded by how many there may be; after a restart all come back at once. */
  isArrival?: boolean;
};

export type Phase = "asleep" | "creating" | "waiting" | "live" | "stopping" | "stuck" | "destroying";
export type Seat = {
  key: string;
  className: string;
  name: string;
  phase: Phase;
  host: Host | undefined;
  errands: Errand[];
  audience: ReturnType<typeof createClients>;
  known: boolean;
  ledgerDueMs: number | null;
  /** Ledger writes not on disk yet: until then this record, not the ledger, is the truth. */
  writing: number;
  activeMs: number;
  launchedMs: number;
  crashes: number;
  crashedMs: number;
  restUntilMs: number;
  waitTimer: Timer | undefined;
  condemned: PromiseWithResolvers<void> | undefined;
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
  onAsk: (seat: Seat, message: Extract<FromAgent, { type: "ask" }>) => void;
  onDestroyed: (className: string, name: string) => void;
};

const HEALTHY_MS = 60_000; // a thread that lived this long was no part of a crash loop
const RESTLESS_CRASHES = 2; // the first restarts are at once: most crashes are one bad request
const REST_MS_MAX = 60_000;
const READY_MS = 10; // preparing a spare takes the time of a core; the answer under way comes first
const ROOMY = 4; // with fewer threads than this, a free place would cost more wakes than it saves
const DUE_ROWS_MAX = 500;
const DUE_CHECK_MS_MAX = 60_000; // clocks jump; a look at the ledger once a minute is cheap

export function restMs(crashes: number): number {
  return crashes <= RESTLESS_CRASHES ? 0 : Math.min(1000 * 2 ** (crashes - RESTLESS_CRASHES - 1), REST_MS_MAX);
}

export function createRoster(parts: RosterParts) {
  const { folder, worker, catalog, ledger, secretsOf, limits, log, now, onAsk, onDestroyed } = parts;
  const seats = new Map<string, Seat>();
  /** Seats with a thread, the longest idle first. */
  const threads = new Map<string, Seat>();
  const waiting = new Set<Seat>();
  const start = (entry: AgentClassEntry) => startHost(worker, entry.className, entry.source, limits, now);
  const spares = createSpares(start, limits.sparesMax, now);
  let dueTimer: Timer | undefined;
  let stopping = false;
  const ticker = setInterval(tick, limits.beatMs);

  function seatOf(className: string, name: string): Seat {
    const key = `${className}/${name}`;
    const known = seats.get(key);
    if (known) return known;
    const row = ledger.one(className, name);
    const seat: Seat = {
      key,
      className,
      name,
      phase: "asleep",
      host: undefined,
      errands: [],
      audience: createClients(key),
      known: row !== undefined,
      ledgerDueMs: row?.due_ms ?? null,
      writing: 0,
      activeMs: now(),
      launchedMs: 0,
      crashes: 0,
      crashedMs: 0,
      restUntilMs: 0,
      waitTimer: undefined,
      condemned: undefined,
    };
    seats.set(key, seat);
    return seat;
  }

  function enter(className: string, name: string, errand: Errand): void {
    const seat = seatOf(className, name);
    seat.activeMs = now();
    if (seat.phase === "live" && seat.host?.ended) seat.phase = "stopping"; // its thread is about to be gone: wait for it
    if (seat.phase === "live" && seat.host) {
      threads.delete(seat.key); // to the end of the line: most recently used
      threads.set(seat.key, seat);
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
    seat.waitTimer = setTimeout(() => {
      waiting.delete(seat);
      refuseAll(seat, new AppError("agent.busy", RETRY_SOON));
    }, limits.waitMsMax);
    makeRoom();
  }

  function launch(seat: Seat, entry: AgentClassEntry): void {
    const { className, name, audience } = seat;
    const host = spares.take(entry) ?? start(entry);
    seat.phase = "live";
    seat.host = host;
    seat.launchedMs = now();
    threads.set(seat.key, seat);
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
      },
      {
        started: () => void setTimeout(getReady, READY_MS, entry),
        socket: audience.take,
        ask: (message) => onAsk(seat, message),
        due: (dueMs) => {
          seat.ledgerDueMs = seat.ledgerDueMs === null ? dueMs : Math.min(seat.ledgerDueMs, dueMs);
          return record(seat, { do: "due", className, name, dueMs });
        },
        event: ({ type, payload }) => log.debug("agent.event", { agent: seat.key, type, ...payload }),
        problem: (problem) => log.error("agent.error", { agent: seat.key, ...problem }),
        destroy: () => void destroy(className, name),
        ended: (ending) => onEnded(seat, host, ending),
      },
    );
    giveAll(seat, host);
  }

  /** For the next wake, once this one was answered: a spare of the class, and a free place. */
  function getReady(entry: AgentClassEntry): void {
    if (stopping) return;
    if (catalog().get(entry.className) === entry) spares.prepare(entry);
    if (threads.size >= limits.liveMax && limits.liveMax >= ROOMY && waiting.size === 0) sleepOne();
  }

  function sleepOne(): boolean {
    for (const seat of threads.values()) {
      if (seat.phase !== "live" || !seat.host?.idle) continue;
      void retire(seat, seat.host, null);
      return true;
    }
    return false;
  }

  function giveAll(seat: Seat, host: Host): void {
    const errands = seat.errands;
    seat.errands = [];
    for (const errand of errands) errand.give(host);
  }

  function refuseAll(seat: Seat, error: AppError): void {
    clearTimeout(seat.waitTimer);
    if (seat.phase === "creating" || seat.phase === "waiting") seat.phase = "asleep";
    const errands = seat.errands;
    seat.errands = [];
    for (const errand of errands) errand.refuse(error);
    forgetIfEmpty(seat);
  }

  function onEnded(seat: Seat, host: Host, { bye, problem }: Ending): void {
    if (seat.host !== host) return;
    threads.delete(seat.key);
    seat.host = undefined;
    if (bye) noteSleep(seat, bye);
    else if (!seat.condemned) noteCrash(seat, problem);
    seat.phase = "asleep";
    if (seat.condemned) void erase(seat);
    else if (seat.errands.length > 0) wake(seat);
    else forgetIfEmpty(seat);
    pump();
  }

  function noteSleep(seat: Seat, { dueMs, bytes, queueLength }: Bye): void {
    const { className, name } = seat;
    seat.ledgerDueMs = dueMs;
    if (now() - seat.launchedMs > HEALTHY_MS) seat.crashes = 0;
    record(seat, { do: "slept", className, name, atMs: now(), dueMs, bytes, queueLength }).then(
      () => armDue(),
      () => {}, // the ledger logged it; its row says an earlier time, which costs one needless wake
    );
  }

  function noteCrash(seat: Seat, problem: Problem | undefined): void {
    seat.crashes = now() - seat.launchedMs > HEALTHY_MS ? 1 : seat.crashes + 1;
    const restsMs = restMs(seat.crashes);
    seat.crashedMs = now();
    seat.restUntilMs = now() + restsMs;
    log.error("agent.crashed", { agent: seat.key, crashes: seat.crashes, restsMs, ...problem });
    // A client that was never greeted would wait for ever; it comes back by itself.
    seat.audience.closeAll(CLOSE.failed, (client) => !client.greeted);
    armDue();
  }

  /** An empty seat costs memory for nothing, but only a row on disk may speak for it. */
  function forgetIfEmpty(seat: Seat): void {
    const empty = seat.phase === "asleep" && seat.audience.clients.size === 0 && seat.errands.length === 0;
    if (empty && seat.writing === 0 && seat.crashes === 0) seats.delete(seat.key);
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
      waiting.delete(seat);
      clearTimeout(seat.waitTimer);
      seat.phase = "asleep";
      wake(seat);
    }
    makeRoom();
  }

  /** As many idle agents are put to sleep as others wait; one that works never is. */
  function makeRoom(): void {
    let wanted = waiting.size;
    for (const seat of threads.values()) if (seat.phase === "stopping") wanted--;
    while (wanted-- > 0 && sleepOne());
  }

  async function retire(seat: Seat, host: Host, drainMs: number | null): Promise<void> {
    seat.phase = "stopping";
    const how = await host.stop(drainMs);
    if (seat.host !== host) return; // ended, and already looked after
    if (how === "stuck") markStuck(seat);
    else if (how === "busy" && seat.phase === "stopping") {
      seat.phase = "live";
      giveAll(seat, host);
    }
  }

  function markStuck(seat: Seat): void {
    seat.phase = "stuck";
    log.error("agent.stuck", { agent: seat.key });
    refuseAll(seat, new AppError("agent.stuck"));
  }

  function tick(): void {
    for (const seat of [...threads.values()]) {
      const { host } = seat;
      if (!host) continue;
      if (seat.phase !== "stuck" && host.stalled()) void kill(seat, host);
      else if (seat.phase === "live" && now() - seat.activeMs > limits.idleMs && host.idle) {
        void retire(seat, host, null);
      }
    }
    if (waiting.size > 0) makeRoom();
    spares.expire(limits.spareIdleMs);
    for (const seat of seats.values()) if (seat.crashes > 0) forgive(seat);
  }

  /** Crashes count while they follow each other closely; a sleeping agent that had none for a while is as good as new. */
  function forgive(seat: Seat): void {
    if (seat.restUntilMs > 0 && seat.restUntilMs <= now()) {
      seat.restUntilMs = 0;
      armDue();
    }
    if (!seat.host && now() - seat.crashedMs > HEALTHY_MS) {
      seat.crashes = 0;
      forgetIfEmpty(seat);
    }
  }

  async function kill(seat: Seat, host: Host): Promise<void> {
    log.error("agent.stalled", { agent: seat.key });
    seat.phase = "stopping";
    if ((await host.end(new AppError("agent.gone"))) === "stuck" && seat.host === host) markStuck(seat);
  }

  // Due work

  function armDue(): void {
    clearTimeout(dueTimer);
    if (stopping) return;
    const nextMs = ledger.nextDueMs(now());
    const overdue = ledger.due(now(), classNames(), DUE_ROWS_MAX).some((row) => canWake(row.class, row.name));
    const inMs = overdue ? 0 : nextMs === null ? DUE_CHECK_MS_MAX : nextMs - now();
    dueTimer = setTimeout(wakeDue, Math.min(Math.max(inMs, 0), DUE_CHECK_MS_MAX));
    dueTimer.unref();
  }

  /** Only as many at once as could run: the rest is found again when a thread is free. */
  function wakeDue(): void {
    if (stopping) return;
    let room = limits.liveMax - waiting.size;
    for (const { host } of threads.values()) if (!host?.idle) room--;
    for (const row of ledger.due(now(), classNames(), DUE_ROWS_MAX)) {
      if (!canWake(row.class, row.name)) continue;
      if (room-- <= 0) {
        clearTimeout(dueTimer);
        dueTimer = setTimeout(wakeDue, limits.beatMs);
        return;
      }
      wake(seatOf(row.class, row.name));
    }
    armDue();
  }

  const classNames = () =>
    catalog()
      .list()
      .map((entry) => entry.className);

  function canWake(className: string, name: string): boolean {
    const seat = seats.get(`${className}/${name}`);
    return !seat || (seat.phase === "asleep" && seat.restUntilMs <= now() && seat.writing === 0);
  }

  // Destruction

  function destroy(className: string, name: string): Promise<void> {
    const seat = seatOf(className, name);
    if (seat.condemned) return seat.condemned.promise;
    const condemned = Promise.withResolvers<void>();
    seat.condemned = condemned;
    seat.audience.closeAll(CLOSE.destroyed);
    record(seat, { do: "condemn", className, name }).then(
      async () => {
        if (seat.host) {
          const { host } = seat;
          seat.phase = "destroying";
          if ((await host.end(new AppError("agent.destroyed"))) === "stuck" && seat.host === host) markStuck(seat);
        } else await erase(seat);
      },
      (error) => condemned.reject(error),
    );
    return condemned.promise;
  }

  async function erase(seat: Seat): Promise<void> {
    const { className, name, condemned } = seat;
    seat.phase = "destroying";
    await removeFiles(className, name);
    await record(seat, { do: "forget", className, name });
    seat.condemned = undefined;
    seat.known = false;
    seat.ledgerDueMs = null;
    seat.phase = "asleep";
    onDestroyed(className, name);
    condemned?.resolve();
    if (seat.errands.length > 0) wake(seat);
    else forgetIfEmpty(seat);
  }

  async function removeFiles(className: string, name: string): Promise<void> {
    const path = databasePath(folder, className, name);
    for (const suffix of ["", "-wal", "-shm"]) await rm(`${path}${suffix}`, { force: true });
  }

  function hangUp(): void {
    for (const seat of seats.values()) seat.audience.closeAll(CLOSE.restarting);
  }

  return {
    hangUp,
    enter,
    destroy,
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
          if (seat.phase === "live" && seat.host) void retire(seat, seat.host, limits.reloadMsMax);
        }
      }
      armDue();
    },
    /** What a crash left: half-removed agents, and work that is due. */
    async resume(): Promise<void> {
      for (const { class: className, name } of ledger.condemned()) {
        await removeFiles(className, name);
        await ledger.write({ do: "forget", className, name });
        onDestroyed(className, name);
      }
      armDue();
    },
    async stop(): Promise<void> {
      stopping = true;
      clearInterval(ticker);
      clearTimeout(dueTimer);
      for (const seat of [...waiting]) refuseAll(seat, new AppError("server.stopping", RETRY_SOON));
      waiting.clear();
      hangUp();
      const live = [...threads.values()];
      await Promise.all([
        ...live.map((seat) => seat.host && retire(seat, seat.host, limits.stopMsMax)),
        spares.close(),
      ]);
    },
  };
}

export const agentsFolder = (dataFolder: string): string => join(dataFolder, "agents");
