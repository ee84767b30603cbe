// One idle thread per recently used class, its file already imported: waking an agent then costs little.
import type { AgentClassEntry } from "./catalog.ts";
import type { Host } from "./host.ts";

export type Spares = ReturnType<typeof createSpares>;

type Spare = { host: Host; fingerprint: string; usedMs: number };

export function createSpares(start: (entry: AgentClassEntry) => Host, sparesMax: number, now: () => number) {
  const spares = new Map<string, Spare>();

  function drop(className: string, spare: Spare): void {
    spares.delete(className);
    void spare.host.discard();
  }

  return {
    take({ className, fingerprint }: AgentClassEntry): Host | undefined {
      const spare = spares.get(className);
      spares.delete(className);
      if (spare && (spare.fingerprint !== fingerprint || spare.host.ended)) {
        void spare.host.discard();
        return undefined;
      }
      return spare?.host;
    },
    prepare(entry: AgentClassEntry): void {
      const { className, fingerprint } = entry;
      if (sparesMax === 0 || spares.has(className)) return;
      while (spares.size >= sparesMax) {
        const [oldest] = [...spares].sort(([, a], [, b]) => a.usedMs - b.usedMs);
        if (!oldest) break;
        drop(...oldest);
      }
      spares.set(className, { host: start(entry), fingerprint, usedMs: now() });
    },
    /** A class nobody used for a while gives its memory back. */
    expire(idleMsMax: number): void {
      for (const [className, spare] of spares) {
        if (now() - spare.usedMs > idleMsMax || spare.host.ended) drop(className, spare);
      }
    },
    drop(className: string): void {
      const spare = spares.get(className);
      if (spare) drop(className, spare);
    },
    /** How many are ready to be used. */
    get size() {
      return [...spares.values()].filter(({ host }) => host.loaded).length;
    },
    async close(): Promise<void> {
      const all = [...spares.values()];
      spares.clear();
      await Promise.all(all.map(({ host }) => host.discard()));
    },
  };
}
