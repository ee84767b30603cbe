// On whose behalf the agent's code is running: carried through awaits, so that code deep below can ask.
import { AsyncLocalStorage } from "node:async_hooks";
import type { DeliveryFacts } from "../protocol.ts";
import type { Connection } from "./connections.ts";

export type Occasion = {
  connection?: Connection | undefined;
  request?: Request | undefined;
  delivery?: DeliveryFacts | undefined;
  fiber?: { stash(data: unknown): void } | undefined;
};

const occasions = new AsyncLocalStorage<Occasion>();

export function withOccasion<T>(occasion: Occasion, task: () => T): T {
  return occasions.run(occasion, task);
}

export const currentOccasion = (): Occasion => occasions.getStore() ?? {};
