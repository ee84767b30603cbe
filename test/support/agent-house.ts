// A house with agent files in its folder, and the unmodified client library pointed at it.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { AgentClient } from "agents/client";
import { parseConfig } from "../../src/platform/config.ts";
import type { Settings } from "../../src/platform/settings.ts";
import { writeFiles } from "./agents.ts";
import { type House, startHouse, tempFolder } from "./house.ts";

export type AgentHouse = House & { write(files: Record<string, string>): Promise<void> };
type Options = {
  files: Record<string, string>;
  agent?: Partial<Settings["agent"]>;
  settings?: Partial<Settings>;
  folder?: string;
};

export async function startAgentHouse({
  files,
  agent = {},
  settings = {},
  folder = tempFolder(),
}: Options): Promise<AgentHouse> {
  const defaults = parseConfig({ env: {}, flags: {} });
  if (!defaults.ok) throw new Error(defaults.problems.join("\n"));
  mkdirSync(join(folder, "agents"), { recursive: true });
  await writeFiles(join(folder, "agents"), files);
  const house = await startHouse({
    folder,
    settings: { ...settings, agent: { ...defaults.settings.agent, ...agent } },
  });
  await house.parts.agents.ready();
  return { ...house, write: (changed) => writeFiles(join(folder, "agents"), changed) };
}

export type Frame = Record<string, unknown> & { type?: string };
type ClientOptions = Partial<ConstructorParameters<typeof AgentClient>[0]>;

/** The library's own client, and every text frame it received. */
export function openClient(
  house: { url: string },
  agent: string,
  name: string,
  token?: string,
  options: ClientOptions = {},
) {
  const frames: Frame[] = [];
  const closes: { code: number; reason: string }[] = [];
  const client = new AgentClient({
    agent,
    name,
    host: new URL(house.url).host,
    protocol: "ws",
    ...(token === undefined ? {} : { query: { token } }),
    ...options,
  });
  client.addEventListener("message", ({ data }: MessageEvent) => {
    if (typeof data === "string") frames.push(toFrame(data));
  });
  client.addEventListener("close", ({ code, reason }: CloseEvent) => void closes.push({ code, reason }));
  return Object.assign(client, {
    frames,
    closes,
    [Symbol.dispose]: () => client.close(),
  });
}

function toFrame(text: string): Frame {
  try {
    return JSON.parse(text);
  } catch {
    return { raw: text };
  }
}
