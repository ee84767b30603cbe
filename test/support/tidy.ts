// The house rules as functions of a file's path and text, so that each can be shown a sample that breaks it.

export type Source = { path: string; text: string };
/** The path as seen from the project's root, with `/`; the answer is what is wrong, empty when nothing is. */
export type Rule = (source: Source) => string[];

// A generic arrow function is a tag to the one, a tag is a comparison to the other.
const transpilers = { ts: new Bun.Transpiler({ loader: "ts" }), tsx: new Bun.Transpiler({ loader: "tsx" }) };

/** What is imported when the program runs: the transpiler drops what is only a type. */
export function importsAtRun({ path, text }: Source): string[] {
  return transpilers[path.endsWith(".tsx") ? "tsx" : "ts"].scanImports(text).map((one) => one.path);
}

/** Types too: who knows another room's types is tied to it. */
export function importsAll(source: Source): string[] {
  const typed = source.text.matchAll(/^(?:import|export)\s[^;"'`]*?\sfrom\s+"([^"]+)"/gm);
  return [...new Set([...importsAtRun(source), ...Array.from(typed, (match) => match[1] ?? "")])];
}

export function resolveImport(path: string, specifier: string): string | undefined {
  if (!specifier.startsWith(".")) return undefined;
  return new URL(specifier, `file:///${path}`).pathname.slice(1);
}

type Room = { name: string; level: number };
const PLATFORM = 3;

/** The rooms from the street to the cellar: a file may import from its own room, or from a deeper level. */
export function roomOf(path: string): Room {
  const [, first = "", second] = path.split("/");
  if (second === undefined)
    return first === "index.ts" ? { name: "index", level: 0 } : { name: "composition", level: 1 };
  if (first === "commands") return { name: "composition", level: 1 };
  return first === "platform" ? { name: first, level: PLATFORM } : { name: first, level: 2 };
}

export const importArrows: Rule = (source) => {
  const from = roomOf(source.path);
  return importsAll(source).flatMap((specifier) => {
    const target = resolveImport(source.path, specifier);
    if (target === undefined || !target.startsWith("src/")) return [];
    const to = roomOf(target);
    if (to.name === from.name || to.level > from.level) return [];
    return [`${source.path} (${from.name}) imports ${target} (${to.name})`];
  });
};

/** Every agent pays for what its thread loads: these packages cost 20 ms and 4 MB each time. */
const HEAVY = /^(elysia|@elysiajs\/.*|@sinclair\/typebox|typebox)(\/|$)/;
const IN_AGENT_THREAD =
  /^src\/(agents\/(worker|protocol)\.ts|agents\/(runtime|sdk)\/.+|platform\/(errors|sqlite|log|signature|twilio-signature|address|payload)\.ts)$/;

/** Follows what runs, from a thread's entry. `only` is what may be reached; without it just the heavy packages count. */
export function threadGraph(entry: string, read: (path: string) => string, only?: RegExp): string[] {
  const wrong: string[] = [];
  const seen = new Set<string>();
  const visit = (path: string): void => {
    if (seen.has(path)) return;
    seen.add(path);
    if (only && !only.test(path)) wrong.push(`${entry} reaches ${path}`);
    for (const specifier of importsAtRun({ path, text: read(path) })) {
      const target = resolveImport(path, specifier);
      if (target?.startsWith("src/") && /\.tsx?$/.test(target)) visit(target);
      else if (HEAVY.test(specifier)) wrong.push(`${entry} reaches ${specifier}, through ${path}`);
    }
  };
  visit(entry);
  return wrong;
}

export const agentThread = (entry: string, read: (path: string) => string) => threadGraph(entry, read, IN_AGENT_THREAD);

const VAGUE = new Set(["utils", "util", "helpers", "helper", "common", "misc", "lib", "types", "service", "services"]);

/** A name that accepts anything collects everything. A verb's file is named after the verb. */
export const fileNames: Rule = ({ path }) => {
  const parts = path.replace(/\.(test\.)?[a-z]+$/, "").split("/");
  const vague = /^(src|test)\/commands\//.test(path) ? [] : parts.filter((part) => VAGUE.has(part));
  const barrel = parts.at(-1) === "index" && path !== "src/index.ts" && /\.tsx?$/.test(path) ? ["index"] : [];
  return [...vague, ...barrel].map((name) => `${path}: "${name}" says nothing about what is in it`);
};

const WORDS: readonly [RegExp, string][] = [
  [/\b(TODO|FIXME|XXX|HACK)\b/, "unfinished work"],
  [/@ts-(ignore|nocheck|expect-error)/, "the type checker is switched off"],
  [/\bas unknown as\b/, "a cast through unknown proves nothing"],
  [/\b(test|describe|it)\.(skip|only|todo)(If)?\b/, "a test that does not run, or keeps others from running"],
  [/^export \* from/m, "a barrel"],
  [/\b(class|interface|type)\s+\w*(Manager|Impl|Service)\b/, "a name that accepts anything"],
];

export const bannedWords: Rule = ({ path, text }) =>
  WORDS.flatMap(([pattern, why]) => {
    const found = pattern.exec(text);
    return found ? [`${path}:${text.slice(0, found.index).split("\n").length}: ${found[0]} (${why})`] : [];
  });

/** Inside an executable every module has the address of the bundle's root: only src/index.ts is there in both. */
export const ownAddress: Rule = ({ path, text }) =>
  path !== "src/index.ts" && /\bimport\.meta\.(url|dir|dirname|path|file|filename)\b/.test(text)
    ? [`${path} asks for its own address, which is another one in the executable`]
    : [];

export const firstLine: Rule = ({ path, text }) =>
  /^(\/\/ \S|\/\* \S|#!)/.test(text) ? [] : [`${path} does not begin with a line that says its idea`];

const CDN =
  /\b((fonts|ajax)\.googleapis\.com|gstatic\.com|unpkg\.com|jsdelivr\.net|cdnjs\.cloudflare\.com|esm\.sh|esm\.run|skypack\.dev|bootstrapcdn\.com|typekit\.net|cdn\.[\w-]+\.\w+)/;
/** What makes a browser fetch: an attribute of a loading element, a style's address, a script's import. */
const LOADS = [
  /<(?:script|link|img|iframe|source|video|audio|embed|object|use)\b[^>]*?\b(?:src|href|data)\s*=\s*["']?(?:https?:)?\/\/[^"'\s>]+/i,
  /\burl\(\s*["']?(?:https?:)?\/\/[^)]+\)/i,
  /@import\s+["'](?:https?:)?\/\/[^"']+/i,
  /\b(?:import|importScripts)\s*\(\s*["'](?:https?:)?\/\/[^"']+/,
  /\bfrom\s*["'](?:https?:)?\/\/[^"']+/,
];

/** A link that a person may click leads wherever it likes; nothing that a page loads comes from elsewhere. */
export const ownFilesOnly: Rule = ({ path, text }) =>
  [CDN, ...LOADS].flatMap((pattern) => {
    const found = pattern.exec(text);
    return found ? [`${path} loads from elsewhere: ${found[0].slice(0, 120)}`] : [];
  });
