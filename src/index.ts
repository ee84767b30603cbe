// The process: command line and environment become settings, settings become one command's run.
import "./platform/production.ts";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { account } from "./commands/account.ts";
import { agents } from "./commands/agents.ts";
import { lazyConnection } from "./commands/api.ts";
import { type Command, type CommandContext, CommandError, tame, whyOf } from "./commands/command.ts";
import { config as configCommand } from "./commands/config.ts";
import { doctor } from "./commands/doctor.ts";
import { gateway } from "./commands/gateway.ts";
import { hook } from "./commands/hook.ts";
import { init } from "./commands/init.ts";
import { logs } from "./commands/logs.ts";
import { secret } from "./commands/secret.ts";
import { serve } from "./commands/serve.ts";
import { service } from "./commands/service.ts";
import { tags } from "./commands/tags.ts";
import { token } from "./commands/token.ts";
import { version } from "./commands/version.ts";
import type { Machine, Threads } from "./parts.ts";
import { type Config, LEAVES, parseConfig } from "./platform/config.ts";
import { createLog } from "./platform/log.ts";
import { ADMIN_TOKEN } from "./platform/settings.ts";

/** Spelled here and nowhere else: inside a compiled executable only this module knows where the others are. */
const THREADS: Threads = {
  gatewayLogs: new URL("./gateway/logs/worker.ts", import.meta.url).href,
  agent: new URL("./agents/worker.ts", import.meta.url).href,
  describe: new URL("./agents/describe-worker.ts", import.meta.url).href,
  ledger: new URL("./agents/ledger-worker.ts", import.meta.url).href,
  journal: new URL("./hooks/journal-worker.ts", import.meta.url).href,
};

/** Likewise; the executable carries its pages inside and needs no folder. */
const EMBED_FOLDER = fileURLToPath(new URL("../dist/embed", import.meta.url));

const COMMANDS: Record<string, Command> = {
  init,
  agents,
  secret,
  token,
  account,
  gateway,
  logs,
  tags,
  config: configCommand,
  doctor,
  service,
  hook,
  version,
};

const SERVE_USAGE = "serve [flags]";

try {
  process.exit(await run(process.argv.slice(2)));
} catch (error) {
  if (isReaderGone(error)) process.exit(0);
  if (!(error instanceof CommandError)) throw error;
  for (const line of error.message.split("\n")) complain(`gatehouse: ${line}`);
  process.exit(error.exitCode);
}

async function run(argv: string[]): Promise<number> {
  const [first = "serve"] = argv;
  const verb = first.startsWith("-") ? "serve" : first;
  const command = commandOf(verb);
  if (argv[0] === "--version") return run(["version"]);
  if (verb === "help") return help(argv[1]);
  if (argv.includes("--help") || argv.includes("-h")) return help(first === verb ? verb : undefined);
  if (verb !== "serve" && !command) throw unknown(verb);

  const { positionals, settingFlags, options } = parseFlags(first === verb ? argv.slice(1) : argv, command);
  const config = readConfig(settingFlags);
  const machine = toMachine(config);
  for (const warning of config.warnings) machine.log.warn("settings", { message: warning });
  if (!command) {
    if (positionals.length > 0) throw new CommandError(`unexpected: ${positionals.join(" ")}`, 2);
    return serve(machine, { out: print, isTerminal: process.stdout.isTTY === true });
  }
  process.stdout.on("error", endWithReader);
  const { api, close } = lazyConnection(machine, verb, complain);
  const context: CommandContext = {
    args: positionals,
    options,
    config,
    api,
    out: print,
    err: complain,
    stdin: () => Bun.stdin.stream(),
    pour,
  };
  try {
    return await command.run(context);
  } finally {
    await close();
  }
}

/** By own name: `gatehouse constructor` is no command, although every object has one. */
function commandOf(verb: string): Command | undefined {
  return Object.hasOwn(COMMANDS, verb) ? COMMANDS[verb] : undefined;
}

function parseFlags(argv: string[], command: Command | undefined) {
  const own = command?.options ?? {};
  const settings = Object.fromEntries(
    LEAVES.map(({ flag, schema }) => [flag, { type: schema.type === "boolean" ? "boolean" : "string" } as const]),
  );
  try {
    const { values, positionals } = parseArgs({
      args: argv,
      options: { config: { type: "string" }, ...settings, ...own },
      allowPositionals: true,
      allowNegative: true,
    });
    const isOwn = ([name]: [string, unknown]) => name in own;
    const given = Object.entries(values).filter(([, value]) => value !== undefined);
    return {
      positionals,
      options: Object.fromEntries(given.filter(isOwn)),
      settingFlags: Object.fromEntries(
        given.filter((entry) => !isOwn(entry)).map(([name, value]) => [name, String(value)]),
      ),
    };
  } catch (error) {
    throw new CommandError(error instanceof Error ? error.message : "the command line cannot be read", 2);
  }
}

function readConfig({ config: fromFlag, ...flags }: Record<string, string>): Config {
  const named = fromFlag ?? process.env.GATEHOUSE_CONFIG;
  const path = named ?? "gatehouse.toml";
  if (named !== undefined && !existsSync(named)) throw new CommandError(`the settings file ${named} does not exist`, 2);
  const file = existsSync(path) ? { path, text: read(path) } : undefined;
  const result = parseConfig({ ...(file && { file }), env: process.env, flags });
  if (!result.ok) throw new CommandError(result.problems.join("\n"), 2);
  return { ...result, settings: { ...result.settings, ...adminFromFile(result) } };
}

function adminFromFile({ settings }: Config): { admin_token?: string } {
  const path = settings.admin_token_file;
  if (path === undefined || settings.admin_token !== undefined) return {};
  if (!existsSync(path)) throw new CommandError(`admin_token_file: ${path} does not exist`, 2);
  const admin_token = read(path).trim();
  if (!ADMIN_TOKEN.test(admin_token)) {
    throw new CommandError(`admin_token_file: ${path} holds no token of 32 to 256 characters without spaces`, 2);
  }
  return { admin_token };
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new CommandError(`${path} cannot be read: ${whyOf(error)}`, 2);
  }
}

function toMachine({ settings }: Config): Machine {
  const write = (line: string): void => void process.stderr.write(line);
  const log = createLog({ level: settings.log, pretty: process.stderr.isTTY === true, now: Date.now, write });
  return { settings, log, threads: THREADS, embedFolder: EMBED_FOLDER, env: process.env, now: Date.now };
}

function unknown(verb: string): CommandError {
  return new CommandError(`"${verb}" is no command; gatehouse help lists them`, 2);
}

function help(verb: string | undefined): number {
  if (verb !== undefined && verb !== "help") {
    const usage = verb === "serve" ? [SERVE_USAGE] : commandOf(verb)?.usage;
    if (!usage) throw unknown(verb);
    for (const line of usage) print(`gatehouse ${line}`);
    return 0;
  }
  print("gatehouse: AI gateway, webhook agents and resource tags in one process");
  print("");
  print(`  ${SERVE_USAGE.padEnd(14)} start the server (also without a verb)`);
  for (const [name, { summary }] of Object.entries(COMMANDS)) print(`  ${name.padEnd(14)} ${summary}`);
  print("");
  print("gatehouse help VERB tells more; gatehouse config --explain lists every setting.");
  return 0;
}

/** `gatehouse … | head`: whoever read our output has had enough. */
function isReaderGone(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "EPIPE";
}

function endWithReader(error: Error): void {
  if (!isReaderGone(error)) throw error;
  process.exit(0);
}

function print(line: string): void {
  say(process.stdout, line);
}

async function pour(bytes: ReadableStream<Uint8Array>): Promise<void> {
  for await (const chunk of bytes) await Bun.write(Bun.stdout, chunk);
}

function complain(line: string): void {
  say(process.stderr, line);
}

/** Much of what verbs print was chosen by strangers, and a terminal obeys some characters. A pipe gets every byte. */
function say(stream: NodeJS.WriteStream, line: string): void {
  stream.write(`${stream.isTTY ? tame(line) : line}\n`);
}
