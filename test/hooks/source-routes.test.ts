// Sources, secrets, deliveries and explanations over the API. Refused callers first.
import { describe, expect, test } from "bun:test";
import { PRESET_NAMES } from "../../src/hooks/presets.ts";
import { until } from "../support/agents.ts";
import type { House } from "../support/house.ts";
import {
  agentNames,
  eventsOf,
  SECRET,
  send,
  sendGeneric,
  sendGithub,
  sign,
  startHookHouse,
} from "../support/webhooks.ts";

const base = "/api/hooks";

describe("who may", () => {
  const READS = [
    "/presets",
    "/sources",
    "/sources/github",
    "/deliveries",
    "/deliveries/x",
    "/deliveries/x/curl",
    "/rejections",
    "/tail",
  ];
  const WRITES: [string, string, unknown?][] = [
    ["POST", "/sources", { name: "mine", preset: "github" }],
    ["PATCH", "/sources/github", { class: "mine" }],
    ["DELETE", "/sources/github"],
    ["PUT", "/sources/github/secret", { secret: "12345678" }],
    ["POST", "/sources/github/secret/rotate"],
    ["DELETE", "/sources/github/secret"],
    ["POST", "/sources/github/pause"],
    ["POST", "/sources/github/test"],
    ["POST", "/deliveries/x/replay"],
    ["DELETE", "/deliveries/x"],
    ["POST", "/replay", { ids: ["x"] }],
    ["POST", "/explain", { method: "POST", path: "/", headers: [], body_base64: "" }],
  ];

  test("nobody without a token, nobody with another permission, and readers only look", async () => {
    await using house = await startHookHouse();
    const reader = house.token(["agents:read"]);
    const stranger = house.token(["tags:edit", "gateway:edit"]);
    const limited = house.token(["agents:edit"], { agentClass: "webhook-agent", agentName: "a" });
    for (const [method, path, body] of [
      ...READS.map((path) => ["GET", path] as [string, string, unknown?]),
      ...WRITES,
    ]) {
      const status = async (token: string) => (await house.api(method, base + path, body, token)).status;
      expect([method, path, await status("gh_wrong")]).toEqual([method, path, 401]);
      expect([method, path, await status(stranger), await status(limited)]).toEqual([method, path, 403, 403]);
      if (method !== "GET") expect([method, path, await status(reader)]).toEqual([method, path, 403]);
    }
    expect((await house.api("GET", `${base}/sources`, undefined, reader)).status).toBe(200);
  });
});

describe("sources", () => {
  test("wrong input is refused with the field's name, and nothing changes", async () => {
    await using house = await startHookHouse();
    const create = async (body: object) =>
      (await house.api("POST", `${base}/sources`, { name: "mine", preset: "github", ...body })).status;
    for (const wrong of [
      { name: "UPPER" },
      { name: "a/b" },
      { preset: "nobody" },
      { class: "No Class" },
      { verify: "maybe" },
      { verify: [] },
      { verify: [{ kind: "signature", header: "x" }] },
      { verify: [{ kind: "address", ranges: ["nonsense"] }] },
      { entity: ["{half"] },
      { ack_ms: 1 },
      { unknown: 1 },
    ]) {
      expect([wrong, await create(wrong)]).toEqual([wrong, 400]);
    }
    expect(await create({ name: "github" })).toBe(409);
    expect((await house.api("GET", `${base}/sources/mine`)).status).toBe(404);
    expect((await house.api("PATCH", `${base}/sources/nobody`, { paused: true })).status).toBe(404);
  });

  test("a second source of a preset has its own secret, class and rules", async () => {
    await using house = await startHookHouse();
    await house.api("POST", `${base}/sources`, {
      name: "work-github",
      preset: "github",
      entity: ["work-{repository.id}"],
    });
    await house.api("PUT", `${base}/sources/work-github/secret`, { secret: "another-secret" });
    const body = '{"repository":{"id":5,"full_name":"a/b"}}';
    const post = (secret: string) =>
      send(house, "/webhooks/Work-GitHub", {
        body,
        headers: { "content-type": "application/json", "x-hub-signature-256": sign(body, secret) },
      });
    expect([(await post(SECRET)).status, (await post("another-secret")).status]).toEqual([401, 200]);
    expect(await agentNames(house)).toEqual(["work-5"]);
    const { body: shown } = await house.api("GET", `${base}/sources/work-github`);
    expect(shown.result).toMatchObject({ built_in: false, label: "GitHub", counters: { done: 1, rejected: 1 } });
    expect((await house.api("DELETE", `${base}/sources/work-github`)).status).toBe(200);
    expect((await post("another-secret")).status).toBe(401); // now an entity of the generic source
  });

  test("a template of one's own verifies a sender we do not know", async () => {
    await using house = await startHookHouse();
    const { createHmac } = await import("node:crypto");
    await house.api("POST", `${base}/sources`, {
      name: "paddle",
      preset: "generic",
      entity: ["{data.customer_id}"],
      verify: [
        {
          kind: "signature",
          header: "Paddle-Signature",
          algorithm: "sha256",
          encoding: "hex",
          key: "text",
          prefix: "h1=",
          separator: ";",
          stamp: { from: "item", name: "ts", format: "seconds", toleranceMs: 60_000 },
          signed: "{timestamp}:{body}",
        },
      ],
    });
    await house.api("PUT", `${base}/sources/paddle/secret`, { secret: "pdl_secret" });
    const body = '{"data":{"customer_id":"ctm_1"}}';
    const post = (at: number) => {
      const mac = createHmac("sha256", "pdl_secret").update(`${at}:${body}`).digest("hex");
      return send(house, "/webhooks/paddle", { body, headers: { "paddle-signature": `ts=${at};h1=${mac}` } });
    };
    const now = Math.floor(Date.now() / 1000);
    expect([(await post(now - 120)).status, (await post(now)).status]).toEqual([401, 200]);
    expect((await post(now)).text).toContain("duplicate"); // the signed time makes the signature an id
  });

  test("deleting a built-in source undoes its changes and forgets its secret", async () => {
    await using house = await startHookHouse();
    const changed = await house.api("PATCH", `${base}/sources/bitbucket`, { class: "mine", ordered: true });
    expect(changed.body.result.warnings.at(-1)).toBe(
      "There is no agent class mine that loads: deliveries are kept until there is one.",
    );
    await house.api("PUT", `${base}/sources/bitbucket/secret`, { secret: "another-secret" });
    await house.api("DELETE", `${base}/sources/bitbucket`);
    const { body } = await house.api("GET", `${base}/sources/bitbucket`);
    expect(body.result).toMatchObject({ class: "webhook-agent", ordered: false, secrets: [] });
    expect(body.result.warnings).toEqual([expect.stringContaining("BITBUCKET_WEBHOOK_SECRET")]);
  });
});

describe("secrets", () => {
  test("are never shown again, not even to an admin, nor stored in the clear", async () => {
    await using house = await startHookHouse();
    const made = await house.api("PUT", `${base}/sources/bitbucket/secret`);
    expect(made.body.result.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(
      (await house.api("PUT", `${base}/sources/bitbucket/secret`, { secret: "my-own-secret" })).body.result.secret,
    ).toBeNull();
    for (const path of ["/sources", "/sources/bitbucket"]) {
      expect(JSON.stringify((await house.api("GET", base + path)).body)).not.toContain("my-own-secret");
    }
    const { Database } = await import("bun:sqlite");
    const db = new Database(`${house.folder}/data/hooks.db`, { readonly: true });
    const dump = db.query<{ sealed: Uint8Array }, []>("select sealed from source_secrets").all();
    db.close();
    expect(dump.map(({ sealed }) => Buffer.from(sealed).includes("my-own-secret"))).toEqual([false]);
    expect(JSON.stringify(house.logged)).not.toContain("my-own-secret");
  });

  test("rotation keeps the old one for the overlap, setting replaces it at once", async () => {
    let now = Date.now();
    await using house = await startHookHouse({ now: () => now });
    const body = '{"repository":{"full_name":"a/b"}}';
    // Whether it was let in; the clock leaps here, which an agent takes for a long sleep and the answer may be 202.
    const post = async (secret: string) =>
      (
        await send(house, "/webhooks/bitbucket", {
          body,
          headers: { "content-type": "application/json", "x-hub-signature": sign(body, secret) },
        })
      ).status < 300;
    await house.api("PUT", `${base}/sources/bitbucket/secret`, { secret: "first-one" });
    await house.api("POST", `${base}/sources/bitbucket/secret/rotate`, { secret: "second-one", overlap_seconds: 60 });
    expect([await post("first-one"), await post("second-one")]).toEqual([true, true]);
    now += 59_999;
    expect(await post("first-one")).toBe(true);
    now += 1;
    expect([await post("first-one"), await post("second-one")]).toEqual([false, true]);
    await house.api("PUT", `${base}/sources/bitbucket/secret`, { secret: "third-one" });
    expect([await post("second-one"), await post("third-one")]).toEqual([false, true]);
    await house.api("DELETE", `${base}/sources/bitbucket/secret`);
    expect(await post("third-one")).toBe(false);
  });
});

describe("samples", () => {
  const names = PRESET_NAMES;

  test("every preset's sample passes its own verification and reaches an agent", async () => {
    await using house = await startHookHouse({ settings: { public_url: "https://pi.example.org" } });
    for (const name of names.filter((one) => one !== "discord")) {
      await house.api("PUT", `${base}/sources/${name}/secret`, {});
      const { status, body } = await house.api("POST", `${base}/sources/${name}/test`);
      expect([name, status]).toEqual([name, 200]);
      expect([name, [200, 202].includes(body.result.status)]).toEqual([name, true]); // some senders wait 300 ms only
    }
    await until(async () => (await house.api("GET", `${base}/deliveries?status=pending`)).body.result.length === 0);
    const { body } = await house.api("GET", `${base}/deliveries?limit=100`);
    expect(new Set(body.result.map(({ source }: { source: string }) => source)).size).toBe(names.length - 1);
    for (const { source, title, type } of body.result)
      expect([source, title === "", type]).not.toEqual([source, true, "unknown"]);
  }, 60_000);

  test("an entity that the sample cannot carry goes into the address; a source that takes no body says so", async () => {
    await using house = await startHookHouse();
    const change = (body: object) => house.api("PATCH", `${base}/sources/generic`, body);
    const attempt = () => house.api("POST", `${base}/sources/generic/test`, { entity: "ctm/1" });
    await change({ entity: ["{data.customer_id}"] });
    expect((await attempt()).body.result).toMatchObject({ status: 200, path: "/webhooks/generic/ctm%2F1" });
    expect(await agentNames(house)).toEqual(["ctm-1"]);
    await change({ methods: ["GET", "PUT"] });
    expect((await attempt()).body.result.status).toBe(200);
    await change({ methods: ["GET"] });
    const refused = await attempt();
    expect([refused.status, refused.body.errors[0].message]).toEqual([400, expect.stringContaining("GET")]);
  });

  test("the entity asked for is the one reached; without a secret, and for a private key, it says why not", async () => {
    await using house = await startHookHouse();
    await house.api("POST", `${base}/sources/github/test`, { entity: "Acme/Web" });
    expect(await agentNames(house)).toEqual(["acme-web"]);
    const refused = async (name: string) =>
      (await house.api("POST", `${base}/sources/${name}/test`)).body.errors[0].message;
    expect(await refused("bitbucket")).toContain("no secret");
    await house.api("PUT", `${base}/sources/discord/secret`, { secret: "ab".repeat(32) });
    expect(await refused("discord")).toContain("private key");
    await house.api("PUT", `${base}/sources/twilio/secret`, {});
    expect(await refused("twilio")).toContain("public_url");
  });
});

describe("deliveries", () => {
  test("are listed newest first, by filter and page", async () => {
    await using house = await startHookHouse();
    for (let index = 0; index < 5; index++) await sendGithub(house, `a/${index}`, { id: `d-${index}` });
    await sendGeneric(house, "/webhooks/x", "{}");
    const list = async (query: string) => (await house.api("GET", `${base}/deliveries?${query}`)).body;
    const first = await list("source=github&limit=2");
    expect(first.result.map((row: Record<string, unknown>) => row.delivery_id)).toEqual(["d-4", "d-3"]);
    const second = await list(`source=github&limit=4&cursor=${first.result_info.cursor}`);
    expect([second.result.map((row: Record<string, unknown>) => row.delivery_id), second.result_info.cursor]).toEqual([
      ["d-2", "d-1", "d-0"],
      null,
    ]);
    expect((await list("agent=a-3")).result).toMatchObject([
      { entity: "a/3", agent: "a-3", class: "webhook-agent", status: "done", attempts: 1, answer: 200 },
    ]);
    expect((await list("status=dead")).result).toEqual([]);
    expect((await house.api("GET", `${base}/deliveries?status=nonsense`)).status).toBe(400);
  });

  test("one shows its headers and body, and becomes a curl command that sends the same bytes", async () => {
    await using house = await startHookHouse();
    const body = '{"entity":"o\'brien","text":"line\\nbreak ✓"}';
    await sendGeneric(house, "/webhooks/generic", body, { "x-delivery-id": "c1", authorization: "Basic c2VjcmV0" });
    const [row] = (await house.api("GET", `${base}/deliveries`)).body.result;
    const { result } = (await house.api("GET", `${base}/deliveries/${row.id}`)).body;
    expect(Buffer.from(result.body_base64, "base64").toString()).toBe(body);
    expect(result.headers.map(([name]: [string]) => name)).not.toContain("authorization");
    const command = await (
      await house.fetch(`${base}/deliveries/${row.id}/curl`, {
        headers: { authorization: `Bearer ${house.adminToken}` },
      })
    ).text();
    const child = Bun.spawn(["sh", "-c", `${command.trim()} -s`], { stdout: "pipe", stderr: "pipe" });
    expect(JSON.parse(await new Response(child.stdout).text())).toEqual({ status: "duplicate", id: row.id });
    expect((await house.api("GET", `${base}/deliveries/none`)).status).toBe(404);
  });

  test("replay runs the handler again, past the check for duplicates; a dead letter can be dropped", async () => {
    await using house = await startHookHouse();
    await sendGithub(house, "a/b", { id: "r1" });
    const count = async () => (await house.api("GET", "/api/agents/webhook-agent/a-b/state")).body.result.state.count;
    const [row] = (await house.api("GET", `${base}/deliveries`)).body.result;
    expect((await house.api("POST", `${base}/deliveries/${row.id}/replay`)).body.result).toEqual({ count: 1 });
    await until(async () => (await count()) === 2);
    expect((await eventsOf(house, "a-b")).length).toBe(1);
    await until(async () => (await house.api("GET", `${base}/deliveries/${row.id}`)).body.result.status === "done");
    expect((await house.api("POST", `${base}/replay`, { source: "github" })).body.result).toEqual({ count: 1 });
    await until(async () => (await count()) === 3);
    expect((await house.api("POST", `${base}/replay`, {})).status).toBe(400);
    expect((await house.api("POST", `${base}/deliveries/none/replay`)).status).toBe(404);
    expect((await house.api("DELETE", `${base}/deliveries/${row.id}`)).body.result).toEqual({ count: 0 });
  });

  test("the tail shows deliveries and refusals as they happen", async () => {
    await using house = await startHookHouse();
    const answer = await house.fetch(`${base}/tail?source=github`, {
      headers: { authorization: `Bearer ${house.adminToken}` },
    });
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    await reader?.read();
    await sendGeneric(house, "/webhooks/other", "{}");
    await sendGithub(house, "a/b");
    await send(house, "/webhooks/github", { body: "{}" });
    let text = "";
    while (!text.includes('"rejection"')) text += (await reader?.read())?.value ?? "";
    await reader?.cancel();
    const events = text.split("\n").flatMap((line) => (line.startsWith("data: ") ? [JSON.parse(line.slice(6))] : []));
    expect(events.map(({ kind, source, status }) => [kind, source, status])).toEqual([
      ["delivery", "github", "pending"],
      ["delivery", "github", "done"],
      ["rejection", "github", 401],
    ]);
  });
});

describe("explain", () => {
  const ask = async (house: House, path: string, headers: Record<string, string>, body: string, more: object = {}) => {
    const saved = {
      method: "POST",
      path,
      headers: Object.entries(headers),
      body_base64: Buffer.from(body).toString("base64"),
      ...more,
    };
    const answer = await house.api("POST", `${base}/explain`, saved);
    expect(JSON.stringify(answer.body)).not.toContain(SECRET);
    return answer.body.result;
  };
  const failed = ({ stages }: { stages: { stage: string; ok: boolean; says: string }[] }) =>
    stages.find(({ ok }) => !ok);

  test("names the stage that fails and what was expected, never the secret or the right signature", async () => {
    await using house = await startHookHouse();
    const body = '{"repository":{"full_name":"a/b"}}';
    const right = sign(body);
    const cases: [string, Record<string, string>, string, string, RegExp][] = [
      ["/webhooks/nosource/x", {}, body, "route", /404/],
      ["/webhooks/github", {}, body, "credential", /No credential.*x-hub-signature-256/],
      ["/webhooks/github", { "x-hub-signature-256": right.toUpperCase() }, body, "credential", /form/],
      ["/webhooks/github", { "x-hub-signature-256": sign("x") }, body, "verify", /does not fit/],
      ["/webhooks/github", { "x-hub-signature-256": right }, `${body}\n`, "verify", /line break at its end is removed/],
      ["/webhooks/bitbucket", { "x-hub-signature": right }, body, "verify", /gatehouse hook secret bitbucket/],
      [
        "/webhooks/github",
        { "x-hub-signature-256": sign("{"), "content-type": "application/json" },
        "{",
        "payload",
        /JSON/,
      ],
      ["/webhooks/github", { "x-hub-signature-256": sign("{}") }, "{}", "entity", /repository\.full_name/],
    ];
    for (const [path, headers, text, stage, says] of cases) {
      const result = await ask(house, path, headers, text);
      expect([path, result.accepted, failed(result)?.stage]).toEqual([path, false, stage]);
      expect(failed(result)?.says).toMatch(says);
      if (text !== body) continue;
      expect(headers["x-hub-signature-256"] === right || !JSON.stringify(result).includes(right.slice(7))).toBe(true);
    }
  });

  test("knows GitLab by its token's header, and leaves an address to the real request", async () => {
    await using house = await startHookHouse();
    expect((await ask(house, "/webhooks/gitlab", { "x-gitlab-token": "other" }, "{}")).fits).toEqual(["gitlab"]);
    const verify = [{ kind: "address", ranges: ["10.0.0.0/8"] }, { kind: "bearer" }];
    await house.api("POST", `${base}/sources`, { name: "lan", preset: "home-assistant", verify });
    await house.api("PUT", `${base}/sources/lan/secret`, { secret: SECRET });
    const body = '{"entity_id":"light.kitchen"}';
    const right = await ask(house, "/webhooks/lan", { authorization: `Bearer ${SECRET}` }, body);
    expect([right.accepted, JSON.stringify(right.stages)]).toEqual([true, expect.stringContaining("10.0.0.0/8")]);
    const wrong = await ask(house, "/webhooks/lan", { authorization: "Bearer other" }, body);
    expect(failed(wrong)?.stage).toBe("verify");
  });

  test("a header that cannot be one is refused with its place", async () => {
    await using house = await startHookHouse();
    const saved = { method: "POST", path: "/webhooks/github", body_base64: "" };
    for (const header of [
      ["bad name", "x"],
      ["", "x"],
      ["a", "x\ny"],
    ]) {
      const { status, body } = await house.api("POST", `${base}/explain`, { ...saved, headers: [header] });
      expect([status, body.errors[0].message]).toEqual([400, expect.stringContaining("body.headers.0")]);
    }
    const strange = await house.api("POST", `${base}/explain`, { ...saved, headers: [["x-name", "Größe ✓"]] });
    expect(strange.status).toBe(200);
  });

  test("says which sender it looks like, and what would happen; nothing is stored", async () => {
    await using house = await startHookHouse();
    const body = '{"repository":{"full_name":"A/B"}}';
    const headers = { "x-hub-signature-256": sign(body), "x-github-event": "push", "x-github-delivery": "e1" };
    const result = await ask(house, "/somewhere/else", headers, body, { as: "github" });
    expect([result.accepted, result.source, result.fits.includes("github")]).toEqual([true, "github", true]);
    expect(result.stages.at(-1).says).toBe('Event "push" for webhook-agent, entity "a/b", delivery id e1.');
    const { createHmac } = await import("node:crypto");
    const at = Math.floor(Date.now() / 1000) - 1_000;
    const mac = createHmac("sha256", SECRET).update(`v0:${at}:{}`).digest("hex");
    const stale = await ask(
      house,
      "/webhooks/slack",
      { "x-slack-request-timestamp": String(at), "x-slack-signature": `v0=${mac}` },
      "{}",
    );
    expect(failed(stale)?.says).toMatch(
      /signed 100\d s ago, and 300 s are allowed\. At that time the signature was right/,
    );
    expect((await house.api("GET", `${base}/deliveries`)).body.result).toEqual([]);
    expect((await house.api("GET", `${base}/rejections`)).body.result).toEqual([]);
  });
});
