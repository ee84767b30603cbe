// The class every source feeds: at its own address step by step, and as what a user's class extends.
import { describe, expect, test } from "bun:test";
import { AgentClient } from "agents/client";
import type { House } from "../support/house.ts";
import {
  type EventRow,
  eventsOf,
  SECRET,
  send,
  sendGeneric,
  sendGithub,
  sign,
  startHookHouse,
} from "../support/webhooks.ts";
import { withAgents } from "../support/with-agents.ts";

const json = { "content-type": "application/json" };

describe("at its own address, without the intake", () => {
  const at = (house: House, init: RequestInit = {}) =>
    send(house, "/agents/webhook-agent/direct", {
      ...init,
      headers: { ...json, authorization: `Bearer ${house.adminToken}`, ...(init.headers as Record<string, string>) },
    });

  test("405 for another method, 401 for a missing or wrong signature, 400 for a payload that is none", async () => {
    await using house = await startHookHouse({ env: { WEBHOOK_SECRET: SECRET } });
    const get = await at(house, { method: "GET" });
    expect([get.status, get.headers.get("allow")]).toEqual([405, "POST"]);
    expect((await at(house, { body: "{}" })).status).toBe(401);
    expect((await at(house, { body: "{}", headers: { "x-signature": sign("{} ") } })).status).toBe(401);
    expect((await at(house, { body: "{", headers: { "x-signature": sign("{") } })).status).toBe(400);
    expect(await eventsOf(house, "direct")).toEqual([]);
  });

  test("200 when signed, with the event type from its header, and once for the same id", async () => {
    await using house = await startHookHouse({ env: { WEBHOOK_SECRET: SECRET } });
    const body = '{"title":"Hello"}';
    const headers = { "x-event-type": "greeting", "x-event-id": "g1", "x-hub-signature-256": sign(body) };
    expect([(await at(house, { body, headers })).status, (await at(house, { body, headers })).text]).toEqual([
      200,
      '{"status":"duplicate"}',
    ]);
    expect((await eventsOf(house, "direct")).map(({ id, type, title }) => [id, type, title])).toEqual([
      ["g1", "greeting", "Hello"],
    ]);
  });

  test("without a secret in its environment nothing passes", async () => {
    await using house = await startHookHouse({ env: { GENERIC_WEBHOOK_SECRET: "" } });
    expect((await at(house, { body: "{}", headers: { "x-signature": sign("{}") } })).status).toBe(401);
  });
});

describe("history", () => {
  test("the table has the columns of the specification, and an index for the newest first", async () => {
    await using house = await withAgents({
      "looker.ts": `import { WebhookAgent, callable } from "gatehouse";
        export class Looker extends WebhookAgent {
          columns() { return this.sql\`select name, type, "notnull" as required, pk from pragma_table_info('events')\`; }
          plan() { return this.sql\`explain query plan select * from events order by timestamp desc limit 5\`.map((row) => row.detail).join(); }
          static { callable()(this.prototype.columns); callable()(this.prototype.plan); }
        }`,
    });
    await house.api("PATCH", "/api/hooks/sources/generic", { class: "looker" });
    await sendGeneric(house, "/webhooks/x", "{}");
    const call = async (method: string) =>
      (await house.api("POST", "/api/agents/looker/x/call", { method, args: [] })).body.result.output;
    expect(await call("columns")).toEqual(
      [
        ["id", 1, 1],
        ["type", 1, 0],
        ["action", 0, 0],
        ["title", 1, 0],
        ["description", 0, 0],
        ["url", 0, 0],
        ["actor", 0, 0],
        ["payload", 0, 0],
        ["timestamp", 1, 0],
      ].map(([name, required, pk]) => ({ name, type: "TEXT", required, pk })),
    );
    expect(await call("plan")).toContain("events_timestamp");
  });

  test("getEvents and getEventsByType give twenty unless asked, newest first, to an unmodified client", async () => {
    await using house = await startHookHouse();
    for (let index = 0; index < 25; index++) {
      await sendGithub(house, "a/b", { id: `d-${index}`, event: index % 2 === 0 ? "push" : "issues" });
    }
    const client = new AgentClient({
      agent: "webhook-agent",
      name: "a-b",
      host: new URL(house.url).host,
      protocol: "ws",
      query: { token: house.adminToken },
    });
    const states: unknown[] = [];
    client.addEventListener("message", ({ data }) => {
      const frame = JSON.parse(String(data));
      if (frame.type === "cf_agent_state") states.push(frame.state);
    });
    await client.ready;
    const ids = (rows: unknown) => (rows as EventRow[]).map(({ id }) => id);
    expect(ids(await client.call("getEvents"))).toEqual(Array.from({ length: 20 }, (_, index) => `d-${24 - index}`));
    expect(ids(await client.call("getEvents", [3]))).toEqual(["d-24", "d-23", "d-22"]);
    expect(ids(await client.call("getEventsByType", ["issues", 2]))).toEqual(["d-23", "d-21"]);
    expect(ids(await client.call("getEventsByType", ["push"])).length).toBe(13);
    expect(states.at(-1)).toMatchObject({ count: 25, lastEvent: { id: "d-24", type: "push" } });
    const seen = states.length;
    await sendGithub(house, "a/b", { id: "live" });
    while (states.length === seen) await Bun.sleep(5);
    expect(states.at(-1)).toMatchObject({ count: 26, lastEvent: { id: "live" } });
    client.close();
  });

  test("keeps the newest hundred, or as many as the source says, and none past its days", async () => {
    await using house = await startHookHouse();
    await house.api("PATCH", "/api/hooks/sources/generic", { retention_events: 3, retention_days: 0 });
    for (let index = 0; index < 5; index++)
      await sendGeneric(house, "/webhooks/few", "{}", { "x-delivery-id": `d-${index}` });
    expect((await eventsOf(house, "few")).map(({ id }) => id)).toEqual(["d-4", "d-3", "d-2"]);
    expect((await sendGeneric(house, "/webhooks/few", "{}", { "x-delivery-id": "d-0" })).text).toContain("duplicate"); // its id outlives it
    for (let index = 0; index < 102; index++) await sendGithub(house, "a/b", { id: `d-${index}` });
    const kept = await eventsOf(house, "a-b");
    expect([kept.length, kept.at(-1)?.id]).toEqual([100, "d-2"]);
  });

  test("a payload that is no JSON is kept as a JSON string, and the time is ISO with milliseconds", async () => {
    await using house = await startHookHouse();
    const body = "the garage door is open";
    await send(house, "/webhooks/garage", {
      body,
      headers: { "content-type": "text/plain", "x-signature": sign(body) },
    });
    const [event] = await eventsOf(house, "garage");
    expect([event?.payload, event?.type, event?.title]).toEqual([JSON.stringify(body), "unknown", "generic unknown"]);
    expect(event?.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });

  test("two sources may use the same id for one agent", async () => {
    await using house = await startHookHouse();
    await sendGithub(house, "a-b", { id: "1" });
    await sendGeneric(house, "/webhooks/a-b", "{}", { "x-delivery-id": "1" });
    expect((await eventsOf(house, "a-b")).map(({ id }) => id)).toEqual(["generic:1", "1"]);
  });
});

describe("a user's class", () => {
  test("overrides onEvent and nothing else; its own state stays beside the count", async () => {
    await using house = await withAgents({
      "repo.ts": `import { WebhookAgent } from "gatehouse";
        export class Repo extends WebhookAgent {
          initialState = { stars: 7, count: 0, lastEvent: null };
          async onEvent(event) { this.setState({ ...this.state, seen: [event.source, event.type, event.payload.repository.full_name, event.attempt] }); }
        }`,
    });
    await house.api("PATCH", "/api/hooks/sources/github", { class: "repo" });
    expect((await sendGithub(house, "Acme/Web", { event: "star" })).status).toBe(200);
    const { body } = await house.api("GET", "/api/agents/repo/acme-web/state");
    expect(body.result.state).toMatchObject({ stars: 7, count: 1, seen: ["github", "star", "Acme/Web", 1] });
    expect((await eventsOf(house, "acme-web", "repo")).length).toBe(1);
  });

  test("that answers with a failure is handed the event again, and once it went well no more", async () => {
    await using house = await withAgents({
      "moody.ts": `import { WebhookAgent } from "gatehouse";
        export class Moody extends WebhookAgent {
          async onEvent() { const runs = (this.state.runs ?? 0) + 1; this.setState({ ...this.state, runs }); return new Response("run " + runs, { status: runs === 1 ? 503 : 200 }); }
        }`,
    });
    const facts = { source: "generic", verdict: "ok", id: "m1", type: "x" };
    const headers: [string, string][] = [["content-type", "application/json"]];
    const deliver = async () => {
      const body = new TextEncoder().encode("{}");
      const answer = await house.parts.agents.deliver("moody", "x", {
        method: "POST",
        url: "http://x/",
        headers,
        body,
        facts,
      });
      return [answer.status, Buffer.from(answer.body).toString()];
    };
    expect(await deliver()).toEqual([503, "run 1"]);
    expect(await deliver()).toEqual([200, "run 2"]);
    expect(await deliver()).toEqual([200, '{"status":"duplicate"}']);
    expect((await eventsOf(house, "x", "moody")).length).toBe(1);
  });

  test("may queue heavy work and answer 202", async () => {
    await using house = await withAgents({
      "worker.ts": `import { WebhookAgent } from "gatehouse";
        export class Heavy extends WebhookAgent {
          async onEvent(event) { await this.queue("work", event.id); return new Response(null, { status: 202 }); }
          work(id) { this.setState({ ...this.state, worked: id }); }
        }`,
    });
    await house.api("PATCH", "/api/hooks/sources/generic", { class: "heavy" });
    expect((await sendGeneric(house, "/webhooks/x", "{}", { "x-delivery-id": "h1" })).status).toBe(202);
    while ((await house.api("GET", "/api/agents/heavy/x/state")).body.result.state.worked !== "h1") await Bun.sleep(10);
  });

  test("whose transaction is taken back has the state it had before", async () => {
    await using house = await withAgents({
      "undo.ts": `import { WebhookAgent } from "gatehouse";
        export class Undo extends WebhookAgent {
          async onEvent() {
            try {
              this.ctx.storage.transactionSync(() => {
                this.setState({ ...this.state, count: 99 });
                throw new Error("undo");
              });
            } catch {}
            return new Response(String(this.state.count));
          }
        }`,
    });
    await house.api("PATCH", "/api/hooks/sources/generic", { class: "undo" });
    expect((await sendGeneric(house, "/webhooks/x", "{}")).text).toBe("1");
    expect((await sendGeneric(house, "/webhooks/x", "{}")).text).toBe("2");
  });

  test("named WebhookAgent replaces the built-in", async () => {
    await using house = await withAgents({
      "mine.ts": `import { WebhookAgent as Base } from "gatehouse";
        export class WebhookAgent extends Base { onEvent() { return new Response("mine"); } }`,
    });
    expect((await sendGeneric(house, "/webhooks/x", "{}")).text).toBe("mine");
  });

  test("whose handler failed is given the same event again, stored and counted once", async () => {
    await using house = await withAgents({
      "flaky.ts": `import { WebhookAgent } from "gatehouse";
        export class Flaky extends WebhookAgent {
          onEvent(event) { if (event.attempt < 3) throw new Error("not yet"); this.setState({ ...this.state, done: event.attempt }); }
        }`,
    });
    await house.api("PATCH", "/api/hooks/sources/generic", { class: "flaky" });
    expect((await sendGeneric(house, "/webhooks/x", "{}", { "x-delivery-id": "f1" })).status).toBe(202);
    const state = async () => (await house.api("GET", "/api/agents/flaky/x/state")).body.result.state;
    while ((await state()).done !== 3) {
      house.parts.hooks.hasten(["flaky"]);
      await Bun.sleep(20);
    }
    expect(await state()).toMatchObject({ count: 1, done: 3 });
    expect((await eventsOf(house, "x", "flaky")).length).toBe(1);
  });
});
