// What may be asked of the journal beside writing to it: due work, the delivery log, replay. Synchronous.
import type { Database } from "bun:sqlite";
import type { DeliveryFilter, DeliveryRow, Questions, Rejection, Taken } from "./journal-schema.ts";
import type { JournalStore } from "./journal-store.ts";

export type Answers = { [Name in keyof Questions]: (input: Questions[Name][0]) => Questions[Name][1] };

const COLUMNS = `seq, id, source, class, identifier, name, delivery_id, type, action, title, description, url, actor,
  method, path, address, bytes, received_ms, status, ordered, attempts, due_ms, replay, answer, reason, finished_ms, duration_ms`;

const TAKE_BYTES_MAX = 32 * 1024 * 1024; // of bodies that cross to the main thread at once

export function createAnswers({ db, retention }: Pick<JournalStore, "db" | "retention">): Answers {
  const due = db.prepare<DeliveryRow, [number, number]>(
    `select ${COLUMNS} from deliveries d where status = 'pending' and due_ms <= ?
     and (ordered = 0 or not exists (select 1 from deliveries e where e.class = d.class and e.name = d.name
       and e.source = d.source and e.ordered = 1 and e.status in ('pending', 'held') and e.seq < d.seq))
     order by due_ms, seq limit ?`,
  );
  // Later than now: what is due and was not taken waits for something else, such as the one before it.
  const next = db.prepare<{ due_ms: number | null }, [number]>(
    "select min(due_ms) as due_ms from deliveries where status = 'pending' and due_ms > ?",
  );
  const lease = db.prepare<void, [number, number]>(
    "update deliveries set attempts = attempts + 1, due_ms = ? where seq = ?",
  );
  const contentOf = db.prepare<{ headers: string; body: Uint8Array }, [number]>(
    "select headers, body from contents where seq = ?",
  );
  const byId = db.prepare<DeliveryRow, [string]>(`select ${COLUMNS} from deliveries where id = ?`);
  const again = db.prepare<void, [number, string]>(
    `update deliveries set status = 'pending', attempts = 0, due_ms = ?, replay = 1, reason = null, finished_ms = null
     where id = ? and status in ('done', 'dead')`,
  );
  const dead = db.prepare<Pick<DeliveryRow, "seq" | "bytes">, [string]>(
    "delete from deliveries where id = ? and status = 'dead' returning seq, bytes",
  );

  const withContent = (row: DeliveryRow): Taken => {
    const content = contentOf.get(row.seq);
    const headers: [string, string][] = JSON.parse(content?.headers ?? "[]"); // written by us in the same row
    return { row, content: { headers, body: content?.body ?? new Uint8Array(0) } };
  };

  function dropDead(id: string): boolean {
    const gone = dead.get(id);
    if (!gone) return false;
    db.run("delete from contents where seq = ?", [gone.seq]);
    retention.grew(-gone.bytes);
    return true;
  }

  return {
    take: ({ nowMs, limit, leaseMs, busy }) => {
      const skip = new Set(busy);
      let bytes = 0;
      const taken = due
        .all(nowMs, limit + busy.length)
        .filter(({ seq }) => !skip.has(seq))
        .slice(0, limit)
        .filter((row, index) => {
          bytes += row.bytes;
          return index === 0 || bytes <= TAKE_BYTES_MAX;
        });
      db.transaction(() => {
        for (const { seq } of taken) lease.run(nowMs + leaseMs, seq);
      }).immediate();
      const full = taken.map((row) => withContent({ ...row, attempts: row.attempts + 1 }));
      return { taken: full, nextMs: next.get(nowMs)?.due_ms ?? null };
    },
    resume: ({ nowMs, attemptsMax }) => {
      db.run(
        `update deliveries set status = 'dead', reason = 'the server ended during the last attempt', finished_ms = ?
         where status = 'pending' and attempts >= ?`,
        [nowMs, attemptsMax],
      );
      return { undone: db.run("update deliveries set due_ms = ? where status = 'pending'", [nowMs]).changes };
    },
    list: ({ filter, before, limit }) => {
      const { where, values } = toWhere(filter);
      return db
        .query<DeliveryRow, (string | number)[]>(
          `select ${COLUMNS} from deliveries where ${where} and seq < ? order by seq desc limit ?`,
        )
        .all(...values, before ?? Number.MAX_SAFE_INTEGER, limit);
    },
    get: ({ id }) => {
      const row = byId.get(id);
      return row ? withContent(row) : null;
    },
    replay: ({ filter, ids, nowMs, limit }) => ({ count: replay(db, again, { filter, ids, nowMs, limit }) }),
    drop: ({ ids }) => ({
      count: db.transaction(() => ids.filter((id) => dropDead(id)).length).immediate(),
    }),
    release: ({ paused, nowMs }) => ({
      count: db.run(
        `update deliveries set status = 'pending', due_ms = ?
         where status = 'held' and source not in (select value from json_each(?))`,
        [nowMs, JSON.stringify(paused)],
      ).changes,
    }),
    hasten: ({ className, nowMs }) => ({
      count: db.run(
        "update deliveries set due_ms = ? where status = 'pending' and class = ? and due_ms > ? and reason is not null",
        [nowMs, className, nowMs],
      ).changes,
    }),
    destroyed: ({ className, name, nowMs }) => ({
      count: db
        .transaction(() => {
          db.run("delete from names where class = ? and name = ?", [className, name]);
          return db.run(
            `update deliveries set status = 'dead', reason = 'destroyed', finished_ms = ?
             where class = ? and name = ? and status in ('pending', 'held')`,
            [nowMs, className, name],
          ).changes;
        })
        .immediate(),
    }),
    rejections: ({ source, limit }) =>
      db
        .query<{ at_ms: number; source: string; detail: string }, [string | null, number]>(
          "select at_ms, source, detail from rejections where ?1 is null or source = ?1 order by seq desc limit ?2",
        )
        .all(source, limit)
        .map((row): Rejection => ({ atMs: row.at_ms, source: row.source, ...JSON.parse(row.detail) })),
    counts: () => ({
      counts: db
        .query<{ source: string; status: DeliveryRow["status"]; count: number }, []>(
          "select source, status, count(*) as count from deliveries where status <> 'done' group by status, source",
        )
        .all(),
      bytes: retention.bytes(),
    }),
    routes: ({ names }) => {
      const isRouted = db.prepare<{ name: string }, [string]>("select name from entity_routes where name = ?");
      return names.filter((name) => isRouted.get(name) !== null);
    },
    names: ({ className, name }) =>
      db
        .query<{ identifier: string }, [string, string]>("select identifier from names where class = ? and name = ?")
        .all(className, name)
        .map(({ identifier }) => identifier),
  };
}

function replay(
  db: Database,
  again: { run(dueMs: number, id: string): { changes: number } },
  { filter, ids, nowMs, limit }: Questions["replay"][0],
): number {
  const { where, values } = toWhere(filter);
  const chosen =
    ids ??
    db
      .query<{ id: string }, (string | number)[]>(
        `select id from deliveries where ${where} and status in ('done', 'dead') order by seq limit ?`,
      )
      .all(...values, limit)
      .map(({ id }) => id);
  return db.transaction(() => chosen.reduce((count, id) => count + again.run(nowMs, id).changes, 0)).immediate();
}

function toWhere({ source, className, name, status, type, sinceMs, untilMs }: DeliveryFilter) {
  const terms: [string, string | number | undefined][] = [
    ["source = ?", source],
    ["class = ?", className],
    ["name = ?", name],
    ["status = ?", status],
    ["type = ?", type],
    ["received_ms >= ?", sinceMs],
    ["received_ms < ?", untilMs],
  ];
  const given = terms.flatMap(([term, value]) => (value === undefined ? [] : [{ term, value }]));
  return { where: ["1", ...given.map(({ term }) => term)].join(" and "), values: given.map(({ value }) => value) };
}
