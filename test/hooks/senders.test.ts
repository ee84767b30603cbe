// The senders' own libraries sign, over a real socket: that we agree with ourselves proves nothing.
import { expect, test } from "bun:test";
import { generateKeyPairSync, sign as signWithKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { sign as signGithub } from "@octokit/webhooks-methods";
import { verifyKey } from "discord-interactions";
import { Webhook as StandardWebhook } from "standardwebhooks";
import Stripe from "stripe";
import { Webhook as SvixWebhook } from "svix";
import twilio from "twilio";
import { type HouseOptions, startHouse as startAny } from "../support/house.ts";
import { agentNames, eventsOf, HOOKS, send } from "../support/webhooks.ts";

const startHouse = (options: HouseOptions) => startAny({ ...options, settings: { hooks: HOOKS, ...options.settings } });

const SECRET = "a-shared-secret-of-the-test";
const WHSEC = `whsec_${Buffer.from("0123456789abcdef0123456789abcdef").toString("base64")}`;
const json = { "content-type": "application/json" };

test("GitHub: every example payload, signed by @octokit/webhooks-methods, reaches the agent of its repository or owner", async () => {
  await using house = await startHouse({ env: { GITHUB_WEBHOOK_SECRET: SECRET } });
  const entities = new Set<string>();
  const refused: string[] = [];
  let sent = 0;
  for (const { name, examples } of examplesOf("api.github.com")) {
    for (const example of examples) {
      const body = JSON.stringify(example, null, 2);
      const signature = await signGithub(SECRET, body);
      const headers = { "x-github-event": name, "x-github-delivery": `${++sent}`, "x-hub-signature-256": signature };
      const answer = await send(house, "/webhooks/github", { body, headers: { ...json, ...headers } });
      const { repository, organization, installation } = example;
      const owner = repository?.full_name ?? organization?.login ?? (installation && `github-${installation.id}`);
      if (answer.status !== 200 || owner === undefined) refused.push(`${name} ${answer.status} ${owner}`);
      else if (name !== "ping") entities.add(owner.toLowerCase().replace("/", "-"));
    }
  }
  expect(sent).toBeGreaterThan(300);
  // The only ones refused are those that belong to no repository, organization or installation.
  expect(refused.filter((line) => !/^\S+ (400|200) undefined$/.test(line))).toEqual([]);
  expect(refused.length).toBeLessThan(20);
  expect(await agentNames(house)).toEqual([...entities].sort());
}, 120_000);

type Example = { repository?: { full_name: string }; organization?: { login: string }; installation?: { id: number } };

function examplesOf(server: string): { name: string; examples: Example[] }[] {
  const root = dirname(Bun.resolveSync("@octokit/webhooks-examples/package.json", import.meta.dir));
  return JSON.parse(readFileSync(join(root, server, "index.json"), "utf8"));
}

test("GitHub: the form encoding is signed as the form, and an altered body is refused", async () => {
  await using house = await startHouse({ env: { GITHUB_WEBHOOK_SECRET: SECRET } });
  const body = `payload=${encodeURIComponent(JSON.stringify({ action: "opened", issue: { title: "A bug", html_url: "https://github.com/a/b/issues/1" }, repository: { full_name: "a/b" }, sender: { login: "octocat" } }))}`;
  const headers = {
    "content-type": "application/x-www-form-urlencoded",
    "x-github-event": "issues",
    "x-github-delivery": "1",
    "x-hub-signature-256": await signGithub(SECRET, body),
  };
  expect((await send(house, "/webhooks/github", { body: `${body}&x=1`, headers })).status).toBe(401);
  expect((await send(house, "/webhooks/github", { body, headers })).status).toBe(200);
  const [event] = await eventsOf(house, "a-b");
  expect(event).toMatchObject({
    type: "issues",
    action: "opened",
    title: "A bug",
    actor: "octocat",
    url: "https://github.com/a/b/issues/1",
  });
});

test("Stripe: its own test header, fresh, stale, and of a rotated secret", async () => {
  await using house = await startHouse({ env: { STRIPE_WEBHOOK_SECRET: "whsec_new whsec_old" } });
  const stripe = new Stripe("sk_test_x");
  const payload = JSON.stringify(
    { id: "evt_1", object: "event", type: "invoice.paid", data: { object: { id: "in_1", customer: "cus_1" } } },
    null,
    2,
  );
  const post = async (secret: string, timestamp = Math.floor(Date.now() / 1000)) => {
    const signature = await stripe.webhooks.generateTestHeaderStringAsync({ payload, secret, timestamp });
    return send(house, "/webhooks/stripe", { body: payload, headers: { ...json, "stripe-signature": signature } });
  };
  expect((await post("whsec_other")).status).toBe(401);
  expect((await post("whsec_new", Math.floor(Date.now() / 1000) - 310)).status).toBe(401);
  expect([(await post("whsec_old")).status, (await post("whsec_new")).text]).toEqual([
    200,
    expect.stringContaining("duplicate"),
  ]);
  expect((await eventsOf(house, "cus_1")).map(({ id, type }) => [id, type])).toEqual([["evt_1", "invoice.paid"]]);
});

test("Standard Webhooks and Svix: their own signers, including GitLab's signing token", async () => {
  await using house = await startHouse({
    env: { STANDARD_WEBHOOKS_WEBHOOK_SECRET: WHSEC, SVIX_WEBHOOK_SECRET: WHSEC, GITLAB_WEBHOOK_SECRET: WHSEC },
  });
  const body = '{"type":"user.created","data":{"id":"U 1"}}';
  const at = new Date();
  const seconds = String(Math.floor(at.getTime() / 1000));
  const standard = new StandardWebhook(WHSEC).sign("msg_1", at, body);
  const webhook = { ...json, "webhook-id": "msg_1", "webhook-timestamp": seconds, "webhook-signature": standard };
  expect((await send(house, "/webhooks/standard-webhooks", { body: `${body} `, headers: webhook })).status).toBe(401);
  expect((await send(house, "/webhooks/standard-webhooks", { body, headers: webhook })).status).toBe(200);
  const svix = new SvixWebhook(WHSEC).sign("msg_2", at, body);
  expect(
    (
      await send(house, "/webhooks/svix", {
        body,
        headers: { ...json, "svix-id": "msg_2", "svix-timestamp": seconds, "svix-signature": svix },
      })
    ).status,
  ).toBe(200);
  expect((await eventsOf(house, "u-1")).map(({ id }) => id)).toEqual(["msg_2", "msg_1"]);
  const gitlab = '{"object_kind":"push","project":{"path_with_namespace":"group/app"}}';
  const signed = new StandardWebhook(WHSEC).sign("uuid-1", at, gitlab);
  const headers = {
    ...json,
    "x-gitlab-event": "Push Hook",
    "webhook-id": "uuid-1",
    "webhook-timestamp": seconds,
    "webhook-signature": signed,
  };
  expect((await send(house, "/webhooks/gitlab", { body: gitlab, headers })).status).toBe(200);
  expect(
    (await send(house, "/webhooks/gitlab", { body: gitlab, headers: { ...json, "x-gitlab-token": WHSEC } })).status,
  ).toBe(200);
  expect(
    (await send(house, "/webhooks/gitlab", { body: gitlab, headers: { ...json, "x-gitlab-token": "wrong" } })).status,
  ).toBe(401);
});

test("Twilio: its own signature of the public address, the answer is the agent's, and without public_url it is refused", async () => {
  const fields = {
    MessageSid: "SM1",
    SmsStatus: "received",
    From: "+12025550123",
    To: "+12025550100",
    Body: "Hallo Welt",
  };
  const publicUrl = "https://pi.example.org";
  const { getExpectedTwilioSignature } = twilio;
  const post = (house: Parameters<typeof send>[0], url: string) =>
    send(house, "/webhooks/twilio?foo=1", {
      body: new URLSearchParams(fields).toString(),
      headers: {
        "content-type": "application/x-www-form-urlencoded",
        "x-twilio-signature": getExpectedTwilioSignature(SECRET, url, fields),
      },
    });
  await using house = await startHouse({ env: { TWILIO_WEBHOOK_SECRET: SECRET }, settings: { public_url: publicUrl } });
  expect((await post(house, `${publicUrl}/webhooks/twilio?foo=2`)).status).toBe(401);
  expect((await post(house, `${publicUrl}/webhooks/twilio?foo=1`)).status).toBe(200);
  const [event] = await eventsOf(house, "twilio--12025550123");
  expect(event).toMatchObject({ id: "SM1-received", type: "received", title: "Hallo Welt", actor: "+12025550123" });
  await using bare = await startHouse({ env: { TWILIO_WEBHOOK_SECRET: SECRET } });
  expect((await post(bare, `${publicUrl}/webhooks/twilio?foo=1`)).status).toBe(401);
  const { body } = await bare.api("GET", "/api/hooks/sources/twilio");
  expect(body.result.warnings).toEqual(["The sender signs the public address: set public_url."]);
});

test("Discord: a key pair of ours, cross-checked with discord-interactions; PING is answered, a bad signature is 401", async () => {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const raw = publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("hex");
  await using house = await startHouse({ env: { DISCORD_WEBHOOK_SECRET: raw } });
  const post = async (value: object, tamper = false) => {
    const body = JSON.stringify(value);
    const at = String(Math.floor(Date.now() / 1000));
    const signature = signWithKey(null, Buffer.from(`${at}${body}`), privateKey).toString("hex");
    expect(await verifyKey(body, signature, at, raw)).toBe(true);
    const given = tamper ? signature.replace(/^./, (digit) => (digit === "0" ? "1" : "0")) : signature;
    return send(house, "/webhooks/discord", {
      body,
      headers: { ...json, "x-signature-ed25519": given, "x-signature-timestamp": at },
    });
  };
  expect((await post({ type: 1, id: "1", token: "t", application_id: "9" }, true)).status).toBe(401);
  const pong = await post({ type: 1, id: "1", token: "t", application_id: "9" });
  expect([pong.status, pong.text]).toEqual([200, '{"type":1}']);
  expect((await post({ version: 1, application_id: "9", type: 0 })).status).toBe(204);
  expect(house.parts.agents.roster.threadCount).toBe(0);
  expect(
    (await post({ type: 2, id: "2", guild_id: "77", data: { name: "roll" }, member: { user: { username: "kim" } } }))
      .status,
  ).toBe(200);
  const [event] = await eventsOf(house, "discord-77");
  expect(event).toMatchObject({ id: "2", type: "command", action: "roll", title: "/roll", actor: "kim" });
});

test("Plex's multipart, Uptime Kuma's data field and Jellyfin's text/plain are read", async () => {
  await using house = await startHouse({
    env: { PLEX_WEBHOOK_SECRET: SECRET, UPTIME_KUMA_WEBHOOK_SECRET: SECRET, JELLYFIN_WEBHOOK_SECRET: SECRET },
  });
  const plex = new FormData();
  plex.set(
    "payload",
    JSON.stringify({
      event: "media.play",
      Server: { uuid: "srv" },
      Account: { title: "kim" },
      Metadata: { title: "Pilot", grandparentTitle: "Show" },
    }),
  );
  plex.set("thumb", new File([Uint8Array.of(255, 216, 255)], "thumb.jpg", { type: "image/jpeg" }));
  expect((await send(house, `/webhooks/plex?token=${SECRET}`, { body: plex })).status).toBe(200);
  expect((await eventsOf(house, "srv"))[0]).toMatchObject({ type: "media.play", title: "Show: Pilot", actor: "kim" });
  const kuma = new FormData();
  kuma.set(
    "data",
    JSON.stringify({ heartbeat: { status: 0, msg: "timeout" }, monitor: { id: 3, name: "NAS" }, msg: "[NAS] down" }),
  );
  expect(
    (await send(house, "/webhooks/uptime-kuma", { body: kuma, headers: { authorization: `Bearer ${SECRET}` } })).status,
  ).toBe(200);
  expect((await eventsOf(house, "uptime-kuma-3"))[0]).toMatchObject({
    type: "down",
    title: "[NAS] down",
    actor: "NAS",
  });
  const jellyfin = await send(house, "/webhooks/jellyfin", {
    body: '{"NotificationType":"PlaybackStart","ServerId":"J1","Name":"Film"}',
    headers: { "content-type": "text/plain", "x-webhook-token": SECRET },
  });
  expect(jellyfin.status).toBe(200);
  expect((await eventsOf(house, "j1"))[0]).toMatchObject({ type: "PlaybackStart", title: "Film" });
});

test("Slack: the challenge comes back, and a command's answer is the agent's", async () => {
  const { createHmac } = await import("node:crypto");
  await using house = await startHouse({ env: { SLACK_WEBHOOK_SECRET: SECRET } });
  const post = (body: string, contentType: string) => {
    const at = String(Math.floor(Date.now() / 1000));
    const mac = createHmac("sha256", SECRET).update(`v0:${at}:${body}`).digest("hex");
    return send(house, "/webhooks/slack", {
      body,
      headers: { "content-type": contentType, "x-slack-request-timestamp": at, "x-slack-signature": `v0=${mac}` },
    });
  };
  const challenge = await post('{"type":"url_verification","challenge":"abc123"}', "application/json");
  expect([challenge.status, challenge.text]).toEqual([200, "abc123"]);
  expect(
    (await post("command=%2Fdeploy&text=web&team_id=T1&user_name=kim", "application/x-www-form-urlencoded")).status,
  ).toBe(200);
  expect((await eventsOf(house, "t1"))[0]).toMatchObject({ type: "/deploy", title: "/deploy web", actor: "kim" });
});
