// The configured ways in: every preset under its own name, what the operator changed or added, and their secrets.
import type { Database } from "bun:sqlite";
import { randomBytes } from "node:crypto";
import { Value } from "@sinclair/typebox/value";
import { AppError } from "../platform/errors.ts";
import type { Secrets } from "../platform/secrets.ts";
import { type Check, toSecrets } from "../platform/signature.ts";
import type { Migration } from "../platform/sqlite.ts";
import { SourceChange, type SourceCreate } from "./model.ts";
import { type Handshake, isPresetName, PRESET_NAMES, type PresetName, presetOf } from "./presets.ts";
import { type Finder, findBy, holds, type Reading } from "./template.ts";

export const SOURCE_MIGRATIONS: readonly Migration[] = [
  `create table sources (name text primary key, preset text not null, config text not null, created_ms integer not null)
   strict;
   create table source_secrets (
     id integer primary key, source text not null, sealed blob not null, created_ms integer not null, expires_ms integer
   ) strict;
   create index source_secrets_source on source_secrets (source);`,
];

export const DEFAULT_CLASS = "webhook-agent";
const SOURCES_MAX = 1_000;
const SECRETS_MAX = 8; // of one source: each costs a signature over the body of every wrong delivery

export type Finders = Record<"type" | "action" | "id" | "entity" | "title" | "description" | "url" | "actor", Finder>;

/** A source ready to use: rows compiled, changes applied. */
export type Source = {
  name: string;
  preset: PresetName;
  builtIn: boolean;
  /** The operator has said something about it. */
  configured: boolean;
  className: string;
  checks: readonly Check[] | "none";
  find: Finders;
  templates: Record<"entity" | "type" | "id", readonly string[]>;
  methods: readonly string[];
  ackMs: number;
  ordered: boolean;
  dedupeBodyMs: number;
  retention: { events: number; days: number };
  paused: boolean;
  fanOut: string | undefined;
  handshakes: readonly (Handshake & { matches: (reading: Reading) => boolean; text: Finder })[];
};
export type SecretInfo = { from: "stored" | "environment"; createdMs: number | null; expiresMs: number | null };
export type SourceDefaults = { ackMs: number; retentionEvents: number; retentionDays: number };

type Row = { name: string; preset: string; config: string; created_ms: number };
type SecretRow = { id: number; source: string; sealed: Uint8Array; created_ms: number; expires_ms: number | null };
type SourceParts = {
  db: Database;
  secrets: Secrets;
  /** `GITHUB_WEBHOOK_SECRET` and the like. */
  env: Record<string, string | undefined>;
  defaults: SourceDefaults;
  now: () => number;
};

export type Sources = ReturnType<typeof createSources>;

export function createSources({ db, secrets, env, defaults, now }: SourceParts) {
  let resolved = load();
  const kept = new Map<string, (Omit<SecretRow, "sealed"> & { value: string })[]>();
  for (const row of db.query<SecretRow, []>("select * from source_secrets order by id").all()) keep(row);

  function load(): Map<string, Source> {
    const rows = db.query<Row, []>("select * from sources").all();
    const all = new Map<string, Source>(PRESET_NAMES.map((name) => [name, resolve(name, name, undefined, defaults)]));
    for (const { name, preset, config } of rows) {
      if (!isPresetName(preset)) continue; // of a newer release that was rolled back; its row waits for it
      all.set(name, resolve(name, preset, Value.Parse(SourceChange, JSON.parse(config)), defaults));
    }
    return all;
  }

  function keep({ id, source, sealed, created_ms, expires_ms }: SecretRow): void {
    const value = secrets.open(sealed, `webhook ${source}`);
    if (value === undefined) return;
    kept.set(source, [...(kept.get(source) ?? []), { id, source, created_ms, expires_ms, value }]);
  }

  const isLive = ({ expires_ms }: { expires_ms: number | null }): boolean => expires_ms === null || expires_ms > now();
  const fromEnv = (name: string): string[] => variablesOf(name).flatMap((variable) => toSecrets(env[variable] ?? ""));

  function secretsOf(name: string): string[] {
    return [...new Set([...(kept.get(name) ?? []).filter(isLive).map(({ value }) => value), ...fromEnv(name)])];
  }

  function get(name: string): Source {
    const found = resolved.get(name.toLowerCase());
    if (!found) throw new AppError("thing.unknown", { say: "There is no source of this name" });
    return found;
  }

  function configOf(name: string): SourceChange {
    const row = db.query<Row, [string]>("select * from sources where name = ?").get(name);
    return row ? Value.Parse(SourceChange, JSON.parse(row.config)) : {};
  }

  function write(name: string, preset: PresetName, config: SourceChange): Source {
    db.query(
      `insert into sources (name, preset, config, created_ms) values (?, ?, ?, ?)
       on conflict (name) do update set config = excluded.config`,
    ).run(name, preset, JSON.stringify(config), now());
    resolved = load();
    return get(name);
  }

  function create({ name, preset, ...config }: SourceCreate): Source {
    if (resolved.has(name)) throw new AppError("thing.exists", { say: "A source of this name exists" });
    if (resolved.size >= SOURCES_MAX) throw new AppError("input.invalid", { say: `At most ${SOURCES_MAX} sources` });
    return write(name, preset, config);
  }

  function change(name: string, changes: SourceChange): Source {
    const source = get(name);
    return write(source.name, source.preset, { ...configOf(source.name), ...changes });
  }

  /** A built-in source falls back to its preset; any other is gone, with its secrets. */
  function remove(name: string): void {
    const source = get(name);
    db.transaction(() => {
      db.query("delete from sources where name = ?").run(source.name);
      db.query("delete from source_secrets where source = ?").run(source.name);
    }).immediate();
    kept.delete(source.name);
    resolved = load();
  }

  /** The others count for `overlapMs` more, so that a sender can be changed over in its own time. */
  function addSecret(name: string, given: string | undefined, overlapMs: number): { made: string | null } {
    const { name: source } = get(name);
    const value = given ?? `whsec_${randomBytes(32).toString("base64")}`;
    const expiresMs = now() + overlapMs;
    const live = (kept.get(source) ?? []).filter(isLive);
    if (overlapMs > 0 && live.length >= SECRETS_MAX) {
      throw new AppError("input.invalid", { say: `At most ${SECRETS_MAX} secrets at a time` });
    }
    db.transaction(() => {
      if (overlapMs === 0) db.query("delete from source_secrets where source = ?").run(source);
      else
        db.query("update source_secrets set expires_ms = min(coalesce(expires_ms, ?1), ?1) where source = ?2").run(
          expiresMs,
          source,
        );
      db.query("delete from source_secrets where expires_ms <= ?").run(now());
      db.query("insert into source_secrets (source, sealed, created_ms) values (?, ?, ?)").run(
        source,
        secrets.seal(value, `webhook ${source}`),
        now(),
      );
    }).immediate();
    kept.delete(source);
    for (const row of db
      .query<SecretRow, [string]>("select * from source_secrets where source = ? order by id")
      .all(source))
      keep(row);
    return { made: given === undefined ? value : null };
  }

  return {
    all: (): Source[] => [...resolved.values()].sort((a, b) => (a.name < b.name ? -1 : 1)),
    /** undefined: no source of that name, so the segment is an entity. */
    find: (name: string): Source | undefined => resolved.get(name.toLowerCase()),
    get,
    create,
    change,
    remove,
    secretsOf,
    setSecret: (name: string, given: string | undefined) => addSecret(name, given, 0),
    rotateSecret: addSecret,
    clearSecrets(name: string): void {
      const { name: source } = get(name);
      db.query("delete from source_secrets where source = ?").run(source);
      kept.delete(source);
    },
    secretInfo: (name: string): SecretInfo[] => [
      ...(kept.get(name) ?? []).filter(isLive).map(({ created_ms, expires_ms }) => ({
        from: "stored" as const,
        createdMs: created_ms,
        expiresMs: expires_ms,
      })),
      ...fromEnv(name).map(() => ({ from: "environment" as const, createdMs: null, expiresMs: null })),
    ],
    /** The class a source feeds sees the source's secrets in its environment. */
    envFor(className: string): Record<string, string> {
      const own = [...resolved.values()].filter((source) => source.className === className);
      return Object.fromEntries(
        own.flatMap(({ name }) => {
          const text = secretsOf(name).join(" ");
          return text === "" ? [] : variablesOf(name).map((variable) => [variable, text]);
        }),
      );
    },
  };
}

/** `WEBHOOK_SECRET` serves the generic source alone. */
export function variablesOf(name: string): string[] {
  const own = `${name.toUpperCase().replaceAll("-", "_")}_WEBHOOK_SECRET`;
  return name === "generic" ? [own, "WEBHOOK_SECRET"] : [own];
}

function resolve(
  name: string,
  presetName: PresetName,
  given: SourceChange | undefined,
  defaults: SourceDefaults,
): Source {
  const config = given ?? {};
  const preset = presetOf(presetName);
  const entity = config.entity ?? preset.entity;
  const type = config.type ?? preset.type;
  const id = config.id ?? preset.id ?? [];
  return {
    name,
    preset: presetName,
    builtIn: isPresetName(name),
    configured: given !== undefined,
    className: config.class ?? DEFAULT_CLASS,
    checks:
      config.verify === undefined || config.verify === "preset" ? preset.verify : (config.verify as Source["checks"]), // the schema's shape is the type's
    find: {
      entity: findBy(entity),
      type: findBy(type),
      id: findBy(id),
      action: findBy(preset.action ?? []),
      title: findBy(preset.title ?? []),
      description: findBy(preset.description ?? []),
      url: findBy(preset.url ?? []),
      actor: findBy(preset.actor ?? []),
    },
    templates: { entity, type, id },
    methods: config.methods ?? ["POST", ...(preset.methods ?? [])],
    ackMs: config.ack_ms ?? Math.min(preset.ackMs ?? defaults.ackMs, defaults.ackMs),
    ordered: config.ordered ?? false,
    dedupeBodyMs: (config.dedupe_body_seconds ?? 0) * 1000,
    retention: {
      events: config.retention_events ?? defaults.retentionEvents,
      days: config.retention_days ?? defaults.retentionDays,
    },
    paused: config.paused ?? false,
    fanOut: preset.fanOut,
    handshakes: (preset.handshakes ?? []).map((one) => ({
      ...one,
      matches: holds(one.when),
      text: one.echo === undefined ? () => one.body : findBy([one.echo]),
    })),
  };
}
