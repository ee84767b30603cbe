// An agent's state: one JSON value, stored before anyone hears of it.
import type { Database } from "bun:sqlite";
import { held } from "./database.ts";

export type StateStore = ReturnType<typeof createStateStore>;

export function createStateStore(db: Database) {
  const read = held<{ state: string }, []>(db, "select state from gatehouse_state where id = 1");
  const write = held(db, "insert into gatehouse_state (id, state) values (1, ?1) on conflict do update set state = ?1");
  const clear = held(db, "delete from gatehouse_state");
  let cached: { value: unknown; text: string } | undefined;

  /** `undefined` when it was never set. A row that is no JSON is dropped: the agent starts again from its initial state. */
  function load(): typeof cached {
    if (cached) return cached;
    const row = read().get();
    if (!row) return undefined;
    try {
      cached = { value: JSON.parse(row.state), text: row.state };
    } catch {
      clear().run(); // only someone writing into our table by hand gets here
    }
    return cached;
  }

  function save(value: unknown): string {
    const text: string | undefined = JSON.stringify(value);
    if (text === undefined) throw new TypeError("State must be a value that JSON can hold");
    write().run(text);
    cached = { value, text };
    return text;
  }

  /** What was remembered may have been taken back: the table knows. Gives the text that was. */
  function forget(): string | undefined {
    const text = cached?.text;
    cached = undefined;
    return text;
  }

  return { load, save, forget };
}
