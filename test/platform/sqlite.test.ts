import type { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { AppError, toAppError } from "../../src/platform/errors.ts";
import { openDatabase } from "../../src/platform/sqlite.ts";
import { tempFolder } from "../support/house.ts";

const inFolder = (run: (path: string) => void) => () => {
  const folder = tempFolder();
  try {
    run(join(folder, "deep", "x.db"));
  } finally {
    rmSync(folder, { recursive: true });
  }
};

test(
  "a schema newer than this program is refused and left as it is",
  inFolder((path) => {
    openDatabase(path, ["create table a (x) ", "create table b (x)"]).close();
    expect(() => openDatabase(path, ["create table a (x)"])).toThrow("newer Gatehouse");
    const db = openDatabase(path, ["create table a (x)", "create table b (x)"]);
    expect(db.query("select count(*) n from b").get()).toEqual({ n: 0 });
    db.close();
  }),
);

test(
  "a migration that fails half-way leaves nothing behind, and runs again next time",
  inFolder((path) => {
    openDatabase(path, ["create table a (x)"]).close();
    const broken = ["create table a (x)", (db: Database) => void db.run("create table b (x); nonsense")];
    expect(() => openDatabase(path, broken)).toThrow();
    const db = openDatabase(path, ["create table a (x)", "create table b (x)"]);
    expect(db.query("pragma user_version").get()).toEqual({ user_version: 2 });
    db.close();
  }),
);

test(
  "the pragmas are in force",
  inFolder((path) => {
    const db = openDatabase(path, [], "FULL");
    const read = (name: string) => Object.values(db.query(`pragma ${name}`).get() ?? {})[0];
    expect([read("journal_mode"), read("synchronous"), read("foreign_keys"), read("busy_timeout")]).toEqual([
      "wal",
      2,
      1,
      5000,
    ]);
    db.close();
    const quick = openDatabase(`${path}2`, [], "NORMAL");
    expect(quick.query("pragma synchronous").get()).toEqual({ synchronous: 1 });
    quick.close();
  }),
);

test(
  "only its owner can read a database, whatever the umask",
  inFolder((path) => {
    const before = process.umask(0);
    try {
      const db = openDatabase(path, ["create table a (x)"]);
      expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
      expect(statSync(path).mode & 0o777).toBe(0o600);
      expect(statSync(`${path}-wal`).mode & 0o777).toBe(0o600);
      db.close();
    } finally {
      process.umask(before);
    }
  }),
);

test(
  "a full disk is an error the caller reads, and the database works on when there is room",
  inFolder((path) => {
    const db = openDatabase(path, ["create table a (x)"]);
    const { page_count } = db.query<{ page_count: number }, []>("pragma page_count").get() ?? { page_count: 0 };
    db.run(`pragma max_page_count = ${page_count + 1}`);
    const fill = () => db.query("insert into a values (zeroblob(100000))").run();
    let thrown: unknown;
    try {
      fill();
    } catch (error) {
      thrown = error;
    }
    expect(toAppError(thrown)).toMatchObject({ code: "storage.full", status: 507 });
    expect(toAppError(thrown)).toBeInstanceOf(AppError);
    db.run("pragma max_page_count = 100000");
    fill();
    expect(db.query("select count(*) n from a").get()).toEqual({ n: 1 });
    db.close();
  }),
);

test(
  "a file that is no database is an error at once",
  inFolder((path) => {
    openDatabase(path, []).close();
    rmSync(path);
    writeFileSync(path, "this is text, and long enough to have a header of its own, is it not?".repeat(3));
    expect(() => openDatabase(path, ["create table a (x)"])).toThrow();
  }),
);

test("threads that open the same new file at once make its tables once", async () => {
  const folder = tempFolder();
  const path = join(folder, "shared.db");
  const module = JSON.stringify(new URL("../../src/platform/sqlite.ts", import.meta.url).href);
  // Each waits for the moment all are loaded: without that the first is done before the second begins.
  const code = `import { openDatabase } from ${module};
    const gate = new Int32Array((await new Promise((go) => { self.onmessage = go; })).data);
    Atomics.add(gate, 0, 1);
    while (Atomics.load(gate, 0) < 4);
    try { openDatabase(${JSON.stringify(path)}, ["create table a (x)", "create table b (x)"]).close(); postMessage("ok"); }
    catch (error) { postMessage(String(error)); }`;
  const file = join(folder, "opener.ts");
  writeFileSync(file, code);
  for (let round = 0; round < 5; round++) {
    for (const end of ["", "-wal", "-shm"]) rmSync(`${path}${end}`, { force: true });
    const gate = new SharedArrayBuffer(4);
    const said = await Promise.all(
      Array.from({ length: 4 }, () => {
        const thread = new Worker(file);
        thread.postMessage(gate);
        return new Promise((resolve) => {
          thread.onmessage = ({ data }) => resolve(data);
        }).finally(() => thread.terminate());
      }),
    );
    expect(said).toEqual(["ok", "ok", "ok", "ok"]);
  }
  rmSync(folder, { recursive: true });
});
