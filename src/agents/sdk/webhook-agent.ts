// An agent that receives webhooks: it keeps their history, counts them in its state, and hands each to `onEvent` once.
// A subclass overrides `onEvent` and nothing else; without one it is the class every source feeds by default.
import { readPayload } from "../../platform/payload.ts";
import { type Check, toSecrets, verify } from "../../platform/signature.ts";
import type { DeliveryFacts } from "../protocol.ts";
import { Agent } from "./agent.ts";
import { callable } from "./callable.ts";

/** One row of the history, with exactly these columns. `payload` is serialized JSON, `timestamp` ISO-8601 UTC. */
export type EventRow = {
  id: string;
  type: string;
  action: string | null;
  title: string;
  description: string | null;
  url: string | null;
  actor: string | null;
  payload: string | null;
  timestamp: string;
};

/** What `onEvent` gets: the row with its payload parsed, where it came from, and which attempt this is. */
export type WebhookEvent = Omit<EventRow, "payload"> & { payload: unknown; source: string; attempt: number };

export type WebhookState = { count: number; lastEvent: Omit<EventRow, "payload" | "description"> | null };

type Retention = { events: number; days: number };
type Take = { plain: boolean; replay: boolean; retention: Retention };
type Arrival = { facts: DeliveryFacts; payload: unknown; receivedAt: string; direct: boolean };

const GENERIC: readonly Check[] = [
  {
    kind: "first",
    of: ["x-hub-signature-256", "x-signature"].map((header) => {
      return {
        kind: "signature",
        header,
        algorithm: "sha256",
        encoding: "hex",
        key: "text",
        prefix: "sha256=",
        signed: "{body}",
      };
    }),
  },
];
const RETENTION: Retention = { events: 100, days: 30 };
const INBOX_DAYS = 30; // a sender that repeats itself does so within hours or days, never after a month
const SWEEP_EVENTS = 100; // how many events pass between two looks at old ids
const LARGE = 1_000; // a history longer than this is trimmed now and then, not at every event
const LIST_MAX = 1_000;
const DAY_MS = 86_400_000;

export class WebhookAgent<Env = Record<string, unknown>, State = WebhookState> extends Agent<Env, State> {
  readonly #underWay = new Map<string, Promise<Response>>();
  #tables = false;
  #stored = 0;
  #waiting: { run: () => () => void; reject: (error: unknown) => void }[] = [];

  /** What to do with an event. Throw to have it delivered again; a Response that it returns answers the sender. */
  onEvent(_event: WebhookEvent): unknown {
    return undefined;
  }

  override async onRequest(request: Request): Promise<Response> {
    const { delivery } = this;
    if (request.method !== "POST" && !delivery) return refusal(405, "method", { allow: "POST" });
    const body = await request.bytes();
    if (!delivery && !this.#isSigned(request, body)) return refusal(401, "signature");
    const query = new URL(request.url).searchParams;
    const read = await readPayload(request.headers.get("content-type") ?? "", query, body);
    if (!read.ok) return refusal(400, "payload");
    const receivedAt = delivery?.receivedAt ?? new Date().toISOString();
    const facts = delivery ?? directFacts(request.headers, read.json);
    return this.#once({ facts, payload: read.json, receivedAt, direct: !delivery });
  }

  @callable({ description: "The newest events, newest first" })
  getEvents(limit = 20): EventRow[] {
    this.#ensureTables();
    return this.sql<EventRow>`select * from events order by timestamp desc, rowid desc limit ${toLimit(limit)}`;
  }

  @callable({ description: "The newest events of one type, newest first" })
  getEventsByType(type: string, limit = 20): EventRow[] {
    this.#ensureTables();
    return this
      .sql<EventRow>`select * from events where type = ${type} order by timestamp desc, rowid desc limit ${toLimit(limit)}`;
  }

  /** The same delivery twice at the same moment: the second waits for the first and is a duplicate of it. */
  async #once(arrival: Arrival): Promise<Response> {
    const key = `${arrival.facts.source}\n${arrival.facts.id}`;
    const first = this.#underWay.get(key);
    if (first) return (await first).status < 500 ? Response.json({ status: "duplicate" }) : this.#once(arrival);
    const run = this.#process(arrival);
    this.#underWay.set(key, run);
    try {
      return await run;
    } finally {
      this.#underWay.delete(key);
    }
  }

  async #process({ facts, payload, receivedAt }: Arrival): Promise<Response> {
    this.#ensureTables();
    const { source, id, replay = false, attempt = 1 } = facts;
    const row = toRow(facts, payload, receivedAt);
    const retention = toRetention(facts.options);
    const plain = this.onEvent === WebhookAgent.prototype.onEvent;
    const known = await this.#together(() => this.#take(row, source, { plain, replay, retention }));
    if (known === "done") return Response.json({ status: "duplicate" });
    if (plain) return Response.json({ status: "ok" });
    const answer = await this.onEvent({ ...row, id, payload, source, attempt });
    if (answer instanceof Response && answer.status >= 500) return answer;
    await this.#together(
      () => this.sql`update gatehouse_inbox set status = 'done' where source = ${source} and id = ${id}`,
    );
    return answer instanceof Response ? answer : Response.json({ status: "ok" });
  }

  /** All that arrived meanwhile shares one transaction, and so one flush of the disk; each fails on its own. */
  #together<T>(task: () => T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const run = (): (() => void) => {
      try {
        const result = this.ctx.storage.transactionSync(task);
        return () => resolve(result);
      } catch (error) {
        return () => reject(error);
      }
    };
    if (this.#waiting.push({ run, reject }) === 1) setImmediate(() => this.#commit());
    return promise;
  }

  /** Nobody is told before the disk has it. */
  #commit(): void {
    const group = this.#waiting.splice(0);
    try {
      const settled = this.ctx.storage.transactionSync(() => group.map(({ run }) => run()));
      for (const settle of settled) settle();
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }

  /** Insert first: history, state and the id go in together, once, before anybody's code sees the event. */
  #take(row: EventRow, source: string, { plain, replay, retention }: Take): "new" | "again" | "done" {
    const [known] = this.sql<{ status: string }>`
      select status from gatehouse_inbox where source = ${source} and id = ${row.id}`;
    if (known?.status === "done" && !replay) return "done";
    const status = plain ? "done" : "started";
    this.sql`
      insert into gatehouse_inbox (source, id, status, attempts, at_ms)
      values (${source}, ${row.id}, ${status}, 1, ${Date.parse(row.timestamp)})
      on conflict (id, source) do update set status = excluded.status, attempts = attempts + 1`;
    if (known && !replay) return "again";
    this.#store(row, source);
    this.#retain(retention);
    this.#count(row);
    return "new";
  }

  #store(row: EventRow, source: string): void {
    // Two senders may use the same id; the history's key is the id alone, so the later one says whose it is.
    const [taken] = this.sql<{ n: number }>`
      select count(*) as n from gatehouse_inbox where id = ${row.id} and source <> ${source}`;
    const id = (taken?.n ?? 0) > 0 ? `${source}:${row.id}` : row.id;
    this.sql`
      insert or replace into events (id, type, action, title, description, url, actor, payload, timestamp)
      values (${id}, ${row.type}, ${row.action}, ${row.title}, ${row.description}, ${row.url}, ${row.actor},
        ${row.payload}, ${row.timestamp})`;
  }

  /** The newest so many, and none older than so many days; zero turns either off. */
  #retain({ events, days }: Retention): void {
    const step = events > LARGE ? SWEEP_EVENTS : 1; // counting a long history for each event would cost more than the event
    if (events > 0 && this.#stored % step === 0) {
      const [{ n } = { n: 0 }] = this.sql<{ n: number }>`select count(*) as n from events`;
      if (n > events) {
        this.sql`delete from events where rowid in
          (select rowid from events order by timestamp, rowid limit ${n - events})`;
      }
    }
    const now = Date.now();
    if (days > 0) this.sql`delete from events where timestamp < ${new Date(now - days * DAY_MS).toISOString()}`;
    if (++this.#stored % SWEEP_EVENTS !== 0) return;
    this.sql`delete from gatehouse_inbox where status = 'done' and at_ms < ${now - INBOX_DAYS * DAY_MS}`;
  }

  /** Into whatever state the subclass has, beside its own fields. */
  #count({ payload: _, description: __, ...lastEvent }: EventRow): void {
    const state: Record<string, unknown> =
      typeof this.state === "object" && this.state !== null ? { ...this.state } : {};
    const count = typeof state.count === "number" ? state.count : 0;
    this.setState({ ...state, count: count + 1, lastEvent } as State); // the author's claim about their own state
  }

  #isSigned(request: Request, body: Uint8Array): boolean {
    const env: object = typeof this.env === "object" && this.env !== null ? this.env : {};
    const text: unknown = Reflect.get(env, "WEBHOOK_SECRET");
    const secrets = typeof text === "string" ? toSecrets(text) : [];
    if (secrets.length === 0) return false;
    const query = new URLSearchParams();
    return verify(GENERIC, secrets, { headers: request.headers, query, address: "", nowMs: Date.now(), body }) === "ok";
  }

  /** At first use rather than in `onStart`, so that a subclass may override that without calling us. */
  #ensureTables(): void {
    if (this.#tables) return;
    this.sql`create table if not exists events (
      id text primary key not null, type text not null, action text, title text not null, description text, url text, actor text,
      payload text, timestamp text not null)`;
    this.sql`create index if not exists events_timestamp on events (timestamp desc)`;
    this.sql`create table if not exists gatehouse_inbox (
      source text not null, id text not null, status text not null, attempts integer not null, at_ms integer not null,
      primary key (id, source)) without rowid`;
    this.#tables = true;
  }
}

function toRow(facts: DeliveryFacts, payload: unknown, timestamp: string): EventRow {
  return {
    id: facts.id,
    type: facts.type,
    action: facts.action ?? null,
    title: facts.title ?? `${facts.source} ${facts.type}`,
    description: facts.description ?? null,
    url: facts.url ?? null,
    actor: facts.actor ?? null,
    payload: JSON.stringify(payload),
    timestamp,
  };
}

/** For a request that came to the agent's own address and not through the intake. */
function directFacts(headers: Headers, payload: unknown): DeliveryFacts {
  const field = (name: string): string | undefined => {
    const value: unknown = typeof payload === "object" && payload !== null ? Reflect.get(payload, name) : undefined;
    return typeof value === "string" && value !== "" ? value : undefined;
  };
  const given = ["x-delivery-id", "x-event-id", "webhook-id"].map((name) => headers.get(name)).find((id) => id);
  const type = headers.get("x-event-type") || field("type") || "unknown";
  return {
    source: "direct",
    verdict: "ok",
    id: given || crypto.randomUUID(),
    type,
    action: field("action"),
    title: field("title") ?? `webhook ${type}`,
    description: field("description"),
    url: field("url"),
    actor: field("actor"),
  };
}

function toRetention(options: Record<string, unknown> | undefined): Retention {
  const of = (name: keyof Retention): number => {
    const value = options?.[name];
    return typeof value === "number" && value >= 0 ? value : RETENTION[name];
  };
  return { events: of("events"), days: of("days") };
}

function toLimit(limit: unknown): number {
  return typeof limit === "number" && limit >= 1 ? Math.min(Math.floor(limit), LIST_MAX) : 20;
}

function refusal(status: 400 | 401 | 405, code: string, headers: Record<string, string> = {}): Response {
  return Response.json({ error: { code: `webhook.${code}` } }, { status, headers });
}
