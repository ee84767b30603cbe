// The tables behind a WebhookAgent, and the commit they share, on real SQLite.
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { createSqlTag } from "../../src/agents/runtime/database.ts";
import { createGroupCommit } from "../../src/agents/runtime/group-commit.ts";
import { createHistory, type EventRow } from "../../src/agents/sdk/webhook-history.ts";

const KEEP = { events: 3, days: 30 };
const DAY_MS = 86_400_000;
const row = (id: string, timestamp = new Date().toISOString()): EventRow => ({
  id,
  type: "x",
  action: null,
  title: "t",
  description: null,
  url: null,
  actor: null,
  payload: "{}",
  timestamp,
});

function open() {
  const db = new Database(":memory:", { strict: true });
  const history = createHistory(createSqlTag(db), (query) => void db.run(query));
  const ids = () => history.newest(100).map(({ id }) => id);
  return { db, history, ids };
}

test("a failed task takes back its own writes and nobody else's; a failed commit tells everyone", async () => {
  const db = new Database(":memory:");
  db.run("create table t (n integer primary key)");
  let commits = 0;
  const together = createGroupCommit((task) => {
    commits++;
    return db.transaction(task)();
  });
  const put = (n: number, fail = false) =>
    together(() => {
      db.run("insert into t values (?)", [n]);
      if (fail) throw new Error(`no ${n}`);
      return n;
    }).catch((error) => error.message);
  expect(await Promise.all([put(1), put(2, true), put(3)])).toEqual([1, "no 2", 3]);
  expect(db.query("select n from t").values()).toEqual([[1], [3]]);
  expect(commits).toBe(4); // one around three
  expect(await put(4, true)).toBe("no 4");
  const broken = createGroupCommit(() => {
    throw new Error("disk full");
  });
  expect(await Promise.all([1, 2].map((n) => broken(() => n).catch((error) => error.message)))).toEqual([
    "disk full",
    "disk full",
  ]);
});

test("an id is new once, then done, or again when its handler did not finish", () => {
  const { history, ids } = open();
  expect(history.take(row("a"), "github", "started", false, KEEP)).toBe("new");
  expect(history.take(row("a"), "github", "started", false, KEEP)).toBe("again");
  history.finish("a", "github");
  expect(history.take(row("a"), "github", "started", false, KEEP)).toBe("done");
  expect(history.take(row("a"), "github", "started", true, KEEP)).toBe("new"); // a replay
  expect(ids()).toEqual(["a"]);
  expect(history.take(row("a"), "gitea", "done", false, KEEP)).toBe("new");
  expect(history.take(row("a"), "gitea", "done", true, KEEP)).toBe("new");
  expect(ids().sort()).toEqual(["a", "gitea:a"]);
});

test("the newest so many stay, the ids of the others are still known", () => {
  const { history, ids } = open();
  for (const id of ["a", "b", "c", "d", "e"]) history.take(row(id), "s", "done", false, KEEP);
  expect(ids()).toEqual(["e", "d", "c"]);
  expect(history.take(row("a"), "s", "done", false, KEEP)).toBe("done");
  history.take(row("f"), "s", "done", false, { events: 0, days: 0 });
  expect(ids()).toEqual(["f", "e", "d", "c"]);
});

test("what is older than its days goes, whatever the number", () => {
  const { db } = open();
  const old = new Date(Date.now() - 31 * DAY_MS).toISOString();
  db.run("insert into events (id, type, title, timestamp) values ('old', 'x', 't', ?)", [old]);
  const fresh = createHistory(createSqlTag(db), (query) => void db.run(query));
  fresh.take(row("new"), "s", "done", false, { events: 100, days: 30 });
  expect(fresh.newest(10).map(({ id }) => id)).toEqual(["new"]);
});
