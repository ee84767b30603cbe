// Where to find something in a delivery, as text: "{repository.full_name}", "sonarr-{series.id}", "down{?status=0}".
// A list of them is tried in order; one whose places cannot all be filled does not count. Pure.

export type Reading = { headers: Headers; query: URLSearchParams; payload: unknown };
export type Finder = (reading: Reading) => string | undefined;

type Part = { text: string } | { place: string } | { when: string; is?: string } | { unless: string };

const TEXT_CHARACTERS_MAX = 2_000; // of one filled place: titles and addresses, not documents
const PLACE = /\{([^{}]+)\}/g;

/** The first template that can be filled. */
export function findBy(templates: readonly string[]): Finder {
  const compiled = templates.map(parseTemplate);
  return (reading) => {
    for (const parts of compiled) {
      const text = fill(parts, reading);
      if (text !== undefined && text !== "") return text;
    }
    return undefined;
  };
}

/** Do all conditions of this template hold? It may consist of nothing else. */
export function holds(template: string): (reading: Reading) => boolean {
  const parts = parseTemplate(template);
  return (reading) => fill(parts, reading) !== undefined;
}

export function isTemplate(text: string): boolean {
  return !/[{}]/.test(text.replace(PLACE, ""));
}

function parseTemplate(template: string): Part[] {
  const parts: Part[] = [];
  let at = 0;
  for (const match of template.matchAll(PLACE)) {
    if (match.index > at) parts.push({ text: template.slice(at, match.index) });
    parts.push(parsePlace(match[1] ?? ""));
    at = match.index + match[0].length;
  }
  if (at < template.length) parts.push({ text: template.slice(at) });
  return parts;
}

function parsePlace(place: string): Part {
  if (place.startsWith("!")) return { unless: place.slice(1) };
  if (!place.startsWith("?")) return { place };
  const [when = "", ...is] = place.slice(1).split("=");
  return is.length === 0 ? { when } : { when, is: is.join("=") };
}

function fill(parts: readonly Part[], reading: Reading): string | undefined {
  let text = "";
  for (const part of parts) {
    if ("text" in part) text += part.text;
    else if ("place" in part) {
      const found = valueAt(reading, part.place);
      if (found === undefined) return undefined;
      text += found;
    } else if ("unless" in part) {
      if (rawAt(reading, part.unless) !== undefined) return undefined;
    } else if (part.is === undefined ? rawAt(reading, part.when) === undefined : rawText(reading, part) !== part.is) {
      return undefined;
    }
  }
  return text;
}

function rawText(reading: Reading, { when }: { when: string }): string {
  return String(rawAt(reading, when));
}

/** Text, a number or a truth value; an object or an empty text is no value. */
function valueAt(reading: Reading, place: string): string | undefined {
  const found = rawAt(reading, place);
  if (typeof found === "string") return found.slice(0, TEXT_CHARACTERS_MAX) || undefined;
  return typeof found === "number" || typeof found === "boolean" ? String(found) : undefined;
}

/** Null counts as absent: senders write it for "does not apply". */
function rawAt({ headers, query, payload }: Reading, place: string): unknown {
  if (place.startsWith("header:")) return headers.get(place.slice(7)) || undefined;
  if (place.startsWith("query:")) return query.get(place.slice(6)) || undefined;
  let value = payload;
  for (const key of place.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = Reflect.get(value, key);
  }
  return value ?? undefined;
}
