// Agents as the rest of the house sees them: ask one, deliver to one, connect to one, look at them all.
import { AppError, toAppError } from "../platform/errors.ts";
import type { Log } from "../platform/log.ts";
import { type AgentClassEntry, openCatalog } from "./catalog.ts";
import { CLOSE, type Client, refuseFrame, type Socket } from "./clients.ts";
import type { ExchangeInput } from "./exchange.ts";
import type { Host } from "./host.ts";
import type { Ledger } from "./ledger.ts";
import type { Ask, CallBy, CallOutcome, DeliveryFacts, FromAgent, SocketInfo } from "./protocol.ts";
import { agentsFolder, createRoster, type RosterLimits } from "./roster.ts";
import { databasePath, isAgentName } from "./runtime/names.ts";

export type Agents = ReturnType<typeof createAgents>;
export type AgentsParts = {
  agentsFolder: string;
  dataFolder: string;
  limits: RosterLimits & { describeMsMax: number; filesMax: number };
  log: Log;
  threads: { worker: string; describe: string };
  ledger: Ledger;
  /** Environment of one class: its secrets, nothing else. */
  secretsOf: (className: string) => Record<string, string>;
  now: () => number;
  /** After an agent is gone for good: whoever knows it by name lets go of it. */
  onDestroyed?: (className: string, name: string) => void;
};
export type Delivery = {
  method: string;
  url: string;
  headers: [string, string][];
  /** As it was sent, byte for byte. */
  body: Uint8Array;
  facts: DeliveryFacts;
};
export type DeliveryAnswer = { status: number; headers: [string, string][]; body: Uint8Array };
export type ConnectInput = {
  ws: Socket;
  id: string;
  url: string;
  headers: [string, string][];
  mayEdit: boolean;
  mayWriteState: boolean;
};

const ANSWER_BYTES_MAX = 1024 * 1024; // a sender reads a short acknowledgement; another agent a bit more

export function createAgents(parts: AgentsParts) {
  const { dataFolder, limits, log, threads, ledger, secretsOf, now } = parts;
  const destroyed = new Set<(className: string, name: string) => void>();
  const changes = new Set<(classNames: readonly string[]) => void>();
  if (parts.onDestroyed) destroyed.add(parts.onDestroyed);
  let lastSocket = 0;
  let open = false;
  let stopped = false;

  const roster = createRoster({
    folder: agentsFolder(dataFolder),
    worker: threads.worker,
    catalog: () => catalog,
    ledger,
    secretsOf,
    limits,
    log,
    now,
    onAsk: (host, message) => void answerAsk(host, message),
    onDestroyed: (className, name) => {
      for (const tell of destroyed) tell(className, name);
    },
  });
  const catalog = openCatalog({
    folder: parts.agentsFolder,
    describe: threads.describe,
    describeMsMax: limits.describeMsMax,
    filesMax: limits.filesMax,
    log,
    onChange: (changed) => {
      log.debug("agents.classes", { changed });
      // The first look comes before there is anyone to renew.
      if (open) roster.renew(changed);
      for (const tell of changes) tell(changed);
    },
  });
  async function ready(): Promise<void> {
    if (open) return;
    await catalog.ready();
    open = !stopped;
  }

  /** `create: false` is for looking: asking after an agent must not bring it into being. */
  async function run<T>(
    className: string,
    name: string,
    create: boolean,
    task: (host: Host) => Promise<T>,
    props?: string,
  ) {
    await ready();
    if (!canRun(className, name)) classOf(className);
    if (!isAgentName(name)) throw new AppError("agent.name");
    if (!create && !exists(className, name)) throw new AppError("agent.unknown");
    const result = Promise.withResolvers<T>();
    roster.enter(className, name, {
      give: (host) => void task(host).then(result.resolve, result.reject),
      refuse: result.reject,
      props,
    });
    return result.promise;
  }

  /** An agent that has a thread goes on with it when its file breaks. */
  const canRun = (className: string, name: string): boolean =>
    catalog.get(className) !== undefined || roster.seat(className, name)?.host !== undefined;

  function classOf(className: string): AgentClassEntry {
    const entry = catalog.get(className);
    if (!entry) throw new AppError(catalog.isBroken(className) ? "agent.broken" : "agent.class");
    return entry;
  }

  const exists = (className: string, name: string): boolean =>
    roster.seat(className, name)?.known === true || ledger.one(className, name) !== undefined;

  async function call(className: string, name: string, method: string, args: unknown[], by: CallBy = "client") {
    return run(className, name, by !== "house", (host) => host.call(method, args, by));
  }

  async function fetch(className: string, name: string, input: ExchangeInput): Promise<Response> {
    return run(className, name, true, (host) => host.fetch(input));
  }

  async function deliver(className: string, name: string, delivery: Delivery): Promise<DeliveryAnswer> {
    const { method, url, headers, body, facts } = delivery;
    const response = await fetch(className, name, { method, url, headers, body, delivery: facts });
    return toAnswer(response);
  }

  /** One agent asking for another; whatever happens, the asking thread hears of it. */
  async function answerAsk(host: Host, { id, className, name, what }: Extract<FromAgent, { type: "ask" }>) {
    let outcome: CallOutcome;
    try {
      outcome = { ok: true, output: await doAsked(className, name, what) };
    } catch (error) {
      const { code, message } = toAppError(error);
      outcome = { ok: false, code, message };
    }
    host.answer(id, outcome);
  }

  async function doAsked(className: string, name: string, what: Ask): Promise<unknown> {
    if (what.verb === "call") return call(className, name, what.method, what.args, "agent");
    if (what.verb === "fetch") return toAnswer(await fetch(className, name, what));
    return run(className, name, true, (host) => host.call("started", [], "house"), what.props);
  }

  function connect(className: string, name: string, input: ConnectInput) {
    const { ws, id, url, headers, mayEdit, mayWriteState } = input;
    const kept = { state: null, tags: [], readonly: false, protocol: true };
    const info: SocketInfo = { socket: ++lastSocket, id, uri: url, headers, mayWriteState, kept };
    const client: Client = { ws, info, mayEdit, greeted: false };
    const leave = (): void => roster.detach(className, name, info.socket);
    const event = (message: Parameters<Host["event"]>[0]): void =>
      roster.enter(className, name, {
        isArrival: message.type !== "frame",
        give: (host) => {
          if (!host.event(message)) ws.close(...CLOSE.busy);
          if (message.type === "closed") leave();
        },
        refuse: (error) => {
          // A client that was never let in is not told of its own leaving.
          if (message.type !== "frame") leave();
          if (message.type !== "closed") ws.close(...(CLOSE_BY_ERROR[error.code] ?? CLOSE.failed));
        },
      });

    if (!roster.attach(className, name, client)) {
      ws.close(...CLOSE.tooMany);
      return { message() {}, close() {} };
    }
    event({ type: "open", info });
    return {
      message(data: string | Uint8Array): void {
        // The agent refuses a reader's write of state itself, because it alone can show the true state after it.
        if (client.mayEdit || refuseFrame(client, data) === "state")
          event({ type: "frame", socket: info.socket, data });
      },
      close(code: number, reason: string): void {
        const wanted =
          roster.seat(className, name)?.phase === "live" || catalog.get(className)?.hooks.includes("onClose");
        if (wanted && client.greeted)
          event({ type: "closed", socket: info.socket, code, reason, clean: code !== 1006 });
        else leave();
      },
    };
  }

  return {
    /** The user's files were looked at once. Calls wait for it by themselves. */
    ready,
    /** Only the server does this: look at the files now, finish what a crash left, and wake whoever is due. */
    async start(): Promise<void> {
      await ready();
      if (!stopped) await roster.resume();
    },
    liveMax: limits.liveMax,
    /** Names of those that load. */
    async classes(): Promise<ReadonlySet<string>> {
      await ready();
      return new Set(catalog.list().map(({ className }) => className));
    },
    dataFolder,
    pathOf: (className: string, name: string) => databasePath(agentsFolder(dataFolder), className, name),
    catalog,
    ledger,
    roster,
    classOf,
    canRun,
    exists,
    call,
    fetch,
    deliver,
    connect,
    /** Management verbs of the runtime itself; never creates an agent. */
    house: (className: string, name: string, verb: string, ...args: unknown[]) =>
      run(className, name, false, (host) => host.call(verb, args, "house")),
    async destroy(className: string, name: string): Promise<void> {
      if (!exists(className, name)) throw new AppError("agent.unknown");
      await roster.destroy(className, name);
    },
    onDestroyed: (tell: (className: string, name: string) => void): void => void destroyed.add(tell),
    /** Classes whose code was added, mended or broken. */
    onChanged: (tell: (classNames: readonly string[]) => void): void => void changes.add(tell),
    /** Clients are told to come back: until they left, a listener that stops would wait for them. */
    hangUp: () => roster.hangUp(),
    async stop(): Promise<void> {
      stopped = true;
      open = false;
      await catalog.close();
      await roster.stop();
    },
  };
}

/** What an existing client makes of a failure: give up (4xxx) or come back. */
const CLOSE_BY_ERROR: Partial<Record<string, readonly [number, string]>> = {
  "agent.class": CLOSE.unknownClass,
  "agent.destroyed": CLOSE.destroyed,
  "agent.busy": CLOSE.busy,
  "server.stopping": CLOSE.restarting,
};

async function toAnswer(response: Response): Promise<DeliveryAnswer> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    if (length > ANSWER_BYTES_MAX) throw new AppError("agent.failed", { say: "The agent's answer is too long" });
    chunks.push(chunk);
  }
  return { status: response.status, headers: [...response.headers], body: Buffer.concat(chunks) };
}
