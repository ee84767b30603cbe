// The peer: the same agent on the `agents` package under `wrangler dev`, installed into a folder of its own.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PORT = 8_799;
const START_MS_MAX = 120_000;
/** wrangler wants a newer Node than many machines have; npm carries it for the usual ones. */
const NODE = `node-${process.platform}-${process.arch}`;

export const PEER_CONFIG = {
  name: "peer",
  main: "src/index.ts",
  compatibility_date: "2026-01-01",
  compatibility_flags: ["nodejs_compat"],
  durable_objects: { bindings: [{ name: "Counter", class_name: "Counter" }] },
  migrations: [{ tag: "v1", new_sqlite_classes: ["Counter"] }],
};

export async function startPeer(agentText: string, config: object) {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-peer-"));
  mkdirSync(join(folder, "src"));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "peer", private: true }));
  writeFileSync(join(folder, "wrangler.json"), JSON.stringify(config));
  const entry = `import { routeAgentRequest } from "agents";
${agentText}
export default { async fetch(request, env) {
  return (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 });
} };`;
  writeFileSync(join(folder, "src/index.ts"), entry);
  const install = Bun.spawnSync(
    [process.execPath, "add", "-E", "agents@0.32.0", "wrangler", "ai", "zod", `${NODE}@22`],
    {
      cwd: folder,
    },
  );
  if (install.exitCode !== 0) throw new Error(`the peer could not be installed:\n${install.stderr}`);
  const child = Bun.spawn(
    [
      `node_modules/${NODE}/bin/node`,
      "node_modules/wrangler/bin/wrangler.js",
      "dev",
      "--port",
      String(PORT),
      "--ip",
      "127.0.0.1",
    ],
    {
      cwd: folder,
      env: { ...process.env, WRANGLER_SEND_METRICS: "false", CI: "1" },
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
    },
  );
  const url = `http://127.0.0.1:${PORT}`;
  const giveUpMs = performance.now() + START_MS_MAX;
  while (!(await answers(`${url}/agents/counter/x`))) {
    if (performance.now() > giveUpMs) {
      await stop();
      throw new Error("wrangler dev did not start");
    }
    await Bun.sleep(200);
  }
  return { url, stop };

  async function stop(): Promise<void> {
    child.kill("SIGTERM");
    await child.exited;
    rmSync(folder, { recursive: true, force: true });
  }
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    ({ status }) => status === 200,
    () => false,
  );
}
