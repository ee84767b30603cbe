// Calling a method by its name: who may, which errors are told, and answers that come in chunks.
import type { Agent } from "../sdk/agent.ts";
import { metadataOf } from "../sdk/callable.ts";
import { StreamingResponse, type StreamSink } from "../sdk/streaming-response.ts";
import { textOf } from "./retry.ts";

export class NotCallable extends Error {}

/** The method a client may call; the two sentences are the ones existing clients know. */
export function findCallable(agent: Agent, method: string): { run: Invoke; streaming: boolean } {
  const found = methodOf(agent, method);
  if (!found) throw new NotCallable(`Method ${method} does not exist`);
  const metadata = metadataOf(found);
  if (!metadata) throw new NotCallable(`Method ${method} is not callable`);
  return { run: async (args) => Reflect.apply(found, agent, args), streaming: metadata.streaming === true };
}

/** Another agent is our own code: it may call any public method, but not what every object has. */
export function findMethod(agent: Agent, method: string): Invoke {
  const found = hasMethod(agent, method) ? methodOf(agent, method) : undefined;
  if (!found) throw new NotCallable(`Method ${method} does not exist`);
  return async (args) => Reflect.apply(found, agent, args);
}

export const hasMethod = (agent: Agent, method: string): boolean =>
  !(method in Object.prototype) && methodOf(agent, method) !== undefined;

export type Invoke = (args: unknown[]) => Promise<unknown>;

/** Runs a streaming method to its end. One that returns without ending would leave its caller waiting: ended for it. */
export async function runStreaming(run: Invoke, args: unknown[], sink: StreamSink): Promise<void> {
  const stream = new StreamingResponse(sink);
  try {
    await run([stream, ...args]);
    stream.end();
  } catch (error) {
    if (!stream.error(textOf(error))) throw error;
  }
}

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : "Unknown error occurred";

function methodOf(agent: Agent, method: string): ((...args: unknown[]) => unknown) | undefined {
  const value: unknown = Reflect.get(agent, method);
  return isMethod(value) ? value : undefined;
}

const isMethod = (value: unknown): value is (...args: unknown[]) => unknown => typeof value === "function";
