// What an agent is constructed with: the small part of a Durable Object's `ctx` that agent files use.
import type { Runtime } from "../runtime/life.ts";

export class AgentContext {
  readonly id: { name: string; toString(): string };
  readonly storage: AgentStorage;
  readonly #runtime: Runtime;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
    this.id = { name: runtime.name, toString: () => `${runtime.className}/${runtime.name}` };
    this.storage = {
      sql: { exec: (query, ...values) => toCursor(runtime.exec(query, values)) },
      transactionSync: (task) => runtime.transaction(task),
    };
  }

  /** Counts as work, so that the thread does not go to sleep on it. */
  waitUntil(promise: Promise<unknown>): void {
    void this.#runtime.work.run(() => promise).catch((error) => this.#runtime.report(error));
  }

  static runtimeOf(ctx: AgentContext): Runtime {
    return ctx.#runtime;
  }
}

export type AgentStorage = {
  sql: { exec(query: string, ...values: unknown[]): SqlCursor };
  /** All of it or nothing: a throw takes back what was written in it. */
  transactionSync<T>(task: () => T): T;
};
export type SqlCursor = Iterable<Record<string, unknown>> & {
  toArray(): Record<string, unknown>[];
  one(): Record<string, unknown>;
};

function toCursor(rows: Record<string, unknown>[]): SqlCursor {
  return {
    [Symbol.iterator]: () => rows[Symbol.iterator](),
    toArray: () => rows,
    one() {
      const [row, ...rest] = rows;
      if (!row || rest.length > 0) throw new Error(`Expected exactly one row, got ${rows.length}`);
      return row;
    },
  };
}
