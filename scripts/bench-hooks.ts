// What a webhook costs: signed 2 KB deliveries, durable before the answer, beside the same agent elsewhere.
//   scripts/bench hooks [--quick] [--no-peers]      needs wrk and openssl's sha256; the peers need npm and apt-get
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "..");
const quick = process.argv.includes("--quick");
const withPeers = !process.argv.includes("--no-peers") && !quick;
const SECONDS = quick ? 2 : 4;
const WARM_SECONDS = 2; // before each round: agents that slept since the last one start again, here and elsewhere
const ROUNDS = quick ? 1 : 5;
const CONNECTIONS = 32;
const FLOOD_PER_SECOND = 1_000;
const HEALTHY_PER_SECOND = 100;
const READY_MS_MAX = 120_000;
const WRANGLER = "wrangler@4.158.0";
const AGENTS = "agents@0.32.0";
const NODE = "node@22.23.3"; // wrangler wants 22 or newer, whatever the machine has
const SECRET = "a-secret-of-the-benchmark";
const BODY = JSON.stringify({ title: "benchmark", text: "x".repeat(2_000) });
const SIGNATURE = `sha256=${new Bun.CryptoHasher("sha256", SECRET).update(BODY).digest("hex")}`;

type Figures = { perSecond: number; p50: number; p99: number; failed: number };
type Running = { url: string; pid: number; stop(): Promise<void> };

async function main(): Promise<void> {
  const scratch = mkdtempSync(join(tmpdir(), "gatehouse-bench-"));
  run(["scripts/build.ts", "--no-measure"], ROOT);
  const ours = await startGatehouse(scratch);
  const webhook = withPeers ? await startAdnanh(scratch) : undefined;
  const wrangler = withPeers ? await startWrangler(scratch) : undefined;
  const burn = () =>
    fetch(`${ours.url}/webhooks/burner/x`, { method: "POST", body: BODY, headers: { "x-signature": SIGNATURE } });

  const cases: [string, () => Promise<Figures>][] = [
    ["one agent", () => load(ours.url, scratch, 1)],
    ["50 agents", () => load(ours.url, scratch, 50)],
    [
      "one agent, while another's handler burns a core",
      () => Promise.all([load(ours.url, scratch, 1), burn()]).then(([it]) => it),
    ],
    [`healthy sender, ${HEALTHY_PER_SECOND} a second`, () => healthy(ours.url)],
    [`the same beside ${FLOOD_PER_SECOND} unsigned requests a second`, () => besideFlood(ours.url)],
  ];
  if (webhook)
    cases.push([
      "adnanh/webhook running /bin/true (nothing stored)",
      () => load(webhook.url, scratch, 1, "/hooks/bench"),
    ]);
  if (wrangler) {
    cases.push(["agents + wrangler dev, one agent", () => load(wrangler.url, scratch, 1)]);
    cases.push(["agents + wrangler dev, 50 agents", () => load(wrangler.url, scratch, 50)]);
  }
  // In turn, round by round: whatever else the machine does then meets all of them alike.
  const rounds: Figures[][] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const figures: Figures[] = [];
    for (const [, measure] of cases) figures.push(await measure());
    if (round > 0) rounds.push(figures); // the first one warms up
  }
  console.log(
    `${CONNECTIONS} connections, median of ${ROUNDS} rounds of ${SECONDS} s after ${WARM_SECONDS} s to warm up, body ${BODY.length} bytes\n`,
  );
  console.log(`${"".padEnd(58)} per second    p50 ms    p99 ms   failed`);
  const medians = cases.map(([name], index) => {
    const middle = medianOf(rounds.map((figures) => figures[index] ?? NOTHING));
    print(name, middle);
    return middle;
  });
  if (wrangler) {
    const times = (us: number, them: number) =>
      ((medians[us]?.perSecond ?? 0) / (medians.at(them)?.perSecond ?? 1)).toFixed(1);
    console.log(
      `\nagainst agents + wrangler dev: ${times(0, -2)} times (one agent), ${times(1, -1)} times (50 agents)`,
    );
  }
  for (const target of [ours, webhook, wrangler]) await target?.stop();
  rmSync(scratch, { recursive: true, force: true });
}

const NOTHING: Figures = { perSecond: 0, p50: 0, p99: 0, failed: 0 };

function medianOf(all: Figures[]): Figures {
  const middle = (read: (one: Figures) => number) =>
    all.map(read).sort((a, b) => a - b)[Math.floor(all.length / 2)] ?? 0;
  const failed = all.reduce((sum, one) => sum + one.failed, 0);
  return {
    perSecond: middle((one) => one.perSecond),
    p50: middle((one) => one.p50),
    p99: middle((one) => one.p99),
    failed,
  };
}

async function besideFlood(url: string): Promise<Figures> {
  const attacker = Bun.spawn([process.execPath, import.meta.path, "flood", url, String(FLOOD_PER_SECOND)], {
    stdout: "ignore",
  });
  const figures = await healthy(url);
  attacker.kill();
  await attacker.exited;
  return figures;
}

const BURNER = `import { WebhookAgent } from "gatehouse";
export class Burner extends WebhookAgent {
  onEvent() { const end = Date.now() + ${(WARM_SECONDS + SECONDS + 1) * 1000}; while (Date.now() < end) {} }
}`;

async function startGatehouse(scratch: string): Promise<Running> {
  const cwd = join(scratch, "gatehouse");
  mkdirSync(join(cwd, "agents"), { recursive: true });
  writeFileSync(join(cwd, "agents", "burner.ts"), BURNER);
  const port = freePort();
  const env = { GENERIC_WEBHOOK_SECRET: SECRET, BURNER_WEBHOOK_SECRET: SECRET, GATEHOUSE_LOG: "warn" };
  const server = await begin(
    [join(ROOT, "dist/gatehouse"), "--host", "127.0.0.1", "--port", String(port)],
    cwd,
    env,
    `http://127.0.0.1:${port}`,
    "/readyz",
  );
  const token = /admin token +(\S+)/.exec(readFileSync(join(cwd, "data/first-start.txt"), "utf8"))?.[1] ?? "";
  const made = await fetch(`${server.url}/api/hooks/sources`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ name: "burner", preset: "generic", class: "burner", ack_ms: 100 }),
  });
  if (!made.ok) throw new Error(await made.text());
  return server;
}

/** Debian's package of it: verifies the same signature, then starts a process. */
async function startAdnanh(scratch: string): Promise<Running | undefined> {
  const cwd = join(scratch, "adnanh");
  mkdirSync(cwd);
  const got = Bun.spawnSync(["sh", "-c", "apt-get download webhook && dpkg -x webhook_*.deb ."], {
    cwd,
    stderr: "pipe",
  });
  if (got.exitCode !== 0) return absent("adnanh/webhook", "apt-get download webhook");
  const rule = {
    match: { type: "payload-hmac-sha256", secret: SECRET, parameter: { source: "header", name: "X-Signature" } },
  };
  writeFileSync(
    join(cwd, "hooks.json"),
    JSON.stringify([
      { id: "bench", "execute-command": "/bin/true", "include-command-output-in-response": true, "trigger-rule": rule },
    ]),
  );
  const port = freePort();
  return begin(
    [join(cwd, "usr/bin/webhook"), "-hooks", "hooks.json", "-ip", "127.0.0.1", "-port", String(port)],
    cwd,
    {},
    `http://127.0.0.1:${port}`,
    "/",
  );
}

/** The agent of the SDK's own webhook guide: verify, store in SQL, set state. */
const WORKER = `import { Agent, getAgentByName } from "agents";
const hex = (bytes) => [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
export class WebhookAgent extends Agent {
  initialState = { count: 0, lastEvent: null };
  onStart() {
    this.sql\`create table if not exists events (id text primary key, type text not null, action text, title text not null,
      description text, url text, actor text, payload text, timestamp text not null)\`;
    this.sql\`create index if not exists events_timestamp on events (timestamp desc)\`;
  }
  async onRequest(request) {
    if (request.method !== "POST") return new Response("no", { status: 405 });
    const body = await request.text();
    const key = await crypto.subtle.importKey("raw", new TextEncoder().encode(this.env.WEBHOOK_SECRET), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    const expected = "sha256=" + hex(await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(body)));
    if (request.headers.get("x-signature") !== expected) return new Response("no", { status: 401 });
    const id = request.headers.get("x-delivery-id");
    if (this.sql\`select id from events where id = \${id}\`.length > 0) return new Response("duplicate");
    const event = JSON.parse(body);
    this.sql\`insert into events (id, type, title, payload, timestamp) values (\${id}, 'x', \${event.title}, \${body}, \${new Date().toISOString()})\`;
    this.sql\`delete from events where id not in (select id from events order by timestamp desc limit 100)\`;
    this.setState({ count: this.state.count + 1, lastEvent: { id, title: event.title } });
    return new Response("ok");
  }
}
export default { async fetch(request, env) {
  const [, name] = new URL(request.url).pathname.split("/").filter(Boolean);
  return name ? (await getAgentByName(env.WebhookAgent, name)).fetch(request) : new Response("ready");
} };`;

async function startWrangler(scratch: string): Promise<Running | undefined> {
  const cwd = join(scratch, "wrangler");
  mkdirSync(cwd);
  writeFileSync(join(cwd, "package.json"), '{"type":"module"}');
  writeFileSync(join(cwd, "index.js"), WORKER);
  writeFileSync(
    join(cwd, "wrangler.json"),
    JSON.stringify({
      name: "bench",
      main: "index.js",
      compatibility_date: "2026-01-01",
      compatibility_flags: ["nodejs_compat"],
      vars: { WEBHOOK_SECRET: SECRET },
      durable_objects: { bindings: [{ name: "WebhookAgent", class_name: "WebhookAgent" }] },
      migrations: [{ tag: "v1", new_sqlite_classes: ["WebhookAgent"] }],
    }),
  );
  const installed = Bun.spawnSync(["npm", "install", "--no-fund", "--no-audit", WRANGLER, AGENTS, NODE], {
    cwd,
    stdout: "pipe",
    stderr: "pipe",
  });
  if (installed.exitCode !== 0) return absent("wrangler", `npm install ${WRANGLER} ${AGENTS} ${NODE}`);
  const port = freePort();
  const env = { HOME: cwd, WRANGLER_SEND_METRICS: "false", CI: "1" };
  return begin(
    [
      "node_modules/.bin/node",
      "node_modules/wrangler/bin/wrangler.js",
      "dev",
      "--port",
      String(port),
      "--ip",
      "127.0.0.1",
    ],
    cwd,
    env,
    `http://127.0.0.1:${port}`,
    "/",
  ).catch((error) => absent("wrangler", String(error)));
}

function absent(name: string, how: string): undefined {
  console.log(`${name}: left out; ${how} failed`);
  return undefined;
}

async function begin(
  command: string[],
  cwd: string,
  env: Record<string, string>,
  address: string,
  ready: string,
): Promise<Running> {
  const log = Bun.file(join(cwd, "bench.log"));
  const child = Bun.spawn(command, {
    cwd,
    env: { PATH: process.env.PATH ?? "", ...env },
    stdin: "ignore",
    stdout: log,
    stderr: log,
  });
  for (const giveUpMs = Date.now() + READY_MS_MAX; ; await Bun.sleep(50)) {
    const answer = await fetch(`${address}${ready}`).catch(() => undefined);
    if (answer && answer.status < 500) break;
    if (child.exitCode !== null || Date.now() > giveUpMs)
      throw new Error(`${command[0]} did not start: ${await log.text()}`);
  }
  const stop = async (): Promise<void> => {
    child.kill();
    await Promise.race([child.exited, Bun.sleep(5_000)]);
    if (child.exitCode === null) child.kill("SIGKILL");
  };
  return { url: address, pid: child.pid, stop };
}

/** wrk with a delivery id of its own for each request, so that none is a duplicate. */
async function load(base: string, scratch: string, agents: number, path?: string): Promise<Figures> {
  const script = join(scratch, "load.lua");
  const target = path === undefined ? `"/webhooks/agent-" .. (n % ${agents})` : `"${path}"`;
  writeFileSync(
    script,
    `local n = 0
local prefix = "${Bun.randomUUIDv7()}-" .. os.time() .. "-"
wrk.method = "POST"
wrk.body = [==[${BODY}]==]
request = function()
  n = n + 1
  wrk.headers["content-type"] = "application/json"
  wrk.headers["x-signature"] = "${SIGNATURE}"
  wrk.headers["x-event-type"] = "bench"
  wrk.headers["x-delivery-id"] = prefix .. n
  return wrk.format(nil, ${target})
end
done = function(summary, latency)
  local bad = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout
  io.write(string.format("RESULT %f %f %f %d\\n", summary.requests / summary.duration * 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000, bad))
end`,
  );
  await wrk(base, script, WARM_SECONDS);
  const out = await wrk(base, script, SECONDS);
  const [, perSecond, p50, p99, failed] = /RESULT (\S+) (\S+) (\S+) (\d+)/.exec(out) ?? [];
  return { perSecond: Number(perSecond), p50: Number(p50), p99: Number(p99), failed: Number(failed) };
}

async function wrk(base: string, script: string, seconds: number): Promise<string> {
  const args = ["-t1", `-c${CONNECTIONS}`, `-d${seconds}s`, "--timeout", "20s", "-s", script, base];
  return new Response(Bun.spawn(["wrk", ...args], { stderr: "ignore" }).stdout).text();
}

/** A sender at a steady pace, each delivery on time whatever became of the one before. */
async function healthy(base: string): Promise<Figures> {
  const times: number[] = [];
  let failed = 0;
  const one = async (): Promise<void> => {
    const start = performance.now();
    const headers = {
      "content-type": "application/json",
      "x-signature": SIGNATURE,
      "x-delivery-id": Bun.randomUUIDv7(),
    };
    const answer = await fetch(`${base}/webhooks/healthy`, { method: "POST", body: BODY, headers });
    await answer.text();
    if (!answer.ok) failed++;
    times.push(performance.now() - start);
  };
  await one();
  times.length = 0;
  const pending = await paced(HEALTHY_PER_SECOND, SECONDS * 1000, one);
  await Promise.all(pending);
  times.sort((a, b) => a - b);
  const at = (share: number): number => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;
  return { perSecond: times.length / SECONDS, p50: at(0.5), p99: at(0.99), failed };
}

async function flood(base: string, perSecond: number): Promise<void> {
  const one = async (): Promise<void> => {
    const answer = await fetch(`${base}/webhooks/healthy`, {
      method: "POST",
      body: BODY,
      headers: { "x-signature": `sha256=${"0".repeat(64)}` },
    }).catch(() => undefined);
    await answer?.text();
  };
  await paced(perSecond, Number.POSITIVE_INFINITY, one);
}

async function paced(perSecond: number, ms: number, task: () => Promise<void>): Promise<Promise<void>[]> {
  const pending: Promise<void>[] = [];
  const start = performance.now();
  for (let sent = 0; performance.now() - start < ms; ) {
    const dueBy = Math.floor(((performance.now() - start) / 1000) * perSecond);
    for (; sent < dueBy; sent++) {
      const it = task();
      if (ms !== Number.POSITIVE_INFINITY) pending.push(it);
    }
    await Bun.sleep(1);
  }
  return pending;
}

function print(name: string, { perSecond, p50, p99, failed }: Figures): void {
  console.log(
    `${name.padEnd(58)} ${perSecond.toFixed(0).padStart(10)} ${p50.toFixed(2).padStart(9)} ${p99.toFixed(2).padStart(9)} ${String(failed).padStart(8)}`,
  );
}

function freePort(): number {
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const { port = 0 } = server;
  server.stop(true);
  return port;
}

function run(args: string[], cwd: string): void {
  const done = Bun.spawnSync([process.execPath, ...args], { cwd });
  if (done.exitCode !== 0) throw new Error(`${args.join(" ")} failed:\n${done.stdout}${done.stderr}`);
}

const [role, url = "", rate = "0"] = process.argv.slice(2);
if (role === "flood") await flood(url, Number(rate));
else await main();
