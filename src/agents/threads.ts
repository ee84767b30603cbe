// Which agents have a thread, the longest idle first: who is put to sleep, who is watched, who is ended.
import { AppError } from "../platform/errors.ts";
import type { Log } from "../platform/log.ts";
import type { Host } from "./host.ts";
import type { Seat } from "./seat.ts";

type ThreadParts = {
  idleMs: number;
  log: Log;
  now: () => number;
  /** It was asked to stop if idle, and is not: what was held back meanwhile can be given. */
  onBusy: (seat: Seat, host: Host) => void;
  /** Its thread sits in native code and counts against the bound until it returns, if ever. */
  onStuck: (seat: Seat) => void;
};

export function createThreads({ idleMs, log, now, onBusy, onStuck }: ThreadParts) {
  const taken = new Map<string, Seat>();
  const doomed = new WeakSet<Host>();

  /** `drainMs` null: only if it is idle; one that works is never ended to make room. */
  async function retire(seat: Seat, host: Host, drainMs: number | null): Promise<void> {
    seat.phase = "stopping";
    const how = await host.stop(drainMs);
    if (seat.host !== host) return; // ended, and already looked after
    if (how === "stuck") markStuck(seat);
    else if (how === "busy" && seat.phase === "stopping") {
      seat.phase = "live";
      onBusy(seat, host);
    }
  }

  function sleepOne(): boolean {
    for (const seat of taken.values()) {
      if (seat.phase !== "live" || !seat.host?.idle) continue;
      void retire(seat, seat.host, null);
      return true;
    }
    return false;
  }

  /** Once: a thread in native code goes on standing still while it is being ended. */
  async function kill(seat: Seat, host: Host): Promise<void> {
    if (doomed.has(host)) return;
    doomed.add(host);
    log.error("agent.stalled", { agent: seat.key });
    seat.phase = "stopping";
    if ((await host.end(new AppError("agent.gone"))) === "stuck" && seat.host === host) markStuck(seat);
  }

  function markStuck(seat: Seat): void {
    seat.phase = "stuck";
    log.error("agent.stuck", { agent: seat.key });
    onStuck(seat);
  }

  return {
    retire,
    sleepOne,
    markStuck,
    /** To the end of the line: most recently used. */
    touch(seat: Seat): void {
      taken.delete(seat.key);
      taken.set(seat.key, seat);
    },
    remove: (seat: Seat): void => void taken.delete(seat.key),
    /** As many idle agents are put to sleep as others wait. */
    makeRoom(waiting: number): void {
      let wanted = waiting;
      for (const seat of taken.values()) if (seat.phase === "stopping") wanted--;
      while (wanted-- > 0 && sleepOne());
    },
    /** A look at each, once a beat. */
    watch(): void {
      for (const seat of [...taken.values()]) {
        const { host } = seat;
        if (!host || seat.phase === "stuck") continue;
        if (host.stalled()) void kill(seat, host);
        else if (seat.phase === "live" && now() - seat.activeMs > idleMs && host.idle) void retire(seat, host, null);
      }
    },
    working(): number {
      let count = 0;
      for (const { host } of taken.values()) if (!host?.idle) count++;
      return count;
    },
    get size() {
      return taken.size;
    },
    async stop(drainMs: number): Promise<void> {
      await Promise.all([...taken.values()].map((seat) => seat.host && retire(seat, seat.host, drainMs)));
    },
  };
}
