// One agent's place in the house, with or without a thread: who waits for it, who is connected, how it has fared.
import type { AppError } from "../platform/errors.ts";
import { createClients } from "./clients.ts";
import type { Host } from "./host.ts";
import type { LedgerRow } from "./ledger.ts";

/** Something on its way to an agent: given to its thread, or refused; never neither. */
export type Errand = {
  give(host: Host): void;
  refuse(error: AppError): void;
  /** Coming and going of clients is bounded by how many there may be; after a restart all come back at once. */
  isArrival?: boolean;
  /** What a life that begins with this errand is told at its start. */
  props?: string | undefined;
};

export type Phase = "asleep" | "creating" | "waiting" | "live" | "stopping" | "stuck";
export type Seat = {
  key: string;
  className: string;
  name: string;
  phase: Phase;
  host: Host | undefined;
  errands: Errand[];
  audience: ReturnType<typeof createClients>;
  /** It has a row in the ledger, so that a crash does not forget it. */
  known: boolean;
  ledgerDueMs: number | null;
  /** Ledger writes not on disk yet: until then this record, not the ledger, is the truth. */
  writing: number;
  /** Of the code its thread runs. */
  fingerprint: string;
  activeMs: number;
  launchedMs: number;
  crashes: number;
  crashedMs: number;
  restUntilMs: number;
  waitTimer: Timer | undefined;
  /** Set while it is being destroyed: nothing wakes it until that is done. */
  condemned: PromiseWithResolvers<void> | undefined;
};

const HEALTHY_MS = 60_000; // a thread that lived this long was no part of a crash loop
const RESTLESS_CRASHES = 2; // the first restarts are at once: most crashes are one bad request
const REST_MS_MAX = 60_000;

export function createSeat(className: string, name: string, row: LedgerRow | undefined, nowMs: number): Seat {
  const key = `${className}/${name}`;
  return {
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
    fingerprint: "",
    activeMs: nowMs,
    launchedMs: 0,
    crashes: 0,
    crashedMs: 0,
    restUntilMs: 0,
    waitTimer: undefined,
    condemned: undefined,
  };
}

/** An empty seat costs memory for nothing, but only a row on disk may speak for it, and crashes are remembered a while. */
export function isForgettable(seat: Seat): boolean {
  const empty = seat.phase === "asleep" && seat.audience.clients.size === 0 && seat.errands.length === 0;
  return empty && seat.writing === 0 && seat.crashes === 0 && !seat.condemned;
}

export function restMs(crashes: number): number {
  return crashes <= RESTLESS_CRASHES ? 0 : Math.min(1000 * 2 ** (crashes - RESTLESS_CRASHES - 1), REST_MS_MAX);
}

/** Answers how long it rests. */
export function noteCrash(seat: Seat, nowMs: number): number {
  seat.crashes = nowMs - seat.launchedMs > HEALTHY_MS ? 1 : seat.crashes + 1;
  seat.crashedMs = nowMs;
  seat.restUntilMs = nowMs + restMs(seat.crashes);
  return restMs(seat.crashes);
}

export function noteRest(seat: Seat, nowMs: number): void {
  if (nowMs - seat.launchedMs > HEALTHY_MS) seat.crashes = 0;
}

/** Crashes count while they follow each other closely. Answers whether a rest has just ended. */
export function forgive(seat: Seat, nowMs: number): boolean {
  if (!seat.host && nowMs - seat.crashedMs > HEALTHY_MS) seat.crashes = 0;
  const rested = seat.restUntilMs > 0 && seat.restUntilMs <= nowMs;
  if (rested) seat.restUntilMs = 0;
  return rested;
}
