// The gateway's verbs as a person types them, with a server running and without one.
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readOwner } from "../../src/platform/lock.ts";
import { CHAT, type FakeProvider, startProvider, until } from "../gateway/support/provider.ts";
import { tempFolder } from "../support/house.ts";

const INDEX = join(import.meta.dir, "../../src/index.ts");
const folder = tempFolder();
const data = join(folder, "data");
const release = Promise.withResolvers<void>();
let provider: FakeProvider;
beforeAll(() => {
  provider = startProvider(async (_, { body }) => {
    if (new TextDecoder().decode(body).includes("slow")) await release.promise;
    return Response.json(CHAT);
  });
  writeFileSync(join(folder, "gatehouse.toml"), `[gateway.providers.openai]\nbase_url = "${provider.url}"\n`);
});
afterAll(async () => {
  await provider[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const start = (...args: string[]) =>
  Bun.spawn([process.execPath, INDEX, ...args], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? "", GATEHOUSE_DATA: data },
    stdout: "pipe",
    stderr: "pipe",
  });
async function run(...args: string[]) {
  const child = start(...args);
  const [code, out, err] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code, lines: out.trim().split("\n"), err: err.trim() };
}

test.each([
  [["gateway"], "say create ID, list"],
  [["gateway", "auth", "maybe"], "say create ID, list"],
  [["gateway", "list", "x", "y", "z"], "unexpected: z"],
  [["logs"], "say tail or stats"],
  [["logs", "tail", "a", "b"], "unexpected: b"],
  [["logs", "tail", ""], "the gateway's id is empty"],
  [["logs", "stats", "--days", "abc"], "--days is a number of days"],
  [["logs", "stats", "--days", "0"], "--days is a number of days"],
  [["gateway", "auth", "on", ""], "the gateway's id is empty"],
  [["gateway", "token", "create", ""], "the gateway's id is empty"],
])("%p is called wrongly", async (args, sentence) => {
  const { code, err } = await run(...args);
  expect([code, err.includes(sentence) ? sentence : err]).toEqual([2, sentence]);
});

test("what the server refuses is a sentence and exit code 1", async () => {
  await run("account", "create", "lab"); // so that there is something to look at
  const { code, err } = await run("gateway", "auth", "on", "nope");
  expect([code, err]).toEqual([1, "gatehouse: No such gateway"]);
  expect((await run("gateway", "create", "Not An Id")).code).toBe(1);
});

test("create, list, auth and token work on the folder alone", async () => {
  expect((await run("gateway", "create", "lab")).lines).toEqual([
    "created lab, authentication off",
    "next: gatehouse gateway token create lab, then gatehouse gateway auth on lab",
  ]);
  expect((await run("gateway", "token", "create", "lab", "--name", "laptop")).lines[0]).toMatch(/^gh_[\w-]{43}$/);
  expect((await run("gateway", "auth", "on", "lab")).lines).toEqual(["lab: authentication on"]);
  expect((await run("gateway", "create", "strict", "--authentication")).lines).toEqual([
    "created strict, authentication on",
  ]);
  expect((await run("gateway", "list")).lines).toEqual([
    "default  authentication on  logged",
    "lab  authentication on  logged",
    "strict  authentication on  logged",
  ]);
});

test("with a server running: a token made here opens it at once, and tail shows requests as they come", async () => {
  const server = start("--port", "0", "--host", "127.0.0.1");
  let address = "";
  await until(() => {
    address = readOwner(data)?.address ?? "";
    return address !== "";
  }, 15_000);
  const token = (await run("gateway", "token", "create")).lines[0] ?? "";
  const ask = (body = '{"model":"gpt-4o-mini","messages":[]}') =>
    fetch(`${address}/v1/home/default/openai/chat/completions`, {
      method: "POST",
      headers: { "gw-aig-authorization": `Bearer ${token}`, "content-type": "application/json" },
      body,
    });
  expect((await ask()).status).toBe(200);

  const tail = start("logs", "tail");
  const shown: string[] = [];
  const reading = (async () => {
    for await (const chunk of tail.stdout) shown.push(...new TextDecoder().decode(chunk).trim().split("\n"));
  })();
  await until(() => shown.length === 1, 15_000);
  expect((await ask()).status).toBe(200);
  await until(() => shown.length === 2, 15_000);
  expect(shown[1]).toMatch(
    /^\d\d:\d\d:\d\d\.\d{3} {2}200 {2}openai {2}gpt-4o-mini {2}\d+ ms {2}19\+10 {2}\$0\.000009$/,
  );

  const slow = ask('{"model":"slow","messages":[]}');
  await until(() => provider.seen.some(({ body }) => new TextDecoder().decode(body).includes("slow")));
  expect((await ask()).status).toBe(200);
  await until(() => shown.length === 3, 15_000);
  release.resolve();
  expect((await slow).status).toBe(200);
  await until(() => shown.length === 4, 15_000); // it began before the one that was shown already
  expect(shown[3]).toContain("slow");
  tail.kill();
  await reading;

  const { lines } = await run("logs", "stats");
  expect(lines[0]).toMatch(/^provider +model +requests +failed +tokens in +tokens out +cost +mean ms$/);
  expect(lines[1]).toMatch(/^openai +gpt-4o-mini +3 +0 +57 +30 +\$0\.000027 +\d+$/);
  expect(lines.at(-1)).toBe("last 30 days; prices: @pydantic/genai-prices 0.1.8 of 2026-09-23");
  server.kill();
  await server.exited;
  expect((await run("logs", "tail", "--once")).lines).toEqual(shown);
  const left = { code: 1, err: "gatehouse: no server runs on this data folder, so no more will come" };
  expect(await run("logs", "tail")).toEqual({ ...left, lines: shown });
}, 30_000);

test("a reader that leaves early, as head does, ends the verb in silence", async () => {
  const server = start("--port", "0", "--host", "127.0.0.1");
  await until(() => readOwner(data) !== undefined, 15_000);
  const { runToken, address } = {
    runToken: (await run("gateway", "token", "create")).lines[0] ?? "",
    ...readOwner(data),
  };
  const headers = { "gw-aig-authorization": runToken };
  await fetch(`${address}/v1/home/default/openai/models`, { headers });
  const tail = Bun.spawn(["sh", "-c", `"$0" "$1" logs tail | head -1`, process.execPath, INDEX], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? "", GATEHOUSE_DATA: data },
    stdout: "pipe",
    stderr: "pipe",
  });
  await tail.stdout.getReader().read(); // head has its line, and leaves
  let ended = false;
  const exited = tail.exited.finally(() => {
    ended = true;
  });
  await until(async () => {
    await fetch(`${address}/v1/home/default/openai/models`, { headers }); // a row that nobody reads
    return ended;
  }, 15_000);
  expect(await exited).toBe(0);
  expect(await new Response(tail.stderr).text()).toBe("");

  // Names are the caller's: what a terminal would obey is not printed.
  await fetch(`${address}/v1/home/default/openai/models/%1b%5b31mred%c2%9b:generateContent`, { headers });
  for (const verb of [
    ["logs", "stats"],
    ["logs", "tail", "--once"],
  ]) {
    const printed = (await run(...verb)).lines.join("\n");
    expect(printed).toContain("�[31mred�");
    expect(printed).not.toMatch(/[^\P{Cc}\n]/u);
  }
  server.kill();
  await server.exited;
  expect((await run("gateway", "list")).code).toBe(0);
}, 30_000);
