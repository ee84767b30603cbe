import { expect, test } from "bun:test";
import { chmodSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createSecrets, loadKey } from "../../src/platform/secrets.ts";
import { tempFolder } from "../support/house.ts";

test("a sealed value altered by one bit, moved to another place, or under another key does not open", () => {
  const lost: string[] = [];
  const secrets = createSecrets(Buffer.alloc(32, 1), (context) => lost.push(context));
  const sealed = secrets.seal("value", "github");
  const altered = Buffer.from(sealed);
  altered[14] = (altered[14] ?? 0) ^ 1;
  expect(secrets.open(altered, "github")).toBe(undefined);
  expect(secrets.open(sealed, "gitlab")).toBe(undefined);
  expect(secrets.open(sealed, "gitlab")).toBe(undefined);
  expect(lost).toEqual(["github", "gitlab"]); // each is told once
  expect(createSecrets(Buffer.alloc(32, 2), () => {}).open(sealed, "github")).toBe(undefined);
  expect(secrets.open(sealed, "github")).toBe("value");
});

test("the same value is sealed differently each time, and its text is not in it", () => {
  const secrets = createSecrets(Buffer.alloc(32, 1), () => {});
  const [a, b] = [secrets.seal("hunter2", "x"), secrets.seal("hunter2", "x")];
  expect(Buffer.from(a).equals(Buffer.from(b))).toBe(false);
  expect(Buffer.from(a).includes("hunter2")).toBe(false);
});

test("a key that could not be written leaves nothing behind that stands in the way of the next start", async () => {
  const folder = tempFolder();
  const path = join(folder, "key");
  const code = `(await import(${JSON.stringify(require.resolve("../../src/platform/secrets.ts"))})).loadKey(${JSON.stringify(path)})`;
  // No file may grow: the write fails as on a full disk.
  const limited = `trap "" XFSZ; ulimit -f 0; exec "$0" -e '${code}'`;
  const child = Bun.spawn(["sh", "-c", limited, process.execPath], { stdout: "ignore", stderr: "pipe" });
  expect(await new Response(child.stderr).text()).toContain("EFBIG");
  expect(loadKey(path).length).toBe(32);
  rmSync(folder, { recursive: true });
});

test("two keys differ", () => {
  const folder = tempFolder();
  const [a, b] = [loadKey(join(folder, "a")), loadKey(join(folder, "b"))];
  expect(Buffer.from(a).equals(Buffer.from(b))).toBe(false);
  rmSync(folder, { recursive: true });
});

test("a key file is made once, private, and refused when others can read it or it is damaged", () => {
  const folder = tempFolder();
  const path = join(folder, "key");
  const key = loadKey(path);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(Buffer.from(loadKey(path)).equals(Buffer.from(key))).toBe(true);
  chmodSync(path, 0o640);
  expect(() => loadKey(path)).toThrow("chmod 600");
  chmodSync(path, 0o600);
  writeFileSync(path, "short");
  expect(() => loadKey(path)).toThrow("not a key");
  rmSync(folder, { recursive: true });
});
