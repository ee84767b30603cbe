// What the journal holds, and what the main thread and the journal's thread may say to each other. Types and SQL only.
import type { Migration } from "../platform/sqlite.ts";

/** `held`: its source is paused. `dead`: given up, kept for replay. */
export type DeliveryStatus = "pending" | "held" | "done" | "dead";

/** What a preset reads out of a delivery, beside the entity. */
export type Facts = {
  type: string;
  action?: string;
  title: string;
  description?: string;
  url?: string;
  actor?: string;
};

export type Append = Facts & {
  /** Ours, time ordered; the sender's own is `deliveryId`. */
  id: string;
  source: string;
  className: string;
  identifier: string;
  /** The path segment, when it alone named the entity: a source of that name must not take it over later. */
  route?: string;
  deliveryId: string;
  /** Without it every delivery is an event of its own. `sinceMs` is how far back an equal key counts. */
  dedupe?: { key: string; sinceMs: number };
  method: string;
  path: string;
  address: string;
  /** Pairs as JSON text: that is how they are stored, and text crosses to the thread at a tenth of the cost. */
  headers: string;
  body: Uint8Array;
  receivedMs: number;
  status: "pending" | "held";
  ordered: boolean;
};

export type Appended =
  /** `wait`: an earlier one of an ordered source goes first. */
  | { kind: "stored"; seq: number; id: string; name: string; wait: boolean }
  | { kind: "duplicate"; id: string; name: string };

export type Mark =
  | { seq: number; outcome: "done"; answer: number; atMs: number; durationMs: number }
  /** `attempts` so far: one less than there were when the agent never saw it. A number, so that it may be told twice. */
  | { seq: number; outcome: "retry"; reason: string; answer?: number; dueMs: number; attempts: number }
  | { seq: number; outcome: "dead"; reason: string; answer?: number; atMs: number };

export type Rejection = {
  atMs: number;
  source: string;
  stage: string;
  verdict: string;
  status: number;
  method: string;
  path: string;
  address: string;
  bytes: number;
  headers: [string, string][];
};

export type Batch = { appends: Append[]; marks: Mark[]; rejections: Rejection[] };

/** One row of the log, as the API shows it. */
export type DeliveryRow = {
  seq: number;
  id: string;
  source: string;
  class: string;
  identifier: string;
  name: string;
  delivery_id: string;
  type: string;
  action: string | null;
  title: string;
  description: string | null;
  url: string | null;
  actor: string | null;
  method: string;
  path: string;
  address: string;
  bytes: number;
  received_ms: number;
  status: DeliveryStatus;
  ordered: number;
  attempts: number;
  due_ms: number;
  replay: number;
  answer: number | null;
  reason: string | null;
  finished_ms: number | null;
  duration_ms: number | null;
};
export type Content = { headers: [string, string][]; body: Uint8Array };
export type Taken = { row: DeliveryRow; content: Content };

export type DeliveryFilter = {
  source?: string;
  className?: string;
  name?: string;
  status?: DeliveryStatus;
  type?: string;
  sinceMs?: number;
  untilMs?: number;
};

/** Questions outside the group commit: name, input, output. */
export type Questions = {
  take: [{ nowMs: number; limit: number; leaseMs: number; busy: number[] }, { taken: Taken[]; nextMs: number | null }];
  resume: [{ nowMs: number; attemptsMax: number }, { undone: number }];
  list: [{ filter: DeliveryFilter; before: number | null; limit: number }, DeliveryRow[]];
  get: [{ id: string }, Taken | null];
  replay: [{ filter: DeliveryFilter; ids: string[] | null; nowMs: number; limit: number }, { count: number }];
  drop: [{ ids: string[] }, { count: number }];
  /** What is held and not for one of the paused sources. */
  release: [{ paused: string[]; nowMs: number }, { count: number }];
  hasten: [{ className: string; nowMs: number }, { count: number }];
  destroyed: [{ className: string; name: string; nowMs: number }, { count: number }];
  rejections: [{ source: string | null; limit: number }, Rejection[]];
  /** What is not done; done ones are too many to count whenever somebody looks. */
  counts: [
    Record<string, never>,
    { counts: { source: string; status: DeliveryStatus; count: number }[]; bytes: number },
  ];
  routes: [{ names: string[] }, string[]];
  names: [{ className: string; name: string }, string[]];
};
export type Question = keyof Questions;

export type JournalLimits = { bytesMax: number; ageMsMax: number };
export type ToJournal =
  | { type: "open"; path: string; limits: JournalLimits }
  | { type: "commit"; id: number; batch: Batch }
  | { type: "ask"; id: number; question: Question; input: unknown }
  | { type: "stop" };
export type FromJournal =
  | { type: "unopened"; message: string }
  | { type: "done"; id: number; output: unknown }
  /** `full`: no room, which can pass. `failed`: anything else. */
  | { type: "failed"; id: number; kind: "full" | "failed"; message: string };

export const MIGRATIONS: readonly Migration[] = [
  `create table deliveries (
     seq integer primary key,
     id text not null unique,
     source text not null,
     class text not null,
     identifier text not null,
     name text not null,
     delivery_id text not null,
     dedupe_key text,
     type text not null,
     action text,
     title text not null,
     description text,
     url text,
     actor text,
     method text not null,
     path text not null,
     address text not null,
     bytes integer not null,
     received_ms integer not null,
     status text not null,
     ordered integer not null,
     attempts integer not null,
     due_ms integer not null,
     replay integer not null default 0,
     answer integer,
     reason text,
     finished_ms integer,
     duration_ms integer
   ) strict;
   create index deliveries_key on deliveries (dedupe_key) where dedupe_key is not null;
   create index deliveries_due on deliveries (due_ms) where status = 'pending';
   create index deliveries_ordered on deliveries (class, name, source, seq)
     where ordered = 1 and status in ('pending', 'held');
   create index deliveries_unfinished on deliveries (status, source) where status <> 'done';
   create table contents (seq integer primary key, headers text not null, body blob not null) strict;
   create table names (
     class text not null, identifier text not null, name text not null,
     primary key (class, identifier), unique (class, name)
   ) strict, without rowid;
   create table entity_routes (name text primary key) strict, without rowid;
   create table rejections (seq integer primary key, at_ms integer not null, source text not null, detail text not null)
   strict;`,
];
