// What an address below /webhooks means: which source, whose entity, which token. Pure.
import type { Source } from "./sources.ts";

export type Target =
  | {
      ok: true;
      source: Source;
      /** As the path gives it, decoded once; absent when the payload says it. */
      entity?: string;
      token?: string;
      /** The one segment that stood for the entity, where a source of that name could have stood as well. */
      route?: string;
    }
  | { ok: false; why: "unknown" | "escape" };

const SEGMENTS_MAX = 3; // source, entity, token

/** `tail` is what follows `/webhooks/`, still escaped. */
export function parseTarget(
  tail: string,
  find: (name: string) => Source | undefined,
  isEntity: (source: Source) => boolean = () => false,
): Target {
  const raw = tail.replace(/\/$/, "").split("/");
  if (raw.length > SEGMENTS_MAX || raw.includes("")) return { ok: false, why: "unknown" };
  const [first, entity, token] = raw.map(decode);
  if (first === undefined) return { ok: false, why: "escape" };
  const source = find(first);
  if (raw.length === 1) {
    if (source && !isEntity(source)) return { ok: true, source };
    const generic = find("generic");
    return generic
      ? { ok: true, source: generic, entity: first, route: first.toLowerCase() }
      : { ok: false, why: "unknown" };
  }
  if (!source) return { ok: false, why: "unknown" };
  if (entity === undefined || (raw.length === SEGMENTS_MAX && token === undefined)) return { ok: false, why: "escape" };
  return { ok: true, source, entity, ...(token !== undefined && { token }) };
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
