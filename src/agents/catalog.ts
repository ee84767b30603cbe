// Which agent classes exist right now: the built-in ones and the user's files, looked at again whenever a file changes.
import { existsSync, type FSWatcher, statSync, watch } from "node:fs";
import { readdir } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import type { Log } from "../platform/log.ts";
import type { ClassDescription, DescribeRequest, Description } from "./describe-worker.ts";
import type { ClassSource, Problem } from "./protocol.ts";
import { toKebab } from "./runtime/names.ts";

export type Catalog = ReturnType<typeof openCatalog>;
export type AgentClassEntry = Omit<ClassDescription, "exportName"> & {
  source: ClassSource;
  file: string | undefined;
  fingerprint: string;
};
/** A file that does not work, and the classes it had when it last did, or seems to have if it never did. */
export type BrokenFile = { file: string; problem: Problem; classes: string[] };

type CatalogParts = {
  folder: string;
  describe: string;
  describeMsMax: number;
  filesMax: number;
  log: Log;
  /** Classes whose code changed, came or went. */
  onChange: (classNames: string[]) => void;
};

const AGENT_FILE = /^(?!.*\.(d|test|spec)\.)[^.].*\.(ts|tsx|js|jsx|mts|mjs)$/;
const NOT_OURS = /^(node_modules|\..*)$/;
const SETTLE_MS = 80; // an editor's save is several events; looking after the last one finds the whole file
const FOLDERS_MAX = 500; // one watch each
const AT_ONCE = 2;
const EXPORTED_CLASS = /^\s*export\s+(?:default\s+)?class\s+([A-Za-z_$][\w$]*)/gm;

export function openCatalog({ folder, describe, describeMsMax, filesMax, log, onChange }: CatalogParts) {
  const root = resolve(folder);
  let classes = new Map<string, AgentClassEntry>();
  let broken: BrokenFile[] = [];
  /** Classes of broken files, as they were when they last loaded. */
  let parked = new Map<string, AgentClassEntry>();
  let builtIn: AgentClassEntry[] = [];
  const watchers = new Map<string, { watcher: FSWatcher; inode: number | undefined }>();
  let timer: Timer | undefined;
  let looking: Promise<void> = Promise.resolve();
  let closed = false;

  async function look(): Promise<void> {
    await watchFolders();
    const names = (await readdir(root).catch(() => [])).filter((name) => AGENT_FILE.test(name)).sort();
    if (names.length > filesMax)
      log.warn("agents.too_many_files", { folder: root, files: names.length, read: filesMax });
    const files = names.slice(0, filesMax).map((name) => join(root, name));
    const described = await mapBounded(files, AT_ONCE, async (file) => {
      const description = await describeOne({ file });
      return { file, description, seems: description.ok ? [] : await seemingClasses(file) };
    });
    adopt(described);
  }

  function adopt(described: { file: string; description: Description; seems: string[] }[]): void {
    const found = new Map<string, AgentClassEntry>();
    const failed: BrokenFile[] = [];
    const before = classes;
    const had = (file: string) => [...before.values()].filter((one) => one.file === file).map((one) => one.className);
    for (const { file, description, seems } of described) {
      if (!description.ok) {
        const known = [...had(file), ...(broken.find((one) => one.file === file)?.classes ?? [])];
        const names = new Set(known.length > 0 ? known : seems);
        failed.push({ file, problem: description.problem, classes: [...names] });
        continue;
      }
      for (const { exportName, ...described_ } of description.classes) {
        const twin = found.get(described_.className);
        if (twin) {
          const message = `The class ${described_.className} is already in ${basename(twin.file ?? "")}`;
          const { line } = described_;
          failed.push({ file, problem: { file, message, ...(line === undefined ? {} : { line }) }, classes: [] });
        } else {
          const { fingerprint, uses } = description;
          const source = { file, exportName, uses };
          found.set(described_.className, { ...described_, source, file, fingerprint });
        }
      }
    }
    // A class that another file has is not lost, whatever this one held.
    const lost = new Set(failed.flatMap((one) => one.classes).filter((className) => !found.has(className)));
    for (const entry of builtIn) {
      if (!found.has(entry.className) && !lost.has(entry.className)) found.set(entry.className, entry);
    }
    const mended = new Set(broken.flatMap((one) => one.classes).filter((className) => !lost.has(className)));
    tellProblems(failed);
    parked = new Map(
      [...lost].flatMap((className) => {
        const entry = before.get(className) ?? parked.get(className);
        return entry?.file === undefined ? [] : [[className, entry]];
      }),
    );
    classes = found;
    broken = failed;
    const changed = [...new Set([...before.keys(), ...found.keys(), ...mended])].filter((className) => {
      // A class whose file broke keeps its running agents; everyone else with other code than before starts anew.
      if (lost.has(className)) return false;
      return mended.has(className) || before.get(className)?.fingerprint !== found.get(className)?.fingerprint;
    });
    if (changed.length > 0) onChange(changed);
  }

  function tellProblems(failed: BrokenFile[]): void {
    const key = ({ file, problem: { message, line } }: BrokenFile) => `${file}:${line}:${message}`;
    const known = new Set(broken.map(key));
    for (const one of failed) {
      const { stack: _, ...problem } = one.problem;
      if (!known.has(key(one))) log.error("agents.broken_file", { ...problem, file: one.file });
    }
    for (const { file } of broken) {
      if (!failed.some((one) => one.file === file)) log.info("agents.mended_file", { file });
    }
  }

  /** First of answer, error, end and timer wins: user code may do anything while it loads. */
  function describeOne(request: DescribeRequest): Promise<Description> {
    const thread = new Worker(describe, { env: {} });
    const described = Promise.withResolvers<Description>();
    const file = "file" in request ? { file: request.file } : {};
    const refuse = (message: string) => described.resolve({ ok: false, problem: { ...file, message } });
    thread.onmessage = ({ data }: MessageEvent<Description>) => described.resolve(data);
    thread.onerror = ({ message }) => refuse(message);
    thread.addEventListener("close", () => refuse("The file ended its thread while it was loaded"));
    thread.postMessage(request);
    const late = setTimeout(() => refuse(`The file was not loaded after ${describeMsMax} ms`), describeMsMax);
    return described.promise.finally(() => {
      clearTimeout(late);
      thread.terminate();
    });
  }

  /** Folder by folder, because a recursive watch would take one watch per folder of node_modules too. */
  /** And the one above: only there is it seen that the folder itself came, went or is another one now. */
  async function watchFolders(): Promise<void> {
    const above = nearestTo(root);
    const wanted = new Map([above, ...(await foldersOf(root))].map((path) => [path, inodeOf(path)]));
    for (const [path, { watcher, inode }] of watchers) {
      if (wanted.get(path) === inode) continue;
      watcher.close();
      watchers.delete(path);
    }
    const [awaited] = relative(above, root).split(sep);
    for (const [path, inode] of wanted) {
      if (watchers.has(path) || closed) continue;
      const matters = (name: string): boolean => (path === above ? name === awaited : !NOT_OURS.test(name));
      try {
        const watcher = watch(path, (_, name) => {
          if (name === null || matters(String(name))) lookSoon();
        });
        watcher.on("error", lookSoon); // the folder went away
        watchers.set(path, { watcher, inode });
      } catch (error) {
        log.warn("agents.unwatched", { folder: path, error }); // out of watches: a restart still picks changes up
      }
    }
  }

  function lookSoon(): void {
    clearTimeout(timer);
    if (!closed) timer = setTimeout(() => void refresh(), SETTLE_MS);
  }

  function refresh(): Promise<void> {
    looking = looking.then(look).catch((error) => log.error("agents.look_failed", { error }));
    return looking;
  }

  async function lookFirst(): Promise<void> {
    const ours = await describeOne({ builtIn: true });
    if (ours.ok) {
      builtIn = ours.classes.map(({ exportName, ...rest }) => {
        return { ...rest, source: { builtIn: exportName }, file: undefined, fingerprint: ours.fingerprint };
      });
    } else log.error("agents.built_in_broken", { ...ours.problem });
    await look();
  }

  let first: Promise<void> | undefined;

  return {
    /** The first look, made when somebody needs it: a verb about something else should not load anyone's code. */
    ready(): Promise<void> {
      if (!first) {
        first = lookFirst().catch((error) => log.error("agents.look_failed", { error }));
        looking = first;
      }
      return first;
    },
    get: (className: string) => classes.get(className),
    /** Also a class whose file is broken now, as it last was: what its options said still holds for its agents. */
    lastKnown: (className: string) => classes.get(className) ?? parked.get(className),
    list: () => [...classes.values()].sort((a, b) => (a.className < b.className ? -1 : 1)),
    broken: () => broken,
    isBroken: (className: string) => broken.some((one) => one.classes.includes(className)),
    refresh,
    async close(): Promise<void> {
      closed = true;
      clearTimeout(timer);
      for (const { watcher } of watchers.values()) watcher.close();
      await looking;
    },
  };
}

/** What a file that does not load says it exports: its agents are out of order, which is another answer than unknown. */
async function seemingClasses(file: string): Promise<string[]> {
  const text = await Bun.file(file)
    .text()
    .catch(() => ""); // it went away meanwhile
  return [...text.matchAll(EXPORTED_CLASS)].map(([, name = ""]) => toKebab(name));
}

async function foldersOf(root: string): Promise<string[]> {
  const found: string[] = [];
  const waiting = [root];
  for (let path = waiting.shift(); path !== undefined && found.length < FOLDERS_MAX; path = waiting.shift()) {
    const entries = await readdir(path, { withFileTypes: true }).catch(() => undefined);
    if (!entries) continue;
    found.push(path);
    for (const entry of entries)
      if (entry.isDirectory() && !NOT_OURS.test(entry.name)) waiting.push(join(path, entry.name));
  }
  return found;
}

/** The nearest folder above that exists. */
function nearestTo(path: string): string {
  const above = dirname(path);
  return above === path || existsSync(above) ? above : nearestTo(above);
}

const inodeOf = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.ino;

async function mapBounded<T, R>(items: T[], atOnce: number, task: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = new Array(items.length);
  const entries = items.entries();
  const runner = async (): Promise<void> => {
    for (const [index, item] of entries) results[index] = await task(item);
  };
  await Promise.all(Array.from({ length: atOnce }, runner));
  return results;
}
