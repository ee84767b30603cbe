// The doctor against machines that are really ill: wrong modes, missing keys, taken ports, clocks in the past.
import { afterAll, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startHouse, tempFolder } from "../support/house.ts";

const INDEX = join(import.meta.dir, "../../src/index.ts");
const folder = tempFolder();
afterAll(() => rmSync(folder, { recursive: true }));

let count = 0;
/** A data folder as a first start leaves it. */
function healthy(): string {
  const data = join(folder, `data-${++count}`);
  mkdirSync(data, { mode: 0o700 });
  writeFileSync(join(data, "secret.key"), new Uint8Array(32), { mode: 0o600 });
  writeFileSync(join(data, "gatehouse.db"), "");
  return data;
}

async function examine(data: string, args: string[] = [], shell = "") {
  const command = [process.execPath, INDEX, "doctor", "--data", data, "--host", "127.0.0.1", "--port", "0", ...args];
  const child = Bun.spawn(["sh", "-c", `${shell} exec "$@"`, "sh", ...command], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? "" },
    stderr: "inherit",
  });
  return { out: await new Response(child.stdout).text(), code: await child.exited };
}

type Ill = { name: string; make(data: string): void; args?: string[]; says: RegExp; fix: RegExp };

describe("what keeps it from running well ends with 1 and says what to do", () => {
  const ILL: Ill[] = [
    {
      name: "a key that others can read",
      make: (data) => chmodSync(join(data, "secret.key"), 0o640),
      says: /^BAD .*others can read the encryption key/m,
      fix: /chmod 600 .*secret\.key/,
    },
    {
      name: "a key of the wrong length",
      make: (data) => writeFileSync(join(data, "secret.key"), "short"),
      says: /^BAD .*is not an encryption key/m,
      fix: /backup/,
    },
    {
      name: "a database whose key is gone",
      make: (data) => rmSync(join(data, "secret.key")),
      says: /^BAD .*is missing, although there is a database/m,
      fix: /backup/,
    },
    {
      name: "a clock that is behind what was stored",
      make: (data) => utimesSync(join(data, "gatehouse.db"), 4e9, 4e9),
      says: /^BAD .*the clock is behind/m,
      fix: /timedatectl set-ntp true/,
    },
    {
      name: "an address of another machine",
      make() {},
      args: ["--host", "192.0.2.1"],
      says: /^BAD .*cannot listen on 192\.0\.2\.1:0 \(EADDRNOTAVAIL\)/m,
      fix: /setting host/,
    },
    {
      name: "a certificate that is none",
      make: () => writeFileSync(join(folder, "cert.pem"), "not a certificate"),
      args: ["--tls-cert", "cert.pem", "--tls-key", "cert.pem"],
      says: /^BAD .*certificate cert\.pem cannot be read/m,
      fix: /PEM/,
    },
  ];

  test.each(ILL)("$name", async ({ make, args = [], says, fix }) => {
    const data = healthy();
    make(data);
    const { out, code } = await examine(data, args);
    expect(out).toMatch(says);
    expect(out).toMatch(fix);
    expect(out.match(/^BAD/gm)).toHaveLength(1);
    expect(code).toBe(1);
  });

  test("a port that another program has", async () => {
    using other = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
    const { out, code } = await examine(healthy(), ["--port", String(other.port)]);
    expect(out).toContain(`cannot listen on 127.0.0.1:${other.port} (EADDRINUSE)`);
    expect([code, out.includes("--port")]).toEqual([1, true]);
  });
});

test("a folder whose file names others can see is worth a note, not a refusal", async () => {
  const data = healthy();
  chmodSync(data, 0o755);
  const { out, code } = await examine(data);
  expect(out).toMatch(/^note {2}others can see .*\n +chmod 700 /m);
  expect(code).toBe(0);
});

test("few open files are worth a note, not a refusal", async () => {
  const { out, code } = await examine(healthy(), [], "ulimit -n 512;");
  expect(out).toMatch(/^note {2}512 files.*\n +.*LimitNOFILE=/m);
  expect(code).toBe(0);
});

test("a machine before its first start is well, and stays as it was", async () => {
  const data = join(folder, "not/yet");
  const { out, code } = await examine(data);
  expect(out).not.toContain("BAD");
  expect(out).toMatch(/^ok {4}SQLite is 3\.\d+/m);
  expect([code, existsSync(join(folder, "not"))]).toEqual([0, false]);
});

test("a running server tells how long it took to start and what it holds", async () => {
  await using house = await startHouse();
  const { out, code } = await examine(join(house.folder, "data"));
  expect(out).toContain(`runs as process ${process.pid} on ${house.url}`);
  expect(out).toMatch(/took \d+ ms from start to ready and holds \d+ MB/);
  expect(code).toBe(0);
});

test("a server that holds its socket and never answers does not count as running", async () => {
  const stuck = Promise.withResolvers<Response>();
  await using server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => stuck.promise });
  const data = healthy();
  const owner = { pid: 1, command: "serve", startedAt: "2027-01-01", address: `http://127.0.0.1:${server.port}` };
  writeFileSync(join(data, "owner.json"), JSON.stringify(owner));
  const { out } = await examine(data);
  stuck.resolve(new Response());
  expect(out).toContain("it can listen on 127.0.0.1:0");
});
