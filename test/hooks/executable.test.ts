// The promise that nothing acknowledged is lost, on the built executable, with the one signal nobody can prepare for.
import { expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildExecutable, EXECUTABLE, type Running, start } from "../support/executable.ts";
import { tempFolder } from "../support/house.ts";

const SECRET = "shared-with-the-sender";
const DELIVERIES = 2_000;
const AGENTS = 20;
const SENDERS = 32;
const KILLS = 3;

const AGENT = `import { WebhookAgent, callable } from "gatehouse";
export class Book extends WebhookAgent {
  onStart() { this.sql\`create table if not exists runs (id text)\`; }
  async onEvent(event) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    this.sql\`insert into runs values (\${event.id})\`;
  }
  ids() {
    return { events: this.sql\`select id from events\`.map((row) => row.id), runs: this.sql\`select id from runs\`.map((row) => row.id) };
  }
  static { callable()(this.prototype.ids); }
}`;

test("after SIGKILL under load every 2xx-answered delivery is in its agent exactly once, and its handler ran", async () => {
  buildExecutable();
  const folder = tempFolder();
  mkdirSync(join(folder, "agents"));
  writeFileSync(join(folder, "agents", "book.ts"), AGENT);
  const begin = (): Promise<Running> =>
    start({
      executable: EXECUTABLE,
      cwd: folder,
      args: ["--host", "127.0.0.1", "--port", "0"],
      env: { GENERIC_WEBHOOK_SECRET: SECRET, GATEHOUSE_HOOKS_RETENTION_EVENTS: "0", GATEHOUSE_HOOKS_ACK_MS: "500" },
    });
  let server = await begin();
  const token = /admin token +(\S+)/.exec(readFileSync(join(folder, "data/first-start.txt"), "utf8"))?.[1] ?? "";
  const api = async (method: string, path: string, body?: unknown) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const answer = await fetch(`${server.url}${path}`, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return (await answer.json()).result;
  };
  await api("PATCH", "/api/hooks/sources/generic", { class: "book" });

  const answered = new Map<string, number>();
  let next = 0;
  let kills = 0;
  async function deliver(index: number): Promise<boolean> {
    const body = JSON.stringify({ entity: `book-${index % AGENTS}`, index });
    const signature = `sha256=${createHmac("sha256", SECRET).update(body).digest("hex")}`;
    const headers = { "content-type": "application/json", "x-signature": signature, "x-delivery-id": `d-${index}` };
    const answer = await fetch(`${server.url}/webhooks/generic`, { method: "POST", body, headers }).catch(
      () => undefined,
    );
    if (!answer?.ok) return false;
    answered.set(`d-${index}`, answer.status);
    await answer.bytes().catch(() => {});
    return true;
  }
  /** Like a sender that repeats what was not answered. */
  async function sender(): Promise<void> {
    for (;;) {
      const index = next++;
      if (index >= DELIVERIES) return;
      while (!(await deliver(index))) await Bun.sleep(20);
    }
  }
  async function killer(): Promise<void> {
    while (kills < KILLS) {
      if (answered.size < ((kills + 1) * DELIVERIES) / (KILLS + 1)) await Bun.sleep(1);
      else {
        kills++;
        await server.stop("SIGKILL");
        server = await begin();
      }
    }
  }
  await Promise.all([killer(), ...Array.from({ length: SENDERS }, sender)]);
  expect([kills, answered.size]).toEqual([KILLS, DELIVERIES]);

  while ((await api("GET", "/api/hooks/deliveries?status=pending&limit=1")).length > 0) await Bun.sleep(50);
  const events: string[] = [];
  const runs = new Set<string>();
  for (let agent = 0; agent < AGENTS; agent++) {
    const { output } = await api("POST", `/api/agents/book/book-${agent}/call`, { method: "ids", args: [] });
    events.push(...output.events);
    for (const id of output.runs) runs.add(id);
  }
  const all = [...answered.keys()].sort();
  expect(events.sort()).toEqual(all);
  expect([...runs].sort()).toEqual(all);
  await server.stop("SIGKILL");
  rmSync(folder, { recursive: true });
}, 180_000);
