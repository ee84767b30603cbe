// What happens right now, for whoever is watching. Nothing is kept: without a watcher it costs a loop over nobody.
import type { DeliveryRow, Rejection } from "./journal-schema.ts";

export type TailEvent =
  | {
      kind: "delivery";
      at: string;
      id: string;
      source: string;
      class: string;
      agent: string;
      type: string;
      title: string;
      status: "pending" | "done" | "dead";
      attempt: number;
      answer?: number;
      reason?: string;
      duration_ms?: number;
    }
  | { kind: "rejection"; at: string; source: string; stage: string; verdict: string; status: number; address: string };

type Watcher = { see(event: TailEvent): void; end(): void };
export type Tail = ReturnType<typeof createTail>;

const WATCHERS_MAX = 100;

export function createTail() {
  const watchers = new Set<Watcher>();
  const publish = (event: TailEvent): void => {
    for (const { see } of watchers) see(event);
  };
  return {
    /** Returns how to stop; undefined when enough are watching already. */
    watch(watcher: Watcher): (() => void) | undefined {
      if (watchers.size >= WATCHERS_MAX) return undefined;
      watchers.add(watcher);
      return () => void watchers.delete(watcher);
    },
    /** A listener that stops would wait for them. */
    hangUp(): void {
      for (const { end } of watchers) end();
      watchers.clear();
    },
    delivery(
      row: Pick<DeliveryRow, "id" | "source" | "class" | "name" | "type" | "title" | "attempts">,
      status: "pending" | "done" | "dead",
      atMs: number,
      more: { answer?: number; reason?: string; duration_ms?: number } = {},
    ): void {
      if (watchers.size === 0) return;
      const { id, source, class: className, name: agent, type, title, attempts: attempt } = row;
      publish({
        kind: "delivery",
        at: toIso(atMs),
        id,
        source,
        class: className,
        agent,
        type,
        title,
        status,
        attempt,
        ...more,
      });
    },
    rejection({ atMs, source, stage, verdict, status, address }: Rejection): void {
      if (watchers.size > 0) publish({ kind: "rejection", at: toIso(atMs), source, stage, verdict, status, address });
    },
  };
}

function toIso(ms: number): string {
  return new Date(ms).toISOString();
}
