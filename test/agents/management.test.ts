// Looking after agents over the API, and their secrets.
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { openClient, startAgentHouse } from "../support/agent-house.ts";
import { until } from "../support/agents.ts";
import { tempFolder } from "../support/house.ts";

const DESK = `
import { Agent, callable } from "gatehouse";
export class Desk extends Agent<Record<string, string>, { n: number }> {
  static options = { retry: { maxAttempts: 1 } };
  @callable({ description: "adds one" }) add(by: number) { this.setState({ n: (this.state?.n ?? 0) + by }); return this.state; }
  @callable() fails() { throw new Error("own words"); }
  @callable() async work() { await this.queue("explode", { x: 1 }, { id: "job" }); await this.schedule("0 9 * * *", "explode", 1); }
  @callable() env_() { return { ...this.env }; }
  @callable() big() { return 10n; }
  explode() { throw new Error("boom"); }
}
export class Other extends Agent { @callable() env_() { return Object.keys(this.env as object); } }`;
const FILES = { "desk.ts": DESK, "broken.ts": "export class {" };

describe("who may", () => {
  test.each([
    ["GET", "/api/agents", [], 403],
    ["GET", "/api/agents", ["tags:read"], 403],
    ["GET", "/api/agents/desk", ["agents:read"], 200],
    ["POST", "/api/agents/desk/a/call", ["agents:read"], 403],
    ["DELETE", "/api/agents/desk/a", ["agents:read"], 403],
    ["PUT", "/api/agent-secrets/desk/KEY", ["agents:read"], 403],
    ["GET", "/api/agents/desk/never/state", ["agents:read"], 404],
    ["GET", "/api/agents/nobody", ["agents:read"], 404],
  ] as const)("%s %s with %j: %i", async (method, path, permissions, status) => {
    await using house = await startAgentHouse({ files: FILES });
    const token = house.token(permissions.length === 0 ? ["run"] : [...permissions]);
    const answer = await house.api(method, path, method === "GET" || method === "DELETE" ? undefined : {}, token);
    expect(answer.status).toBe(status);
  });

  test("nobody without a token, and a token for one agent sees that one alone", async () => {
    await using house = await startAgentHouse({ files: FILES });
    expect((await house.fetch("/api/agents")).status).toBe(401);
    const token = house.token(["agents:edit"], { agentClass: "desk", agentName: "a" });
    expect((await house.api("POST", "/api/agents/desk/a/call", { method: "add", args: [1] }, token)).status).toBe(200);
    expect((await house.api("POST", "/api/agents/desk/b/call", { method: "add", args: [1] }, token)).status).toBe(403);
    expect((await house.api("GET", "/api/agents/desk", undefined, token)).status).toBe(403);
  });
});

test("classes, broken files and agents are listed, page by page", async () => {
  await using house = await startAgentHouse({ files: FILES });
  for (const name of ["ab", "aa", "b"])
    await house.api("POST", `/api/agents/desk/${name}/call`, { method: "add", args: [1] });
  const { body } = await house.api("GET", "/api/agents");
  expect(body.result.classes).toContainEqual({
    class: "desk",
    file: expect.stringMatching(/desk\.ts$/),
    public: false,
    callables: expect.arrayContaining([{ name: "add", description: "adds one", streaming: false }]),
    agents: 3,
    live: 3,
  });
  expect(body.result.broken).toMatchObject([{ line: 1, classes: [] }]);
  expect(body.result.threads).toMatchObject({ live: 3 });
  const first = await house.api("GET", "/api/agents/desk?limit=2");
  expect(first.body.result.map((row: { name: string }) => row.name)).toEqual(["aa", "ab"]);
  expect(first.body.result[0].bytes).toBeGreaterThan(4_096); // of a live one too
  const second = await house.api("GET", `/api/agents/desk?limit=2&cursor=${first.body.result_info.cursor}`);
  expect(second.body.result.map((row: { name: string }) => row.name)).toEqual(["b"]);
  const prefixed = await house.api("GET", "/api/agents/desk?prefix=a");
  expect(prefixed.body.result.length).toBe(2);
});

test("one agent is shown, called, and its failed work looked after", async () => {
  await using house = await startAgentHouse({ files: FILES });
  const at = "/api/agents/desk/a";
  expect((await house.api("POST", `${at}/call`, { method: "add", args: [2] })).body.result).toEqual({
    output: { n: 2 },
  });
  expect((await house.api("GET", `${at}/state`)).body.result).toEqual({ state: { n: 2 } });
  const failed = await house.api("POST", `${at}/call`, { method: "fails" });
  expect([failed.status, failed.body.errors[0].message]).toEqual([422, "own words"]);
  expect((await house.api("POST", `${at}/call`, { method: "explode" })).status).toBe(404);
  expect((await house.api("POST", `${at}/call`, { method: "add", oops: 1 })).status).toBe(400);
  await house.api("POST", `${at}/call`, { method: "work" });
  const dead = await until(async () => {
    const { body } = await house.api("GET", `${at}/dead`);
    return body.result.length > 0 && body.result;
  });
  expect(dead).toMatchObject([
    { id: "job", kind: "queue", callback: "explode", payload: { x: 1 }, error: "boom", attempts: 1 },
  ]);
  expect((await house.api("POST", `${at}/dead/job/retry`, {})).status).toBe(200);
  await until(async () => (await house.api("GET", `${at}/dead`)).body.result.length === 1);
  expect((await house.api("DELETE", `${at}/dead/job`)).status).toBe(200);
  expect((await house.api("DELETE", `${at}/dead/job`)).status).toBe(404);
  const [plan] = (await house.api("GET", `${at}/schedules`)).body.result;
  expect(plan).toMatchObject({ callback: "explode", type: "cron", cron: "0 9 * * *", timezone: "UTC" });
  const detail = (await house.api("GET", at)).body.result;
  expect(detail).toMatchObject({
    class: "desk",
    name: "a",
    phase: "live",
    schedules: 1,
    dead_letters: 0,
    queue_length: 0,
  });
  expect(detail.bytes).toBeGreaterThan(4_096);
  expect((await house.api("DELETE", `${at}/schedules/${plan.id}`)).status).toBe(200);
  expect((await house.api("GET", `${at}/queue`)).body.result).toEqual([]);
});

test("ten queries may be asked of databases at once, two at a time; one more is told to come back", async () => {
  await using house = await startAgentHouse({ files: FILES });
  await house.api("POST", "/api/agents/desk/a/call", { method: "add", args: [1] });
  const ask = async () => (await house.api("POST", "/api/agents/desk/a/sql", { query: "select 1" })).status;
  const statuses = await Promise.all(Array.from({ length: 11 }, ask));
  expect(statuses.sort()).toEqual([...Array.from({ length: 10 }, () => 200), 503]);
});

test("a query answers a thousand rows, and says when there were more", async () => {
  await using house = await startAgentHouse({ files: FILES });
  await house.api("POST", "/api/agents/desk/a/call", { method: "add", args: [1] });
  const count = async (rows: number) => {
    const query = `with recursive n (i) as (select 1 union all select i + 1 from n where i < ${rows}) select i from n`;
    const { result } = (await house.api("POST", "/api/agents/desk/a/sql", { query })).body;
    return [result.rows.length, result.truncated];
  };
  expect([await count(1_000), await count(1_001)]).toEqual([
    [1_000, false],
    [1_000, true],
  ]);
});

test("what JSON cannot hold is the callable's failure, not ours", async () => {
  await using house = await startAgentHouse({ files: FILES });
  const answer = await house.api("POST", "/api/agents/desk/a/call", { method: "big" });
  expect([answer.status, answer.body.errors[0].message]).toEqual([422, expect.stringContaining("BigInt")]);
});

describe("an agent whose file is broken", () => {
  const at = "/api/agents/desk/a";
  const broken = (house: { parts: { agents: { catalog: { isBroken(name: string): boolean } } } }) =>
    until(() => house.parts.agents.catalog.isBroken("desk"));

  test("goes on answering while it has a thread, and its open class is not closed to strangers for good", async () => {
    const open = DESK.replace("static options = {", `static options = { public: true,`);
    await using house = await startAgentHouse({ files: { "desk.ts": open } });
    using client = openClient(house, "desk", "a");
    await client.ready;
    await house.write({ "desk.ts": "export class {" });
    await broken(house);
    expect(await client.call("add", [1])).toEqual({ n: 1 });
    expect((await house.api("POST", `${at}/call`, { method: "add", args: [1] })).body.result).toEqual({
      output: { n: 2 },
    });
    using late = openClient(house, "desk", "a");
    expect(await late.call("add", [1])).toEqual({ n: 3 });
    using other = openClient(house, "desk", "asleep");
    await until(() => other.closes.length > 0);
    expect(other.closes[0]?.code).toBe(1011);
    expect((await house.fetch("/agents/desk/asleep")).status).toBe(503);
  });

  test("can be looked at without a thread, also after a restart", async () => {
    const folder = tempFolder();
    const good = await startAgentHouse({ files: FILES, folder });
    await good.api("POST", `${at}/call`, { method: "add", args: [2] });
    await good.api("POST", `${at}/call`, { method: "work" });
    const views = async (house: typeof good) =>
      Promise.all(
        ["state", "queue", "schedules", "dead"].map(
          async (view) => (await house.api("GET", `${at}/${view}`)).body.result,
        ),
      );
    await until(async () => (await views(good))[3].length === 1);
    const before = await views(good);
    const { tables, dead_letters, schedules } = (await good.api("GET", at)).body.result;
    await good.stop();

    const files = { "desk.ts": `${DESK}\nthrow new Error("typo");` };
    await using house = await startAgentHouse({ files, folder });
    expect(await views(house)).toEqual(before);
    expect((await house.api("GET", at)).body.result).toMatchObject({
      phase: "asleep",
      tables,
      dead_letters,
      schedules,
    });
    const copy = await house.fetch(`${at}/export`, {
      headers: { authorization: `Bearer ${house.token(["agents:read"])}` },
    });
    using db = Database.deserialize(new Uint8Array(await copy.arrayBuffer()));
    expect(db.query("select state from gatehouse_state").all()).toEqual([{ state: '{"n":2}' }]);
    expect(readdirSync(join(folder, "data", "exports"))).toEqual([]);
    expect((await house.api("GET", "/api/agents/desk/never/state")).status).toBe(503);
    expect((await house.api("POST", `${at}/call`, { method: "add", args: [1] })).status).toBe(503);
    expect((await house.api("GET", "/api/agents")).body.result.broken).toContainEqual(
      expect.objectContaining({ classes: ["desk", "other"] }),
    );
  });
});

test("a secret reaches its class alone, at once, is sealed on disk, and no route gives it back", async () => {
  await using house = await startAgentHouse({ files: FILES });
  const call = async (agent: string) =>
    (await house.api("POST", `/api/agents/${agent}/call`, { method: "env_" })).body.result.output;
  expect(await call("desk/a")).toEqual({});
  const set = await house.api("PUT", "/api/agent-secrets/desk/API_KEY", { value: "a-very-secret-value" });
  expect(set.body.result).toEqual({ id: "API_KEY" });
  await until(async () => (await call("desk/a")).API_KEY === "a-very-secret-value");
  expect(await call("other/a")).toEqual([]);
  const listed = await house.api("GET", "/api/agent-secrets/desk");
  expect(listed.body.result).toEqual([{ name: "API_KEY", from: "stored", updated_at: expect.any(String) }]);
  const rows = house.parts.agents.ledger.secrets();
  expect(rows.length).toBe(1);
  expect(Buffer.from(rows[0]?.sealed ?? []).includes("a-very-secret-value")).toBe(false);
  expect(JSON.stringify(house.logged)).not.toContain("a-very-secret-value");
  expect((await house.api("PUT", "/api/agent-secrets/desk/bad-name", { value: "x" })).status).toBe(400);
  expect((await house.api("PUT", "/api/agent-secrets/Desk/API_KEY", { value: "x" })).status).toBe(400);
  expect((await house.api("DELETE", "/api/agent-secrets/desk/API_KEY")).status).toBe(200);
  expect((await house.api("DELETE", "/api/agent-secrets/desk/API_KEY")).status).toBe(404);
  await until(async () => Object.keys(await call("desk/a")).length === 0);
});
