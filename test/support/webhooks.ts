// Sending webhooks to a house as a sender would, and looking at what became of them.
import { createHmac } from "node:crypto";
import { parseConfig } from "../../src/platform/config.ts";
import { type House, type HouseOptions, startHouse } from "./house.ts";

export const SECRET = "It's a Secret to Everybody".replaceAll(" ", "_");

export type Sent = { status: number; headers: Headers; text: string };

/** Patient: a busy machine must not turn an answer into a 202. */
export const HOOKS = { ...defaultHooks(), ack_ms: 60_000 };

function defaultHooks() {
  const config = parseConfig({ env: {}, flags: {} });
  if (!config.ok) throw new Error(config.problems.join());
  return config.settings.hooks;
}

/** Every source of these tests has the same secret. */
export function startHookHouse(options: HouseOptions = {}): Promise<House> {
  const names = [
    "GITHUB",
    "GITEA",
    "GENERIC",
    "SONARR",
    "SLACK",
    "STRIPE",
    "LINEAR",
    "ALERTMANAGER",
    "DOCKER_REGISTRY",
  ];
  const env = Object.fromEntries(names.map((name) => [`${name}_WEBHOOK_SECRET`, SECRET]));
  return startHouse({ ...options, settings: { hooks: HOOKS, ...options.settings }, env: { ...env, ...options.env } });
}

export const sign = (body: string | Uint8Array, secret = SECRET): string =>
  `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;

export async function send(house: House, path: string, init: RequestInit = {}): Promise<Sent> {
  const answer = await house.fetch(path, { method: "POST", ...init });
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}

let lastDelivery = 0;

/** A signed GitHub delivery of a repository. */
export function sendGithub(
  house: House,
  repository: string,
  more: { id?: string; event?: string; body?: object } = {},
): Promise<Sent> {
  const body = JSON.stringify({ repository: { full_name: repository }, ...more.body });
  return send(house, "/webhooks/github", {
    body,
    headers: {
      "content-type": "application/json",
      "x-github-event": more.event ?? "push",
      "x-github-delivery": more.id ?? `test-${++lastDelivery}`,
      "x-hub-signature-256": sign(body),
    },
  });
}

/** A signed delivery under the generic scheme, to any address. */
export function sendGeneric(
  house: House,
  path: string,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
): Promise<Sent> {
  return send(house, path, {
    body,
    headers: { "content-type": "application/json", "x-signature": sign(body), ...headers },
  });
}

export type EventRow = Record<"id" | "type" | "title" | "timestamp", string> &
  Record<"action" | "description" | "url" | "actor" | "payload", string | null>;

export async function eventsOf(house: House, name: string, className = "webhook-agent"): Promise<EventRow[]> {
  const { status, body } = await house.api("POST", `/api/agents/${className}/${name}/call`, {
    method: "getEvents",
    args: [1000],
  });
  if (status !== 200) throw new Error(`getEvents answered ${status}: ${JSON.stringify(body)}`);
  return body.result.output;
}

export async function agentNames(house: House, className = "webhook-agent"): Promise<string[]> {
  const { body } = await house.api("GET", `/api/agents/${className}`);
  return body.result.map(({ name }: { name: string }) => name).sort();
}
