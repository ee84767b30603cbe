// The class a user's agent extends. Thin on purpose: each member says what it means and hands over to the runtime.

import type { AgentEvent, DeliveryFacts } from "../protocol.ts";
import { type Connection, infoOf, keepConnection } from "../runtime/connections.ts";
import { currentOccasion } from "../runtime/context.ts";
import type { SqlValue } from "../runtime/database.ts";
import type {
  FiberContext,
  FiberCriteria,
  FiberDeletion,
  FiberInspection,
  FiberOptions,
  FiberRecovery,
  FiberStart,
  FiberVerdict,
} from "../runtime/fibers.ts";
import type { Runtime } from "../runtime/life.ts";
import { type QueuedWebhook, SEND_ATTEMPTS_MAX, type WebhookAnswer, type WebhookOptions } from "../runtime/outgoing.ts";
import type { QueueItem } from "../runtime/queue.ts";
import { parseRetry, type RetryOptions, tryAgain } from "../runtime/retry.ts";
import type { Schedule, ScheduleCriteria, ScheduleOptions } from "../runtime/schedules.ts";
import { AgentContext } from "./agent-context.ts";
import { type CallableMetadata, callablesOf } from "./callable.ts";

export type AgentOptions = {
  /** Who may use this class without a token: nobody (default), anyone, or anyone but only to look. */
  public?: boolean | "read";
  /** May clients without a token of their own write the state of a public class? */
  clientState?: boolean;
  /** `false` takes the sandbox off this class's HTTP answers, for an agent that serves its own pages. */
  sandbox?: boolean;
  sendIdentityOnConnect?: boolean;
  retry?: RetryOptions;
  [other: string]: unknown;
};
export type ConnectionContext = { request: Request };
export type Observability = { emit(event: AgentEvent & { agent: string; name: string }): void };

/** Methods of the agent that take one payload, for `queue` and `schedule`. */
type Callback = string;

export class Agent<
  Env = Record<string, unknown>,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> {
  static options: AgentOptions = {};

  readonly ctx: AgentContext;
  readonly env: Env;
  declare readonly initialState: State;
  observability: Observability | undefined;
  readonly #runtime: Runtime;

  constructor(ctx: AgentContext, env: Env) {
    this.ctx = ctx;
    this.env = env;
    this.#runtime = AgentContext.runtimeOf(ctx);
    this.observability = this.#runtime.observability;
  }

  get name(): string {
    return this.#runtime.name;
  }

  // State

  get state(): State {
    return this.#runtime.stateValue() as State; // the author's claim about their own state
  }

  setState(state: State): void {
    const { connection } = currentOccasion();
    if (connection && this.isConnectionReadonly(connection)) throw new Error("Connection is readonly");
    this.#runtime.changeState(state, "server");
  }

  /** Throw to refuse. Synchronous. */
  validateStateChange(_next: State, _source: Connection | "server"): void {}

  onStateChanged(_state: State | undefined, _source: Connection | "server"): void | Promise<void> {}

  // Storage

  sql<Row = Record<string, SqlValue>>(strings: TemplateStringsArray, ...values: unknown[]): Row[] {
    return this.#runtime.sql<Row>(strings, ...values);
  }

  // Life

  onStart(_props?: Props): void | Promise<void> {}

  onRequest(_request: Request): Response | Promise<Response> {
    return new Response("Not implemented", { status: 404 });
  }

  /** Reports by default; what an override throws is reported too. */
  onError(connectionOrError: unknown, error?: unknown): void | Promise<void> {
    throw error ?? connectionOrError;
  }

  /** Ends this agent: its database is removed and its clients are disconnected. */
  async destroy(): Promise<void> {
    this.#runtime.emit("destroy", {});
    return this.#runtime.destroy();
  }

  /** The webhook being handled, with what was verified about it; `undefined` outside of one. */
  get delivery(): DeliveryFacts | undefined {
    return currentOccasion().delivery;
  }

  // Connections

  onConnect(_connection: Connection, _context: ConnectionContext): void | Promise<void> {}
  onMessage(_connection: Connection, _message: string | ArrayBuffer): void | Promise<void> {}
  onClose(_connection: Connection, _code: number, _reason: string, _wasClean: boolean): void | Promise<void> {}

  getConnectionTags(_connection: Connection, _context: ConnectionContext): string[] | Promise<string[]> {
    return [];
  }

  shouldConnectionBeReadonly(_connection: Connection, _context: ConnectionContext): boolean {
    return false;
  }

  shouldSendProtocolMessages(_connection: Connection, _context: ConnectionContext): boolean {
    return true;
  }

  setConnectionReadonly(connection: Connection, readonly = true): void {
    keepConnection(connection, { readonly });
  }

  isConnectionReadonly(connection: Connection): boolean {
    return infoOf(connection).kept.readonly;
  }

  isConnectionProtocolEnabled(connection: Connection): boolean {
    return infoOf(connection).kept.protocol;
  }

  broadcast(message: string | ArrayBuffer | ArrayBufferView, without?: string[]): void {
    this.#runtime.connections.broadcast(message, without);
  }

  getConnections<S = unknown>(tag?: string): Iterable<Connection<S>> {
    return this.#runtime.connections.all(tag) as Connection<S>[]; // the author's claim about connection state
  }

  getConnection<S = unknown>(id: string): Connection<S> | undefined {
    return this.#runtime.connections.get(id) as Connection<S> | undefined; // as above
  }

  getCallableMethods(): Map<string, CallableMetadata> {
    return callablesOf(Object.getPrototypeOf(this));
  }

  // Queue

  async queue(callback: Callback, payload?: unknown, options?: { retry?: RetryOptions; id?: string }): Promise<string> {
    this.#runtime.requireMethod(callback);
    return this.#runtime.queue.push(callback, payload, options);
  }

  async dequeue(id: string): Promise<boolean> {
    return this.#runtime.queue.remove(id);
  }

  async dequeueAll(): Promise<number> {
    return this.#runtime.queue.removeAll();
  }

  async dequeueAllByCallback(callback: Callback): Promise<number> {
    return this.#runtime.queue.removeBy(callback);
  }

  async getQueue(id: string): Promise<QueueItem | undefined> {
    return this.#runtime.queue.get(id);
  }

  async getQueues(key: string, value: unknown): Promise<QueueItem[]> {
    return this.#runtime.queue.list(QUEUE_LIST_MAX).filter(({ payload }) => {
      return typeof payload === "object" && payload !== null && Reflect.get(payload, key) === value;
    });
  }

  // Schedules

  async schedule(
    when: number | Date | string,
    callback: Callback,
    payload?: unknown,
    options?: ScheduleOptions,
  ): Promise<Schedule> {
    this.#runtime.requireMethod(callback);
    return this.#runtime.schedules.schedule(when, callback, payload, options);
  }

  async scheduleEvery(
    seconds: number,
    callback: Callback,
    payload?: unknown,
    options?: { retry?: RetryOptions },
  ): Promise<Schedule> {
    this.#runtime.requireMethod(callback);
    return this.#runtime.schedules.scheduleEvery(seconds, callback, payload, options);
  }

  async getScheduleById(id: string): Promise<Schedule | undefined> {
    return this.#runtime.schedules.get(id);
  }

  async listSchedules(criteria?: ScheduleCriteria): Promise<Schedule[]> {
    return this.#runtime.schedules.list(criteria);
  }

  /** Older spelling of `getScheduleById`. */
  getSchedule(id: string): Schedule | undefined {
    return this.#runtime.schedules.get(id);
  }

  /** Older spelling of `listSchedules`. */
  getSchedules(criteria?: ScheduleCriteria): Schedule[] {
    return this.#runtime.schedules.list(criteria);
  }

  async cancelSchedule(id: string): Promise<boolean> {
    return this.#runtime.schedules.cancel(id);
  }

  // Webhooks of our own

  /** One attempt, now. Throws a WebhookError that carries the status when the receiver does not answer 2xx. */
  async sendWebhook(url: string, body: unknown, options?: WebhookOptions): Promise<WebhookAnswer> {
    return this.#runtime.outgoing.send(url, body, options);
  }

  /** Durable when it resolves: ten attempts over about a day, then a dead letter. 410 ends it at once. */
  async queueWebhook(url: string, body: unknown, options: WebhookOptions = {}): Promise<string> {
    return this.#sendLater(this.#runtime.outgoing.queued(url, body, options), 0);
  }

  /** The attempts of `queueWebhook`; public because the schedule calls it. */
  async onQueuedWebhook(webhook: QueuedWebhook): Promise<void> {
    const again = await this.#runtime.outgoing.attempt(webhook);
    if (again) await this.#sendLater(again.next, again.delayS);
  }

  async #sendLater(webhook: QueuedWebhook, delayS: number): Promise<string> {
    // Attempts of the schedule are for those that a crash cut off; one that fails schedules the next by itself.
    const retry = { maxAttempts: SEND_ATTEMPTS_MAX };
    await this.#runtime.schedules.schedule(delayS, "onQueuedWebhook", webhook, { retry });
    return webhook.options.id;
  }

  // Trying again, and long work

  async retry<T>(
    task: (attempt: number) => Promise<T>,
    options: RetryOptions & { shouldRetry?: (error: unknown, nextAttempt: number) => boolean } = {},
  ): Promise<T> {
    const { shouldRetry = () => true, ...given } = options;
    return tryAgain(task, parseRetry(given, this.#runtime.retry()), shouldRetry, this.#runtime.random);
  }

  /** Keeps the thread awake until the returned function is called. */
  async keepAlive(): Promise<() => void> {
    return this.#runtime.work.begin();
  }

  async keepAliveWhile<T>(task: () => Promise<T>): Promise<T> {
    return this.#runtime.work.run(task);
  }

  async runFiber<T>(name: string, task: (context: FiberContext) => Promise<T>): Promise<T> {
    return this.#runtime.fibers.run(name, task);
  }

  async startFiber(
    name: string,
    task: (context: FiberContext) => Promise<unknown>,
    options: FiberOptions = {},
  ): Promise<FiberStart> {
    return this.#runtime.fibers.start(name, task, options);
  }

  stash(data: unknown): void {
    const { fiber } = currentOccasion();
    if (!fiber) throw new Error("stash() belongs inside a fiber");
    fiber.stash(data);
  }

  async inspectFiber(id: string): Promise<FiberInspection | undefined> {
    return this.#runtime.fibers.inspect(id);
  }

  async inspectFiberByKey(key: string): Promise<FiberInspection | undefined> {
    return this.#runtime.fibers.inspectByKey(key);
  }

  async listFibers(criteria: FiberCriteria = {}): Promise<FiberInspection[]> {
    return this.#runtime.fibers.list(criteria);
  }

  /** Aborts its signal and is remembered at once; `false` if it does not run. */
  async cancelFiber(id: string, reason?: string): Promise<boolean> {
    return this.#runtime.fibers.cancel(id, reason);
  }

  async cancelFiberByKey(key: string, reason?: string): Promise<boolean> {
    return this.#runtime.fibers.cancelByKey(key, reason);
  }

  /** Forgets fibers that have ended, and with them their keys. Answers how many. */
  async deleteFibers(options: FiberDeletion = {}): Promise<number> {
    return this.#runtime.fibers.deleteSome(options);
  }

  /** What became of an interrupted fiber after all; `false` if it is not interrupted. */
  async resolveFiber(id: string, verdict: FiberVerdict): Promise<boolean> {
    return this.#runtime.fibers.resolve(id, verdict);
  }

  async onFiberRecovered(_fiber: FiberRecovery): Promise<FiberVerdict | undefined> {
    return undefined;
  }
}

const QUEUE_LIST_MAX = 100_000; // the most a queue may hold by any setting
