// The types of the module `gatehouse`, as text: `gatehouse init` writes them beside a user's agents for their editor.

export const DECLARATIONS = `// Types of the modules "gatehouse" and "agents", which Gatehouse itself provides. Written by \`gatehouse init\`.

declare module "gatehouse" {
  export type RetryOptions = { maxAttempts?: number; baseDelayMs?: number; maxDelayMs?: number };
  export type AgentOptions = {
    /** Who may use this class without a token: nobody (default), anyone, or anyone but only to look. */
    public?: boolean | "read";
    /** May clients without a token write the state of a public class? */
    clientState?: boolean;
    /** false takes the sandbox off this class's HTTP answers. */
    sandbox?: boolean;
    sendIdentityOnConnect?: boolean;
    retry?: RetryOptions;
    [other: string]: unknown;
  };

  export interface Connection<State = unknown> {
    readonly id: string;
    readonly uri: string;
    readonly state: State | null;
    readonly tags: readonly string[];
    readonly readyState: number;
    setState(next: State | null | ((previous: State | null) => State | null)): State | null;
    send(message: string | ArrayBuffer | ArrayBufferView): void;
    close(code?: number, reason?: string): void;
  }
  export type ConnectionContext = { request: Request };

  export type QueueItem<T = unknown> = {
    id: string;
    callback: string;
    payload: T;
    createdAt: number;
    attempts: number;
    retry?: RetryOptions;
  };
  export type Schedule<T = unknown> = {
    id: string;
    callback: string;
    payload: T;
    /** Unix seconds. */
    time: number;
    type: "scheduled" | "delayed" | "cron" | "interval";
    delayInSeconds?: number;
    cron?: string;
    timezone?: string;
    intervalSeconds?: number;
    attempts: number;
    retry?: RetryOptions;
  };
  export type ScheduleOptions = { retry?: RetryOptions; idempotent?: boolean; timezone?: string };
  export type ScheduleCriteria = {
    id?: string;
    type?: Schedule["type"];
    timeRange?: { start?: Date; end?: Date };
  };

  export type FiberStatus = "pending" | "running" | "completed" | "aborted" | "interrupted" | "error";
  export type FiberContext = { id: string; signal: AbortSignal; snapshot: unknown; stash(data: unknown): void };
  export type FiberInspection = {
    fiberId: string;
    name: string;
    status: FiberStatus;
    idempotencyKey?: string;
    snapshot: unknown;
    metadata: unknown;
    error?: string;
    createdAt: number;
    updatedAt: number;
  };
  export type FiberStart = FiberInspection & { accepted: boolean };
  export type FiberOptions = {
    fiberId?: string;
    idempotencyKey?: string;
    metadata?: unknown;
    waitForCompletion?: boolean;
  };
  export type FiberRecovery = { id: string; name: string; snapshot: unknown; metadata: unknown; attempts: number };
  export type FiberVerdict = {
    status: "completed" | "aborted" | "interrupted" | "error";
    snapshot?: unknown;
    error?: unknown;
    /** Another word for error. */
    reason?: string;
  };

  /** The verified facts of the webhook being handled. */
  export type DeliveryFacts = {
    source: string;
    verdict: string;
    id: string;
    type: string;
    action?: string;
    title?: string;
    description?: string;
    url?: string;
    actor?: string;
    attempt?: number;
    replay?: boolean;
    receivedAt?: string;
    options?: Record<string, unknown>;
  };
  export type AgentEvent = {
    type: string;
    agent: string;
    name: string;
    payload: Record<string, unknown>;
    timestamp: number;
  };
  export type Observability = { emit(event: AgentEvent): void };

  export interface SqlCursor extends Iterable<Record<string, unknown>> {
    toArray(): Record<string, unknown>[];
    one(): Record<string, unknown>;
  }
  export class AgentContext {
    readonly id: { name: string; toString(): string };
    readonly storage: {
      sql: { exec(query: string, ...values: unknown[]): SqlCursor };
      transactionSync<T>(task: () => T): T;
    };
    waitUntil(promise: Promise<unknown>): void;
  }

  export type AgentStub = {
    fetch(input: Request | string, init?: RequestInit): Promise<Response>;
    // biome-ignore lint/suspicious/noExplicitAny: the other agent's methods are known to its own file only
    [method: string]: (...args: any[]) => Promise<any>;
  };
  export type AgentNamespace = {
    readonly className: string;
    getByName(name: string): AgentStub;
    idFromName(name: string): { name: string };
    get(id: { name: string }): AgentStub;
  };

  export class Agent<
    Env = Record<string, unknown>,
    State = unknown,
    Props extends Record<string, unknown> = Record<string, unknown>,
  > {
    static options: AgentOptions;
    constructor(ctx: AgentContext, env: Env);
    readonly ctx: AgentContext;
    readonly env: Env;
    readonly name: string;
    initialState: State;
    readonly state: State;
    observability: Observability | undefined;
    readonly delivery: DeliveryFacts | undefined;

    setState(state: State): void;
    validateStateChange(next: State, source: Connection | "server"): void;
    onStateChanged(state: State | undefined, source: Connection | "server"): void | Promise<void>;
    sql<Row = Record<string, string | number | boolean | null>>(
      strings: TemplateStringsArray,
      ...values: unknown[]
    ): Row[];

    /** Once per life, before anything else. props: what getAgentByName was given, if this life began with that. */
    onStart(props?: Props): void | Promise<void>;
    onRequest(request: Request): Response | Promise<Response>;
    onConnect(connection: Connection, context: ConnectionContext): void | Promise<void>;
    onMessage(connection: Connection, message: string | ArrayBuffer): void | Promise<void>;
    onClose(connection: Connection, code: number, reason: string, wasClean: boolean): void | Promise<void>;
    onError(connectionOrError: unknown, error?: unknown): void | Promise<void>;
    destroy(): Promise<void>;

    getConnectionTags(connection: Connection, context: ConnectionContext): string[] | Promise<string[]>;
    shouldConnectionBeReadonly(connection: Connection, context: ConnectionContext): boolean;
    shouldSendProtocolMessages(connection: Connection, context: ConnectionContext): boolean;
    setConnectionReadonly(connection: Connection, readonly?: boolean): void;
    isConnectionReadonly(connection: Connection): boolean;
    isConnectionProtocolEnabled(connection: Connection): boolean;
    broadcast(message: string | ArrayBuffer | ArrayBufferView, without?: string[]): void;
    getConnections<S = unknown>(tag?: string): Iterable<Connection<S>>;
    getConnection<S = unknown>(id: string): Connection<S> | undefined;
    getCallableMethods(): Map<string, CallableMetadata>;

    queue(callback: keyof this & string, payload?: unknown, options?: { retry?: RetryOptions; id?: string }): Promise<string>;
    dequeue(id: string): Promise<boolean>;
    dequeueAll(): Promise<number>;
    dequeueAllByCallback(callback: keyof this & string): Promise<number>;
    getQueue(id: string): Promise<QueueItem | undefined>;
    getQueues(key: string, value: unknown): Promise<QueueItem[]>;

    schedule(
      /** Seconds from now, a date, or a cron line. */
      when: number | Date | string,
      callback: keyof this & string,
      payload?: unknown,
      options?: ScheduleOptions,
    ): Promise<Schedule>;
    scheduleEvery(
      seconds: number,
      callback: keyof this & string,
      payload?: unknown,
      options?: { retry?: RetryOptions },
    ): Promise<Schedule>;
    getScheduleById(id: string): Promise<Schedule | undefined>;
    listSchedules(criteria?: ScheduleCriteria): Promise<Schedule[]>;
    getSchedule(id: string): Schedule | undefined;
    getSchedules(criteria?: ScheduleCriteria): Schedule[];
    cancelSchedule(id: string): Promise<boolean>;

    retry<T>(
      task: (attempt: number) => Promise<T>,
      options?: RetryOptions & { shouldRetry?: (error: unknown, nextAttempt: number) => boolean },
    ): Promise<T>;
    keepAlive(): Promise<() => void>;
    keepAliveWhile<T>(task: () => Promise<T>): Promise<T>;

    runFiber<T>(name: string, task: (context: FiberContext) => Promise<T>): Promise<T>;
    startFiber(name: string, task: (context: FiberContext) => Promise<unknown>, options?: FiberOptions): Promise<FiberStart>;
    stash(data: unknown): void;
    inspectFiber(id: string): Promise<FiberInspection | undefined>;
    inspectFiberByKey(key: string): Promise<FiberInspection | undefined>;
    /** Oldest first; 100 unless told, at most 1,000. */
    listFibers(criteria?: { status?: FiberStatus | FiberStatus[]; name?: string; limit?: number }): Promise<FiberInspection[]>;
    /** Aborts its signal and is remembered at once; false if it does not run. */
    cancelFiber(id: string, reason?: string): Promise<boolean>;
    cancelFiberByKey(key: string, reason?: string): Promise<boolean>;
    /** Forgets fibers that have ended and their keys, interrupted ones only if asked; as many as listFibers would list. */
    deleteFibers(options?: { status?: FiberStatus | FiberStatus[]; settledBefore?: Date; limit?: number }): Promise<number>;
    /** What became of an interrupted fiber after all; false if it is not interrupted. */
    resolveFiber(id: string, verdict: FiberVerdict): Promise<boolean>;
    onFiberRecovered(fiber: FiberRecovery): Promise<FiberVerdict | undefined>;

    /** One attempt, now; throws a WebhookError with the status when the receiver does not answer 2xx. */
    sendWebhook(url: string, body: unknown, options?: WebhookOptions): Promise<WebhookAnswer>;
    /** Durable when it resolves (to the webhook's id): ten attempts over about a day, then a dead letter. */
    queueWebhook(url: string, body: unknown, options?: WebhookOptions): Promise<string>;
    /** The attempts of queueWebhook; not for overriding. */
    onQueuedWebhook(webhook: unknown): Promise<void>;
  }

  export type WebhookOptions = {
    /** Signs the body; secretName names one of this agent's own secrets instead, the only way for a queued one. */
    secret?: string;
    secretName?: string;
    headers?: Record<string, string>;
    timeoutMs?: number;
    id?: string;
  };
  export type WebhookAnswer = { status: number; body: string };
  export class WebhookError extends Error {
    /** The receiver's answer, or 0 when there was none. */
    readonly status: number;
    readonly retryAfterMs: number | undefined;
  }

  /** One row of the history. */
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
  export type WebhookEvent = Omit<EventRow, "payload"> & { payload: unknown; source: string; attempt: number };
  export type WebhookState = { count: number; lastEvent: Omit<EventRow, "payload" | "description"> | null };

  /** Keeps the history of verified webhooks and hands each to onEvent once. Override onEvent and nothing else. */
  export class WebhookAgent<Env = Record<string, unknown>, State = WebhookState> extends Agent<Env, State> {
    /** Throw to have it delivered again; a Response that it returns answers the sender. */
    onEvent(event: WebhookEvent): unknown;
    getEvents(limit?: number): EventRow[];
    getEventsByType(type: string, limit?: number): EventRow[];
  }

  export type CallableMetadata = { description?: string; streaming?: boolean };
  /** Clients may call a method marked with this. */
  export function callable(
    metadata?: CallableMetadata,
  ): <T extends (...args: never[]) => unknown>(method: T, context?: ClassMethodDecoratorContext) => T;
  export const unstable_callable: typeof callable;

  /** First argument of a callable marked with { streaming: true }. */
  export class StreamingResponse {
    readonly isClosed: boolean;
    send(chunk: unknown): boolean;
    end(finalChunk?: unknown): boolean;
    error(message: string): boolean;
  }
  export class SqlError extends Error {
    readonly query: string;
  }

  export function getCurrentAgent(): {
    agent: Agent | undefined;
    connection: Connection | undefined;
    request: Request | undefined;
    email: undefined;
  };
  /**
   * Another agent, by its class (or the class's name, or its binding in env) and its name. With props it is started, and
   * they go to its onStart: JSON data, at most 64 KiB. One that is awake already ignores them. Other options do nothing.
   */
  export function getAgentByName(
    target: unknown,
    name: string,
    options?: { props?: Record<string, unknown>; [other: string]: unknown },
  ): Promise<AgentStub>;
  export function routeAgentRequest(request: Request, env?: unknown, options?: unknown): Promise<Response | null>;
}

declare module "agents" {
  export * from "gatehouse";
}
`;
