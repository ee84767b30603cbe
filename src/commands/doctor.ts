// gatehouse doctor: is this machine fit to run it? Each finding comes with what to do about it.
import { Database } from "bun:sqlite";
import { X509Certificate } from "node:crypto";
import { accessSync, constants, existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join, resolve } from "node:path";
import { Type as t } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { freeBytes, networkFileSystem } from "../platform/disk.ts";
import { readOwner } from "../platform/lock.ts";
import type { Settings } from "../platform/settings.ts";
import { reach } from "./api.ts";
import { type Command, type CommandContext, noWords } from "./command.ts";

export type Finding = { level: "ok" | "note" | "bad"; says: string; fix?: string };
type Patient = { settings: Settings; data: string; running: Running | undefined; nowMs: number };
type Running = { pid: number; address: string };
type Check = (patient: Patient) => Finding | Promise<Finding>;

const FREE_BYTES_MIN = 200e6; // below this a backup or a busy day fills the disk
const FREE_BYTES_WISE = 2e9; // logs and the journal may grow to 3 GiB by their default limits
const DESCRIPTORS_WISE = 4_096; // five per live agent: 800 of them
const CERTIFICATE_MS_WISE = 14 * 86_400_000;
const CLOCK_SLACK_MS = 60_000;
const SQLITE_MIN = [3, 37]; // STRICT tables
const KEY_BYTES = 32;
const OTHERS = 0o077;

const CHECKS: readonly Check[] = [
  dataFolder,
  encryptionKey,
  disk,
  fileSystem,
  descriptors,
  clock,
  sqlite,
  certificate,
  port,
];

export const doctor: Command = {
  summary: "check this machine: folders, limits, clock, disk, port; says what to do about each finding",
  usage: ["doctor [flags]"],
  async run(context) {
    const { args, config, out } = context;
    noWords(args);
    const data = resolve(config.settings.data);
    const patient: Patient = { settings: config.settings, data, running: await running(data), nowMs: Date.now() };
    const findings: Finding[] = config.warnings.map((says) => ({ level: "note", says }));
    for (const check of CHECKS) findings.push(await check(patient));
    if (patient.running) findings.push(await server(context, patient.running), ...(await webhooks(context)));
    for (const { level, says, fix } of findings) {
      out(`${{ ok: "ok  ", note: "note", bad: "BAD " }[level]}  ${says}`);
      if (fix !== undefined) out(`      ${fix}`);
    }
    return findings.some(({ level }) => level === "bad") ? 1 : 0;
  },
};

function dataFolder({ data }: Patient): Finding {
  if (!existsSync(data)) {
    const parent = nearest(data);
    if (mayWrite(parent)) return { level: "ok", says: `the data folder ${data} is made at the first start` };
    return { level: "bad", says: `the data folder ${data} cannot be made`, fix: `make it: install -d -m 700 ${data}` };
  }
  if (!mayWrite(data))
    return { level: "bad", says: `the data folder ${data} is not writable`, fix: "chown it to this user" };
  if (process.platform !== "win32" && (statSync(data).mode & OTHERS) !== 0) {
    return { level: "note", says: `others can see file names in the data folder ${data}`, fix: `chmod 700 ${data}` };
  }
  return { level: "ok", says: `the data folder is ${data}` };
}

function encryptionKey({ settings, data }: Patient): Finding {
  const path = resolve(settings.key_file ?? join(data, "secret.key"));
  const file = statSync(path, { throwIfNoEntry: false });
  if (!file) {
    if (!existsSync(join(data, "gatehouse.db")))
      return { level: "ok", says: `the encryption key ${path} is made at the first start` };
    const fix = "restore it from your backup; without it stored secrets have to be set again";
    return { level: "bad", says: `the encryption key ${path} is missing, although there is a database`, fix };
  }
  if (process.platform !== "win32" && (file.mode & OTHERS) !== 0) {
    return { level: "bad", says: `others can read the encryption key ${path}`, fix: `chmod 600 ${path}` };
  }
  if (file.size !== KEY_BYTES) {
    return { level: "bad", says: `${path} is not an encryption key`, fix: "restore it from your backup" };
  }
  return { level: "ok", says: `the encryption key is ${path}; keep a copy of it elsewhere` };
}

function disk({ data }: Patient): Finding {
  const free = freeBytes(nearest(data));
  const says = `${(free / 1e9).toFixed(1)} GB are free under the data folder`;
  if (free < FREE_BYTES_MIN) return { level: "bad", says, fix: "make room, or move the folder with --data" };
  if (free < FREE_BYTES_WISE) return { level: "note", says, fix: "logs and stored events may need more" };
  return { level: "ok", says };
}

function fileSystem({ data }: Patient): Finding {
  const kind = networkFileSystem(nearest(data));
  if (!kind) return { level: "ok", says: "the data folder is on a local disk" };
  return {
    level: "bad",
    says: `the data folder is on ${kind}`,
    fix: "databases need a local disk: move it with --data",
  };
}

function descriptors(): Finding {
  const limit = descriptorLimit();
  if (limit === undefined) return { level: "ok", says: "this system has no limit of open files per process" };
  const says = `${limit} files and connections may be open at once`;
  if (limit >= DESCRIPTORS_WISE) return { level: "ok", says };
  const fix = "each live agent takes five: raise it with LimitNOFILE= in the unit, or ulimit -n";
  return { level: "note", says, fix };
}

/** Signed webhooks are refused when clocks differ by minutes, and a board without a battery wakes in the past. */
function clock({ data, nowMs }: Patient): Finding {
  const fix = "set it, and keep it set: timedatectl set-ntp true";
  const newest = [process.execPath, join(data, "owner.json"), join(data, "gatehouse.db")]
    .map((path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0)
    .reduce((a, b) => Math.max(a, b));
  const now = new Date(nowMs).toISOString();
  if (newest > nowMs + CLOCK_SLACK_MS) return { level: "bad", says: `the clock is behind: it says ${now}`, fix };
  if (output(["timedatectl", "show", "--property=NTPSynchronized", "--value"]) === "no") {
    return { level: "note", says: `the clock says ${now}, and nothing keeps it right`, fix };
  }
  return { level: "ok", says: `the clock says ${now}` };
}

function sqlite(): Finding {
  const db = new Database(":memory:");
  const row: unknown = db.query("select sqlite_version() as version").get();
  db.close();
  const version = typeof row === "object" && row !== null && "version" in row ? String(row.version) : "0";
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [majorMin = 0, minorMin = 0] = SQLITE_MIN;
  if (major > majorMin || (major === majorMin && minor >= minorMin))
    return { level: "ok", says: `SQLite is ${version}` };
  return {
    level: "bad",
    says: `SQLite is ${version}`,
    fix: `needed is ${SQLITE_MIN.join(".")} or newer: update the system`,
  };
}

function certificate({ settings: { tls_cert: path }, nowMs }: Patient): Finding {
  if (path === undefined)
    return { level: "ok", says: "TLS is off; a proxy in front may offer it (public_url, trusted_proxies)" };
  try {
    const left = Date.parse(new X509Certificate(readFileSync(path)).validTo) - nowMs;
    const says = `the certificate ${path} ends in ${Math.floor(left / 86_400_000)} days`;
    if (left > CERTIFICATE_MS_WISE) return { level: "ok", says };
    return { level: left > 0 ? "note" : "bad", says, fix: "renew it, then restart" };
  } catch {
    return {
      level: "bad",
      says: `the certificate ${path} cannot be read`,
      fix: "tls_cert is a PEM file that this user may read",
    };
  }
}

async function port({ settings: { host, port: number }, running }: Patient): Promise<Finding> {
  if (running) return { level: "ok", says: `it runs as process ${running.pid} on ${running.address}` };
  const problem = await tryToListen(host, number);
  if (problem === undefined) return { level: "ok", says: `it can listen on ${host}:${number}` };
  const fix = LISTEN_FIXES[problem] ?? "see the settings host and port";
  return { level: "bad", says: `it cannot listen on ${host}:${number} (${problem})`, fix };
}

const LISTEN_FIXES: Record<string, string> = {
  EADDRINUSE: "another program has this port: stop it, or choose another with --port",
  EACCES: "ports below 1024 need a privilege: take a higher one, or the unit that `gatehouse service` prints",
  EADDRNOTAVAIL: "this machine does not have that address: see the setting host",
};

/** Asked through the API, because a figure that only the process itself knows is worth more than a guess from outside. */
async function server({ api }: CommandContext, { pid }: Running): Promise<Finding> {
  const text = await (await api.fetch("/metrics")).text();
  const figure = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]);
  const ready = (figure("gatehouse_start_seconds") * 1000).toFixed(0);
  const memory = (figure("process_resident_memory_bytes") / 1e6).toFixed(0);
  return { level: "ok", says: `process ${pid} took ${ready} ms from start to ready and holds ${memory} MB` };
}

async function running(data: string): Promise<Running | undefined> {
  const owner = readOwner(data);
  if (owner?.address === undefined) return undefined;
  return (await reach(owner.address)) ? { pid: owner.pid, address: owner.address } : undefined;
}

function tryToListen(host: string, number: number): Promise<string | undefined> {
  const { promise, resolve: done } = Promise.withResolvers<string | undefined>();
  const listener = createServer();
  listener.once("error", (error) => done("code" in error ? String(error.code) : error.message));
  listener.listen(number, host, () => listener.close(() => done(undefined)));
  return promise;
}

/** The hard limit: Bun raises the soft one to it by itself. */
function descriptorLimit(): number | undefined {
  if (process.platform === "win32") return undefined;
  const text = output(["sh", "-c", "ulimit -Hn"]);
  return text === "unlimited" ? undefined : Number(text);
}

function output(command: string[]): string | undefined {
  if (!Bun.which(command[0] ?? "")) return undefined;
  const { exitCode, stdout } = Bun.spawnSync(command, { stdin: "ignore", stderr: "ignore" });
  return exitCode === 0 ? stdout.toString().trim() : undefined;
}

function mayWrite(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false; // the reason does not matter: what to do is the same
  }
}

/** The folder itself, or the nearest one above it that exists; a drive that is not there has none. */
function nearest(folder: string): string {
  return existsSync(folder) || dirname(folder) === folder ? folder : nearest(dirname(folder));
}

const Sources = t.Array(
  t.Object({
    name: t.String(),
    built_in: t.Boolean(),
    secrets: t.Array(t.Unknown()),
    warnings: t.Array(t.String()),
    counters: t.Object({ rejected: t.Integer() }),
  }),
);

/** Sources that somebody uses, or tries to, and that cannot work as they are. The others wait to be set up. */
async function webhooks({ api }: CommandContext): Promise<Finding[]> {
  const sources = Value.Parse(Sources, await api.call("GET", "/api/hooks/sources"));
  const used = sources.filter(
    ({ built_in, secrets, counters }) => !built_in || secrets.length > 0 || counters.rejected > 0,
  );
  return used.flatMap(({ name, warnings }) =>
    warnings.map((says): Finding => ({ level: "note", says: `webhooks of ${name}: ${says}` })),
  );
}
