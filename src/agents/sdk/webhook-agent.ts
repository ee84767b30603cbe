// An agent that receives webhooks: it keeps their history, counts them in its state, and hands each to `onEvent` once.
// A subclass overrides `onEvent` and nothing else; without one it is the class every source feeds by default.
import { readPayload } from "../../platform/payload.ts";
import { type Check, toSecrets, verify } from "../../platform/signature.ts";
import type { DeliveryFacts } from "../protocol.ts";
import { createOnce, duplicate } from "../runtime/deliveries.ts";
import { createGroupCommit } from "../runtime/group-commit.ts";
import { Agent } from "./agent.ts";
import { callable } from "./callable.ts";
import { createHistory, type EventRow, type History, type Retention } from "./webhook-history.ts";

/** What `onEvent` gets: the row with its payload parsed, where it came from, and which attempt this is. */
export type WebhookEvent = Omit<EventRow, "payload"> & { payload: unknown; source: string; attempt: number };

export type WebhookState = { count: number; lastEvent: Omit<EventRow, "payload" | "description"> | null };

/** The payload as text, and the value when somebody wants it. */
type Payload = { text: string; value: () => unknown };

const GENERIC: readonly Check[] = [
  {
    kind: "first",
    of: ["x-hub-signature-256", "x-signature"].map((header) => {
      const how = { algorithm: "sha256", encoding: "hex", key: "text", prefix: "sha256=", signed: "{body}" } as const;
      return { kind: "signature", header, ...how };
    }),
  },
];
const RETENTION: Retention = { events: 100, days: 30 };
const LIST_MAX = 1_000;
const JSON_TYPE = /^application\/json\b/i;

export class WebhookAgent<Env = Record<string, unknown>, State = WebhookState> extends Agent<Env, State> {
  readonly #once = createOnce();
  readonly #together = createGroupCommit((task) => this.ctx.storage.transactionSync(task));
  #opened: History | undefined;

  /** What to do with an event. Throw to have it delivered again; a Response that it returns answers the sender. */
  onEvent(_event: WebhookEvent): unknown {
    return undefined;
  }

  override async onRequest(request: Request): Promise<Response> {
    const { delivery } = this;
    if (request.method !== "POST" && !delivery) return refusal(405, "method", { allow: "POST" });
    const body = await request.bytes();
    if (!delivery && !this.#isSigned(request, body)) return refusal(401, "signature");
    const payload = await toPayload(request, body, delivery !== undefined);
    if (!payload) return refusal(400, "payload");
    const receivedAt = delivery?.receivedAt ?? new Date().toISOString();
    const facts = delivery ?? directFacts(request.headers, payload.value());
    return this.#once(facts, () => this.#process(facts, payload, receivedAt));
  }

  @callable({ description: "The newest events, newest first" })
  getEvents(limit = 20): EventRow[] {
    return this.#history.newest(toLimit(limit));
  }

  @callable({ description: "The newest events of one type, newest first" })
  getEventsByType(type: string, limit = 20): EventRow[] {
    return this.#history.newestOf(type, toLimit(limit));
  }

  /** Its tables are made at first use and not in `onStart`, so that a subclass may override that without calling us. */
  get #history(): History {
    this.#opened ??= createHistory(
      (strings, ...values) => this.sql(strings, ...values),
      (query) => void this.ctx.storage.sql.exec(query),
    );
    return this.#opened;
  }

  /** History, state and id go in together, once, before anybody's code sees the event. */
  async #process(facts: DeliveryFacts, payload: Payload, receivedAt: string): Promise<Response> {
    const history = this.#history;
    const { source, id, replay = false, attempt = 1 } = facts;
    const row = toRow(facts, payload.text, receivedAt);
    const plain = this.onEvent === WebhookAgent.prototype.onEvent;
    const taken = await this.#together(() => {
      const it = history.take(row, source, plain ? "done" : "started", replay, toRetention(facts.options));
      if (it === "new") this.#count(row);
      return it;
    });
    if (taken === "done") return duplicate();
    if (plain) return Response.json({ status: "ok" });
    const answer = await this.onEvent({ ...row, payload: payload.value(), source, attempt });
    if (answer instanceof Response && answer.status >= 500) return answer;
    await this.#together(() => history.finish(id, source));
    return answer instanceof Response ? answer : Response.json({ status: "ok" });
  }

  /** Into whatever state the subclass has, beside its own fields. */
  #count({ payload: _, description: __, ...lastEvent }: EventRow): void {
    const state: unknown = this.state;
    const own: Record<string, unknown> = typeof state === "object" && state !== null ? { ...state } : {};
    const count = typeof own.count === "number" ? own.count : 0;
    this.setState({ ...own, count: count + 1, lastEvent } as State); // the author's claim about their own state
  }

  #isSigned(request: Request, body: Uint8Array): boolean {
    const env: object = typeof this.env === "object" && this.env !== null ? this.env : {};
    const text: unknown = Reflect.get(env, "WEBHOOK_SECRET");
    const secrets = typeof text === "string" ? toSecrets(text) : [];
    if (secrets.length === 0) return false;
    const query = new URLSearchParams();
    return verify(GENERIC, secrets, { headers: request.headers, query, address: "", nowMs: Date.now(), body }) === "ok";
  }
}

/** undefined: it cannot be read. The intake has read it once already, so its JSON is stored as it came. */
async function toPayload(request: Request, body: Uint8Array, verified: boolean): Promise<Payload | undefined> {
  const contentType = request.headers.get("content-type") ?? "";
  if (verified && body.length > 0 && JSON_TYPE.test(contentType)) {
    const text = new TextDecoder().decode(body);
    return { text, value: () => JSON.parse(text) };
  }
  const read = await readPayload(contentType, new URL(request.url).searchParams, body);
  return read.ok ? { text: JSON.stringify(read.json), value: () => read.json } : undefined;
}

function toRow(facts: DeliveryFacts, payload: string, timestamp: string): EventRow {
  return {
    id: facts.id,
    type: facts.type,
    action: facts.action ?? null,
    title: facts.title ?? `${facts.source} ${facts.type}`,
    description: facts.description ?? null,
    url: facts.url ?? null,
    actor: facts.actor ?? null,
    payload,
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
