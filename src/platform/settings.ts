// Every setting: its default, its limits and why.
import { FormatRegistry, type Static, Type as t } from "@sinclair/typebox";
import { isAddressRange } from "./address.ts";
import { LOG_LEVELS } from "./log.ts";
import { oneOf, strict } from "./schema.ts";

FormatRegistry.Set("address-range", isAddressRange);
FormatRegistry.Set("base-url", isBaseUrl);
FormatRegistry.Set("origin", isOrigin);
FormatRegistry.Set("time-zone", isTimeZone);

/** It travels in a header, so no space and nothing outside ASCII. */
export const ADMIN_TOKEN = /^[\x21-\x7e]{32,256}$/;

const secret = { secret: true } as const;
const count = (value: number, minimum: number, maximum: number, description: string) =>
  t.Integer({ default: value, minimum, maximum, description });

export const Settings = t.Object(
  {
    host: t.String({ default: "0.0.0.0", minLength: 1, description: "address to listen on" }),
    port: count(8787, 0, 65_535, "port to listen on; 0 picks a free one"),
    data: t.String({ default: "./data", minLength: 1, description: "folder that holds everything we store" }),
    agents: t.String({ default: "./agents", minLength: 1, description: "folder of your agent files" }),
    log: oneOf(LOG_LEVELS, { default: "info", description: "least severe level that is logged" }),
    admin_token: t.Optional(
      t.String({ ...secret, pattern: ADMIN_TOKEN.source, description: "the admin token, instead of a generated one" }),
    ),
    admin_token_file: t.Optional(t.String({ minLength: 1, description: "file that holds the admin token" })),
    key_file: t.Optional(
      t.String({ minLength: 1, description: "file of the encryption key; default: secret.key in the data folder" }),
    ),
    public_url: t.Optional(
      t.String({ format: "origin", description: "origin that clients see, such as https://pi.example.org" }),
    ),
    trusted_proxies: t.Array(t.String({ format: "address-range" }), {
      default: [],
      description: "addresses or ranges whose X-Forwarded-For is believed",
    }),
    allowed_hosts: t.Array(t.String({ pattern: "^[a-zA-Z0-9.-]+$" }), {
      default: [],
      description:
        "host names, beside addresses, localhost and *.local, under which routes without a credential answer",
    }),
    cors_origins: t.Array(t.Union([t.Literal("*"), t.String({ format: "origin" })]), {
      default: [],
      description: "origins whose pages may call us from a browser",
    }),
    metrics_open: t.Boolean({ default: false, description: "serve /metrics without a token" }),
    tls_cert: t.Optional(t.String({ minLength: 1, description: "certificate file (PEM); needs tls_key" })),
    tls_key: t.Optional(t.String({ minLength: 1, description: "private key file (PEM); needs tls_cert" })),
    session_hours: count(168, 1, 8_760, "how long a console sign-in lasts"),
    stop_ms: count(10_000, 0, 300_000, "how long requests in flight may take to finish when the server stops"),
    hooks: t.Object(
      {
        ack_ms: count(3_000, 50, 60_000, "how long a sender waits for its agent before it is told 202"),
        max_body_bytes: count(27_262_976, 1_024, 268_435_456, "size of one delivery; GitHub sends up to 25 MB"),
        retention_events: count(100, 0, 1_000_000, "events an agent keeps; 0 keeps all"),
        retention_days: count(30, 0, 3_650, "days an agent keeps an event; 0 keeps all"),
        journal_days: count(7, 1, 3_650, "days a finished delivery is kept for replay"),
        outgoing_deny: t.Array(t.String({ minLength: 1 }), {
          default: ["169.254.0.0/16", "fe80::/10"],
          description: "addresses, ranges and host names that agents' webhooks never go to; home networks are allowed",
        }),
        journal_bytes: count(1_073_741_824, 1_048_576, 1_099_511_627_776, "bytes of deliveries the journal holds"),
      },
      strict,
    ),
    gateway: t.Object(
      {
        upstream_idle_ms: count(600_000, 1_000, 86_400_000, "a provider that sends nothing for this long is given up"),
        log_rows: count(1_000_000, 0, 1_000_000_000, "gateway log rows kept, the oldest go first; 0 keeps all"),
        log_days: count(90, 0, 36_500, "days a gateway log row is kept; 0 keeps it for ever"),
        log_bytes: count(
          2 * 1024 ** 3,
          0,
          2 ** 50,
          "bytes the gateway logs may take, the oldest rows go first; 0 is no limit",
        ),
        providers: t.Record(
          t.String({ pattern: "^[a-z0-9][a-z0-9-]{0,63}$" }),
          t.Object(
            {
              base_url: t.Optional(t.String({ format: "base-url" })),
              version: t.Optional(t.String({ pattern: "^(v[0-9]+[a-z0-9]*)?$" })),
              enabled: t.Optional(t.Boolean()),
            },
            strict,
          ),
          {
            ...strict,
            default: {},
            description: "your own providers, or another base_url (or enabled = false) for a built-in one",
          },
        ),
        prices: t.Record(
          t.String({ minLength: 1, maxLength: 200 }),
          t.Object(
            {
              input: t.Number({ minimum: 0 }),
              output: t.Number({ minimum: 0 }),
              cache_read: t.Optional(t.Number({ minimum: 0 })),
              cache_write: t.Optional(t.Number({ minimum: 0 })),
            },
            strict,
          ),
          { default: {}, description: "dollars per million tokens, by model or provider/model, instead of the table" },
        ),
      },
      strict,
    ),
    agent: t.Object(
      {
        live_max: count(64, 1, 4_096, "agents with a thread of their own at once, 4 to 10 MB each"),
        spares_max: count(4, 0, 64, "classes for which one idle thread is kept ready"),
        idle_ms: count(30_000, 100, 86_400_000, "how long an agent without work keeps its thread"),
        wait_ms: count(5_000, 0, 60_000, "how long a request may wait for a free thread before it is refused"),
        handler_ms_max: count(900_000, 1_000, 86_400_000, "how long one handler of an agent may take"),
        heartbeat_ms_max: count(30_000, 1_000, 3_600_000, "how long a thread's event loop may stand still"),
        calls_max: count(256, 1, 100_000, "calls and requests in flight for one agent"),
        inbox_max: count(256, 1, 100_000, "events that may wait for one agent while it has no thread"),
        sockets_max: count(2_000, 1, 1_000_000, "WebSocket clients of one agent"),
        // Bun's bounds: its timer is too coarse below 8 seconds, and counts to 960.
        socket_idle_seconds: count(30, 8, 960, "how long a WebSocket client may not even answer a ping"),
        frames_max: count(1_024, 1, 1_000_000, "frames of its clients that one agent may have in hand"),
        frame_bytes_max: count(1_048_576, 1_024, 67_108_864, "size of one WebSocket frame"),
        output_bytes_max: count(33_554_432, 1_048_576, 1_073_741_824, "bytes on their way out of one thread"),
        queue_max: count(100_000, 1, 100_000, "tasks in one agent's queue"),
        schedules_max: count(10_000, 1, 1_000_000, "schedules of one agent"),
        dead_letters_max: count(1_000, 1, 1_000_000, "failed tasks kept for one agent"),
        files_max: count(200, 1, 10_000, "files of the agents folder that are read"),
        load_ms_max: count(30_000, 1_000, 600_000, "how long a file of the agents folder may take to load"),
        timezone: t.String({
          default: "UTC",
          format: "time-zone",
          description: "time zone of cron lines that name none, such as Europe/Berlin",
        }),
      },
      strict,
    ),
    tags: t.Object(
      {
        missing_status: t.Union([t.Literal(500), t.Literal(404)], {
          default: 500,
          description:
            "status of a read of a resource that was never tagged; 404 is what the interface announces for later",
        }),
        max_per_account: count(0, 0, 1_000_000_000, "tags that one account may hold; 0 is no limit"),
        resource_types: t.Array(t.String({ pattern: "^[a-z][a-z0-9_]{0,63}$" }), {
          default: [],
          description: "resource types of your own, such as device, vm, container",
        }),
      },
      strict,
    ),
  },
  strict,
);
export type Settings = Static<typeof Settings>;

function isOrigin(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol) && new URL(text).origin === text;
}

/** http or https, and nothing but origin and path: what follows is the caller's. */
export function isBaseUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, search, hash, hostname } = new URL(text);
  return /^https?:$/.test(protocol) && username + password + search + hash === "" && hostname !== "";
}

function isTimeZone(text: string): boolean {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: text }) !== undefined;
  } catch {
    return false; // that is how Intl says it
  }
}
