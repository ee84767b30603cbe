// gatehouse hook as a person types it: its own process, against a running server.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { type House, tempFolder } from "../support/house.ts";
import { SECRET, sendGithub, sign, startHookHouse } from "../support/webhooks.ts";

const INDEX = join(import.meta.dir, "../../src/index.ts");
const folder = tempFolder();
let house: House;

beforeAll(async () => {
  house = await startHookHouse();
});
afterAll(async () => {
  await house[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

function begin(args: string[], data = join(house.folder, "data")) {
  const env = { PATH: process.env.PATH ?? "", GATEHOUSE_DATA: data };
  const options = { cwd: folder, env, stdin: "pipe", stdout: "pipe", stderr: "pipe" } as const;
  return Bun.spawn([process.execPath, INDEX, "hook", ...args], options);
}

async function run(args: string[], input = "") {
  const child = begin(args);
  child.stdin.write(input);
  await child.stdin.end();
  const [code, out, err] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code, out: out.trimEnd(), err: err.trimEnd() };
}

describe("what is called wrongly ends with 2 and a sentence", () => {
  test.each([
    [[], /^gatehouse: say list, show/],
    [["toString"], /^gatehouse: say list, show/],
    [["show"], /^gatehouse: usage: gatehouse hook show SOURCE$/],
    [["create", "mine"], /--preset PRESET/],
    [["set", "github"], /usage: gatehouse hook set/],
    [["secret", "github"], /standard input/],
    [["list", "github"], /usage: gatehouse hook list$/],
    [["deliveries", "github"], /usage: gatehouse hook deliveries/],
    [["rejections", "github"], /usage: gatehouse hook rejections/],
    [["tail", "github", "gitlab"], /usage: gatehouse hook tail/],
    [["explain", "github"], /usage: gatehouse hook explain/],
    [["secret", "github", "--generate", "--overlap", "60"], /usage: gatehouse hook secret/],
    [["replay"], /usage: gatehouse hook replay/],
    [["explain"], /does not begin with a request line/],
  ])("%p", async (args, sentence) => {
    const { code, err } = await run(args);
    expect(code).toBe(2);
    expect(err).toMatch(sentence);
  });
});

test("what fails ends with 1 and the server's sentence", async () => {
  expect(await run(["show", "nobody"])).toMatchObject({ code: 1, err: "gatehouse: There is no source of this name" });
  expect(await run(["test", "bitbucket"])).toMatchObject({
    code: 1,
    err: "gatehouse: This source has no secret yet; set one first",
  });
  expect((await run(["curl", "none"])).code).toBe(1);
  expect((await run(["tail", "nobody"])).code).toBe(1);
  expect(await run(["replay", "none"])).toMatchObject({ code: 1, out: "replaying 0" });
});

test("a secret from standard input or made here, a sample, and the delivery it became", async () => {
  expect(await run(["create", "my-sonarr", "--preset", "sonarr"])).toMatchObject({
    code: 0,
    out: "created my-sonarr; its address is /webhooks/my-sonarr",
  });
  expect(await run(["secret", "my-sonarr"], "from-standard-input\n")).toMatchObject({
    code: 0,
    out: "set the secret of my-sonarr",
  });
  expect((await run(["secret", "my-sonarr", "--generate", "--rotate"])).out).toMatch(/^whsec_/);
  expect((await run(["test", "my-sonarr", "--entity", "7"])).out).toBe(
    'POST /webhooks/my-sonarr answered 200 {"status":"ok"}',
  );
  expect((await run(["deliveries", "--source", "my-sonarr"])).out).toMatch(
    /my-sonarr Grab {2}webhook-agent\/sonarr-7 {2}done {2}1 attempt, 200/,
  );
  expect((await run(["list"])).out).toContain("my-sonarr");
  expect((await run(["set", "my-sonarr", "--verify", "none"])).code).toBe(0);
  expect((await run(["show", "my-sonarr"])).out).toContain("OPEN TO EVERYONE");
  expect(await run(["rm", "my-sonarr"])).toMatchObject({ code: 0, out: "removed my-sonarr" });
  await run(["secret", "gitlab", "--generate"]);
  expect((await run(["rm", "gitlab"])).out).toBe("gitlab is back to its preset; its stored secret is forgotten");
  expect((await run(["show", "gitlab"])).out).toContain("no secret");
}, 30_000); // a dozen processes, one after another

test("replay, rejections and the curl export", async () => {
  await sendGithub(house, "cli/one", { id: "cli-1" });
  await house.fetch("/webhooks/github", { method: "POST", body: "{}" });
  const [row] = JSON.parse((await run(["deliveries", "--agent", "cli-one", "--json"])).out);
  expect((await run(["replay", row.id])).out).toBe("replaying 1");
  expect((await run(["curl", row.id])).out).toContain("x-github-delivery: cli-1");
  expect((await run(["rejections"])).out).toContain("github  401 credential: missing");
});

test("tail prints what happens until it is stopped", async () => {
  const child = begin(["tail", "github"]);
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let out = "";
  for (let attempt = 0; !out.includes("done, attempt 1"); attempt++) {
    const body = { head_commit: { message: "mend\u001b[2J\nit" } }; // anybody may choose it
    await sendGithub(house, "cli/tail", { id: `tail-${attempt}`, body }); // until it watches, there is nobody to show it to
    out += await Promise.race([reader.read().then(({ value }) => value ?? ""), Bun.sleep(200).then(() => "")]);
  }
  expect(out).toMatch(/github push {2}webhook-agent\/cli-tail {2}(stored|done), attempt 1.* {2}mend�\[2J�it$/m);
  child.kill();
  await child.exited;
});

test("explain reads a saved request and says which stage fails", async () => {
  const body = '{"repository":{"full_name":"a/b"}}';
  const saved = (signature: string) =>
    `POST /webhooks/github HTTP/1.1\r\nHost: pi\r\nX-Hub-Signature-256: ${signature}\r\nX-GitHub-Delivery: e1\r\n\r\n${body}`;
  const right = await run(["explain"], saved(sign(body)));
  expect([right.code, right.out.includes("It would be accepted.")]).toEqual([0, true]);
  const wrong = await run(["explain"], saved(sign("other")));
  expect(wrong.code).toBe(1);
  expect(wrong.out).toContain("FAIL verify");
  expect(wrong.out).not.toContain(SECRET);
  expect(wrong.out).not.toContain(sign(body).slice(7));
  const large = await run(["explain"], `${saved(sign("x"))}${"x".repeat(675_000)}`);
  expect([large.code, large.err]).toEqual([1, "gatehouse: a body of more than 675000 bytes cannot be explained"]);
});

test("doctor names the sources that cannot work as they are", async () => {
  await house.api("PUT", "/api/hooks/sources/twilio/secret", { secret: "an-auth-token" });
  const env = { PATH: process.env.PATH ?? "", GATEHOUSE_DATA: join(house.folder, "data") };
  const child = Bun.spawn([process.execPath, INDEX, "doctor"], { cwd: folder, env, stdout: "pipe", stderr: "pipe" });
  expect(await new Response(child.stdout).text()).toContain(
    "webhooks of twilio: The sender signs the public address: set public_url.",
  );
});

test("tail ends quietly when whoever read it has left", async () => {
  const child = begin(["tail", "github"]);
  const reader = child.stdout.getReader();
  const first = reader.read();
  let ended = false;
  void child.exited.then(() => {
    ended = true;
  });
  let attempt = 0;
  const knock = () => sendGithub(house, "cli/pipe", { id: `pipe-${++attempt}` });
  while (!(await Promise.race([first.then(() => true), knock().then(() => Bun.sleep(50).then(() => false))])));
  await reader.cancel();
  while (!ended) {
    await knock();
    await Bun.sleep(20);
  }
  expect([await child.exited, await new Response(child.stderr).text()]).toEqual([0, ""]);
});

test("tail ends with a sentence and no stack when the server stops", async () => {
  const brief = await startHookHouse({ settings: { stop_ms: 600_000 } }); // a stop does not wait for who watches
  const child = begin(["tail", "github"], join(brief.folder, "data"));
  const reader = child.stdout.getReader();
  const first = reader.read();
  let attempt = 0;
  const knock = () => sendGithub(brief, "cli/stop", { id: `stop-${++attempt}` });
  while (!(await Promise.race([first.then(() => true), knock().then(() => Bun.sleep(50).then(() => false))])));
  await brief[Symbol.asyncDispose]();
  expect([await child.exited, await new Response(child.stderr).text()]).toEqual([
    1,
    "gatehouse: the server has stopped\n",
  ]);
});

test("tail beside no server says so and leaves the folder to one", async () => {
  const nobody = join(folder, "nobody");
  await begin(["secret", "github", "--generate"], nobody).exited;
  const child = begin(["tail"], nobody);
  expect([await child.exited, await new Response(child.stderr).text()]).toEqual([
    1,
    "gatehouse: no server runs on this data folder, so nothing happens\n",
  ]);
});
