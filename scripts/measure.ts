// How long an executable takes from start to ready, and what it holds when idle: printed, never asserted.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const STARTS = 5; // the median of five is steady enough to read
const READY_MS_MAX = 20_000;
const SETTLE_MS = 1_500; // what was allocated for the start alone is given back by then

export async function measure(executable: string): Promise<string> {
  const times: number[] = [];
  let memory: number | undefined;
  for (let count = 0; count < STARTS; count++) {
    const last = count === STARTS - 1;
    const once = await start(executable, last);
    if (once === undefined) return "not measured: it did not become ready";
    times.push(once.ms);
    memory = once.bytes ?? memory;
  }
  const median = times.sort((a, b) => a - b)[Math.floor(STARTS / 2)] ?? 0;
  const held =
    memory === undefined ? "memory not read on this platform" : `${(memory / 1e6).toFixed(0)} MB resident when idle`;
  return `start to ready ${median.toFixed(0)} ms (median of ${STARTS}, first start on an empty data folder), ${held}`;
}

async function start(executable: string, settle: boolean): Promise<{ ms: number; bytes?: number } | undefined> {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-measure-"));
  const startMs = performance.now();
  const child = Bun.spawn([executable, "serve", "--host", "127.0.0.1", "--port", "0", "--data", join(folder, "data")], {
    cwd: folder,
    stdin: "ignore",
    stdout: "ignore",
    stderr: "ignore",
  });
  try {
    if (!(await ready(join(folder, "data"), child, startMs + READY_MS_MAX))) return undefined;
    const ms = performance.now() - startMs;
    if (!settle) return { ms };
    await Bun.sleep(SETTLE_MS);
    const bytes = residentBytes(child.pid);
    return bytes === undefined ? { ms } : { ms, bytes };
  } finally {
    child.kill("SIGTERM");
    await child.exited;
    rmSync(folder, { recursive: true, force: true });
  }
}

async function ready(data: string, child: Bun.Subprocess, deadlineMs: number): Promise<boolean> {
  while (child.exitCode === null && performance.now() < deadlineMs) {
    const address = addressIn(join(data, "owner.json"));
    const answer = address === undefined ? undefined : await fetch(`${address}/readyz`).catch(() => undefined);
    if (answer?.ok) return true;
    await Bun.sleep(1);
  }
  return false;
}

function addressIn(file: string): string | undefined {
  try {
    const owner: unknown = JSON.parse(readFileSync(file, "utf8"));
    if (typeof owner !== "object" || owner === null || !("address" in owner)) return undefined;
    return typeof owner.address === "string" ? owner.address : undefined;
  } catch {
    return undefined; // not written yet
  }
}

function residentBytes(pid: number): number | undefined {
  const { exitCode, stdout } = Bun.spawnSync(["ps", "-o", "rss=", "-p", String(pid)], { stderr: "ignore" });
  const kib = Number(stdout.toString().trim());
  return exitCode === 0 && kib > 0 ? kib * 1024 : undefined;
}
