// Agents without a house around them: real threads, real files, a folder that goes away afterwards.
import { setDefaultTimeout } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type AgentsParts, createAgents } from "../../src/agents/agents.ts";
import { openLedger } from "../../src/agents/ledger.ts";
import { createLog } from "../../src/platform/log.ts";
import { THREADS } from "./threads.ts";

// Threads start slowly when everything else on the machine is busy; nothing here should fail for that.
setDefaultTimeout(30_000);

export const LIMITS: AgentsParts["limits"] = {
  liveMax: 16,
  sparesMax: 2,
  spareIdleMs: 60_000,
  idleMs: 60_000,
  inboxMax: 256,
  waitMsMax: 10_000,
  socketsMax: 2_000,
  callsMax: 256,
  eventsMax: 1_024,
  stopMsMax: 2_000,
  reloadMsMax: 5_000,
  heartbeatMsMax: 30_000,
  handlerMsMax: 30_000,
  beatMs: 50,
  outputBytesMax: 32 * 1024 * 1024,
  queueMax: 1_000,
  schedulesMax: 100,
  deadMax: 100,
  timezone: "UTC",
  describeMsMax: 10_000,
  filesMax: 100,
};

export type LogLine = { level: string; event: string } & Record<string, unknown>;

type Start = {
  files?: Record<string, string>;
  limits?: Partial<AgentsParts["limits"]>;
  secretsOf?: AgentsParts["secretsOf"];
  folder?: string;
};

export async function tempFolder() {
  const path = await mkdtemp(join(tmpdir(), "gatehouse-agents-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

export async function writeFiles(folder: string, files: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }
}

/** `folder` given: its data and agent files are used again and left in place, as after a restart. */
export async function startAgents({ files = {}, limits = {}, secretsOf = () => ({}), folder }: Start = {}) {
  const temp = folder === undefined ? await tempFolder() : undefined;
  const root = folder ?? temp?.path ?? "";
  const agentsFolder = join(root, "agents");
  await mkdir(agentsFolder, { recursive: true });
  await writeFiles(agentsFolder, files);
  const lines: LogLine[] = [];
  const log = createLog({
    level: "debug",
    pretty: false,
    now: Date.now,
    write: (line) => lines.push(JSON.parse(line)),
  });
  const ledger = openLedger(join(root, "data", "agents.db"), THREADS.ledger, log);
  const agents = createAgents({
    agentsFolder,
    dataFolder: join(root, "data"),
    limits: { ...LIMITS, ...limits },
    log,
    threads: { worker: THREADS.agent, describe: THREADS.describe },
    ledger,
    secretsOf,
    now: Date.now,
  });
  await agents.start();
  return {
    ...agents,
    agentsFolder,
    dataFolder: join(root, "data"),
    lines,
    write: (changed: Record<string, string>) => writeFiles(agentsFolder, changed),
    fetch: (className: string, name: string, path = "/", init: RequestInit & { body?: string | null } = {}) =>
      agents.fetch(className, name, {
        method: init.method ?? "GET",
        url: `http://test/agents/${className}/${name}${path}`,
        headers: [...new Headers(init.headers)],
        body: init.body ? new TextEncoder().encode(init.body) : null,
      }),
    async [Symbol.asyncDispose]() {
      await agents.stop();
      await ledger.close();
      await temp?.[Symbol.asyncDispose]();
    },
  };
}

/** Waits for a condition; the test's own timeout ends it when it never comes. */
export async function until<T>(look: () => T | Promise<T>): Promise<Exclude<NonNullable<T>, false>> {
  for (;;) {
    const found = await look();
    if (isThere(found)) return found;
    await Bun.sleep(5);
  }
}

/** What a promise was rejected with. (`expect(…).rejects` blocks the event loop that a thread's answer needs.) */
// biome-ignore lint/suspicious/noExplicitAny: a test reads the error field by field, and a wrong one fails its expectation
export async function failure(promise: Promise<unknown>): Promise<any> {
  const outcome = await promise.then(
    () => undefined,
    (error: unknown) => ({ error }),
  );
  if (!outcome) throw new Error("expected a failure, and there was none");
  return outcome.error;
}

function isThere<T>(found: T): found is Exclude<NonNullable<T>, false> {
  return found !== undefined && found !== null && found !== false;
}
