// What the management API may ask of a live agent: data about it, and care for its failed work. Never the agent's code.
import type { Database } from "bun:sqlite";
import { bytesOf } from "./database.ts";
import type { DeadLetters } from "./dead-letters.ts";
import type { Runtime } from "./life.ts";
import { NotCallable } from "./rpc.ts";

type Parts = { runtime: Runtime; db: Database; dead: DeadLetters };
type Verb = (parts: Parts, ...args: unknown[]) => unknown;

const LIST_MAX = 1_000;

const VERBS: Record<string, Verb> = {
  /** Calls wait until `onStart` is over, so the answer to this one says that it is. */
  started: () => true,
  state: ({ runtime }) => ({ state: runtime.stateValue() ?? null }),
  summary: ({ runtime, db, dead }) => ({
    queueLength: runtime.queue.length(),
    schedules: runtime.schedules.list().length,
    dead: dead.count(),
    bytes: bytesOf(db),
    tables: db
      .query<{ name: string }, []>("select name from sqlite_master where type = 'table' order by name")
      .all()
      .map(({ name }) => name),
  }),
  queue: ({ runtime }) => runtime.queue.list(LIST_MAX),
  dequeue: ({ runtime }, id) => runtime.queue.remove(String(id)),
  schedules: ({ runtime }) => runtime.schedules.list().slice(0, LIST_MAX),
  cancelSchedule: ({ runtime }, id) => runtime.schedules.cancel(String(id)),
  fibers: ({ runtime }) => runtime.fibers.list({ limit: LIST_MAX }),
  dead: ({ dead }) => dead.list(LIST_MAX),
  /** Back into the queue with all its attempts; a schedule's callback runs from the queue too. */
  retryDead: async ({ runtime, dead }, id) => {
    const letter = dead.find(String(id));
    if (!letter) return false;
    await runtime.queue.push(letter.callback, JSON.parse(letter.payload), {
      id: letter.id,
      retry: JSON.parse(letter.retry),
    });
    return dead.drop(letter.id); // last: a full queue, or a crash, must not lose it
  },
  dropDead: ({ dead }, id) => dead.drop(String(id)),
};

export async function runHouseVerb(method: string, args: unknown[], parts: Parts): Promise<unknown> {
  const verb = Object.hasOwn(VERBS, method) ? VERBS[method] : undefined;
  if (!verb) throw new NotCallable(`There is no verb ${method}`);
  return verb(parts, ...args);
}
