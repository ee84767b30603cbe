// A provider on a real socket, and a house whose gateway points at it.
import { createServer, type Socket } from "node:net";
import { parseConfig } from "../../../src/platform/config.ts";
import type { Settings } from "../../../src/platform/settings.ts";
import { type House, startHouse } from "../../support/house.ts";

export type Seen = { method: string; path: string; headers: Headers; body: Uint8Array };
export type FakeProvider = AsyncDisposable & { url: string; seen: Seen[] };
type Answer = (request: Request, seen: Seen) => Response | Promise<Response>;

export const CHAT = {
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "gpt-4o-mini-2024-07-18",
  choices: [{ index: 0, message: { role: "assistant", content: "Hello!" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 19, completion_tokens: 10, total_tokens: 29 },
};

/** Reads the whole request, remembers it, answers. */
export function startProvider(answer: Answer = () => Response.json(CHAT)): FakeProvider {
  const seen: Seen[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      const body = await request.bytes();
      const one = { method: request.method, path: pathname + search, headers: request.headers, body };
      seen.push(one);
      return answer(request, one);
    },
  });
  return { url: `http://127.0.0.1:${server.port}`, seen, [Symbol.asyncDispose]: () => server.stop(true) };
}

/** Bun takes a generator for a body; the types of the platform do not say so. */
export const streamOf = (pieces: () => AsyncGenerator<string | Uint8Array>, type = "text/event-stream") =>
  new Response(pieces as never, { headers: { "content-type": type } });

export type RawProvider = AsyncDisposable & { url: string; sockets: Socket[] };

/** Byte by byte: `serve` gets the socket once the head of the request is there, with what arrived so far. */
export async function startRawProvider(serve: (socket: Socket, head: string) => void): Promise<RawProvider> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    let head = "";
    socket.on("error", () => {}); // a reset is what half of these tests are about
    const read = (chunk: Buffer): void => {
      head += chunk.toString("latin1");
      if (!head.includes("\r\n\r\n")) return;
      socket.off("data", read);
      serve(socket, head);
    };
    socket.on("data", read);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

/** Every built-in name the tests use points at the fake. */
export function gatewaySettings(url: string, change: Partial<Settings["gateway"]> = {}): Settings["gateway"] {
  const config = parseConfig({ env: {}, flags: {} });
  if (!config.ok) throw new Error(config.problems.join("\n"));
  const names = ["openai", "anthropic", "google-ai-studio", "cohere", "ollama"];
  const providers = Object.fromEntries(names.map((name) => [name, { base_url: url }]));
  return { ...config.settings.gateway, providers, ...change };
}

export type GatewayHouse = House & {
  /** A token with run for home/default. */
  runToken: string;
  base: string;
  setGateway(fields: Record<string, unknown>, id?: string): Promise<void>;
  logs(query?: string): Promise<Record<string, unknown>[]>;
  newest(): Promise<Record<string, unknown>>;
};

export const FIELDS = {
  cache_invalidate_on_update: false,
  cache_ttl: 0,
  collect_logs: true,
  rate_limiting_interval: 0,
  rate_limiting_limit: 0,
};

export async function startGatewayHouse(
  url: string,
  gateway: Partial<Settings["gateway"]> = {},
  settings: Partial<Settings> = {},
): Promise<GatewayHouse> {
  const house = await startHouse({ settings: { ...settings, gateway: gatewaySettings(url, gateway) } });
  const place = "/api/accounts/home/ai-gateway/gateways";
  const logs: GatewayHouse["logs"] = async (query = "") =>
    (await house.api("GET", `${place}/default/logs${query}`)).body.result;
  return {
    ...house,
    runToken: house.token(["run"], { accountId: "home", gatewayId: "default" }),
    base: `${house.url}/v1/home/default`,
    async setGateway(fields, id = "default") {
      const { status, body } = await house.api("PUT", `${place}/${id}`, { ...FIELDS, ...fields });
      if (status !== 200) throw new Error(JSON.stringify(body));
    },
    logs,
    newest: async () => (await logs("?per_page=1"))[0] ?? {},
  };
}

/** One whose gateway asks for no token. */
export async function startOpenHouse(...parts: Parameters<typeof startGatewayHouse>): Promise<GatewayHouse> {
  const house = await startGatewayHouse(...parts);
  await house.setGateway({ authentication: false });
  return house;
}

export const closeAll = async (...parts: AsyncDisposable[]): Promise<void> => {
  for (const part of parts) await part[Symbol.asyncDispose]();
};

/** Awaits a condition instead of a moment. */
export async function until(condition: () => boolean | Promise<boolean>, ms = 5_000): Promise<void> {
  for (const giveUp = performance.now() + ms; !(await condition()); await Bun.sleep(5)) {
    if (performance.now() > giveUp) throw new Error("the condition did not come true");
  }
}

/** The error of a call that must fail. Client libraries return promises of their own, which `rejects` does not await. */
export async function failureOf(call: PromiseLike<unknown>): Promise<unknown> {
  try {
    await call;
  } catch (error) {
    return error;
  }
  throw new Error("the call did not fail");
}
