// Which methods clients may call: the `@callable()` mark, and how the runtime reads it.

export type CallableMetadata = { description?: string; streaming?: boolean };

type Method = (...args: never[]) => unknown;
const marks = new WeakMap<object, CallableMetadata>();

/** Marks a method for clients. A TC39 decorator; also usable as `callable()(method)`. */
export function callable(metadata: CallableMetadata = {}) {
  return function mark<T extends Method>(method: T, context?: ClassMethodDecoratorContext): T {
    if (typeof method !== "function" || (context !== undefined && context.kind !== "method")) {
      throw new Error(
        "@callable() marks a method and needs standard decorators: remove experimentalDecorators from tsconfig.json",
      );
    }
    marks.set(method, metadata);
    return method;
  };
}

export const metadataOf = (method: unknown): CallableMetadata | undefined =>
  typeof method === "function" ? marks.get(method) : undefined;

/** Every marked method of a class, inherited ones included; an override without a mark takes the mark away. */
export function callablesOf(prototype: object): Map<string, CallableMetadata> {
  const found = new Map<string, CallableMetadata>();
  const seen = new Set<string>();
  for (let at: object | null = prototype; at && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (seen.has(name)) continue;
      seen.add(name);
      const metadata = metadataOf(value);
      if (metadata) found.set(name, metadata);
    }
  }
  return found;
}
