// The verbs as a person types them: a process of its own, its output and its exit code.
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readOwner } from "../../src/platform/lock.ts";
import { tempFolder } from "../support/house.ts";

const INDEX = join(import.meta.dir, "../../src/index.ts");
const folder = tempFolder();
const data = join(folder, "data");
afterAll(() => rmSync(folder, { recursive: true }));

type Options = { env?: Record<string, string>; cwd?: string };
const start = (args: string[], { env = {}, cwd = folder }: Options = {}) =>
  Bun.spawn([process.execPath, INDEX, ...args], {
    cwd,
    env: { PATH: process.env.PATH ?? "", GATEHOUSE_DATA: data, ...env },
    stdout: "pipe",
    stderr: "pipe",
  });

async function run(args: string[], options: Options = {}) {
  const child = start(args, options);
  const [code, out, err] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code, out: out.trim(), err: err.trim() };
}

async function serve(...args: string[]) {
  const child = start(["--port", "0", "--host", "127.0.0.1", ...args]);
  const reader = child.stdout.getReader();
  let out = "";
  while (!out.includes("console")) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`it ended: ${await new Response(child.stderr).text()}`);
    out += new TextDecoder().decode(value);
  }
  return { child, out, address: readOwner(data)?.address ?? "" };
}

describe("what is called wrongly ends with 2 and a sentence", () => {
  test.each([
    [["nonsense"], '"nonsense" is no command'],
    [["constructor"], '"constructor" is no command'],
    [["help", "hooks"], '"hooks" is no command'],
    [["--config", "."], ". cannot be read"],
    [["--admin-token-file", "."], ". cannot be read"],
    [["--prot", "80"], "--prot"],
    [["--port", "x"], "port (--port)"],
    [["token"], "create, list or revoke ID"],
    [["token", "create"], "needs a name"],
    [["token", "create", "laptop"], "--permission and one of run, tags:read"],
    [["token", "list", "mine"], "unexpected: mine"],
    [["account", "create", "a", "name", "of", "words"], "unexpected: of words"],
    [["account", "list", "mine"], "unexpected: mine"],
    [["config", "port"], "unexpected: port"],
    [["version", "now"], "unexpected: now"],
    [["doctor", "now"], "unexpected: now"],
    [["service", "start"], "unexpected: start"],
    [["--config", "missing.toml"], "missing.toml does not exist"],
    [["serve", "now"], "unexpected: now"],
  ])("%p", async (args, sentence) => {
    const { code, err } = await run(args);
    expect([code, err.includes(sentence) ? sentence : err]).toEqual([2, sentence]);
  });

  test("an unknown key of the settings file", async () => {
    const cwd = tempFolder();
    writeFileSync(join(cwd, "gatehouse.toml"), "prot = 1");
    const { code, err } = await run([], { cwd });
    expect([code, err]).toEqual([2, 'gatehouse: gatehouse.toml: "prot" is not a known setting']);
    rmSync(cwd, { recursive: true });
  });
});

describe("a data folder that cannot be used ends a start and a verb with a sentence and no stack", () => {
  const here = join(folder, "unusable");
  const expectSentence = async (sentence: string) => {
    for (const args of [
      ["--port", "0"],
      ["token", "create", "--admin"],
    ]) {
      const { code, err } = await run(args, { env: { GATEHOUSE_DATA: here } });
      expect([code, err.split("\n").length]).toEqual([1, 1]);
      expect(err).toStartWith(`gatehouse: cannot use the data folder ${here}: `);
      expect(err).toContain(sentence);
    }
  };
  afterEach(() => rmSync(here, { recursive: true }));

  test("because it is a file", async () => {
    writeFileSync(here, "");
    await expectSentence("EEXIST");
  });

  test("because its database is none", async () => {
    mkdirSync(here);
    writeFileSync(join(here, "gatehouse.db"), "text".repeat(100));
    await expectSentence("file is not a database");
  });

  test("because others can read a key in it", async () => {
    mkdirSync(here);
    writeFileSync(join(here, "secret.key"), Buffer.alloc(32), { mode: 0o644 });
    await expectSentence("chmod 600");
  });
});

test("a start that cannot say how to get in ends in good order", async () => {
  const here = join(folder, "mute");
  mkdirSync(join(here, "first-start.txt"), { recursive: true });
  const { code, err } = await run(["--port", "0", "--host", "127.0.0.1"], { env: { GATEHOUSE_DATA: here } });
  expect([code, err.split("\n").at(-1)]).toEqual([1, expect.stringContaining(`cannot use the data folder ${here}: `)]);
  expect([existsSync(join(here, "owner.json")), existsSync(join(here, "gatehouse.db-wal"))]).toEqual([false, false]);
});

test("config prints each setting with its origin and hides secrets", async () => {
  const { out } = await run(["config", "--port", "1234"], {
    env: { GATEHOUSE_ADMIN_TOKEN: "x".repeat(32), GATEHOUSE_LOG: "warn" },
  });
  expect(out).toContain("port = 1234   # --port");
  expect(out).toContain('log = "warn"   # GATEHOUSE_LOG');
  expect(out).toContain("admin_token = ********   # GATEHOUSE_ADMIN_TOKEN");
  expect(out).not.toContain("xxxx");
});

test("service says who must own a folder that somebody has already used", async () => {
  const { code, err } = await run(["service", "--user", "pi"]);
  expect([code, err]).toEqual([0, expect.stringContaining(`install -d -m 700 ${data} && chown -R pi: ${data}`)]);
});

test("version names the program, the commit and Bun", async () => {
  const { out } = await run(["version"]);
  expect(out).toMatch(/^gatehouse \d+\.\d+\.\d+ \(\w+\), Bun \d+\.\d+\.\d+$/);
});

test("an unknown variable warns and the verb still runs", async () => {
  const { code, err } = await run(["version"], { env: { GATEHOUSE_HOTS: "x" } });
  expect(code).toBe(0);
  expect(err).toContain("GATEHOUSE_HOTS");
});

describe("in a folder that holds no data", () => {
  const here = join(folder, "elsewhere");
  const env = { GATEHOUSE_DATA: here };

  test.each([
    [["token", "list"]],
    [["token", "revoke", "admin"]],
    [["account", "list"]],
    [["gateway", "list"]],
    [["gateway", "auth", "on"]],
    [["logs", "stats"]],
    [["logs", "tail"]],
    [["agents", "list"]],
    [["agents", "sql", "counter", "demo", "select 1"]],
    [["tags", "find"]],
    [["tags", "rm", "worker", "w"]],
    [["hook", "list"]],
    [["hook", "tail"]],
  ])("%p refuses, names it, and makes nothing", async (args) => {
    const { code, err } = await run(args, { env });
    expect([code, existsSync(here)]).toEqual([1, false]);
    expect(err).toBe(
      `gatehouse: there is no data in ${here}; name the folder that holds it with --data, or start the server to make it`,
    );
  });

  test("a folder that is there but empty counts as none", async () => {
    mkdirSync(here);
    expect((await run(["logs", "stats"], { env })).err).toContain(`there is no data in ${here}`);
    expect(readdirSync(here)).toEqual([]);
    rmSync(here, { recursive: true });
  });

  test("what stores something makes it, and says so once", async () => {
    const said = `gatehouse: made the data folder ${here}`;
    expect(await run(["account", "create", "lab"], { env })).toEqual({ code: 0, out: "created lab", err: said });
    expect(await run(["account", "create", "attic"], { env })).toEqual({ code: 0, out: "created attic", err: "" });
    expect(statSync(here).mode & 0o777).toBe(0o700);
  });

  test("of two verbs at once one makes it", async () => {
    const env = { GATEHOUSE_DATA: join(folder, "both") };
    const made = (name: string) => run(["account", "create", name], { env });
    const both = await Promise.all([made("one"), made("two")]);
    expect(both.map(({ code }) => code)).toEqual([0, 0]);
    expect(both.map(({ err }) => err).sort()).toEqual(["", `gatehouse: made the data folder ${env.GATEHOUSE_DATA}`]);
  });
});

test("a verb's key goes to the server itself, whatever proxy the shell names", async () => {
  const { child } = await serve();
  const seen: string[] = [];
  await using proxy = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: ({ url }) => {
      seen.push(url);
      return new Response("from the proxy");
    },
  });
  const address = `http://127.0.0.1:${proxy.port}`;
  const { code } = await run(["account", "list"], { env: { http_proxy: address, HTTP_PROXY: address } });
  child.kill();
  await child.exited;
  expect([code, seen]).toEqual([0, []]);
});

describe("tokens from the command line", () => {
  test("work with no server, and are the way back in", async () => {
    const made = await run(["token", "create", "--admin"]);
    expect([made.code, made.err]).toEqual([0, ""]);
    const [value = ""] = made.out.split("\n");
    const { child, address } = await serve();
    const answer = await fetch(`${address}/api/tokens`, { headers: { authorization: `Bearer ${value}` } });
    child.kill();
    expect([answer.status, await child.exited]).toEqual([200, 0]);
  });

  test("work while the server runs, and a revocation takes effect at once", async () => {
    const { child, address } = await serve();
    const made = await run(["token", "create", "laptop", "--permission", "tags:read", "--account", "home"]);
    const [, value = "", id = ""] = /^(gh_\S+)\nid (\S+);/.exec(made.out) ?? [];
    const status = async () =>
      (await fetch(`${address}/api/accounts`, { headers: { authorization: `Bearer ${value}` } })).status;
    expect(await status()).toBe(200);
    expect((await run(["token", "list"])).out).toContain(`${id}  laptop  tags:read  home`);
    expect((await run(["token", "revoke", id])).code).toBe(0);
    expect(await status()).toBe(401);
    expect(await run(["token", "revoke", id])).toMatchObject({ code: 1, err: "gatehouse: No such token" });
    child.kill();
    await child.exited;
  });

  test("are limited to a class however it is spelt", async () => {
    const { code } = await run([
      "token",
      "create",
      "x",
      "-p",
      "agents:read",
      "--class",
      "ChatRoom",
      "--agent",
      "Lobby",
    ]);
    expect([code, (await run(["token", "list"])).out]).toEqual([0, expect.stringContaining("chat-room/Lobby")]);
  });

  test("two verbs at once wait for each other", async () => {
    const both = await Promise.all([run(["account", "create", "one"]), run(["account", "create", "two"])]);
    expect(both.map(({ code }) => code)).toEqual([0, 0]);
    expect((await run(["account", "list"])).out).toMatch(/one[\s\S]*two|two[\s\S]*one/);
  });
});

test("a folder whose key has gone says so, and a new folder does not", async () => {
  const env = { GATEHOUSE_DATA: join(folder, "keyless") };
  expect((await run(["account", "create", "one"], { env })).err).not.toContain("secret.key");
  rmSync(join(env.GATEHOUSE_DATA, "secret.key"));
  expect((await run(["account", "list"], { env })).err).toContain("secret.key was not there");
  expect((await run(["account", "list"], { env })).err).toBe("");
});

describe("a second server", () => {
  let first: Awaited<ReturnType<typeof serve>>;
  beforeAll(async () => {
    first = await serve();
  });
  afterAll(() => first.child.kill());

  test("on the same folder says who has it, and ends", async () => {
    const { code, err } = await run(["--port", "0"]);
    expect(code).toBe(1);
    expect(err).toContain(`in use by gatehouse serve (pid ${first.child.pid}`);
  });

  test("on the same port ends, and the first goes on", async () => {
    const { port } = new URL(first.address);
    const { code, err } = await run(["--port", port, "--host", "127.0.0.1", "--data", join(folder, "other")]);
    expect([code, err.includes("cannot listen")]).toEqual([1, true]);
    expect((await fetch(`${first.address}/healthz`)).status).toBe(200);
  });
});

test("a verb does not set the admin token; the first start makes one and says it until somebody has signed in", async () => {
  const here = join(folder, "verb-first");
  const env = { GATEHOUSE_DATA: here, GATEHOUSE_ADMIN_TOKEN: "v".repeat(32) };
  expect((await run(["account", "create", "one"], { env })).code).toBe(0);
  expect((await run(["token", "list"], { env })).out).toBe("");
  const child = start(["--port", "0", "--host", "127.0.0.1"], { env: { GATEHOUSE_DATA: here } });
  const reader = child.stderr.getReader();
  expect(new TextDecoder().decode((await reader.read()).value)).toContain('"ready"');
  const note = join(here, "first-start.txt");
  expect(readFileSync(note, "utf8")).toMatch(/admin token +gh_/);
  const code = /#code=(\S+)/.exec(readFileSync(note, "utf8"))?.[1];
  const signIn = () =>
    fetch(`${readOwner(here)?.address}/api/session`, {
      method: "POST",
      body: JSON.stringify({ code }),
      headers: { "content-type": "application/json" },
    });
  expect([(await signIn()).status, existsSync(note), (await signIn()).status]).toEqual([200, false, 401]);
  child.kill();
  expect(await child.exited).toBe(0);
});

test("GATEHOUSE_ADMIN_TOKEN sets the admin token, and changing it revokes the old one", async () => {
  const here = join(folder, "admin");
  const statusOf = async (value: string, env: Record<string, string>) => {
    const child = start(["--port", "0", "--host", "127.0.0.1"], { env: { GATEHOUSE_DATA: here, ...env } });
    await child.stdout.getReader().read();
    const address = readOwner(here)?.address;
    const { status } = await fetch(`${address}/api/tokens`, { headers: { authorization: `Bearer ${value}` } });
    child.kill();
    await child.exited;
    return status;
  };
  const [one, two] = ["a".repeat(32), "b".repeat(32)];
  expect(await statusOf(one, { GATEHOUSE_ADMIN_TOKEN: one })).toBe(200);
  expect(await statusOf(one, { GATEHOUSE_ADMIN_TOKEN: two })).toBe(401);
  writeFileSync(join(folder, "admin.txt"), `${one}\n`);
  expect(await statusOf(one, { GATEHOUSE_ADMIN_TOKEN_FILE: join(folder, "admin.txt") })).toBe(200);
});
