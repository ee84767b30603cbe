// What a verb of the executable is, and what it is given.
import type { Machine } from "../parts.ts";
import type { Config } from "../platform/config.ts";

export type OptionTable = Record<string, { type: "string" | "boolean"; multiple?: boolean; short?: string }>;

export type Command = {
  summary: string;
  /** One line per form, without the program's name. */
  usage: readonly string[];
  options?: OptionTable;
  /** Resolves to the exit code. */
  run(context: CommandContext): Promise<number>;
};

export type CommandContext = {
  args: readonly string[];
  options: Record<string, string | boolean | (string | boolean)[] | undefined>;
  config: Config;
  api: Api;
  out(line: string): void;
  err(line: string): void;
  stdin(): ReadableStream<Uint8Array>;
  /** Any amount to standard output, no faster than its reader takes it. */
  pour(bytes: ReadableStream<Uint8Array>): Promise<void>;
};

/** The HTTP API with admin authority: of the running server, or in this process when none runs. */
export type Api = {
  /** The `result` of a successful call; throws CommandError with the server's sentence otherwise. */
  call(method: string, path: string, body?: unknown): Promise<unknown>;
  /** As `call` with POST, for a question that is too long for an address: it changes nothing, and makes no data folder. */
  ask(path: string, body: unknown): Promise<unknown>;
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** Does a server answer, or this very process, in which nothing happens by itself? */
  isServed(): Promise<boolean>;
};

/** What the person at the terminal reads, without a stack. 1: it failed. 2: it was called wrongly. */
export class CommandError extends Error {
  readonly exitCode: 1 | 2;

  constructor(message: string, exitCode: 1 | 2 = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** A word that a verb would ignore is a mistake its caller should hear of. */
export function noWords(words: readonly string[]): void {
  if (words.length > 0) throw new CommandError(`unexpected: ${words.join(" ")}`, 2);
}

/** What fails on the way into the data folder is for the owner of the machine, who needs a sentence and not our stack. */
export function inFolder<T>({ settings, log }: Machine, open: () => T): T {
  try {
    return open();
  } catch (error) {
    if (error instanceof CommandError) throw error;
    log.debug("folder.failed", { error });
    throw new CommandError(`cannot use the data folder ${settings.data}: ${whyOf(error)}`);
  }
}

export function whyOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** On one line whatever a stranger wrote: a title, a model's name, a path. */
export function plain(text: string): string {
  return text.replace(/\p{Cc}/gu, "�");
}

/** Any text for a person: nothing that a terminal would obey, but for the ends of lines and columns. */
export function tame(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]/gu, "�");
}
