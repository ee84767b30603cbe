// What the API shows of sources, deliveries and rejections. Secrets are counted here, never shown.
import { toTime } from "../platform/schema.ts";
import { needsSecret } from "../platform/signature.ts";
import type { Hooks } from "./hooks.ts";
import type { DeliveryRow, Rejection } from "./journal-schema.ts";
import type { DeliveryView, RejectionView, SourceView } from "./model.ts";
import { presetOf } from "./presets.ts";
import { type Source, variablesOf } from "./sources.ts";

/** What the sources' views have in common, asked for once however many are shown. */
type Around = { counts: Map<string, Record<string, number>>; classes: ReadonlySet<string> };

export async function lookAround({ journal, classes }: Hooks): Promise<Around> {
  const asked = await journal.ask("counts", {});
  const counts: Around["counts"] = new Map();
  for (const { source, status, count } of asked.counts) counts.set(source, { ...counts.get(source), [status]: count });
  return { counts, classes: await classes() };
}

export function toSourceView(
  source: Source,
  { sources, tally, publicUrl }: Hooks,
  { counts, classes }: Around,
): SourceView {
  const info = sources.secretInfo(source.name);
  return {
    name: source.name,
    preset: source.preset,
    label: presetOf(source.preset).label,
    built_in: source.builtIn,
    class: source.className,
    address: `/webhooks/${source.name}`,
    verify: source.checks === "none" ? "none" : [...source.checks],
    entity: [...source.templates.entity],
    type: [...source.templates.type],
    id: [...source.templates.id],
    methods: [...source.methods],
    ack_ms: source.ackMs,
    ordered: source.ordered,
    dedupe_body_seconds: source.dedupeBodyMs / 1000,
    retention_events: source.retention.events,
    retention_days: source.retention.days,
    paused: source.paused,
    secrets: info.map(({ from, createdMs, expiresMs }) => ({
      from,
      created_at: timeOf(createdMs),
      expires_at: timeOf(expiresMs),
    })),
    warnings: [
      ...warningsOf(source, info.length, publicUrl),
      ...(classes.has(source.className)
        ? []
        : [`There is no agent class ${source.className} that loads: deliveries are kept until there is one.`]),
    ],
    counters: { pending: 0, held: 0, dead: 0, ...counts.get(source.name), ...tally(source.name) },
  };
}

function warningsOf({ name, checks }: Source, secrets: number, publicUrl: string | undefined): string[] {
  if (checks === "none") return ["Verification is off: everyone who reaches this address may send."];
  const twilio = checks.some(({ kind }) => kind === "twilio") && publicUrl === undefined;
  return [
    ...(secrets === 0 && needsSecret(checks)
      ? [
          `No secret is set, so every delivery is refused. Run: gatehouse hook secret ${name}, or set ${variablesOf(name)[0]}.`,
        ]
      : []),
    ...(twilio ? ["The sender signs the public address: set public_url."] : []),
  ];
}

export function toDeliveryView(row: DeliveryRow): DeliveryView {
  return {
    id: row.id,
    source: row.source,
    class: row.class,
    entity: row.identifier,
    agent: row.name,
    delivery_id: row.delivery_id,
    type: row.type,
    action: row.action,
    title: row.title,
    url: row.url,
    actor: row.actor,
    method: row.method,
    path: row.path,
    address: row.address,
    bytes: row.bytes,
    received_at: toTime(row.received_ms),
    status: row.status,
    attempts: row.attempts,
    next_attempt_at: row.status === "pending" && row.reason !== null ? toTime(row.due_ms) : null,
    answer: row.answer,
    reason: row.reason,
    finished_at: timeOf(row.finished_ms),
    duration_ms: row.duration_ms,
  };
}

export function toRejectionView({ atMs, ...rest }: Rejection): RejectionView {
  return { at: toTime(atMs), ...rest };
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : toTime(ms);
}
