// Starting and stopping as a service manager sees it: signals, exit codes, what is in flight.
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { lockFolder, readOwner } from "../../src/platform/lock.ts";
import { startHouse, tempFolder } from "../support/house.ts";

const INDEX = join(import.meta.dir, "../../src/index.ts");
const TLS = join(import.meta.dir, "../support/tls");
const ADMIN = "an-admin-token-for-these-tests-alone";
const folder = tempFolder();
afterAll(() => rmSync(folder, { recursive: true }));

async function serve(name: string, ...args: string[]) {
  const data = join(folder, name);
  const child = Bun.spawn([process.execPath, INDEX, "--port", "0", "--host", "127.0.0.1", ...args], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? "", GATEHOUSE_DATA: data, GATEHOUSE_ADMIN_TOKEN: ADMIN },
    stdout: "pipe",
    stderr: "ignore",
  });
  await child.stdout.getReader().read();
  return { child, data, address: readOwner(data)?.address ?? "" };
}

/** A request whose last byte is still to come. */
async function halfSent(address: string, token = ADMIN) {
  const body = '{"id":"late"}';
  const head = `POST /api/accounts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  const { promise: ended, resolve } = Promise.withResolvers<string>();
  let answer = "";
  const socket = connect(Number(new URL(address).port), "127.0.0.1");
  socket.on("data", (chunk) => {
    answer += chunk;
  });
  socket.on("error", () => {});
  socket.on("close", () => resolve(answer));
  await new Promise((sent) => socket.write(head + body.slice(0, -1), sent));
  while ((await fetch(`${address}/healthz`)).status !== 200); // by now the server has read what was sent before
  return { ended, finish: () => socket.write(body.slice(-1)) };
}

const refuses = async (address: string) => {
  while (
    await fetch(`${address}/healthz`, { headers: { connection: "close" } }).then(
      () => true,
      () => false,
    )
  );
};

describe.each(["SIGTERM", "SIGINT"] as const)("%s", (signal) => {
  test("is heard from the first line that it prints", async () => {
    const { child, data } = await serve(`${signal}-early`);
    child.kill(signal);
    expect(await child.exited).toBe(0);
    expect(existsSync(join(data, "owner.json"))).toBe(false);
  });

  test("lets a request in flight finish, refuses new ones, and exits 0", async () => {
    const { child, address } = await serve(signal);
    const request = await halfSent(address);
    child.kill(signal);
    await refuses(address);
    request.finish();
    expect(await request.ended).toStartWith("HTTP/1.1 200");
    expect(await child.exited).toBe(0);
  });

  test("twice exits 1 at once", async () => {
    const { child, address } = await serve(`${signal}-twice`);
    const request = await halfSent(address);
    child.kill(signal);
    await refuses(address);
    child.kill(signal);
    expect(await child.exited).toBe(1);
    expect(await request.ended).toBe("");
  });
});

test("a request that never ends is cut at the limit, and the exit is still 0", async () => {
  const { child, address } = await serve("limit", "--stop-ms", "100");
  const request = await halfSent(address);
  child.kill();
  expect(await child.exited).toBe(0);
  expect(await request.ended).toBe("");
});

test("what is in flight at the limit is cut before the databases close", async () => {
  const house = await startHouse({ settings: { stop_ms: 0 } });
  const request = await halfSent(house.url, house.adminToken);
  await house.stop();
  expect(await request.ended).toBe("");
  rmSync(house.folder, { recursive: true });
});

test("after SIGKILL the same folder starts again, with what was stored", async () => {
  const first = await serve("killed");
  const headers = { authorization: `Bearer ${ADMIN}`, "content-type": "application/json" };
  expect(
    (await fetch(`${first.address}/api/accounts`, { method: "POST", headers, body: '{"id":"kept"}' })).status,
  ).toBe(200);
  first.child.kill("SIGKILL");
  await first.child.exited;
  const second = await serve("killed");
  const answer = await fetch(`${second.address}/api/accounts`, { headers });
  expect(JSON.stringify(await answer.json())).toContain('"kept"');
  second.child.kill();
  expect(await second.child.exited).toBe(0);
  expect(existsSync(join(second.data, "owner.json"))).toBe(false);
});

test("with a certificate it speaks TLS, marks its cookie Secure, and its own verbs still reach it", async () => {
  const { child, address, data } = await serve(
    "tls",
    "--tls-cert",
    join(TLS, "cert.pem"),
    "--tls-key",
    join(TLS, "key.pem"),
  );
  expect(address).toStartWith("https://");
  const answer = await fetch(`${address}/api/session`, {
    method: "POST",
    body: JSON.stringify({ token: ADMIN }),
    headers: { "content-type": "application/json" },
    tls: { ca: Bun.file(join(TLS, "cert.pem")) },
  });
  expect(answer.headers.get("set-cookie")).toContain("; Secure");
  const list = Bun.spawn([process.execPath, INDEX, "account", "list", "--data", data], { cwd: folder, stdout: "pipe" });
  expect(await new Response(list.stdout).text()).toContain("home");
  child.kill();
  await child.exited;
});

test("a start waits for a verb that has the folder, and not for another server", async () => {
  const here = tempFolder();
  const owner = { pid: 1, startedAt: "now" };
  const verb = lockFolder(join(here, "data"), { ...owner, command: "token" });
  const starting = startHouse({ folder: here });
  await Bun.sleep(0);
  verb?.release();
  await (await starting).stop();
  const server = lockFolder(join(here, "data"), { ...owner, command: "serve" });
  await expect(startHouse({ folder: here })).rejects.toThrow("is in use by gatehouse serve (pid 1, since now)");
  server?.release();
  rmSync(here, { recursive: true });
});
