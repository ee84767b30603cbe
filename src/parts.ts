// What one running Gatehouse is made of: opened in this order, closed in reverse.
import { existsSync, readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Agents, createAgents } from "./agents/agents.ts";
import { thisMachine, toLimits } from "./agents/bounds.ts";
import { type ClassSecrets, createClassSecrets } from "./agents/class-secrets.ts";
import { openLedger } from "./agents/ledger.ts";
import { createTickets, type Tickets } from "./agents/tickets.ts";
import { type Assets, openAssets } from "./console/assets.ts";
import { type GatewayPart, openGateway } from "./gateway/gateway.ts";
import { createHooks, type Hooks } from "./hooks/hooks.ts";
import { type Access, accessGuard, createAccess, type Guard } from "./platform/access.ts";
import { createBrake } from "./platform/brake.ts";
import { processMetrics } from "./platform/health.ts";
import type { Log } from "./platform/log.ts";
import { createMetrics, type Metrics } from "./platform/metrics.ts";
import { createOriginRule, type OriginRule } from "./platform/origin.ts";
import { createSecrets, loadKey, type Secrets } from "./platform/secrets.ts";
import type { Settings } from "./platform/settings.ts";
import { openDatabase } from "./platform/sqlite.ts";
import { ACCESS_MIGRATIONS, createTokenStore, type TokenStore } from "./platform/tokens.ts";
import { createTagStore, type TagStore } from "./tags/store.ts";

/** Where each thread's code is. Only src/index.ts can spell these: a bundle has one address for all its modules. */
export type Threads = { gatewayLogs: string; agent: string; describe: string; ledger: string; journal: string };

export type Machine = {
  settings: Settings;
  log: Log;
  threads: Threads;
  /** Where the built pages are when we run from source. */
  embedFolder: string;
  /** Secrets of agents and webhook sources may come from here; settings were read already. */
  env: Record<string, string | undefined>;
  now: () => number;
};

/** Filled in once the server listens; until then nothing can ask for it. */
export type Listening = { port: number; stopping: boolean };

export type Parts = {
  settings: Settings;
  log: Log;
  now: () => number;
  listening: Listening;
  metrics: Metrics;
  origins: OriginRule;
  tokens: TokenStore;
  access: Access;
  guard: Guard;
  secrets: Secrets;
  agents: Agents;
  classSecrets: ClassSecrets;
  tickets: Tickets;
  hooks: Hooks;
  tags: TagStore;
  assets: Assets;
  gateway: GatewayPart;
  cookieName: () => string;
  /** Set by the first start, which leaves a file behind until somebody has signed in. */
  onSignIn: () => void;
  checks: () => Record<string, boolean>;
  /** Last step of a start: what only a server does, not a verb that opens the folder for a moment. */
  start(): Promise<void>;
  /** First step of a stop: long-lived connections are told to go elsewhere, or draining would wait for them. */
  drain(): Promise<void>;
  close(): Promise<void>;
};

const USED_FLUSH_MS = 60_000; // the last-used time of a token is for people; a minute is exact enough

export function openParts({ settings, log, threads, embedFolder, env, now }: Machine): Parts {
  const folder = resolve(settings.data);
  const closers: (() => void | Promise<void>)[] = [];
  const listening: Listening = { port: settings.port, stopping: false };
  const metrics = createMetrics();
  const origins = createOriginRule(settings);

  const isNew = !existsSync(join(folder, "gatehouse.db"));
  const db = openDatabase(join(folder, "gatehouse.db"), ACCESS_MIGRATIONS);
  closers.push(() => db.close());
  const tokens = createTokenStore(db, now);
  if (!tokens.hasAccount("home")) tokens.createAccount("home", "Home");
  const flushUsed = (): void => {
    try {
      tokens.flushUsed();
    } catch (error) {
      log.warn("tokens.used", { message: "when tokens were last used could not be stored", error });
    }
  };
  const flush = setInterval(flushUsed, USED_FLUSH_MS);
  closers.push(() => {
    clearInterval(flush);
    flushUsed();
  });

  const cookieName = () => `gatehouse_${listening.port}`;
  const localKey = Buffer.from(loadKey(join(folder, "local.key"))).toString("hex");
  const access = createAccess({ tokens, brake: createBrake(now), origins, localKey, cookieName });
  const keyFile = settings.key_file ?? join(folder, "secret.key");
  if (!isNew && !existsSync(keyFile)) {
    log.warn("key.missing", { message: `${keyFile} was not there and is made anew: what the old key sealed is lost` });
  }
  const secrets = createSecrets(loadKey(keyFile), (what) => log.warn("secret.lost", { what }));

  const gateway = openGateway({
    folder,
    settings,
    log,
    now,
    metrics,
    access,
    origins,
    secrets,
    listening,
    logThreadUrl: threads.gatewayLogs,
  });
  closers.push(gateway.close);
  const ledger = openLedger(join(folder, "agents.db"), threads.ledger, log);
  closers.push(() => ledger.close());
  const classSecrets = createClassSecrets({ ledger, secrets, env, now });
  const agents = createAgents({
    agentsFolder: settings.agents,
    dataFolder: folder,
    limits: { ...toLimits(settings.agent, thisMachine()), outgoingDeny: settings.hooks.outgoing_deny },
    log,
    threads: { worker: threads.agent, describe: threads.describe },
    ledger,
    secretsOf: classSecrets.of,
    now,
  });
  metrics.gauge("gatehouse_agents_live", "Agents that have a thread", () => agents.roster.threadCount);

  const hooks = createHooks({
    folder,
    settings: settings.hooks,
    publicUrl: settings.public_url,
    localUrl: () => `http://localhost:${listening.port}`,
    journalThread: threads.journal,
    secrets,
    env,
    deliver: agents.deliver,
    classes: agents.classes,
    requireOurs: origins.requireOurs,
    log,
    metrics,
    now,
  });
  // From the last to the first: nothing new for the agents, then they end, then what became of their work is stored.
  closers.push(
    () => hooks.stop(),
    () => agents.stop(),
    () => hooks.halt(),
  );
  classSecrets.addSource(hooks.envFor);
  agents.onDestroyed(hooks.destroyed);

  /** The names people gave to what is ours; anything else is called by its id. */
  const names: Record<string, (id: string, accountId: string) => string | undefined> = {
    // What another account is called is no business of this one, as with tokens.
    account: (id, accountId) =>
      id === accountId ? tokens.accountList().find((account) => account.id === id)?.name : undefined,
    agent: (id) => id.slice(id.indexOf("/") + 1),
    gateway_token: (id, accountId) => {
      const token = tokens.byId(id);
      return token?.account_id === accountId ? token.name : undefined;
    },
    webhook_source: hooks.labelOf,
  };
  const tags = createTagStore(join(folder, "tags.db"), {
    now,
    tagsMax: settings.tags.max_per_account,
    nameOf: (type, id, accountId) => (Object.hasOwn(names, type) ? names[type]?.(id, accountId) : undefined),
  });
  closers.push(tags.close);
  agents.onDestroyed((className, name) => tags.forget("agent", `${className}/${name}`));
  agents.onChanged(hooks.hasten);

  processMetrics(metrics, now());
  metrics.gauge("gatehouse_tagged_resources", "Resources that carry tags", () => tags.counts().resources);
  metrics.gauge("gatehouse_tags", "Tags on all resources", () => tags.counts().tags);
  metrics.gauge("gatehouse_database_bytes", "Size of each database of the house", () =>
    readdirSync(folder)
      .filter((file) => file.endsWith(".db"))
      .map((file) => [{ file }, sizeOf(join(folder, file))]),
  );

  return {
    settings,
    log,
    now,
    listening,
    metrics,
    origins,
    tokens,
    access,
    guard: accessGuard(access),
    secrets,
    agents,
    classSecrets,
    tickets: createTickets(now),
    hooks,
    tags,
    assets: openAssets(embedFolder),
    gateway,
    cookieName,
    onSignIn() {},
    async start() {
      await Promise.all([agents.start(), hooks.start()]);
    },
    checks: () => ({
      listening: !listening.stopping,
      gateway_logs: gateway.logs.isOpen(),
      journal: hooks.isUp(),
    }),
    async drain() {
      hooks.tail.hangUp();
      agents.hangUp();
    },
    async close() {
      for (const close of closers.reverse()) {
        try {
          await close();
        } catch (error) {
          log.error("close.failed", { error }); // what is left is closed all the same
        }
      }
    },
  };
}

/** By stat, never by opening: closing a descriptor of a live database drops SQLite's locks. */
function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
