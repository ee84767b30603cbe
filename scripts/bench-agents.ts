// What agents cost: waking one, telling a thousand clients, ten thousand of them on few threads, calls a second.
//   scripts/bench agents [--seconds N] [--only wakes|sharing|many] [--peer]
// --peer runs the same agent under wrangler dev, beside each number
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { buildExecutable, EXECUTABLE, start } from "../test/support/executable.ts";
import { PEER_CONFIG, startPeer } from "./peer-agents.ts";

const { values } = parseArgs({
  options: { seconds: { type: "string", default: "5" }, only: { type: "string" }, peer: { type: "boolean" } },
});
const SECONDS = Number(values.seconds);
const ROOT = join(import.meta.dir, "..");
const TOKEN = "bench-admin-token-of-more-than-32-characters";
const WAKES = 200; // in a round
const IN_A_ROW = 40;
const WAKE_ROUNDS = 5;
const CLIENTS = 1_000;
const MANY = 10_000;
const CONNECTIONS = 32;

/** The same text for us and for the peer. */
const agentText = (name: string, first = "") => `import { Agent, callable } from "agents";
${first}
export class ${name} extends Agent {
  static options = { public: true };
  initialState = { count: 0 };
  @callable() add(by = 1) { this.setState({ count: this.state.count + by }); return this.state.count; }
  onRequest() { return Response.json({ count: this.state.count }); }
}
`;
const USE_ZOD = `import { z } from "zod";\nexport const Shape = z.object({ by: z.number() });`;

type Target = { url: string; rss?: () => Promise<number> };

const folder = mkdtempSync(join(tmpdir(), "gatehouse-bench-"));
buildExecutable();
mkdirSync(join(folder, "agents/node_modules"), { recursive: true });
symlinkSync(join(ROOT, "node_modules/zod"), join(folder, "agents/node_modules/zod"));
writeFileSync(join(folder, "agents/counter.ts"), agentText("Counter"));
writeFileSync(join(folder, "agents/zod-counter.ts"), agentText("ZodCounter", USE_ZOD));

try {
  await ours();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function ours(): Promise<void> {
  const parts = { wakes, sharing, many };
  for (const [name, measure] of Object.entries(parts)) {
    if ((values.only ?? name) !== name) continue;
    await measure();
    rmSync(join(folder, "data"), { recursive: true, force: true });
  }
}

/**
 * Of agents that went to sleep under an earlier server. Each round has a server of its own, which lets none of them sleep
 * again; the middle one of the rounds counts, since a shared machine's own pauses are in some of the others.
 */
async function wakes(): Promise<void> {
  const limits = ["--agent-live-max", "1024", "--agent-spares-max", "1"];
  await withServer([...limits, "--agent-idle-ms", "300"], async (server) => {
    for (const className of ["counter", "zod-counter"])
      for (let index = 0; index < WAKES + IN_A_ROW; index++) await get(server, className, `w${index}`);
    await asleep(server);
  });
  const rounds = new Map<string, number[][]>();
  const keep = (what: string, sorted: number[]) => rounds.set(what, [...(rounds.get(what) ?? []), sorted]);
  for (let round = 0; round < WAKE_ROUNDS; round++) {
    await withServer([...limits, "--agent-idle-ms", "600000"], async (server) => {
      for (const className of ["counter", "zod-counter"]) {
        await get(server, className, "first"); // the first of a class has no spare yet
        await spareReady(server);
        const spaced = await times(WAKES, async (index) => {
          const took = await timed(() => get(server, className, `w${index}`));
          await spareReady(server); // a wake with nothing else going on
          return took;
        });
        keep(`wake ${className}`, spaced);
        keep(
          `wake ${className}, one right after the other`,
          await times(IN_A_ROW, (index) => timed(() => get(server, className, `w${WAKES + index}`))),
        );
      }
      keep("the same request to a live agent", await times(2_000, () => timed(() => get(server, "counter", "w0"))));
    });
    keep("a fixed piece of work on this machine, nothing of ours involved", await times(300, fixedWork));
  }
  print("median of", `${WAKE_ROUNDS} rounds of ${WAKES} wakes`);
  for (const [what, all] of rounds) {
    const middle = (share: number) =>
      at(
        all.map((sorted) => Number(at(sorted, share))).sort((a, b) => a - b),
        0.5,
      );
    const p99s = all.map((sorted) => at(sorted, 0.99)).join(", ");
    print(what, `p50 ${middle(0.5)} ms, p99 ${middle(0.99)} ms (by round ${p99s})`);
  }
}

/** About as long as a wake: what it varies by is the machine's own doing. */
async function fixedWork(): Promise<number> {
  const start = performance.now();
  let value = 0;
  for (let turn = 0; turn < 2_000_000; turn++) value = (value * 1_664_525 + 1_013_904_223) | 0;
  if (value === 1) print("chance", "one in four thousand million"); // so that the loop is not optimised away
  await Bun.sleep(2);
  return performance.now() - start - 2;
}

async function sharing(): Promise<void> {
  await withServer(["--agent-live-max", "128"], async (server) => {
    const peer = values.peer ? await startPeer(agentText("Counter"), PEER_CONFIG) : undefined;
    for (const [who, target] of [
      ["ours", server],
      ["wrangler dev", peer],
    ] as const) {
      if (!target) continue;
      print(`one state change to ${CLIENTS} clients, ${who}`, await toClients(target));
      print(`calls a second on one agent, ${who}`, await callsPerSecond(target, 1));
      print(`calls a second over 50 agents, ${who}`, await callsPerSecond(target, 50));
    }
    await peer?.stop();
  });
}

async function toClients({ url }: Target): Promise<string> {
  const address = `${url.replace("http", "ws")}/agents/counter/room`;
  let heard = 0;
  let whenAll = Promise.withResolvers<void>();
  const sockets = Array.from({ length: CLIENTS }, () => new WebSocket(address));
  const greeted = sockets.map(
    (socket) =>
      new Promise<void>((resolve) => {
        socket.onmessage = ({ data }) => String(data).includes("cf_agent_mcp") && resolve();
      }),
  );
  await Promise.all(greeted);
  for (const socket of sockets) {
    socket.onmessage = ({ data }) => {
      if (String(data).includes("cf_agent_state") && ++heard === CLIENTS) whenAll.resolve();
    };
  }
  const took = await times(20, async (index) => {
    heard = 0;
    whenAll = Promise.withResolvers<void>();
    const ms = timed(() => whenAll.promise);
    sockets[index]?.send(JSON.stringify({ type: "rpc", id: String(index), method: "add", args: [1] }));
    return ms;
  });
  for (const socket of sockets) socket.close();
  return `p50 ${at(took, 0.5)} ms until the last has it`;
}

async function callsPerSecond(target: Target, agents: number): Promise<string> {
  for (let index = 0; index < agents; index++) await get(target, "counter", `c${index}`);
  let calls = 0;
  const untilMs = performance.now() + SECONDS * 1000;
  const runner = async (_: unknown, first: number) => {
    for (let turn = first; performance.now() < untilMs; turn++) {
      await get(target, "counter", `c${turn % agents}`);
      calls++;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, runner));
  return `${Math.round(calls / SECONDS)}`;
}

async function many(): Promise<void> {
  await withServer(["--agent-live-max", "64", "--agent-wait-ms", "60000"], async (server) => {
    let next = 0;
    const make = async () => {
      for (let index = next++; index < MANY; index = next++) await get(server, "counter", `m${index}`);
    };
    const began = performance.now();
    await Promise.all(Array.from({ length: 8 }, make));
    print(`${MANY} agents made`, `${Math.round(MANY / ((performance.now() - began) / 1000))} a second`);
    const before = await server.rss();
    let touches = 0;
    const untilMs = performance.now() + 4 * SECONDS * 1000;
    const touch = async () => {
      while (performance.now() < untilMs) {
        await get(server, "counter", `m${Math.floor(Math.random() * MANY)}`);
        touches++;
      }
    };
    await Promise.all(Array.from({ length: 8 }, touch));
    const perSecond = Math.round(touches / (4 * SECONDS));
    print(
      `${MANY} agents on 64 threads, touched at random`,
      `${perSecond} a second, resident ${before} MB before, ${await server.rss()} MB after ${touches} touches`,
    );
  });
}

async function withServer(
  flags: string[],
  run: (server: Target & { rss: () => Promise<number> }) => Promise<void>,
): Promise<void> {
  const args = ["--host", "127.0.0.1", "--port", "0", ...flags];
  const server = await start({ executable: EXECUTABLE, cwd: folder, args, env: { GATEHOUSE_ADMIN_TOKEN: TOKEN } });
  const rss = async () => {
    const status = await Bun.file(`/proc/${server.pid}/status`).text();
    return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
  };
  try {
    await run({ url: server.url, rss });
  } finally {
    await server.stop();
  }
}

async function asleep({ url }: Target): Promise<void> {
  for (;;) {
    const answer = await fetch(`${url}/api/agents`, { headers: { authorization: `Bearer ${TOKEN}` } });
    const { result } = await answer.json();
    if (result.threads.live === 0) return;
    await Bun.sleep(50);
  }
}

async function spareReady({ url }: Target): Promise<void> {
  for (let spare = 0; spare === 0; ) {
    await Bun.sleep(20);
    const answer = await fetch(`${url}/api/agents`, { headers: { authorization: `Bearer ${TOKEN}` } });
    spare = (await answer.json()).result.threads.spare;
  }
}

async function get({ url }: Target, className: string, name: string): Promise<void> {
  const answer = await fetch(`${url}/agents/${className}/${name}`);
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`${className}/${name} answered ${answer.status}: ${text}`);
}

async function timed(task: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await task();
  return performance.now() - start;
}

async function times(count: number, task: (index: number) => Promise<number>): Promise<number[]> {
  const all: number[] = [];
  for (let index = 0; index < count; index++) all.push(await task(index));
  return all.sort((a, b) => a - b);
}

function at(sorted: number[], share: number): string {
  return (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(1);
}

function print(what: string, result: string): void {
  console.log(`${what}: ${result}`);
}
