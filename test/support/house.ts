// A whole Gatehouse on a free port and a folder of its own, for one test.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startServer } from "../../src/commands/serve.ts";
import type { Parts } from "../../src/parts.ts";
import { parseConfig } from "../../src/platform/config.ts";
import { createLog } from "../../src/platform/log.ts";
import type { Permission, Scope } from "../../src/platform/permissions.ts";
import type { Settings } from "../../src/platform/settings.ts";
import { EMBED_FOLDER, THREADS } from "./threads.ts";

export type House = AsyncDisposable & {
  url: string;
  folder: string;
  parts: Parts;
  adminToken: string;
  /** What was logged, one parsed line each. */
  logged: Record<string, unknown>[];
  token(permissions: Permission[], scope?: Scope): string;
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** Stops it and leaves its folder, for a second start on the same files. */
  stop(): Promise<void>;
  /** As the admin; answers status, headers and the parsed body. */
  api(method: string, path: string, body?: unknown, token?: string): Promise<Answer>;
};
// biome-ignore lint/suspicious/noExplicitAny: a test reads the answer field by field, and a wrong one fails its expectation
export type Answer = { status: number; headers: Headers; body: any };

export type HouseOptions = {
  settings?: Partial<Settings>;
  folder?: string;
  env?: Record<string, string>;
  now?: () => number;
};

export async function startHouse({
  settings = {},
  folder = tempFolder(),
  env = {},
  now = Date.now,
}: HouseOptions = {}): Promise<House> {
  const config = parseConfig({ env: {}, flags: {} });
  if (!config.ok) throw new Error(config.problems.join("\n"));
  const logged: Record<string, unknown>[] = [];
  const log = createLog({ level: "debug", pretty: false, now, write: (line) => void logged.push(JSON.parse(line)) });
  const places = {
    host: "127.0.0.1",
    port: 0,
    data: join(folder, "data"),
    agents: join(folder, "agents"),
    stop_ms: 1_000,
  };
  const machine = {
    settings: { ...config.settings, ...places, ...settings },
    log,
    threads: THREADS,
    embedFolder: EMBED_FOLDER,
    env,
    now,
  };
  const { parts, url, stop } = await startServer(machine);
  const adminToken = parts.tokens.mint({ name: "test admin", permissions: ["admin"] }).token;

  const send = (path: string, init?: RequestInit): Promise<Response> => fetch(`${url}${path}`, init);
  return {
    url,
    folder,
    parts,
    adminToken,
    logged,
    token: (permissions, scope = {}) => parts.tokens.mint({ name: "test", permissions, scope }).token,
    fetch: send,
    stop,
    async api(method, path, body, token = adminToken) {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const answer = await send(path, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
      const text = await answer.text();
      return { status: answer.status, headers: answer.headers, body: text === "" ? null : JSON.parse(text) };
    },
    async [Symbol.asyncDispose]() {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export function tempFolder(): string {
  return mkdtempSync(join(tmpdir(), "gatehouse-test-"));
}
