// Webhooks as one part of the house: its databases, its thread, and what the other parts may ask of it.
import { join } from "node:path";
import { AppError } from "../platform/errors.ts";
import type { Log } from "../platform/log.ts";
import type { Metrics } from "../platform/metrics.ts";
import type { Secrets } from "../platform/secrets.ts";
import { openDatabase } from "../platform/sqlite.ts";
import { createDispatch, type Deliver, type Outcome } from "./dispatch.ts";
import { createIntake } from "./intake.ts";
import { createJournal } from "./journal.ts";
import { PRESET_NAMES, presetOf } from "./presets.ts";
import { createSources, SOURCE_MIGRATIONS } from "./sources.ts";
import { createTail } from "./tail.ts";

export type Hooks = ReturnType<typeof createHooks>;

export type HookSettings = {
  ack_ms: number;
  max_body_bytes: number;
  retention_events: number;
  retention_days: number;
  journal_days: number;
  journal_bytes: number;
};
type HookParts = {
  folder: string;
  settings: HookSettings;
  publicUrl: string | undefined;
  /** Where an agent believes itself to be when no public address is set. */
  localUrl: () => string;
  journalThread: string;
  secrets: Secrets;
  env: Record<string, string | undefined>;
  deliver: Deliver;
  /** Those that can be delivered to. */
  classes: () => Promise<ReadonlySet<string>>;
  requireOurs: (request: Request) => void;
  log: Log;
  metrics: Metrics;
  now: () => number;
};

const DAY_MS = 86_400_000;
const RESTART_MS = 5_000;

export function createHooks(parts: HookParts) {
  const { folder, settings, publicUrl, log, metrics, now } = parts;
  const db = openDatabase(join(folder, "hooks.db"), SOURCE_MIGRATIONS);
  const sources = createSources({
    ...parts,
    db,
    defaults: {
      ackMs: settings.ack_ms,
      retentionEvents: settings.retention_events,
      retentionDays: settings.retention_days,
    },
  });
  const journal = createJournal(parts.journalThread, join(folder, "journal.db"), {
    bytesMax: settings.journal_bytes,
    ageMsMax: settings.journal_days * DAY_MS,
  });
  const tail = createTail();
  const attempts = metrics.counter("gatehouse_hook_attempts_total", "Attempts to hand a delivery to its agent");
  const dispatch = createDispatch({
    ...parts,
    journal,
    originOf: () => publicUrl ?? parts.localUrl(),
    random: Math.random,
    optionsOf: (name) => sources.find(name)?.retention ?? {},
    onOutcome,
  });
  const routed = new Set<string>();
  const intake = createIntake({
    ...parts,
    sources,
    journal,
    dispatch,
    tail,
    isEntityRoute: (segment) => routed.has(segment),
    onResumed: () => void release().catch((error) => log.error("hook.release", { error })),
    bodyBytesMax: settings.max_body_bytes,
  });
  metrics.gauge("gatehouse_hook_attempts_in_flight", "Attempts under way", () => dispatch.inFlight());
  let ready: Promise<void> | undefined;
  let started = false;
  const doneBy = new Map<string, number>();

  function onOutcome({ job, atMs, status, answer, reason, durationMs }: Outcome): void {
    const { source } = job.row;
    attempts({ source, result: status === "pending" ? "failed" : status }).add();
    if (status === "done") doneBy.set(source, (doneBy.get(source) ?? 0) + 1);
    const more = { ...(answer !== undefined && { answer }), ...(reason !== undefined && { reason }) };
    tail.delivery(job.row, status, atMs, { ...more, duration_ms: durationMs });
    if (status === "dead") {
      const { id: delivery, class: className, name } = job.row;
      log.warn("hook.dead", { delivery, source, agent: `${className}/${name}`, reason });
    }
  }

  /** Which built-in names were entities before they were sources. Asked once; the list of built-in names is this release's. */
  async function prepare(): Promise<void> {
    for (const name of await journal.ask("routes", { names: PRESET_NAMES })) routed.add(name);
  }

  /** What was held for a source that is not paused any more, or gone, is due now. */
  async function release(): Promise<void> {
    const paused = sources.all().filter((source) => source.paused);
    await journal.ask("release", { paused: paused.map(({ name }) => name), nowMs: now() });
    await dispatch.pump();
  }

  async function receive(request: Request): Promise<Response> {
    ready ??= prepare().catch((error) => {
      ready = undefined; // the next one asks again
      throw error;
    });
    await ready;
    return intake.receive(request);
  }

  return {
    sources,
    journal,
    dispatch,
    tail,
    receive,
    release,
    /** Since the start. */
    tally: (source: string) => ({ done: doneBy.get(source) ?? 0, rejected: intake.rejected(source) }),
    publicUrl,
    classes: parts.classes,
    isUp: (): boolean => journal.isUp(),
    envFor: sources.envFor,
    /** What people call it: the sender's own name, and which one of several. */
    labelOf(name: string): string | undefined {
      const source = sources.find(name);
      if (!source) return undefined;
      const { label } = presetOf(source.preset);
      return source.builtIn ? label : `${label}: ${source.name}`;
    },
    /** Called by the server, not by a verb that opens the folder for a moment. A journal that fails is tried again. */
    async start(): Promise<void> {
      started = true;
      while (started) {
        try {
          await release(); // a crash may have come between the end of a pause and this
          return await dispatch.start();
        } catch (error) {
          log.error("hook.start", { error: error instanceof AppError ? error.cause : error });
          await Bun.sleep(RESTART_MS);
        }
      }
    },
    /** The agent is gone for good: nothing waits for it any more, and its name is free. */
    destroyed(className: string, name: string): void {
      journal
        .ask("destroyed", { className, name, nowMs: now() })
        .catch((error) => log.error("hook.destroyed", { error }));
    },
    /** Code was mended or added: what waits for it is due now. Before the start everything is due anyway. */
    hasten(classNames: readonly string[]): void {
      if (!started) return;
      const asked = classNames.map((className) => journal.ask("hasten", { className, nowMs: now() }));
      Promise.all(asked).then(dispatch.pump, (error) => log.error("hook.hasten", { error }));
    },
    /** No attempt begins any more; those under way may still end. */
    halt(): void {
      started = false;
      dispatch.stop();
    },
    async stop(): Promise<void> {
      await journal.stop();
      db.close();
    },
  };
}
