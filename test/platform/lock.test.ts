import { expect, test } from "bun:test";
import { mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { lockFolder, readOwner } from "../../src/platform/lock.ts";
import { tempFolder } from "../support/house.ts";

const owner = (command: string) => ({ pid: process.pid, command, startedAt: "now" });

/** Another process that takes the lock, says so, and then sits there. */
async function holder(folder: string) {
  const code = `
    const { lockFolder } = await import(${JSON.stringify(require.resolve("../../src/platform/lock.ts"))});
    const lock = lockFolder(${JSON.stringify(folder)}, { pid: process.pid, command: "serve", startedAt: "then" });
    console.log(lock ? "held" : "refused");
    setInterval(() => lock, 1000);`;
  const child = Bun.spawn([process.execPath, "-e", code], { stdout: "pipe" });
  const { value } = await child.stdout.getReader().read();
  return { child, said: new TextDecoder().decode(value).trim() };
}

test("a second owner is refused and can read who the first is", async () => {
  const folder = tempFolder();
  const { child, said } = await holder(folder);
  expect(said).toBe("held");
  expect(lockFolder(folder, owner("token"))).toBeUndefined();
  expect(readOwner(folder)).toMatchObject({ pid: child.pid, command: "serve" });
  child.kill();
  await child.exited;
  rmSync(folder, { recursive: true });
});

test("the lock is free right after its holder was killed", async () => {
  const folder = tempFolder();
  const { child } = await holder(folder);
  child.kill("SIGKILL");
  await child.exited;
  const lock = lockFolder(folder, owner("serve"));
  expect(lock).toBeDefined();
  lock?.release();
  rmSync(folder, { recursive: true });
});

test("of four that start at once exactly one wins", async () => {
  const folder = tempFolder();
  const holders = await Promise.all([holder(folder), holder(folder), holder(folder), holder(folder)]);
  expect(holders.filter(({ said }) => said === "held").length).toBe(1);
  for (const { child } of holders) child.kill("SIGKILL");
  await Promise.all(holders.map(({ child }) => child.exited));
  rmSync(folder, { recursive: true });
});

test("it survives a garbage collection, and is free after release", () => {
  const folder = tempFolder();
  const lock = lockFolder(folder, owner("serve"));
  Bun.gc(true);
  expect(lockFolder(folder, owner("token"))).toBeUndefined();
  lock?.announce("http://127.0.0.1:1");
  expect(readOwner(folder)?.address).toBe("http://127.0.0.1:1");
  lock?.release();
  const next = lockFolder(folder, owner("token"));
  expect(next).toBeDefined();
  next?.release();
  rmSync(folder, { recursive: true });
});

test("asking again in the process that holds it does not let another process in", async () => {
  const folder = tempFolder();
  const lock = lockFolder(folder, owner("serve"));
  expect(lockFolder(folder, owner("token"))).toBeUndefined();
  const { child, said } = await holder(folder);
  expect(said).toBe("refused");
  child.kill("SIGKILL");
  await child.exited;
  lock?.release();
  expect(readOwner(folder)).toBeUndefined();
  rmSync(folder, { recursive: true });
});

test.each(["", "5", "null", "{}", '{"pid":1}', "{"])("an owner.json of %p names nobody", (text) => {
  const folder = tempFolder();
  writeFileSync(join(folder, "owner.json"), text);
  expect(readOwner(folder)).toBeUndefined();
  rmSync(folder, { recursive: true });
});

test("a lock file that is damaged is an error, not an owner", () => {
  const folder = tempFolder();
  writeFileSync(join(folder, "lock.db"), "this is text and no database".repeat(10));
  expect(() => lockFolder(folder, owner("serve"))).toThrow("not a database");
  rmSync(folder, { recursive: true });
});

test("a note that cannot be taken away does not keep the lock", () => {
  const folder = tempFolder();
  const lock = lockFolder(folder, owner("serve"));
  rmSync(join(folder, "owner.json"));
  mkdirSync(join(folder, "owner.json")); // as on a disk that has become read-only: removing it fails
  expect(() => lock?.release()).not.toThrow();
  rmSync(join(folder, "owner.json"), { recursive: true });
  const next = lockFolder(folder, owner("token"));
  expect(next).toBeDefined();
  next?.release();
  rmSync(folder, { recursive: true });
});

test("who owns it is for its owner's eyes, before and after it listens", () => {
  const folder = tempFolder();
  const lock = lockFolder(folder, owner("serve"));
  const mode = () => statSync(join(folder, "owner.json")).mode & 0o777;
  expect(mode()).toBe(0o600);
  lock?.announce("http://127.0.0.1:1");
  expect(mode()).toBe(0o600);
  lock?.release();
  rmSync(folder, { recursive: true });
});
