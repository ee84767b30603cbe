// A correctly signed delivery of every sender, made up on the spot: for trying a source before the sender is set up.
import { AppError } from "../platform/errors.ts";
import { type Check, macOf, type SignatureCheck, signedPrefix } from "../platform/signature.ts";
import { signTwilio } from "../platform/twilio-signature.ts";
import type { PresetName } from "./presets.ts";
import type { Source } from "./sources.ts";

type Occasion = { entity: string; id: string; nowMs: number };
type Sample = {
  entity: string;
  headers?: (it: Occasion) => Record<string, string>;
  body: (it: Occasion) => unknown;
  form?: true;
};

/** What stands behind a prefix such as `sonarr-`; senders number these. */
const numbered = (entity: string, prefix: string): number | string => {
  const bare = entity.startsWith(prefix) ? entity.slice(prefix.length) : entity;
  return /^-?\d+$/.test(bare) ? Number(bare) : bare;
};
const forge = (family: string, event = "push"): Sample => ({
  entity: "acme/web",
  headers: ({ id }) => ({ [`x-${family}-event`]: event, [`x-${family}-delivery`]: id }),
  body: ({ entity }) => ({
    ref: "refs/heads/main",
    repository: { full_name: entity, html_url: `https://example.org/${entity}` },
    head_commit: { message: "A sample commit", url: `https://example.org/${entity}/commit/1` },
    sender: { login: "sample" },
  }),
});
const standard = (family: string): Sample => ({
  entity: "customer-1",
  headers: ({ id }) => ({ [`${family}-id`]: id }),
  body: ({ entity }) => ({ type: "sample.created", timestamp: "2026-01-01T00:00:00Z", data: { id: entity } }),
});
const alert: Sample = {
  entity: "c0ffee",
  body: ({ entity }) => ({
    version: "4",
    status: "firing",
    groupKey: "{}:{alertname='Sample'}",
    alerts: [
      {
        status: "firing",
        fingerprint: entity.replace(/^(alertmanager|grafana)-/, ""),
        labels: { alertname: "Sample", instance: "nas:9100" },
        annotations: { summary: "A sample alert" },
      },
    ],
  }),
};
const arr = (prefix: string, thing: string): Sample => ({
  entity: "12",
  body: ({ entity }) => ({
    eventType: "Grab",
    instanceName: prefix,
    [thing]: { id: numbered(entity, `${prefix}-`), title: "A sample", name: "A sample" },
  }),
});

export const SAMPLES: Record<PresetName, Sample> = {
  github: forge("github"),
  gitea: forge("gitea"),
  forgejo: forge("forgejo"),
  gitlab: {
    entity: "acme/web",
    headers: ({ id }) => ({ "x-gitlab-event": "Push Hook", "webhook-id": id, "x-gitlab-event-uuid": id }),
    body: ({ entity }) => ({
      object_kind: "push",
      ref: "refs/heads/main",
      user_username: "sample",
      project: { path_with_namespace: entity },
    }),
  },
  bitbucket: {
    entity: "acme/web",
    headers: ({ id }) => ({ "x-event-key": "repo:push", "x-request-uuid": id }),
    body: ({ entity }) => ({ repository: { full_name: entity }, actor: { nickname: "sample" } }),
  },
  stripe: {
    entity: "cus_sample",
    body: ({ entity, id }) => ({
      id: `evt_${id}`,
      object: "event",
      type: "invoice.paid",
      data: { object: { id: "in_1", customer: entity } },
    }),
  },
  slack: {
    entity: "T0SAMPLE",
    body: ({ entity, id }) => ({
      type: "event_callback",
      event_id: id,
      team_id: entity,
      event: { type: "app_mention", user: "U1", text: "A sample" },
    }),
  },
  twilio: {
    entity: "+12025550123",
    form: true,
    body: ({ entity, id }) => ({
      MessageSid: id,
      SmsStatus: "received",
      From: entity.replace(/^twilio-/, ""),
      To: "+12025550100",
      Body: "A sample",
    }),
  },
  shopify: {
    entity: "1",
    headers: ({ id }) => ({ "x-shopify-topic": "orders/create", "x-shopify-webhook-id": id }),
    body: ({ entity }) => ({ id: 1, name: "#1001", customer: { id: numbered(entity, "shopify-") } }),
  },
  "standard-webhooks": standard("webhook"),
  svix: standard("svix"),
  discord: { entity: "1", body: ({ entity, id }) => ({ id, type: 2, guild_id: entity, data: { name: "sample" } }) },
  linear: {
    entity: "team-1",
    headers: ({ id }) => ({ "linear-event": "Issue", "linear-delivery": id }),
    body: ({ entity, nowMs }) => ({
      action: "create",
      type: "Issue",
      data: { id: "1", teamId: entity, title: "A sample" },
      webhookTimestamp: nowMs,
    }),
  },
  sentry: {
    entity: "web",
    headers: ({ id }) => ({ "sentry-hook-resource": "issue", "request-id": id }),
    body: ({ entity }) => ({
      action: "created",
      data: { issue: { title: "A sample", project: { slug: entity } } },
      actor: { name: "sample" },
    }),
  },
  pagerduty: {
    entity: "PSAMPLE",
    body: ({ entity, id }) => ({
      event: { id, event_type: "incident.triggered", data: { id: "Q1", title: "A sample", service: { id: entity } } },
    }),
  },
  tailscale: {
    entity: "example.com",
    body: ({ entity }) => [{ type: "nodeCreated", tailnet: entity, message: "A sample", data: {} }],
  },
  grafana: alert,
  alertmanager: alert,
  "unifi-access": {
    entity: "door-1",
    body: ({ entity }) => ({
      event: "access.door.unlock",
      event_object_id: entity,
      data: { actor: { name: "sample" } },
    }),
  },
  cloudflare: {
    entity: "account-1",
    body: ({ entity, nowMs }) => ({
      name: "A sample",
      text: "A sample alert",
      alert_type: "http_alert_edge_error",
      alert_event: "ALERT_STATE_EVENT_START",
      alert_correlation_id: "1",
      account_id: entity,
      ts: Math.floor(nowMs / 1000),
    }),
  },
  telegram: {
    entity: "1",
    body: ({ entity, nowMs }) => ({
      update_id: nowMs,
      message: {
        message_id: 1,
        text: "A sample",
        chat: { id: numbered(entity, "telegram-") },
        from: { username: "sample" },
      },
    }),
  },
  "uptime-kuma": {
    entity: "3",
    body: ({ entity }) => ({
      heartbeat: { status: 0, msg: "timeout" },
      monitor: { id: numbered(entity, "uptime-kuma-"), name: "A sample", url: "http://nas" },
      msg: "A sample is down",
    }),
  },
  sonarr: arr("sonarr", "series"),
  radarr: arr("radarr", "movie"),
  lidarr: arr("lidarr", "artist"),
  jellyfin: {
    entity: "server-1",
    body: ({ entity }) => ({
      NotificationType: "PlaybackStart",
      ServerId: entity,
      Name: "A sample",
      NotificationUsername: "sample",
    }),
  },
  plex: {
    entity: "server-1",
    form: true,
    body: ({ entity }) => ({
      payload: JSON.stringify({
        event: "media.play",
        Server: { uuid: entity },
        Metadata: { title: "A sample" },
        Account: { title: "sample" },
      }),
    }),
  },
  emby: {
    entity: "server-1",
    body: ({ entity }) => ({
      Event: "playback.start",
      Server: { Id: entity },
      Title: "A sample",
      User: { Name: "sample" },
    }),
  },
  immich: {
    entity: "asset-1",
    body: ({ entity }) => ({
      type: "asset",
      trigger: "AssetCreate",
      data: { asset: { id: entity, originalFileName: "sample.jpg" } },
    }),
  },
  proxmox: {
    entity: "pve",
    body: ({ entity }) => ({
      type: "vzdump",
      severity: "info",
      hostname: entity,
      title: "A sample",
      message: "Backup finished",
    }),
  },
  synology: { entity: "nas", body: ({ entity }) => ({ hostname: entity, text: "A sample" }) },
  unifi: {
    entity: "AABBCCDDEEFF",
    body: ({ entity }) => ({ alarm: { name: "A sample", triggers: [{ key: "motion", device: entity }] } }),
  },
  healthchecks: { entity: "check-1", body: ({ entity }) => ({ code: entity, name: "A sample", status: "down" }) },
  changedetection: {
    entity: "watch-1",
    body: ({ entity }) => ({ watch_uuid: entity, title: "A sample", message: "changed", type: "info" }),
  },
  "paperless-ngx": {
    entity: "1",
    body: ({ entity }) => ({ trigger: "added", document_id: numbered(entity, "paperless-ngx-"), title: "A sample" }),
  },
  "docker-hub": {
    entity: "acme/web",
    body: ({ entity }) => ({
      push_data: { tag: "latest", pusher: "sample" },
      repository: { repo_name: entity, repo_url: "https://hub.docker.com" },
    }),
  },
  "docker-registry": {
    entity: "acme/web",
    body: ({ entity, id }) => ({
      events: [{ id, action: "push", target: { repository: entity, tag: "latest" }, actor: { name: "sample" } }],
    }),
  },
  "home-assistant": {
    entity: "light.kitchen",
    body: ({ entity }) => ({ event_type: "state_changed", entity_id: entity, state: "on", title: "A sample" }),
  },
  generic: {
    entity: "device-1",
    headers: ({ id }) => ({ "x-event-type": "sample", "x-delivery-id": id }),
    body: ({ entity }) => ({ entity_id: entity, title: "A sample" }),
  },
};

export type SampleRequest = { method: string; path: string; headers: Record<string, string>; body: string };

/** Throws a sentence for people when this source cannot be signed for by us. */
export function sampleRequest(
  source: Source,
  secret: string | undefined,
  publicUrl: string | undefined,
  given: { entity?: string; id: string; nowMs: number },
): SampleRequest {
  const { entity: fallback, headers = () => ({}), body, form } = SAMPLES[source.preset];
  const occasion = { entity: given.entity ?? fallback, id: given.id, nowMs: given.nowMs };
  const value = body(occasion);
  const text = form ? new URLSearchParams(value as Record<string, string>).toString() : JSON.stringify(value); // a form's rows are text
  const sent = {
    "content-type": form ? "application/x-www-form-urlencoded" : "application/json",
    ...headers(occasion),
  };
  const method = source.methods.find((one) => one !== "GET");
  if (method === undefined)
    throw new AppError("input.invalid", { say: "This source takes only GET, and a sample is a body" });
  // The operator may look for the entity where this sender has none.
  const found = source.find.entity({ headers: new Headers(sent), query: new URLSearchParams(), payload: value });
  const path = `/webhooks/${source.name}${found === undefined ? `/${encodeURIComponent(occasion.entity)}` : ""}`;
  const proof =
    source.checks === "none"
      ? {}
      : prove(source.checks, secret, { ...given, headers: sent, body: text, url: publicUrl && `${publicUrl}${path}` });
  return { method, path, headers: { ...sent, ...proof }, body: text };
}

type Unsigned = { headers: Record<string, string>; body: string; url: string | undefined; nowMs: number };

function prove(checks: readonly Check[], secret: string | undefined, unsigned: Unsigned): Record<string, string> {
  return Object.assign({}, ...checks.map((check) => proveOne(check, secret, unsigned)));
}

function proveOne(check: Check, secret: string | undefined, unsigned: Unsigned): Record<string, string> {
  if (check.kind === "address") return {};
  if (secret === undefined)
    throw new AppError("input.invalid", { say: "This source has no secret yet; set one first" });
  switch (check.kind) {
    case "any":
    case "first":
      return proveOne(check.of.find((one) => canSign(one, secret)) ?? { kind: "path" }, secret, unsigned);
    case "signature":
      return signed(check, secret, unsigned);
    case "header":
      return { [check.header]: `${check.prefix ?? ""}${secret}` };
    case "bearer":
      return { authorization: `Bearer ${secret}` };
    case "basic":
      return {
        authorization: `Basic ${Buffer.from(secret.includes(":") ? secret : `sample:${secret}`).toString("base64")}`,
      };
    case "twilio": {
      if (!unsigned.url)
        throw new AppError("input.invalid", { say: "Twilio signs the public address; set public_url first" });
      return { "x-twilio-signature": signTwilio(secret, unsigned.url, new URLSearchParams(unsigned.body)) };
    }
    default:
      throw new AppError("input.invalid", { say: "Only the sender itself can prove who it is to this source" });
  }
}

function canSign(check: Check, secret: string): boolean {
  if (check.kind !== "signature") return ["header", "bearer", "basic"].includes(check.kind);
  if (check.algorithm === "ed25519") return false;
  return check.key === "text" || (check.key === "whsec" && secret.startsWith("whsec_"));
}

function signed(check: SignatureCheck, secret: string, { headers, body, nowMs }: Unsigned): Record<string, string> {
  if (check.algorithm === "ed25519") {
    throw new AppError("input.invalid", { say: "Only the sender holds the private key, so we cannot sign for it" });
  }
  const at =
    check.stamp?.format === "milliseconds"
      ? String(nowMs)
      : check.stamp?.format === "rfc3339"
        ? new Date(nowMs).toISOString()
        : String(Math.floor(nowMs / 1000));
  const prefix = signedPrefix(check, new Headers(headers), at);
  if (prefix === undefined)
    throw new AppError("input.invalid", { say: "The sample lacks a header that this source signs" });
  const mac = `${check.prefix ?? ""}${macOf(check, secret, prefix, Buffer.from(body))}`;
  if (check.stamp?.from === "item")
    return { [check.header]: `${check.stamp.name}=${at}${check.separator ?? ","}${mac}` };
  return { [check.header]: mac, ...(check.stamp?.from === "header" && { [check.stamp.name]: at }) };
}
