// The same webhook reaches an agent's code once, whatever the class: ids of those that are done are kept for a month.
import type { Database } from "bun:sqlite";
import type { DeliveryFacts } from "../protocol.ts";

export type Deliveries = ReturnType<typeof createDeliveries>;

export const REMEMBERED_MS = 30 * 86_400_000; // a sender that repeats itself does so within hours or days
const SWEEP_DELIVERIES = 100; // how many pass between two looks at old ids

export const INBOX_TABLE = `create table if not exists gatehouse_inbox (
  source text not null, id text not null, status text not null, attempts integer not null, at_ms integer not null,
  primary key (id, source)) without rowid`;

/** Two at the same moment: the second waits for the first, and runs only if that one failed. */
export function createOnce() {
  const underWay = new Map<string, Promise<Response>>();
  return async function once(facts: DeliveryFacts, handle: () => Promise<Response>): Promise<Response> {
    const key = `${facts.source}\n${facts.id}`;
    const first = underWay.get(key);
    if (first) {
      const done = await first.then(isDone, () => false);
      return done ? duplicate() : once(facts, handle);
    }
    const run = handle();
    underWay.set(key, run);
    try {
      return await run;
    } finally {
      underWay.delete(key);
    }
  };
}

export const duplicate = (): Response => Response.json({ status: "duplicate" });

const isDone = ({ status }: Response): boolean => status < 500;

export function createDeliveries(db: Database, now: () => number) {
  const once = createOnce();
  let sql: ReturnType<typeof statements> | undefined; // made at the first webhook: most agents never get one
  let count = 0;

  function open() {
    db.run(INBOX_TABLE);
    return statements(db);
  }

  async function runOnce({ source, id, replay }: DeliveryFacts, handle: () => Promise<Response>): Promise<Response> {
    sql ??= open();
    if (!replay && sql.find.get(id, source)?.status === "done") return duplicate();
    const response = await handle();
    if (isDone(response)) sql.finish.run(source, id, now());
    if (++count % SWEEP_DELIVERIES === 0) sql.sweep.run(now() - REMEMBERED_MS);
    return response;
  }

  return {
    once: (facts: DeliveryFacts, handle: () => Promise<Response>) => once(facts, () => runOnce(facts, handle)),
  };
}

function statements(db: Database) {
  return {
    find: db.prepare<{ status: string }, [string, string]>(
      "select status from gatehouse_inbox where id = ? and source = ?",
    ),
    finish: db.prepare<void, [string, string, number]>(
      `insert into gatehouse_inbox (source, id, status, attempts, at_ms) values (?, ?, 'done', 1, ?)
       on conflict (id, source) do update set status = 'done', attempts = attempts + 1`,
    ),
    sweep: db.prepare<void, [number]>("delete from gatehouse_inbox where at_ms < ?"),
  };
}
