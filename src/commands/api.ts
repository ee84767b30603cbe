// How a verb reaches the API: through the server that owns the data folder, or by owning the folder for a moment.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { createApp } from "../app.ts";
import { type Machine, openParts } from "../parts.ts";
import { LOCK_RETRY_MS, LOCK_WAIT_MS, lockFolder, readOwner } from "../platform/lock.ts";
import { type Api, CommandError, inFolder, whyOf } from "./command.ts";

type Fetch = (path: string, init?: RequestInit) => Promise<Response>;
type Opened = { fetch: Fetch; isServed: boolean; close(): Promise<void> };
export type Connection = { api: Api; close(): Promise<void> };

const REACH_MS_MAX = 2_000; // a healthy server answers within one; a suspended one holds its lock and never does

/** What stores something may make the data folder; who looks, or removes, where nothing is has mistaken the directory. */
const isChange = (method = "GET"): boolean => ["POST", "PUT", "PATCH"].includes(method);

/** Opened at the first use, so that a verb which needs no API takes no lock. */
export function lazyConnection(machine: Machine, command: string, err: (line: string) => void): Connection {
  let opened: Promise<Opened> | undefined;
  const open = (mayMake: boolean): Promise<Opened> => {
    opened ??= connect(machine, command, mayMake, err);
    return opened;
  };
  const send = async (mayMake: boolean, path: string, init?: RequestInit) => (await open(mayMake)).fetch(path, init);
  const fetch: Fetch = (path, init) => send(isChange(init?.method), path, init);
  const isServed = async (): Promise<boolean> => (await open(false)).isServed;
  const close = async (): Promise<void> => (await opened)?.close();
  const api: Api = {
    fetch,
    isServed,
    call: (method, path, body) => call(fetch, method, path, body),
    ask: (path, body) => call((...request) => send(false, ...request), "POST", path, body),
  };
  return { api, close };
}

async function connect(
  machine: Machine,
  command: string,
  mayMake: boolean,
  err: (line: string) => void,
): Promise<Opened> {
  const folder = machine.settings.data;
  const isThere = (): boolean => existsSync(join(folder, "gatehouse.db"));
  if (!mayMake && !isThere()) {
    throw new CommandError(
      `there is no data in ${resolve(folder)}; name the folder that holds it with --data, or start the server to make it`,
    );
  }
  const startedAt = new Date(machine.now()).toISOString();
  for (
    const giveUpMs = performance.now() + LOCK_WAIT_MS;
    performance.now() < giveUpMs;
    await Bun.sleep(LOCK_RETRY_MS)
  ) {
    const lock = inFolder(machine, () => lockFolder(folder, { pid: process.pid, command, startedAt }));
    if (lock) {
      const makesIt = !isThere(); // asked only now: of two verbs at once, one makes it
      const parts = inFolder(machine, () => openParts(machine));
      if (makesIt) err(`gatehouse: made the data folder ${resolve(folder)}`);
      const app = createApp(parts);
      const fetch = withKey(machine, (path, init) => app.handle(new Request(`http://localhost${path}`, init)));
      const close = async (): Promise<void> => {
        await parts.close();
        lock.release();
      };
      return { fetch, isServed: false, close };
    }
    const remote = await reach(readOwner(folder)?.address);
    if (remote) return { fetch: withKey(machine, remote), isServed: true, async close() {} };
  }
  const owner = readOwner(folder);
  throw new CommandError(
    `the data folder ${folder} is busy: ${owner ? `${owner.command}, pid ${owner.pid}` : "owner unknown"}`,
  );
}

/**
 * Our server's certificate is for its public name, not for the loopback address. And whatever HTTP_PROXY says, the key goes
 * to this machine and not to a proxy; Bun 1.4's types do not know that `proxy` may be false.
 */
const TO_OURSELVES: object = { tls: { rejectUnauthorized: false }, proxy: false };

/** The address may be that of a server which was killed: it counts when it answers. */
export async function reach(address: string | undefined): Promise<Fetch | undefined> {
  if (address === undefined) return undefined;
  const remote: Fetch = (path, init) => globalThis.fetch(`${address}${path}`, { ...init, ...TO_OURSELVES });
  const alive = await remote("/healthz", { signal: AbortSignal.timeout(REACH_MS_MAX) }).then(
    ({ ok }) => ok,
    () => false,
  );
  return alive ? remote : undefined;
}

function withKey(machine: Machine, send: Fetch): Fetch {
  const key = inFolder(machine, () => readFileSync(join(machine.settings.data, "local.key")).toString("hex"));
  return async (path, init = {}) => {
    const headers = new Headers(init.headers);
    headers.set("authorization", `Bearer ${key}`);
    try {
      return await send(path, { ...init, headers });
    } catch (error) {
      throw new CommandError(`the running server does not answer: ${whyOf(error)}`);
    }
  };
}

async function call(fetch: Fetch, method: string, path: string, body: unknown): Promise<unknown> {
  const init =
    body === undefined
      ? { method }
      : { method, body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  const response = await fetch(path, init);
  if (response.status === 204) return null;
  const answer = await jsonOf(response);
  if (
    typeof answer === "object" &&
    answer !== null &&
    "success" in answer &&
    answer.success === true &&
    "result" in answer
  ) {
    return answer.result;
  }
  throw toRefusal(response, answer);
}

/** What a failure says, for a person. */
export async function refusal(response: Response): Promise<CommandError> {
  return toRefusal(response, await jsonOf(response));
}

function toRefusal({ status }: Response, answer: unknown): CommandError {
  return new CommandError(sentenceOf(answer) ?? `the server answered ${status}`);
}

const jsonOf = (response: Response): Promise<unknown> => response.json().catch(() => undefined);

function sentenceOf(answer: unknown): string | undefined {
  if (typeof answer !== "object" || answer === null || !("errors" in answer) || !Array.isArray(answer.errors))
    return undefined;
  const [first]: unknown[] = answer.errors;
  if (typeof first !== "object" || first === null || !("message" in first)) return undefined;
  return String(first.message);
}
