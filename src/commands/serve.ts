// The server itself: take the folder, listen, and leave in good order.
import { rmSync, writeFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { type App, createApp } from "../app.ts";
import { type Machine, openParts, type Parts } from "../parts.ts";
import { networkFileSystem } from "../platform/disk.ts";
import { type FolderLock, LOCK_RETRY_MS, LOCK_WAIT_MS, lockFolder, readOwner } from "../platform/lock.ts";
import { ADMIN_ID } from "../platform/tokens.ts";
import { VERSION } from "../platform/version.ts";
import { CommandError, inFolder, whyOf } from "./command.ts";

const CODE_LIFE_MS = 15 * 60_000;
const BODY_BYTES_MAX = 2 ** 40; // Bun's own limit would answer without our envelope; the caps that count are the routes'

export type Terminal = { out(line: string): void; isTerminal: boolean };

export async function serve(machine: Machine, terminal: Terminal): Promise<number> {
  const asked = signalled(); // before anybody can see that we are there
  const server = await startServer(machine);
  try {
    inFolder(machine, () => welcome(server, terminal));
  } catch (error) {
    await server.stop(); // nobody was told how to get in, so nobody is kept
    throw error;
  }
  machine.log.info("ready", { address: server.url, version: VERSION, pid: process.pid });
  machine.log.info("stopping", { signal: await asked });
  await server.stop();
  return 0;
}

export type Server = { parts: Parts; url: string; urlOf(host: string): string; stop(): Promise<void> };

export async function startServer(machine: Machine): Promise<Server> {
  const { settings, log } = machine;
  const lock = await takeFolder(machine);
  const network = networkFileSystem(settings.data);
  if (network) log.warn("data.network", { message: `the data folder is on ${network}; SQLite needs a local disk` });
  const parts = inFolder(machine, () => openForServing(machine));
  const app = createApp(parts);
  try {
    app.listen({
      hostname: settings.host,
      port: settings.port,
      reusePort: false, // a second copy on the same port must fail, not take half of the requests
      idleTimeout: 60,
      maxRequestBodySize: BODY_BYTES_MAX,
      ...tlsOf(settings),
    });
  } catch (error) {
    await parts.close();
    lock.release();
    throw new CommandError(`cannot listen on ${settings.host}:${settings.port}: ${whyOf(error)}`);
  }
  const port = app.server?.port ?? settings.port;
  parts.listening.port = port;
  const startSeconds = performance.now() / 1000; // counted from the start of the process
  parts.metrics.gauge("gatehouse_start_seconds", "From the start of the process to listening", () => startSeconds);
  const scheme = settings.tls_cert === undefined ? "http" : "https";
  const urlOf = (host: string): string => `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`;
  const url = urlOf(loopbackOf(settings.host));
  lock.announce(url);
  void parts.start().catch((error) => log.error("start.failed", { error }));
  return { parts, url, urlOf, stop: () => stop(app, parts, lock) };
}

/** The admin token is set at a start alone: a verb in a shell that has the variable does not change the server's. */
function openForServing(machine: Machine): Parts {
  const parts = openParts(machine);
  if (machine.settings.admin_token !== undefined) parts.tokens.setAdmin(machine.settings.admin_token);
  return parts;
}

async function stop(app: App, parts: Parts, lock: FolderLock): Promise<void> {
  parts.listening.stopping = true;
  await parts.drain();
  const drained = app.server?.stop(false) ?? Promise.resolve();
  const late = await Promise.race([drained.then(() => false), Bun.sleep(parts.settings.stop_ms).then(() => true)]);
  if (late) await app.server?.stop(true);
  await parts.close();
  lock.release();
}

/** The first signal asks; the second means that whoever asked does not want to wait. */
function signalled(): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  let asked = false;
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    process.on(name, () => {
      if (asked) process.exit(1);
      asked = true;
      resolve(name);
    });
  }
  return promise;
}

/** Another server is there to stay; a verb is gone in a moment. */
async function takeFolder(machine: Machine): Promise<FolderLock> {
  const { settings, now } = machine;
  const us = { pid: process.pid, command: "serve", startedAt: new Date(now()).toISOString() };
  for (let waitedMs = 0; ; waitedMs += LOCK_RETRY_MS) {
    const lock = inFolder(machine, () => lockFolder(settings.data, us));
    if (lock) return lock;
    if (waitedMs >= LOCK_WAIT_MS || readOwner(settings.data)?.command === "serve") throw inUse(settings.data);
    await Bun.sleep(LOCK_RETRY_MS);
  }
}

function inUse(folder: string): CommandError {
  const owner = readOwner(folder);
  const who = owner
    ? `gatehouse ${owner.command} (pid ${owner.pid}, since ${owner.startedAt}${owner.address ? `, ${owner.address}` : ""})`
    : "another process";
  return new CommandError(`the data folder ${folder} is in use by ${who}`);
}

function tlsOf({ tls_cert, tls_key }: Machine["settings"]) {
  return tls_cert !== undefined && tls_key !== undefined
    ? { tls: { cert: Bun.file(tls_cert), key: Bun.file(tls_key) } }
    : {};
}

/** What a person needs to get in. Secrets go to a terminal or into a private file, never into a service's log. */
function welcome({ parts, url, urlOf }: Server, { out, isTerminal }: Terminal): void {
  const { tokens, settings } = parts;
  const home = settings.public_url ?? url;
  const note = join(settings.data, "first-start.txt");
  parts.onSignIn = () => rmSync(note, { force: true });
  out(`Gatehouse ${VERSION} listens on`);
  for (const address of addressesOf(settings.host)) out(`  ${urlOf(address)}`);
  out(`  console  ${home}/   API  ${home}/swagger   health  ${home}/healthz`);
  tokens.atFirstStart(() => {
    const lines = firstSteps(parts, home);
    if (isTerminal) return lines.forEach(out);
    writeFileSync(note, `${lines.join("\n")}\n`, { mode: 0o600 });
    out(`  first start: how to get in is written in ${note}`);
  });
}

function firstSteps({ tokens }: Parts, home: string): string[] {
  const given = tokens.byId(ADMIN_ID) !== null;
  const admin = given ? undefined : tokens.mint({ name: "admin", permissions: ["admin"] }, ADMIN_ID).token;
  const scope = { accountId: "home", gatewayId: "default" };
  const run = tokens.mint({ name: "first run token", permissions: ["run"], scope }).token;
  const code = tokens.issue("sign_in_codes", ADMIN_ID, CODE_LIFE_MS).value;
  return [
    "",
    "First start. Keep these; they are not shown again.",
    `  admin token    ${admin ?? "the one you set"}`,
    `  run token      ${run}   (gateway home/default)`,
    `  sign in        ${home}/#code=${code}   (works once, for 15 minutes)`,
    "  lost them?     gatehouse token create --admin",
  ];
}

function loopbackOf(host: string): string {
  return host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
}

/** Every address that a browser on this network could use. */
function addressesOf(host: string): string[] {
  if (host !== "0.0.0.0" && host !== "::") return [host];
  const family = host === "::" ? ["IPv4", "IPv6"] : ["IPv4"];
  const found = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return found
    .filter((one) => family.includes(one.family) && !one.address.startsWith("fe80"))
    .map((one) => one.address);
}
