// Deliveries over a real socket, through the journal's thread, into real agents. Refused ones first.
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { openJournalStore } from "../../src/hooks/journal-store.ts";
import { until } from "../support/agents.ts";
import { type House, tempFolder } from "../support/house.ts";
import {
  agentNames,
  eventsOf,
  HOOKS,
  SECRET,
  type Sent,
  send,
  sendGeneric,
  sendGithub,
  sign,
  startHookHouse,
} from "../support/webhooks.ts";
import { withAgents } from "../support/with-agents.ts";

const BODY = '{"entity":"nobody"}';
const json = { "content-type": "application/json" };
const WRONG = `sha256=${"0".repeat(64)}`;
const rows = async (house: House) => (await house.api("GET", "/api/hooks/deliveries")).body.result;
const rejections = async (house: House) => (await house.api("GET", "/api/hooks/rejections")).body.result;
const folderOf = (house: House) => join(house.folder, "data", "agents");

describe("what does not verify", () => {
  const CASES: [string, string, Record<string, string>][] = [
    ["no signature", "/webhooks/github", {}],
    ["an empty signature", "/webhooks/github", { "x-hub-signature-256": "" }],
    ["the bare prefix", "/webhooks/github", { "x-hub-signature-256": "sha256=" }],
    ["a wrong signature", "/webhooks/github", { "x-hub-signature-256": WRONG }],
    ["a truncated signature", "/webhooks/github", { "x-hub-signature-256": sign(BODY).slice(0, -1) }],
    [
      "an upper-case signature",
      "/webhooks/github",
      { "x-hub-signature-256": `sha256=${sign(BODY).slice(7).toUpperCase()}` },
    ],
    ["a doubled signature", "/webhooks/github", { "x-hub-signature-256": `${sign(BODY)}, ${sign(BODY)}` }],
    ["another body's signature", "/webhooks/github", { "x-hub-signature-256": sign(`${BODY}\n`) }],
    ["another secret's signature", "/webhooks/github", { "x-hub-signature-256": sign(BODY, "other") }],
    ["a source without a secret", "/webhooks/bitbucket", { "x-hub-signature": sign(BODY) }],
    ["an entity nobody knows", "/webhooks/no-such-entity", { "x-signature": WRONG }],
    ["an entity of ten thousand characters", `/webhooks/${"x".repeat(10_000)}`, { "x-signature": WRONG }],
    ["a token in the wrong place", "/webhooks/sonarr", { "x-token": SECRET }],
    ["a wrong token", "/webhooks/sonarr?token=wrong", {}],
    ["a wrong path token", "/webhooks/sonarr/x/wrong", {}],
    ["another sender's address", "/webhooks/gitea", { "x-hub-signature-256": sign(BODY, "github's secret") }],
  ];

  test("looks the same from outside, starts no thread, creates no file and stores nothing", async () => {
    await using house = await startHookHouse();
    const answers: Sent[] = [];
    for (const [, path, headers] of CASES)
      answers.push(await send(house, path, { body: BODY, headers: { ...json, ...headers } }));
    expect(answers.map(({ status }, index) => [CASES[index]?.[0], status])).toEqual(CASES.map(([name]) => [name, 401]));
    const shapes = answers.map(({ text, headers }) => {
      const { error } = JSON.parse(text);
      return JSON.stringify([error.code, error.message, headers.get("content-type"), headers.get("www-authenticate")]);
    });
    expect(new Set(shapes).size).toBe(1);
    expect(existsSync(folderOf(house)) ? readdirSync(folderOf(house)) : []).toEqual([]);
    expect(house.parts.agents.roster.threadCount).toBe(0);
    expect(await rows(house)).toEqual([]);
    const log = await rejections(house);
    expect(log.length).toBe(CASES.length);
    expect(JSON.stringify(log)).not.toContain(SECRET);
    expect(JSON.stringify(log)).not.toContain(sign(BODY).slice(7));
  });

  test("is logged with the stage that failed and what was wrong with it", async () => {
    await using house = await startHookHouse();
    await send(house, "/webhooks/github", { body: BODY });
    await send(house, "/webhooks/github", { body: BODY, headers: { "x-hub-signature-256": WRONG, cookie: "a=b" } });
    await send(house, "/webhooks/bitbucket", { body: BODY, headers: { "x-hub-signature": WRONG } });
    const log = await rejections(house);
    expect(
      log.map(({ source, stage, verdict, status }: Record<string, unknown>) => [source, stage, verdict, status]),
    ).toEqual([
      ["bitbucket", "verify", "no secret is set", 401],
      ["github", "verify", "mismatch", 401],
      ["github", "credential", "missing", 401],
    ]);
    const headers = Object.fromEntries(log[1].headers);
    expect([headers["x-hub-signature-256"], headers.cookie]).toEqual(["[71 characters]", "[3 characters]"]);
    await send(house, "/webhooks/bitbucket", { body: BODY, headers: { "x-hub-signature": sign(BODY) } });
    const warnings = house.logged.filter(({ event }) => event === "hook.no_secret");
    expect(warnings.map(({ source }) => source)).toEqual(["bitbucket"]); // once a minute, however many come
    expect(String(warnings[0]?.message)).toContain("BITBUCKET_WEBHOOK_SECRET");
  });
});

describe("what is refused otherwise stores nothing either", () => {
  test("unknown routes are 404, other methods 405", async () => {
    await using house = await startHookHouse();
    for (const path of ["/webhooks", "/webhooks/", "/webhooks/nosource/x", "/webhooks/github/a/b/c", "/webhooks//x"]) {
      expect([path, (await sendGeneric(house, path, BODY)).status]).toEqual([path, 404]);
    }
    for (const method of ["GET", "PUT", "DELETE", "PATCH"]) {
      const answer = await send(house, "/webhooks/github", { method });
      expect([method, answer.status, answer.headers.get("allow")]).toEqual([method, 405, "POST"]);
    }
    expect(await rows(house)).toEqual([]);
  });

  const BAD: [string, string, string | Uint8Array<ArrayBuffer>][] = [
    ["broken JSON", "/webhooks/generic", '{"entity":'],
    ["an empty body", "/webhooks/generic", ""],
    ["invalid UTF-8", "/webhooks/generic", Uint8Array.of(0x7b, 0xff, 0x7d)],
    ["deep JSON", "/webhooks/generic", `${"[".repeat(100_000)}${"]".repeat(100_000)}`],
    ["no entity", "/webhooks/generic", "{}"],
    ["an entity that is an object", "/webhooks/generic", '{"entity":{"a":1}}'],
    ["an entity of 129 characters", "/webhooks/generic", `{"entity":"${"x".repeat(129)}"}`],
    ["ten thousand characters in the path", `/webhooks/${"x".repeat(10_000)}`, "{}"],
    ["a bad escape", "/webhooks/%zz", "{}"],
    ["half an escape", "/webhooks/generic/%e2%82", "{}"],
  ];
  test("invalid payloads and entities are 400", async () => {
    await using house = await startHookHouse();
    for (const [name, path, body] of BAD)
      expect([name, (await sendGeneric(house, path, body)).status]).toEqual([name, 400]);
    expect(await rows(house)).toEqual([]);
    expect(house.parts.agents.roster.threadCount).toBe(0);
    const stages = (await rejections(house)).map(({ stage }: { stage: string }) => stage);
    expect(stages.reverse()).toEqual([
      "payload",
      "payload",
      "payload",
      "payload",
      "entity",
      "entity",
      "entity",
      "entity",
    ]);
  });

  test("a body at the limit passes, one byte more is 413, declared or not", async () => {
    await using house = await startHookHouse({ settings: { hooks: { ...HOOKS, max_body_bytes: 100_000 } } });
    const sized = (bytes: number) => JSON.stringify({ a: "x".repeat(bytes - 8) });
    expect(sized(100_000).length).toBe(100_000);
    expect((await sendGeneric(house, "/webhooks/big", sized(100_000))).status).toBe(200);
    expect((await sendGeneric(house, "/webhooks/big", sized(100_001))).status).toBe(413);
    const body = sized(100_001);
    const chunked = await send(house, "/webhooks/big", {
      body: new Blob([body]).stream(),
      headers: { ...json, "x-signature": sign(body) },
    });
    expect(chunked.status).toBe(413);
    expect((await eventsOf(house, "big")).length).toBe(1);
  });

  test("26 MiB pass by default and one byte more does not", async () => {
    await using house = await startHookHouse();
    const sized = (bytes: number) => JSON.stringify({ a: "x".repeat(bytes - 8) });
    expect((await sendGeneric(house, "/webhooks/big", sized(26 * 1024 * 1024 + 1))).status).toBe(413);
    expect((await sendGeneric(house, "/webhooks/big", sized(26 * 1024 * 1024))).status).toBeLessThan(300);
  });

  test("strangers who announce bodies and never send them shut nobody out", async () => {
    await using house = await startHookHouse();
    const { hostname, port } = new URL(house.url);
    const head = (length: number) =>
      `POST /webhooks/x HTTP/1.1\r\nHost: ${hostname}\r\nX-Signature: ${WRONG}\r\nContent-Length: ${length}\r\n\r\n{`;
    const MIB = 1024 * 1024;
    const socket = { data() {} };
    const lengths = [...Array.from({ length: 9 }, () => 26 * MIB), 22 * MIB - 30, 20]; // all that may be read at a time
    const strangers = await Promise.all(
      lengths.map(async (length) => {
        const stranger = await Bun.connect({ hostname, port: Number(port), socket });
        stranger.write(head(length));
        return stranger;
      }),
    );
    for (let attempt = 0; attempt < 20; attempt++)
      expect((await sendGeneric(house, "/webhooks/healthy", BODY)).status).toBe(200);
    for (const stranger of strangers) stranger.end();
  });

  test("with verification off a foreign page or host name is still refused", async () => {
    await using house = await startHookHouse();
    await house.api("PATCH", "/api/hooks/sources/generic", { verify: "none" });
    const from = (headers: Record<string, string>) =>
      send(house, "/webhooks/open", { body: "{}", headers: { ...json, ...headers } });
    expect((await from({ origin: "https://evil.example" })).status).toBe(403);
    expect((await from({ host: "evil.example" })).status).toBe(403);
    expect((await from({})).status).toBe(200);
  });
});

describe("when the journal is full", () => {
  test("one that cannot be opened is 503, and deliveries pass as soon as it can", async () => {
    const folder = tempFolder();
    const path = join(folder, "data", "journal.db");
    await Bun.write(path, "no database".repeat(200));
    await using house = await startHookHouse({ folder });
    expect((await sendGithub(house, "a/b")).status).toBe(503);
    rmSync(path);
    await until(async () => (await sendGithub(house, "a/b", { id: "after" })).status !== 503);
    expect(await agentNames(house)).toEqual(["a-b"]);
  });

  test("bodies under way hold no more memory than they may, and give it back", async () => {
    await using house = await startHookHouse();
    const [bytes, most] = [64 * 1024, 4_096]; // announced by each, and how many of them are all there may be
    const uploads: ReadableStreamDefaultController<Uint8Array>[] = [];
    const begin = () => {
      const body = new ReadableStream<Uint8Array>({ start: (controller) => void uploads.push(controller) });
      const headers = { "content-length": String(bytes), "x-signature": WRONG };
      return house.parts.hooks
        .receive(new Request("http://localhost/webhooks/x", { method: "POST", body, headers }))
        .catch((error) => error.code);
    };
    const answers = Array.from({ length: most }, begin);
    expect(await begin()).toBe("hook.full");
    uploads[0]?.close();
    expect(await answers[0]).toBe("hook.rejected");
    const next = begin();
    for (const upload of uploads.slice(1)) upload.close();
    expect(await next).toBe("hook.rejected");
    await Promise.all(answers);
  });

  test("503 with Retry-After, nothing stored; finished deliveries make room again", async () => {
    await using house = await startHookHouse({ settings: { hooks: { ...HOOKS, journal_bytes: 2_000 } } });
    await house.api("POST", "/api/hooks/sources/generic/pause");
    const body = JSON.stringify({ a: "x".repeat(900) });
    expect([
      (await sendGeneric(house, "/webhooks/x", body)).status,
      (await sendGeneric(house, "/webhooks/x", body)).status,
    ]).toEqual([202, 202]);
    const full = await sendGeneric(house, "/webhooks/x", body);
    expect([full.status, full.headers.get("retry-after"), JSON.parse(full.text).error.code]).toEqual([
      503,
      "30",
      "hook.full",
    ]);
    expect((await rows(house)).length).toBe(2);
    await house.api("POST", "/api/hooks/sources/generic/resume");
    await until(async () => (await rows(house)).every((row: Record<string, unknown>) => row.status === "done"));
    expect((await sendGeneric(house, "/webhooks/x", body)).status).toBe(200);
  });
});

describe("a release that knows more senders", () => {
  test("leaves a segment to the entity it was, until somebody sets that sender up", async () => {
    const folder = tempFolder();
    const store = openJournalStore(join(folder, "data", "journal.db"), { bytesMax: 1e9, ageMsMax: 1e9 });
    store.db.run("insert into entity_routes values ('forgejo')");
    store.close();
    await using house = await startHookHouse({ folder });
    expect((await sendGeneric(house, "/webhooks/Forgejo", "{}")).status).toBe(200);
    expect(await agentNames(house)).toEqual(["forgejo"]);
    await house.api("PUT", "/api/hooks/sources/forgejo/secret", { secret: "a secret with spaces" });
    expect((await sendGeneric(house, "/webhooks/forgejo", "{}")).status).toBe(401);
  });
});

describe("routing", () => {
  test("the entity is the second segment, the third, or in the payload; sanitized, and one agent each", async () => {
    await using house = await startHookHouse();
    const names = async (path: string, body = "{}") => {
      expect((await sendGeneric(house, path, body)).status).toBe(200);
    };
    await names("/webhooks/Device-7");
    await names("/webhooks/generic/device-7");
    await names("/webhooks/GENERIC/device-7/");
    await names("/webhooks/generic", '{"repository":{"full_name":"Device-7"}}');
    expect((await eventsOf(house, "device-7")).length).toBe(4);
    await names("/webhooks/generic/acme%2Fweb");
    await names("/webhooks/generic", '{"entity":"ACME/Web"}');
    expect((await eventsOf(house, "acme-web")).length).toBe(2);
    await names("/webhooks/generic/acme%20web");
    await names("/webhooks/generic/a%252Fb"); // decoded once
    await names("/webhooks/CON");
    const found = await agentNames(house);
    expect(found.filter((name) => !/^acme-web-[0-9a-f]{8}$/.test(name))).toEqual([
      "a-2fb",
      "acme-web",
      "con",
      "device-7",
    ]);
    expect(found.length).toBe(5);
  });

  test("dots and slashes name agents, never paths", async () => {
    await using house = await startHookHouse();
    for (const entity of ["..", ".", "../../etc/passwd", "a/../b", "nul", "COM1"]) {
      expect((await sendGeneric(house, "/webhooks/generic", JSON.stringify({ entity }))).status).toBe(200);
    }
    expect((await agentNames(house)).sort()).toEqual(["-", "--", "..-..-etc-passwd", "a-..-b", "com1", "nul"]);
  });

  test("the agent gets the request as it was sent, without our credentials", async () => {
    await using house = await withAgents({
      "echo.ts": `import { Agent } from "gatehouse";
        export class Echo extends Agent {
          async onRequest(request) {
            return Response.json({ method: request.method, url: request.url, headers: [...request.headers], body: await request.text(),
              facts: this.delivery, env: Object.keys(this.env) }, { status: 201, headers: { "x-mine": "yes", "set-cookie": "a=b" } });
          }
        }`,
    });
    await house.api("PATCH", "/api/hooks/sources/sonarr", { class: "echo" });
    const body = '{"eventType":"Grab",  "series":{"id":12,"title":"É"}}';
    const sent = await send(house, `/webhooks/sonarr?token=${SECRET}&a=1`, {
      body,
      headers: { ...json, "x-other": "kept", cookie: "gatehouse=1" },
    });
    expect([sent.status, sent.headers.get("x-mine"), sent.headers.get("set-cookie")]).toEqual([201, "yes", null]);
    const seen = JSON.parse(sent.text);
    expect([seen.method, seen.body, new URL(seen.url).pathname + new URL(seen.url).search]).toEqual([
      "POST",
      body,
      "/webhooks/sonarr?a=1",
    ]);
    const headers = new Headers(seen.headers);
    expect([headers.get("x-other"), headers.get("cookie"), headers.get("authorization")]).toEqual(["kept", null, null]);
    expect(seen.facts).toMatchObject({
      source: "sonarr",
      verdict: "ok",
      type: "Grab",
      title: "É",
      attempt: 1,
      replay: false,
    });
    expect(seen.env).toContain("SONARR_WEBHOOK_SECRET");
    expect(await agentNames(house, "echo")).toEqual(["sonarr-12"]);
    const put = await send(house, `/webhooks/sonarr/den/${SECRET}`, { method: "PUT", body, headers: json });
    expect([put.status, JSON.parse(put.text).url.endsWith("/webhooks/sonarr/den")]).toEqual([201, true]);
  });
});

test("a source that takes GET reads the query, without the token in it", async () => {
  await using house = await startHookHouse({ env: { HOME_ASSISTANT_WEBHOOK_SECRET: SECRET } });
  const path = `/webhooks/home-assistant?entity_id=light.kitchen&state=on&token=${SECRET}`;
  expect((await send(house, path, { method: "GET" })).status).toBe(405);
  await house.api("PATCH", "/api/hooks/sources/home-assistant", { methods: ["POST", "GET"] });
  expect((await send(house, path.replace(SECRET, "wrong"), { method: "GET" })).status).toBe(401);
  expect((await send(house, path, { method: "GET" })).status).toBe(200);
  const [event] = await eventsOf(house, "light.kitchen");
  expect(JSON.parse(event?.payload ?? "")).toEqual({ entity_id: "light.kitchen", state: "on" });
});

describe("duplicates", () => {
  test("fifty copies at once are one event, and all are answered 200", async () => {
    await using house = await startHookHouse();
    const answers = await Promise.all(Array.from({ length: 50 }, () => sendGithub(house, "a/b", { id: "same" })));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 50 }, () => 200));
    expect((await eventsOf(house, "a-b")).map(({ id }) => id)).toEqual(["same"]);
    const { body } = await house.api("GET", "/api/agents/webhook-agent/a-b/state");
    expect(body.result.state.count).toBe(1);
    expect((await rows(house)).length).toBe(1);
  });

  test("where a timestamp is signed a recorded delivery is a duplicate, whatever is added to the list of signatures", async () => {
    await using house = await startHookHouse({ env: { TAILSCALE_WEBHOOK_SECRET: SECRET } });
    const body = '[{"type":"nodeCreated","tailnet":"example.com"}]';
    const at = Math.floor(Date.now() / 1000);
    const signature = `t=${at},v1=${sign(`${at}.${body}`).slice(7)}`;
    const forged = "0".repeat(64);
    for (const header of [signature, `${signature},v9=x`, `v1=${forged},${signature}`]) {
      const headers = { ...json, "tailscale-webhook-signature": header };
      expect((await send(house, "/webhooks/tailscale", { body, headers })).status).toBe(200);
    }
    expect((await eventsOf(house, "example.com")).length).toBe(1);
    const later = `t=${at - 1},v1=${sign(`${at - 1}.${body}`).slice(7)}`;
    await send(house, "/webhooks/tailscale", { body, headers: { ...json, "tailscale-webhook-signature": later } });
    expect((await eventsOf(house, "example.com")).length).toBe(2);
  });

  test("without an id equal deliveries are events of their own, unless the source counts equal bodies as one", async () => {
    await using house = await startHookHouse();
    for (let press = 0; press < 2; press++) await sendGeneric(house, "/webhooks/button", "{}");
    expect((await eventsOf(house, "button")).length).toBe(2);
    await house.api("PATCH", "/api/hooks/sources/generic", { dedupe_body_seconds: 60 });
    for (let press = 0; press < 3; press++) await sendGeneric(house, "/webhooks/bell", "{}");
    expect((await eventsOf(house, "bell")).length).toBe(1);
  });
});

test("an array larger than there is room for is answered 202 and all of it is delivered", async () => {
  await using house = await startHookHouse();
  const alerts = Array.from({ length: 1_200 }, (_, index) => ({ status: "firing", fingerprint: `f${index % 4}` }));
  const headers = { ...json, authorization: `Bearer ${SECRET}` };
  const answer = await send(house, "/webhooks/alertmanager", { body: JSON.stringify({ alerts }), headers });
  expect(answer.status).toBe(202);
  await until(
    async () => (await house.api("GET", "/api/hooks/deliveries?status=pending&limit=1")).body.result.length === 0,
  );
  const counts = await Promise.all(
    [0, 1, 2, 3].map((n) => house.api("GET", `/api/agents/webhook-agent/alertmanager-f${n}/state`)),
  );
  expect(counts.map(({ body }) => body.result.state.count)).toEqual([300, 300, 300, 300]);
}, 60_000);

describe("answers", () => {
  const AGENTS = {
    "moody.ts": `import { WebhookAgent } from "gatehouse";
      export class Moody extends WebhookAgent {
        async onEvent(event) {
          const { mood } = event.payload;
          this.sql\`create table if not exists runs (id text, attempt integer)\`;
          this.sql\`insert into runs values (\${event.id}, \${event.attempt})\`;
          if (mood === "slow") await new Promise((resolve) => setTimeout(resolve, 1_000));
          if (mood === "throw once" && event.attempt === 1) throw new Error("not now");
          if (mood === "500") return new Response("no", { status: 500 });
          if (mood === "404") return new Response("nobody here", { status: 404 });
          if (mood === "twiml") return new Response("<Response/>", { headers: { "content-type": "text/xml" } });
        }
      }`,
  };

  test("an agent's own answer reaches the sender, one of 500 or a throw is 202 and tried again", async () => {
    await using house = await withAgents(AGENTS);
    await house.api("PATCH", "/api/hooks/sources/generic", { class: "moody", ack_ms: 30_000 });
    const mood = (text: string) =>
      sendGeneric(house, "/webhooks/m", JSON.stringify({ mood: text }), { "x-delivery-id": text });
    const twiml = await mood("twiml");
    expect([twiml.status, twiml.text, twiml.headers.get("content-type")]).toEqual([200, "<Response/>", "text/xml"]);
    expect((await mood("404")).status).toBe(404);
    expect([(await mood("500")).status, (await mood("throw once")).status]).toEqual([202, 202]);
    await house.api("PATCH", "/api/hooks/sources/generic", { ack_ms: 50 });
    expect((await mood("slow")).status).toBe(202);
    await until(
      async () =>
        (await rows(house)).find((row: Record<string, unknown>) => row.delivery_id === "slow")?.status === "done",
    );
    const byId = Object.fromEntries(
      (await rows(house)).map((row: Record<string, unknown>) => [
        row.delivery_id,
        [row.status, row.attempts, row.answer],
      ]),
    );
    expect(byId).toEqual({
      twiml: ["done", 1, 200],
      "404": ["done", 1, 404],
      "500": ["pending", 1, 500],
      "throw once": ["pending", 1, null],
      slow: ["done", 1, 200],
    });
    await house.parts.hooks.journal.ask("hasten", { className: "moody", nowMs: Date.now() });
    await house.parts.hooks.dispatch.pump();
    await until(
      async () =>
        (await rows(house)).find((row: Record<string, unknown>) => row.delivery_id === "throw once")?.status === "done",
    );
    expect((await eventsOf(house, "m", "moody")).map(({ id }) => id).sort()).toEqual([
      "404",
      "500",
      "slow",
      "throw once",
      "twiml",
    ]);
  });

  test("handshakes are answered after verification, and wake nobody", async () => {
    await using house = await startHookHouse();
    expect((await sendGithub(house, "a/b", { event: "ping" })).text).toBe('{"ok":true}');
    const test = await send(house, `/webhooks/sonarr?token=${SECRET}`, { body: '{"eventType":"Test"}', headers: json });
    expect([test.status, test.text]).toEqual([200, '{"ok":true}']);
    expect(
      (await send(house, "/webhooks/sonarr?token=wrong", { body: '{"eventType":"Test"}', headers: json })).status,
    ).toBe(401);
    expect(await rows(house)).toEqual([]);
    expect(house.parts.agents.roster.threadCount).toBe(0);
  });

  test("an array becomes one delivery for each member, all or none of them", async () => {
    await using house = await startHookHouse();
    const alert = (fingerprint: string | null) => ({
      status: "firing",
      fingerprint,
      labels: { alertname: `Alert ${fingerprint}` },
    });
    const post = (alerts: unknown[]) =>
      send(house, "/webhooks/alertmanager", {
        body: JSON.stringify({ version: "4", alerts }),
        headers: { ...json, authorization: `Bearer ${SECRET}` },
      });
    expect((await post([alert("a1"), alert(null)])).status).toBe(400);
    expect(await rows(house)).toEqual([]);
    const answer = await post([alert("a1"), alert("b2")]);
    expect([answer.status, JSON.parse(answer.text)]).toEqual([200, { status: "done", count: 2 }]);
    expect(await agentNames(house)).toEqual(["alertmanager-a1", "alertmanager-b2"]);
    const [event] = await eventsOf(house, "alertmanager-b2");
    expect([event?.type, event?.title, JSON.parse(event?.payload ?? "")]).toEqual([
      "firing",
      "Alert b2",
      { version: "4", alerts: [alert("b2")] },
    ]);
    expect((await post([])).status).toBe(200);
  });

  test("members are told apart by their place when the sender names the whole", async () => {
    await using house = await startHookHouse();
    await house.api("PATCH", "/api/hooks/sources/docker-registry", { ack_ms: 10_000 }); // its own 300 ms are for real ones
    const events = ["push", "pull"].map((action) => ({ id: "e1", action, target: { repository: "lib/app" } }));
    const post = () =>
      send(house, "/webhooks/docker-registry", {
        body: JSON.stringify({ events }),
        headers: {
          "content-type": "application/vnd.docker.distribution.events.v2+json",
          authorization: `Bearer ${SECRET}`,
        },
      });
    expect([(await post()).status, (await post()).status]).toEqual([200, 200]);
    expect((await eventsOf(house, "lib-app")).map(({ id }) => id).sort()).toEqual(["e1#0", "e1#1"]);
  });

  test("a paused source stores and holds; resuming delivers", async () => {
    await using house = await startHookHouse();
    await house.api("POST", "/api/hooks/sources/github/pause");
    expect((await sendGithub(house, "a/b")).status).toBe(202);
    expect((await rows(house)).map((row: Record<string, unknown>) => row.status)).toEqual(["held"]);
    expect(house.parts.agents.roster.threadCount).toBe(0);
    await house.api("POST", "/api/hooks/sources/github/resume");
    await until(async () => (await rows(house))[0]?.status === "done");
    expect((await eventsOf(house, "a-b")).length).toBe(1);
  });

  test.each([
    ["PATCH", { paused: false }],
    ["DELETE", undefined],
  ])("whatever ends a pause delivers what was held: %s", async (method, body) => {
    await using house = await startHookHouse();
    await house.api("POST", "/api/hooks/sources/github/pause");
    expect((await sendGithub(house, "a/b")).status).toBe(202);
    expect((await house.api(method, "/api/hooks/sources/github", body)).status).toBe(200);
    await until(async () => (await rows(house))[0]?.status === "done");
  });

  test("a delivery that is being read when the pause ends is not held for ever", async () => {
    await using house = await startHookHouse();
    await house.api("POST", "/api/hooks/sources/generic/pause");
    const body = new TextEncoder().encode('{"a":1}');
    const [reading, resumed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const upload = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          reading.resolve();
          await resumed.promise;
          controller.enqueue(body);
          controller.close();
        },
      },
      { highWaterMark: 0 },
    );
    const request = new Request("http://localhost/webhooks/x", {
      method: "POST",
      body: upload,
      headers: { ...json, "x-signature": sign(body) },
    });
    const answer = house.parts.hooks.receive(request);
    await reading.promise;
    await house.api("POST", "/api/hooks/sources/generic/resume");
    resumed.resolve();
    expect((await answer).status).toBe(202);
    await until(async () => (await rows(house))[0]?.status === "done");
  });
});
