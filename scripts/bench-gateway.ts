// What the gateway costs: its throughput, latency and memory beside a bare pass-through and Portkey's gateway.
//   scripts/bench gateway [--quick]      needs wrk; --quick: short rounds, no Portkey, no million requests
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildExecutable, EXECUTABLE } from "../test/support/executable.ts";

const quick = process.argv.includes("--quick");
const ROUNDS = quick ? 1 : 5;
const SECONDS = quick ? 2 : 3;
const LATENCY_ROUNDS = quick ? 4 : 20; // of a second each
const CONNECTIONS = 32;
const MEMORY_REQUESTS = 1_000_000;
const READY_MS_MAX = 60_000;
const PORTKEY = "@portkey-ai/gateway@1.15.2";
const BODY = JSON.stringify({ model: "gpt-4o-mini", messages: [{ role: "user", content: "Hello!" }] });

const [role, portText, upstream] = process.argv.slice(2);
if (role === "mock") mock(Number(portText));
else if (role === "bare") bare(Number(portText), upstream ?? "");
else await main();

/** A provider that answers at once: what is left to measure is us. */
function mock(port: number): void {
  const usage = { prompt_tokens: 19, completion_tokens: 10, total_tokens: 29 };
  const message = { role: "assistant", content: "Hello! How can I help you today?" };
  const choices = [{ index: 0, message, finish_reason: "stop" }];
  const json = JSON.stringify({ id: "c", object: "chat.completion", created: 1, model: "gpt-4o-mini", choices, usage });
  const chunk = (content: string) => ({ id: "c", model: "gpt-4o-mini", choices: [{ index: 0, delta: { content } }] });
  const events = [chunk("Hel"), chunk("lo"), { id: "c", model: "gpt-4o-mini", choices: [], usage }];
  const parts = [...events.map((event) => `data: ${JSON.stringify(event)}\n\n`), "data: [DONE]\n\n"];
  const bytes = parts.map((part) => new TextEncoder().encode(part));
  Bun.serve({
    port,
    hostname: "127.0.0.1",
    async fetch(request) {
      const body = await request.text();
      if (!body.includes('"stream":true'))
        return new Response(json, { headers: { "content-type": "application/json" } });
      const stream = new ReadableStream({
        start(controller) {
          for (const part of bytes) controller.enqueue(part);
          controller.close();
        },
      });
      return new Response(stream, { headers: { "content-type": "text/event-stream" } });
    },
  });
}

/** The least a proxy on this runtime can do: no token, no log, no header touched. */
function bare(port: number, to: string): void {
  Bun.serve({
    port,
    hostname: "127.0.0.1",
    fetch: ({ url, method, headers, body }) => fetch(to + url.slice(url.indexOf("/", 8)), { method, headers, body }),
  });
}

type Target = { name: string; pid: number; url: string; headers: Record<string, string> };
type Figures = { perSecond: number; medianMs: number; p99Ms: number; errors: number };

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-bench-"));
  const children: Bun.Subprocess[] = [];
  buildExecutable();
  try {
    await compare(folder, children);
  } finally {
    for (const child of children) child.kill();
    await Promise.all(children.map((child) => child.exited));
    rmSync(folder, { recursive: true, force: true });
  }
}

async function compare(folder: string, children: Bun.Subprocess[]): Promise<void> {
  const provider = await child(children, "mock", (port) => [process.execPath, import.meta.path, "mock", String(port)]);
  const pass = await child(children, "bare", (port) => [
    process.execPath,
    import.meta.path,
    "bare",
    String(port),
    provider.url,
  ]);
  const ours = await startGatehouse(folder, children, provider.url);
  const targets = [provider, pass, ours];
  const portkey = quick ? undefined : await startPortkey(folder, children, provider.url);
  if (portkey) targets.push(portkey);

  console.log(
    `at ${CONNECTIONS}: median of ${ROUNDS} rounds of ${SECONDS} s; at 1: lower quartile of ${LATENCY_ROUNDS} rounds of 1 s, ` +
      `since a shared machine's own pauses are in the others; rounds alternate; ` +
      `${process.platform} ${process.arch}, Bun ${Bun.version}`,
  );
  for (const stream of [false, true]) {
    const at32 = await rounds(
      folder,
      targets,
      { connections: CONNECTIONS, count: ROUNDS, seconds: SECONDS, share: 0.5 },
      stream,
    );
    const at1 = await rounds(
      folder,
      targets,
      { connections: 1, count: LATENCY_ROUNDS, seconds: 1, share: 0.25 },
      stream,
    );
    console.log(stream ? "\nstreams of four tiny events" : "\nbuffered requests");
    for (const { name } of targets) {
      const [many, one] = [at32.get(name), at1.get(name)];
      if (!many || !one) continue;
      const wrong = many.errors + one.errors > 0 ? `  ${many.errors + one.errors} ERRORS` : "";
      console.log(
        `  ${name.padEnd(10)} ${many.perSecond.toFixed(0).padStart(7)} requests/s at ${CONNECTIONS}; ` +
          `at 1: median ${one.medianMs.toFixed(3)} ms, p99 ${one.p99Ms.toFixed(3)} ms${wrong}`,
      );
    }
    report(at32, at1);
  }
  await firstByte(targets);
  if (quick) return;
  await memoryAfter(folder, ours);
  await besideQueries(folder, ours);
}

function report(at32: Map<string, Figures>, at1: Map<string, Figures>): void {
  const of = (figures: Map<string, Figures>, name: string) =>
    figures.get(name) ?? { perSecond: 0, medianMs: 0, p99Ms: 0, errors: 0 };
  const [pass, ours, portkey] = ["bare", "gatehouse", "portkey"].map((name) => of(at32, name).perSecond);
  console.log(`  gatehouse / bare     ${((ours ?? 0) / (pass ?? 1)).toFixed(2)}`);
  if (portkey) console.log(`  gatehouse / portkey  ${((ours ?? 0) / portkey).toFixed(1)}`);
  for (const [name, key] of [
    ["median", "medianMs"],
    ["p99", "p99Ms"],
  ] as const) {
    const direct = of(at1, "mock")[key];
    const [bareMs, oursMs] = [of(at1, "bare")[key] - direct, of(at1, "gatehouse")[key] - direct];
    console.log(
      `  added ${name} at 1: gatehouse ${oursMs.toFixed(3)} ms, bare ${bareMs.toFixed(3)} ms, ratio ${(oursMs / bareMs).toFixed(2)}`,
    );
  }
}

/** `share`: which of the sorted rounds counts. */
type Plan = { connections: number; count: number; seconds: number; share: number };

async function rounds(
  folder: string,
  targets: Target[],
  { connections, count, seconds, share }: Plan,
  stream: boolean,
): Promise<Map<string, Figures>> {
  const all = new Map<string, Figures[]>(targets.map(({ name }) => [name, []]));
  for (const target of targets) await wrk(folder, target, connections, stream, 1); // warm
  for (let round = 0; round < count; round++) {
    for (const target of targets) all.get(target.name)?.push(await wrk(folder, target, connections, stream, seconds));
  }
  return new Map(Array.from(all, ([name, list]) => [name, oneOf(list, share)]));
}

function oneOf(list: Figures[], share: number): Figures {
  const pick = (read: (one: Figures) => number) =>
    list.map(read).sort((a, b) => a - b)[Math.floor(list.length * share)] ?? 0;
  return {
    perSecond: pick((one) => one.perSecond),
    medianMs: pick((one) => one.medianMs),
    p99Ms: pick((one) => one.p99Ms),
    errors: list.reduce((sum, one) => sum + one.errors, 0),
  };
}

async function wrk(
  folder: string,
  target: Target,
  connections: number,
  stream: boolean,
  seconds: number,
): Promise<Figures> {
  const script = join(folder, `${target.name}-${stream}.lua`);
  const body = stream ? BODY.replace("{", '{"stream":true,') : BODY;
  const headers = Object.entries({
    "content-type": "application/json",
    authorization: "Bearer sk-bench",
    ...target.headers,
  });
  const done = `done = function(s, l) io.write(string.format("F %f %f %f %d\\n", s.requests / s.duration * 1e6, l:percentile(50) / 1000, l:percentile(99) / 1000, s.errors.status + s.errors.read + s.errors.connect + s.errors.timeout)) end`;
  const lines = headers.map(([name, value]) => `wrk.headers[${JSON.stringify(name)}] = ${JSON.stringify(value)}`);
  writeFileSync(script, ['wrk.method = "POST"', `wrk.body = ${JSON.stringify(body)}`, ...lines, done].join("\n"));
  const run = Bun.spawn(
    ["wrk", "-t1", `-c${connections}`, `-d${seconds}s`, "-s", script, `${target.url}/chat/completions`],
    { stdout: "pipe" },
  );
  const out = await new Response(run.stdout).text();
  const [, perSecond, medianMs, p99Ms, errors] = /F (\S+) (\S+) (\S+) (\S+)/.exec(out)?.map(Number) ?? [];
  return { perSecond: perSecond ?? 0, medianMs: medianMs ?? 0, p99Ms: p99Ms ?? 0, errors: errors ?? 1 };
}

/** From the request to the first streamed byte, one after the other, alternating between the targets. */
async function firstByte(targets: Target[]): Promise<void> {
  const times = new Map<string, number[]>(targets.map(({ name }) => [name, []]));
  for (let round = 0; round < (quick ? 100 : 1_000); round++) {
    for (const { name, url, headers } of targets) {
      if (name === "portkey" && round >= 100) continue;
      const start = performance.now();
      const answer = await fetch(`${url}/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: BODY.replace("{", '{"stream":true,'),
      });
      const reader = answer.body?.getReader();
      await reader?.read();
      times.get(name)?.push(performance.now() - start);
      for (let part = await reader?.read(); part && !part.done; part = await reader?.read());
    }
  }
  const middle = (name: string) =>
    times.get(name)?.sort((a, b) => a - b)[Math.floor((times.get(name)?.length ?? 0) / 2)] ?? 0;
  console.log("\nfirst streamed byte, median");
  for (const { name } of targets) {
    console.log(
      `  ${name.padEnd(10)} ${middle(name).toFixed(3)} ms, added ${(middle(name) - middle("mock")).toFixed(3)} ms`,
    );
  }
}

async function memoryAfter(folder: string, ours: Target): Promise<void> {
  const before = resident(ours.pid);
  let sent = 0;
  let highest = before;
  while (sent < MEMORY_REQUESTS) {
    const { perSecond } = await wrk(folder, ours, CONNECTIONS, false, 10);
    sent += perSecond * 10;
    highest = Math.max(highest, resident(ours.pid));
  }
  await Bun.sleep(2_000);
  const after = resident(ours.pid);
  const dropped = await droppedBy(folder, ours);
  console.log(
    `\nmemory: ${mb(before)} MB before, ${mb(after)} MB after ${(sent / 1e6).toFixed(2)} million more requests, ` +
      `${mb(highest)} MB at most; log rows and bodies given up: ${dropped}`,
  );
}

async function droppedBy(folder: string, ours: Target): Promise<number> {
  const token = gatehouse(folder, "token", "create", "--admin").stdout.toString().split("\n")[0];
  const answer = await fetch(`${new URL(ours.url).origin}/metrics`, { headers: { authorization: `Bearer ${token}` } });
  const counts = (await answer.text()).matchAll(/^gatehouse_gateway_logs_dropped_total\S* (\d+)$/gm);
  return Array.from(counts, ([, count]) => Number(count)).reduce((sum, count) => sum + count, 0);
}

/** The logs now hold a million rows: does somebody who searches them all slow down who only wants an answer? */
async function besideQueries(folder: string, ours: Target): Promise<void> {
  const made = gatehouse(folder, "token", "create", "--admin");
  const headers = { authorization: `Bearer ${made.stdout.toString().split("\n")[0]}` };
  const search = `${new URL(ours.url).origin}/api/accounts/home/ai-gateway/gateways/default/logs?search=nothing-has-this`;
  const alone = await wrk(folder, ours, 1, false, SECONDS);
  let asking = true;
  const times: number[] = [];
  const asked = (async () => {
    while (asking) {
      const start = performance.now();
      await (await fetch(search, { headers })).text();
      times.push(performance.now() - start);
    }
  })();
  const beside = await wrk(folder, ours, 1, false, SECONDS);
  asking = false;
  await asked;
  const mean = times.reduce((sum, ms) => sum + ms, 0) / times.length;
  console.log(`\nat 1 connection: median ${alone.medianMs.toFixed(3)} ms, p99 ${alone.p99Ms.toFixed(3)} ms`);
  console.log(
    `  while every row is searched (${mean.toFixed(0)} ms a search): median ${beside.medianMs.toFixed(3)} ms, ` +
      `p99 ${beside.p99Ms.toFixed(3)} ms`,
  );
}

function envOf(folder: string) {
  return { ...process.env, NODE_ENV: "production", GATEHOUSE_DATA: join(folder, "data") };
}

function gatehouse(folder: string, ...args: string[]) {
  return Bun.spawnSync([EXECUTABLE, ...args], { cwd: folder, env: envOf(folder) });
}

async function startGatehouse(folder: string, children: Bun.Subprocess[], to: string): Promise<Target> {
  writeFileSync(join(folder, "gatehouse.toml"), `[gateway.providers.openai]\nbase_url = "${to}"\n`);
  const options = { cwd: folder, env: envOf(folder) };
  const command = (port: number) => [EXECUTABLE, "--host", "127.0.0.1", "--port", String(port)];
  const target = await child(children, "gatehouse", command, options, "/healthz");
  const token = gatehouse(folder, "gateway", "token", "create").stdout.toString().split("\n")[0] ?? "";
  return {
    ...target,
    url: `${target.url}/v1/home/default/openai`,
    headers: { "gw-aig-authorization": `Bearer ${token}` },
  };
}

/** Installed into a scratch folder: a measuring stick, not a dependency. */
async function startPortkey(folder: string, children: Bun.Subprocess[], to: string): Promise<Target | undefined> {
  writeFileSync(join(folder, "package.json"), "{}");
  const install = Bun.spawn(["npm", "install", "--silent", "--no-audit", "--no-fund", PORTKEY], {
    cwd: folder,
    stdout: "ignore",
    stderr: "ignore",
  });
  if ((await install.exited) !== 0) {
    console.log(`${PORTKEY} could not be installed; the comparison is left out`);
    return undefined;
  }
  const start = join(folder, "node_modules/@portkey-ai/gateway/build/start-server.js");
  const env = { ...process.env, NODE_ENV: "production", TRUSTED_CUSTOM_HOSTS: "127.0.0.1,localhost" };
  const target = await child(children, "portkey", (port) => ["node", start, `--port=${port}`, "--headless"], {
    cwd: folder,
    env,
  });
  const host = to.replace("127.0.0.1", "localhost");
  return {
    ...target,
    url: `${target.url}/v1`,
    headers: { "x-portkey-provider": "openai", "x-portkey-custom-host": `${host}/v1` },
  };
}

async function child(
  children: Bun.Subprocess[],
  name: string,
  command: (port: number) => string[],
  options: { cwd?: string; env?: Record<string, string | undefined> } = {},
  probe = "/",
): Promise<Target> {
  const port = freePort();
  const spawned = Bun.spawn(command(port), { ...options, stdin: "ignore", stdout: "ignore", stderr: "ignore" });
  children.push(spawned);
  const url = `http://127.0.0.1:${port}`;
  for (const giveUpMs = performance.now() + READY_MS_MAX; ; await Bun.sleep(20)) {
    const ready = await fetch(url + probe).then(
      () => true,
      () => false,
    );
    if (ready) return { name, pid: spawned.pid, url, headers: {} };
    if (performance.now() > giveUpMs || spawned.exitCode !== null) throw new Error(`${name} did not start`);
  }
}

function freePort(): number {
  const probe = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = probe;
  probe.stop(true);
  return port;
}

function resident(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;
}

function mb(bytes: number): string {
  return (bytes / 1e6).toFixed(0);
}
