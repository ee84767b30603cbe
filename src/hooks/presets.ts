// The senders we know, one row each: how it proves itself, and where its event type, delivery id and entity are.
import type { Check, SignatureCheck } from "../platform/signature.ts";

export type Handshake = {
  /** Conditions only, such as `{?type=url_verification}`. */
  when: string;
  status: number;
  contentType?: string;
  body?: string;
  /** Instead of a body: the value at this place, for a challenge that must be given back. */
  echo?: string;
};

export type Preset = {
  label: string;
  /** All of these must hold; see `any` for alternatives. */
  verify: readonly Check[];
  type: readonly string[];
  action?: readonly string[];
  id?: readonly string[];
  entity: readonly string[];
  title?: readonly string[];
  description?: readonly string[];
  url?: readonly string[];
  actor?: readonly string[];
  /** How long this sender waits before it calls a delivery failed, less some margin. Without it: `hooks.ack_ms`. */
  ackMs?: number;
  /** Beside POST. */
  methods?: readonly string[];
  /** Dotted path of an array whose members are deliveries of their own; "" is the body itself. */
  fanOut?: string;
  /** Answered after verification, without waking an agent. */
  handshakes?: readonly Handshake[];
};

const MINUTE_MS = 60_000;
const OK = { status: 200, contentType: "application/json", body: '{"ok":true}' } as const;

const hex = (header: string, more: Partial<SignatureCheck> = {}): SignatureCheck => {
  return { kind: "signature", header, algorithm: "sha256", encoding: "hex", key: "text", signed: "{body}", ...more };
};
const any = (...of: Check[]): Check => ({ kind: "any", of });

/** `t=…,v1=…` over "timestamp.body", as Stripe made it popular. */
const stamped = (header: string): SignatureCheck =>
  hex(header, {
    prefix: "v1=",
    separator: ",",
    stamp: { from: "item", name: "t", format: "seconds", toleranceMs: 5 * MINUTE_MS },
    signed: "{timestamp}.{body}",
  });

/** Standard Webhooks in its two versions: a shared secret (v1), or the sender's public key (v1a). */
const standard = (family: "webhook" | "svix"): Check => {
  const row: SignatureCheck = {
    kind: "signature",
    header: `${family}-signature`,
    algorithm: "sha256",
    encoding: "base64",
    key: "whsec",
    prefix: "v1,",
    separator: " ",
    stamp: { from: "header", name: `${family}-timestamp`, format: "seconds", toleranceMs: 5 * MINUTE_MS },
    signed: `{header:${family}-id}.{timestamp}.{body}`,
  };
  return any(row, { ...row, algorithm: "ed25519", key: "whpk", prefix: "v1a," });
};

/** For senders that cannot sign: the secret wherever they can put one. */
const TOKEN: readonly Check[] = [
  any(
    { kind: "bearer" },
    { kind: "basic" },
    { kind: "header", header: "x-webhook-token" },
    { kind: "query", name: "token" },
    { kind: "path" },
  ),
];

const FORGE_ENTITY = ["{repository.full_name}", "{organization.login}", "{organization.username}"];
const THING_TITLE = [
  "{issue.title}",
  "{pull_request.title}",
  "{release.name}",
  "{release.tag_name}",
  "{head_commit.message}",
];
const FORGE_TITLE = [...THING_TITLE, "{ref}"];
const THING_URL = [
  "{comment.html_url}",
  "{issue.html_url}",
  "{pull_request.html_url}",
  "{release.html_url}",
  "{head_commit.url}",
  "{compare}",
  "{compare_url}",
];
const FORGE_URL = [...THING_URL, "{repository.html_url}"];

/** What else happens at GitHub; an issue that is labeled is the issue, so these come after the things above. */
const GITHUB_TITLE = [
  "{discussion.title}",
  "{workflow_run.display_title}",
  "{workflow_run.name}",
  "{workflow_job.name}",
  "{check_run.name}",
  "{check_suite.head_commit.message}",
  "{merge_group.head_commit.message}",
  "{milestone.title}",
  "{deployment.environment}: {deployment_status.state}",
  "{deployment.environment}",
  "{alert.rule.description}",
  "{alert.security_advisory.summary}",
  "{alert.affected_package_name}",
  "{commit.commit.message}",
  "{comment.body}",
  "{package.name}",
  "{project.name}",
  "{project_column.name}",
  "{forkee.full_name}",
  "{pages.0.title}",
  "{key.title}",
  "{rule.name}",
  "{label.name}",
  "{team.name}",
  "{member.login}",
];
const GITHUB_URL = [
  "{discussion.html_url}",
  "{workflow_run.html_url}",
  "{workflow_job.html_url}",
  "{check_run.html_url}",
  "{milestone.html_url}",
  "{alert.html_url}",
  "{deployment_status.target_url}",
  "{target_url}",
  "{commit.html_url}",
  "{package.html_url}",
  "{project.html_url}",
  "{forkee.html_url}",
  "{pages.0.html_url}",
  "{team.html_url}",
];

const gitea = (family: "gitea" | "forgejo", label: string): Preset => ({
  label,
  // A form delivery is signed over the JSON inside it, unlike GitHub's.
  verify: [
    any(
      hex(`x-${family}-signature`, { form: "payload-field" }),
      hex("x-gitea-signature", { form: "payload-field" }),
      hex("x-hub-signature-256", { prefix: "sha256=", form: "payload-field" }),
    ),
  ],
  type: [`{header:x-${family}-event}`, "{header:x-gitea-event}", "{header:x-github-event}"],
  action: ["{action}"],
  id: [`{header:x-${family}-delivery}`, "{header:x-gitea-delivery}", "{header:x-github-delivery}"],
  entity: FORGE_ENTITY,
  title: FORGE_TITLE,
  description: ["{comment.body}", "{issue.body}", "{pull_request.body}"],
  url: FORGE_URL,
  actor: ["{sender.login}", "{sender.username}", "{pusher.login}"],
});

const arr = (label: string, thing: string, more: Partial<Preset> = {}): Preset => ({
  label,
  verify: TOKEN,
  methods: ["PUT"],
  type: ["{eventType}"],
  entity: [`${label.toLowerCase()}-{${thing}.id}`, "{instanceName}", label.toLowerCase()],
  title: [`{${thing}.title}: {release.releaseTitle}`, `{${thing}.title}`, `{${thing}.name}`, "{message}"],
  description: ["{message}", "{release.releaseTitle}"],
  url: ["{applicationUrl}"],
  handshakes: [{ when: "{?eventType=Test}", ...OK }],
  ...more,
});

const alerts = (label: string, verify: readonly Check[]): Preset => ({
  label,
  verify,
  fanOut: "alerts",
  type: ["{alerts.0.status}", "{status}", "{state}"],
  entity: [`${label.toLowerCase()}-{alerts.0.fingerprint}`, "{groupKey}"],
  title: ["{alerts.0.annotations.summary}", "{alerts.0.labels.alertname}", "{title}"],
  description: ["{alerts.0.annotations.description}", "{alerts.0.annotations.message}", "{message}"],
  url: ["{alerts.0.generatorURL}", "{externalURL}"],
  actor: ["{alerts.0.labels.instance}", "{receiver}"],
});

export const PRESETS = {
  github: {
    label: "GitHub",
    verify: [hex("x-hub-signature-256", { prefix: "sha256=" })],
    type: ["{header:x-github-event}"],
    action: ["{action}"],
    id: ["{header:x-github-delivery}"],
    entity: ["{repository.full_name}", "{organization.login}", "github-{installation.id}"],
    title: [...THING_TITLE, ...GITHUB_TITLE, "{ref}", "{zen}"],
    description: ["{comment.body}", "{review.body}", "{issue.body}", "{pull_request.body}", "{release.body}"],
    url: [...THING_URL, ...GITHUB_URL, "{repository.html_url}", "{organization.url}"],
    actor: ["{sender.login}", "{pusher.name}"],
    handshakes: [{ when: "{?header:x-github-event=ping}", ...OK }],
  },
  gitlab: {
    label: "GitLab",
    verify: [any(standard("webhook"), { kind: "header", header: "x-gitlab-token" })],
    type: ["{object_kind}", "{header:x-gitlab-event}", "{event_name}"],
    action: ["{object_attributes.action}", "{object_attributes.status}"],
    id: ["{header:webhook-id}", "{header:idempotency-key}", "{header:x-gitlab-event-uuid}"],
    entity: ["{project.path_with_namespace}", "{path_with_namespace}", "{group.full_path}", "{full_path}"],
    title: [
      "{object_attributes.title}",
      "{build_name}",
      "{commit.title}",
      "{commits.0.title}",
      "{object_attributes.name}",
      "{name}",
      "{ref}",
    ],
    description: ["{object_attributes.note}", "{object_attributes.description}"],
    url: ["{object_attributes.url}", "{commits.0.url}", "{url}", "{deployable_url}", "{project.web_url}"],
    actor: ["{user.username}", "{user_username}", "{user.name}"],
  },
  gitea: gitea("gitea", "Gitea"),
  forgejo: gitea("forgejo", "Forgejo"),
  bitbucket: {
    label: "Bitbucket",
    verify: [hex("x-hub-signature", { prefix: "sha256=" })], // SHA-256 under the name GitHub uses for SHA-1
    type: ["{header:x-event-key}"],
    id: ["{header:x-request-uuid}", "{header:x-request-id}"],
    entity: ["{repository.full_name}", "{repository.project.key}/{repository.slug}", "{workspace.slug}"],
    title: [
      "{pullrequest.title}",
      "{issue.title}",
      "{push.changes.0.new.target.message}",
      "{push.changes.0.new.name}",
      "{pullRequest.title}",
    ],
    description: ["{comment.content.raw}", "{pullrequest.description}"],
    url: [
      "{pullrequest.links.html.href}",
      "{issue.links.html.href}",
      "{push.changes.0.links.html.href}",
      "{repository.links.html.href}",
    ],
    actor: ["{actor.nickname}", "{actor.display_name}", "{actor.name}"],
    handshakes: [{ when: "{?header:x-event-key=diagnostics:ping}", ...OK }],
  },
  stripe: {
    label: "Stripe",
    verify: [stamped("stripe-signature")], // the key is the whole text, whsec_ included
    type: ["{type}"],
    id: ["{id}"],
    entity: ["{data.object.customer}", "{data.object.customer.id}", "{data.object.id}", "{account}"],
    title: ["{type} {data.object.id}"],
    description: ["{data.object.description}"],
    url: ["{data.object.hosted_invoice_url}", "{data.object.receipt_url}", "{data.object.url}"],
    actor: ["{data.object.customer_email}", "{data.object.email}", "{account}"],
  },
  slack: {
    label: "Slack",
    verify: [
      hex("x-slack-signature", {
        prefix: "v0=",
        stamp: {
          from: "header",
          name: "x-slack-request-timestamp",
          format: "seconds",
          toleranceMs: 5 * MINUTE_MS,
        },
        signed: "v0:{timestamp}:{body}",
      }),
    ],
    type: ["{event.type}", "{command}", "{type}"],
    action: ["{event.subtype}", "{actions.0.action_id}"],
    id: ["{event_id}"],
    entity: ["{team_id}", "{team.id}", "{user.team_id}", "{enterprise_id}", "{enterprise.id}"],
    title: ["{event.text}", "{command} {text}", "{command}", "{actions.0.action_id}"],
    description: ["{event.text}", "{text}", "{message.text}"],
    url: ["{event.item.permalink}"],
    actor: ["{event.user}", "{user_name}", "{user.username}", "{user.id}"],
    ackMs: 2_000,
    handshakes: [{ when: "{?type=url_verification}", status: 200, contentType: "text/plain", echo: "{challenge}" }],
  },
  twilio: {
    label: "Twilio",
    verify: [{ kind: "twilio" }],
    type: ["{SmsStatus}", "{MessageStatus}", "{CallStatus}", "{EventType}"],
    id: [
      "{MessageSid}-{MessageStatus}",
      "{MessageSid}-{SmsStatus}",
      "{CallSid}-{CallStatus}-{SequenceNumber}",
      "{CallSid}-{CallStatus}-{Digits}",
      "{CallSid}-{CallStatus}",
    ],
    entity: ["twilio-{From}", "twilio-{To}", "{AccountSid}"],
    title: ["{Body}", "Call from {From}", "{SmsStatus}"],
    actor: ["{From}"],
  },
  shopify: {
    label: "Shopify",
    verify: [hex("x-shopify-hmac-sha256", { encoding: "base64" })],
    type: ["{header:x-shopify-topic}"],
    id: ["{header:x-shopify-webhook-id}", "{header:x-shopify-event-id}"],
    // The shop's domain header is not signed, so it cannot choose the agent; put the shop into the path for that.
    entity: ["{myshopify_domain}", "shopify-{customer.id}", "shopify-{id}"],
    title: ["{title}", "{name}"],
    url: ["{order_status_url}"],
    actor: ["{customer.email}", "{email}"],
  },
  "standard-webhooks": {
    label: "Standard Webhooks",
    verify: [standard("webhook")],
    type: ["{type}"],
    id: ["{header:webhook-id}"],
    entity: ["{data.id}"],
  },
  svix: {
    label: "Svix",
    verify: [standard("svix")],
    type: ["{type}", "{eventType}"],
    id: ["{header:svix-id}"],
    entity: ["{data.id}"],
  },
  discord: {
    label: "Discord",
    verify: [
      {
        kind: "signature",
        header: "x-signature-ed25519",
        algorithm: "ed25519",
        encoding: "hex",
        key: "hex",
        // The sender states no tolerance; five minutes is what keeps a recorded delivery from working for ever.
        stamp: { from: "header", name: "x-signature-timestamp", format: "seconds", toleranceMs: 5 * MINUTE_MS },
        signed: "{timestamp}{body}",
      },
    ],
    type: ["{event.type}", "command{?type=2}", "component{?type=3}", "autocomplete{?type=4}", "modal{?type=5}"],
    action: ["{data.name}", "{data.custom_id}"],
    id: ["{id}"],
    entity: ["discord-{guild_id}", "discord-{event.data.guild.id}", "discord-{channel_id}", "discord-{application_id}"],
    title: ["/{data.name}", "{data.custom_id}"],
    actor: ["{member.user.username}", "{user.username}", "{event.data.user.username}"],
    ackMs: 2_000,
    handshakes: [
      { when: "{?type=1}{!event}", status: 200, contentType: "application/json", body: '{"type":1}' },
      { when: "{?type=0}", status: 204 },
    ],
  },
  linear: {
    label: "Linear",
    verify: [
      hex("linear-signature", {
        stamp: { from: "body", name: "webhookTimestamp", format: "milliseconds", toleranceMs: MINUTE_MS },
      }),
    ],
    type: ["{header:linear-event}", "{type}"],
    action: ["{action}"],
    id: ["{header:linear-delivery}"],
    entity: ["{data.teamId}", "{data.team.id}", "{data.issue.teamId}", "{organizationId}", "{data.id}"],
    title: ["{data.identifier} {data.title}", "{data.title}", "{data.name}", "{data.body}"],
    description: ["{data.description}", "{data.body}"],
    url: ["{url}"],
    actor: ["{actor.name}", "{data.creator.name}"],
  },
  sentry: {
    label: "Sentry",
    verify: [hex("sentry-hook-signature")],
    type: ["{header:sentry-hook-resource}"],
    action: ["{action}"],
    id: ["{header:request-id}"],
    entity: [
      "{data.issue.project.slug}",
      "{data.event.project_slug}",
      "sentry-{data.event.project}",
      "sentry-{data.error.project}",
      "{installation.uuid}",
      "{data.installation.uuid}",
    ],
    title: ["{data.issue.title}", "{data.event.title}", "{data.error.title}", "{data.description_title}"],
    description: ["{data.issue.culprit}", "{data.event.culprit}", "{data.description_text}"],
    url: ["{data.issue.web_url}", "{data.event.web_url}", "{data.error.web_url}", "{data.web_url}"],
    actor: ["{actor.name}"],
    ackMs: 700,
  },
  pagerduty: {
    label: "PagerDuty",
    verify: [hex("x-pagerduty-signature", { prefix: "v1=", separator: "," })],
    type: ["{event.event_type}"],
    id: ["{event.id}"],
    entity: ["{event.data.service.id}", "{event.data.incident.id}", "{event.data.id}"],
    title: ["{event.data.title}", "{event.data.incident.summary}", "{event.data.summary}"],
    description: ["{event.data.content}"],
    url: ["{event.data.html_url}", "{event.data.incident.html_url}"],
    actor: ["{event.agent.summary}", "{event.agent.id}"],
    handshakes: [{ when: "{?event.event_type=pagey.ping}", ...OK }],
  },
  tailscale: {
    label: "Tailscale",
    verify: [stamped("tailscale-webhook-signature")],
    fanOut: "",
    type: ["{0.type}"],
    entity: ["{0.tailnet}"],
    title: ["{0.message}"],
    description: ["{0.message}"],
    url: ["{0.data.url}"],
    actor: ["{0.data.actor}", "{0.data.user}"],
  },
  grafana: alerts("Grafana", [
    any(
      hex("x-grafana-alerting-signature", {
        stamp: {
          from: "header",
          name: "x-grafana-alerting-timestamp",
          format: "seconds",
          toleranceMs: 5 * MINUTE_MS,
        },
        signed: "{timestamp}:{body}",
      }),
      hex("x-grafana-alerting-signature"),
      ...TOKEN,
    ),
  ]),
  alertmanager: alerts("Alertmanager", TOKEN),
  "unifi-access": {
    label: "UniFi Access",
    verify: [stamped("signature")],
    type: ["{event}"],
    entity: ["{event_object_id}", "{data.device.unique_id}", "{data.device.id}", "{data.location.id}"],
    title: ["{event}: {data.object.authentication_type}", "{data.location.name}"],
    actor: ["{data.actor.name}"],
  },
  cloudflare: {
    label: "Cloudflare",
    verify: [{ kind: "header", header: "cf-webhook-auth" }],
    type: ["{alert_type}"],
    action: ["{alert_event}"],
    id: ["{alert_correlation_id}-{alert_event}-{ts}"],
    entity: ["{account_id}", "{policy_id}"],
    title: ["{policy_name}", "{name}", "{alert_type}"],
    description: ["{text}"],
    actor: ["{account_id}"],
    handshakes: [{ when: "{?text}{!alert_type}", ...OK }], // the test POST when a destination is saved
  },
  telegram: {
    label: "Telegram",
    verify: [{ kind: "header", header: "x-telegram-bot-api-secret-token" }],
    type: [
      "message{?message}",
      "edited_message{?edited_message}",
      "channel_post{?channel_post}",
      "edited_channel_post{?edited_channel_post}",
      "callback_query{?callback_query}",
      "inline_query{?inline_query}",
      "my_chat_member{?my_chat_member}",
      "chat_member{?chat_member}",
      "message_reaction{?message_reaction}",
      "poll{?poll}",
    ],
    id: ["{update_id}"],
    entity: [
      "telegram-{message.chat.id}",
      "telegram-{edited_message.chat.id}",
      "telegram-{channel_post.chat.id}",
      "telegram-{edited_channel_post.chat.id}",
      "telegram-{callback_query.message.chat.id}",
      "telegram-{my_chat_member.chat.id}",
      "telegram-{chat_member.chat.id}",
      "telegram-{message_reaction.chat.id}",
      "telegram-{inline_query.from.id}",
      "telegram-{callback_query.from.id}",
      "telegram-{poll.id}",
    ],
    title: ["{message.text}", "{edited_message.text}", "{channel_post.text}", "{callback_query.data}"],
    actor: ["{message.from.username}", "{message.from.first_name}", "{callback_query.from.username}"],
  },
  "uptime-kuma": {
    label: "Uptime Kuma",
    verify: TOKEN,
    type: [
      "up{?heartbeat.status=1}",
      "down{?heartbeat.status=0}",
      "pending{?heartbeat.status=2}",
      "maintenance{?heartbeat.status=3}",
    ],
    entity: ["uptime-kuma-{monitor.id}"],
    title: ["{msg}", "{monitor.name}"],
    description: ["{heartbeat.msg}"],
    url: ["{monitor.url}"],
    actor: ["{monitor.name}"],
    handshakes: [{ when: "{?msg}{!monitor}{!heartbeat}", ...OK }],
  },
  sonarr: arr("Sonarr", "series"),
  radarr: arr("Radarr", "movie", {
    url: ["https://www.themoviedb.org/movie/{movie.tmdbId}", "{applicationUrl}"],
  }),
  lidarr: arr("Lidarr", "artist"),
  jellyfin: {
    label: "Jellyfin",
    verify: TOKEN,
    type: ["{NotificationType}"],
    entity: ["{ServerId}", "{ServerName}", "{DeviceId}"],
    title: ["{SeriesName}: {Name}", "{Name}"],
    description: ["{Overview}"],
    url: ["{ServerUrl}"],
    actor: ["{NotificationUsername}", "{Username}", "{DeviceName}"],
  },
  plex: {
    label: "Plex",
    verify: TOKEN,
    type: ["{event}"],
    entity: ["{Server.uuid}", "{Player.uuid}"],
    title: ["{Metadata.grandparentTitle}: {Metadata.title}", "{Metadata.title}"],
    description: ["{Metadata.summary}"],
    actor: ["{Account.title}", "{Player.title}"],
  },
  emby: {
    label: "Emby",
    verify: TOKEN,
    type: ["{Event}"],
    entity: ["{Server.Id}", "{Server.Name}"],
    title: ["{Title}", "{Item.SeriesName}: {Item.Name}", "{Item.Name}"],
    description: ["{Description}", "{Item.Overview}"],
    actor: ["{User.Name}", "{Session.DeviceName}"],
    handshakes: [
      { when: "{?Event=system.notificationtest}", ...OK },
      { when: "{?Event=system.webhooktest}", ...OK },
    ],
  },
  immich: {
    label: "Immich",
    verify: TOKEN,
    methods: ["PUT"],
    type: ["{trigger}", "{type}"],
    entity: ["{data.asset.id}", "{data.asset.ownerId}"],
    title: ["{data.asset.originalFileName}"],
    actor: ["{data.asset.ownerId}"],
  },
  proxmox: {
    label: "Proxmox",
    verify: TOKEN,
    type: ["{type}", "{fields.type}"],
    action: ["{severity}"],
    entity: ["{hostname}", "{fields.hostname}", "{node}"],
    title: ["{title}"],
    description: ["{message}"],
    actor: ["{hostname}", "{fields.hostname}"],
  },
  synology: {
    label: "Synology DSM",
    verify: TOKEN,
    type: ["{type}", "{event}"],
    entity: ["{hostname}", "{host}"],
    title: ["{text}", "{message}", "{title}"],
    description: ["{prefix}"],
    actor: ["{hostname}", "{host}"],
  },
  unifi: {
    label: "UniFi Alarm Manager",
    verify: TOKEN,
    type: ["{alarm.triggers.0.key}", "{alarm.name}"],
    entity: ["{alarm.triggers.0.device}", "{alarm.sources.0.device}"],
    title: ["{alarm.name}"],
    url: ["{alarm.eventLocalLink}", "{alarm.eventPath}"],
    actor: ["{alarm.triggers.0.device}"],
  },
  healthchecks: {
    label: "Healthchecks.io",
    verify: TOKEN,
    type: ["{status}"],
    entity: ["{code}", "{uuid}", "{unique_key}", "{slug}"],
    title: ["{name} is {status}", "{name}"],
    description: ["{desc}"],
    url: ["{ping_url}"],
    actor: ["{name}"],
  },
  changedetection: {
    label: "changedetection.io",
    verify: TOKEN,
    type: ["{type}"],
    entity: ["{watch_uuid}", "{uuid}"],
    title: ["{watch_title}", "{title}"],
    description: ["{message}"],
    url: ["{watch_url}", "{diff_url}"],
  },
  "paperless-ngx": {
    label: "Paperless-ngx",
    verify: TOKEN,
    type: ["{trigger}", "{type}", "{event}"],
    entity: ["paperless-ngx-{document_id}", "paperless-ngx-{doc_id}", "paperless-ngx-{id}"],
    title: ["{doc_title}", "{title}", "{original_filename}"],
    url: ["{doc_url}", "{url}"],
    actor: ["{owner_username}", "{correspondent}"],
  },
  "docker-hub": {
    label: "Docker Hub",
    verify: TOKEN,
    type: ["push{?push_data}"],
    entity: ["{repository.repo_name}"],
    title: ["{repository.repo_name}:{push_data.tag}"],
    url: ["{repository.repo_url}"],
    actor: ["{push_data.pusher}"],
  },
  "docker-registry": {
    label: "Docker registry",
    verify: TOKEN,
    fanOut: "events",
    type: ["{events.0.action}"],
    id: ["{events.0.id}"],
    entity: ["{events.0.target.repository}"],
    title: ["{events.0.action} {events.0.target.repository}:{events.0.target.tag}", "{events.0.target.digest}"],
    url: ["{events.0.target.url}"],
    actor: ["{events.0.actor.name}", "{events.0.request.addr}"],
    ackMs: 300,
  },
  "home-assistant": {
    label: "Home Assistant",
    verify: TOKEN,
    type: ["{event_type}", "{type}", "{trigger}"],
    action: ["{action}", "{state}"],
    entity: ["{entity_id}", "{device_id}"],
    title: ["{title}", "{friendly_name}", "{entity_id}"],
    description: ["{message}"],
    actor: ["{user}", "{area}"],
  },
  generic: {
    label: "Generic",
    verify: [
      { kind: "first", of: ["x-hub-signature-256", "x-signature"].map((header) => hex(header, { prefix: "sha256=" })) },
    ],
    type: ["{header:x-event-type}", "{type}", "{event}"],
    action: ["{action}"],
    id: ["{header:x-delivery-id}", "{header:x-event-id}", "{header:webhook-id}"],
    entity: [
      "{entity_id}",
      "{entity}",
      "{repository.full_name}",
      "{data.object.customer}",
      "{data.customer}",
      "{customer_id}",
      "{workspace_id}",
      "{device_id}",
    ],
    title: ["{title}", "{subject}", "{name}"],
    description: ["{description}", "{message}"],
    url: ["{url}", "{html_url}"],
    actor: ["{actor}", "{sender.login}", "{user}"],
  },
} as const satisfies Record<string, Preset>;

export type PresetName = keyof typeof PRESETS;

export function isPresetName(name: string): name is PresetName {
  return Object.hasOwn(PRESETS, name);
}

export const PRESET_NAMES = Object.keys(PRESETS).filter(isPresetName);

export function presetOf(name: PresetName): Preset {
  return PRESETS[name];
}
