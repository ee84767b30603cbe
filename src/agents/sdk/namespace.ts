// Other agents as objects: `env.Counter` leads to a class, a stub to one agent of it.
import { toKebab } from "../runtime/names.ts";
import type { Peers } from "../runtime/peers.ts";

export type AgentStub = { fetch(input: Request | string, init?: RequestInit): Promise<Response> } & Record<
  string,
  (...args: unknown[]) => Promise<unknown>
>;
export type AgentNamespace = {
  readonly className: string;
  getByName(name: string): AgentStub;
  idFromName(name: string): { name: string };
  get(id: { name: string }): AgentStub;
};

const NAMESPACE = Symbol.for("gatehouse.namespace");

export function createNamespace(className: string, peers: Peers): AgentNamespace {
  const getByName = (name: string) => createStub(className, name, peers);
  const get = ({ name }: { name: string }) => getByName(name);
  return Object.assign({ className, getByName, idFromName: (name: string) => ({ name }), get }, { [NAMESPACE]: true });
}

/** A class, its name in any spelling, or the binding from `env`. */
export function classNameOf(target: unknown): string {
  if (typeof target === "string") return toKebab(target);
  if (typeof target === "function") return toKebab(target.name);
  if (isNamespace(target)) return target.className;
  throw new Error("Name the class by itself, by its name, or by its binding in env");
}

/** Secrets by their names, and every known class by its name in any spelling, as bindings would be. */
export function createEnv(secrets: Record<string, string>, classes: string[], peers: Peers): Record<string, unknown> {
  const known = new Set(classes);
  return new Proxy(secrets, {
    get(values, key) {
      if (typeof key !== "string" || Object.hasOwn(values, key)) return Reflect.get(values, key);
      const className = toKebab(key);
      return known.has(className) ? createNamespace(className, peers) : undefined;
    },
  });
}

function createStub(className: string, name: string, peers: Peers): AgentStub {
  const fetch = (input: Request | string, init?: RequestInit) => {
    const url = typeof input === "string" ? new URL(input, `http://${className}/`).href : input;
    return peers.fetch(className, name, new Request(url, init));
  };
  return new Proxy(Object.create(null), {
    get(_, method) {
      // Awaiting a stub must not call a method named "then" on the other agent.
      if (typeof method !== "string" || method === "then") return undefined;
      if (method === "fetch") return fetch;
      return (...args: unknown[]) => peers.call(className, name, method, args);
    },
  });
}

function isNamespace(value: unknown): value is AgentNamespace {
  return typeof value === "object" && value !== null && NAMESPACE in value;
}
