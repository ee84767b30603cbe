// gatehouse agents: look at agents, call them, ask their databases, copy or destroy them.
import { open } from "node:fs/promises";
import { relative } from "node:path";
import { Type as t } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { AgentDetail, AgentView, CallResult, Overview, SqlAnswer, State } from "../agents/model.ts";
import { refusal } from "./api.ts";
import { type Api, type Command, type CommandContext, CommandError, whyOf } from "./command.ts";

type Run = (context: CommandContext, args: readonly string[]) => Promise<void>;

/** Verb, how many words follow at least and at most, and what it does. */
const VERBS: Record<string, [least: number, most: number, run: Run]> = {
  list: [0, 1, list],
  show: [2, 2, show],
  call: [3, 100, call],
  sql: [3, 3, sql],
  rm: [2, 2, remove],
  export: [3, 3, exportCopy],
};
const PAGE = 1_000;

export const agents: Command = {
  summary: "list, show, call, query, copy and destroy agents",
  usage: [
    "agents list [CLASS] [--prefix TEXT]",
    "agents show CLASS NAME",
    "agents call CLASS NAME METHOD [JSON …]   (what is no JSON is taken as text; -- before a negative number)",
    "agents sql CLASS NAME QUERY              (read only)",
    "agents export CLASS NAME FILE",
    "agents rm CLASS NAME",
  ],
  options: { prefix: { type: "string" } },
  async run(context) {
    const [verb = "", ...args] = context.args;
    const [least, most, run] = (Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined) ?? []; // not every object's `constructor`
    if (least === undefined || most === undefined || !run) {
      throw new CommandError(`say one of ${Object.keys(VERBS).join(", ")}`, 2);
    }
    if (args.length < least || args.length > most) throw new CommandError(`see: gatehouse help agents`, 2);
    await run(context, args);
    return 0;
  },
};

async function list({ api, options, out }: CommandContext, [className]: readonly string[]): Promise<void> {
  if (className !== undefined) {
    const prefix = typeof options.prefix === "string" ? options.prefix : "";
    for await (const one of everyAgent(api, className, prefix)) {
      const clients = one.connections > 0 ? `${one.connections} connected` : "";
      out([one.name, one.phase, `${one.bytes} bytes`, one.last_active_at, clients].join("  ").trim());
    }
    return;
  }
  const { classes, broken } = Value.Parse(Overview, await api.call("GET", "/api/agents"));
  for (const one of classes)
    out(
      `${one.class}  ${toCount(one.agents)}, ${one.live} live  ${one.file === null ? "built in" : fromHere(one.file)}`,
    );
  for (const one of broken)
    out(`BROKEN  ${fromHere(one.file)}${one.line === null ? "" : `:${one.line}`}  ${one.message}`);
}

function toCount(agents: number): string {
  return agents === 1 ? "1 agent" : `${agents} agents`;
}

/** As a person in this folder would type it. */
function fromHere(file: string): string {
  const path = relative("", file);
  return path.startsWith("..") ? file : path;
}

async function* everyAgent(api: Api, className: string, prefix: string) {
  let cursor = "";
  for (;;) {
    const query = new URLSearchParams({ prefix, cursor, limit: String(PAGE) });
    const page = Value.Parse(
      t.Array(AgentView),
      await api.call("GET", `/api/agents/${encodeURIComponent(className)}?${query}`),
    );
    yield* page;
    cursor = page.at(-1)?.name ?? "";
    if (page.length < PAGE) return;
  }
}

async function show({ api, out }: CommandContext, args: readonly string[]): Promise<void> {
  const detail = Value.Parse(AgentDetail, await api.call("GET", pathOf(args)));
  const { state } = Value.Parse(State, await api.call("GET", `${pathOf(args)}/state`));
  out(JSON.stringify({ ...detail, state }, null, 2));
}

async function call({ api, out }: CommandContext, args: readonly string[]): Promise<void> {
  const [, , method = "", ...given] = args;
  const body = { method, args: given.map(toValue) };
  const { output } = Value.Parse(CallResult, await api.call("POST", `${pathOf(args)}/call`, body));
  out(JSON.stringify(output, null, 2));
}

async function sql({ api, out }: CommandContext, args: readonly string[]): Promise<void> {
  const { columns, rows, truncated } = Value.Parse(SqlAnswer, await api.ask(`${pathOf(args)}/sql`, { query: args[2] }));
  out(columns.join("\t"));
  for (const row of rows)
    out(row.map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join("\t"));
  if (truncated) out(`… and more; only the first ${rows.length} rows are shown`);
}

async function remove({ api, out }: CommandContext, args: readonly string[]): Promise<void> {
  await api.call("DELETE", pathOf(args));
  out(`destroyed ${args.join("/")}`);
}

async function exportCopy({ api, out }: CommandContext, args: readonly string[]): Promise<void> {
  const [, , file = ""] = args;
  const answer = await api.fetch(`${pathOf(args)}/export`);
  if (!answer.ok) throw await refusal(answer);
  const bytes = await write(file, answer).catch((error) => {
    throw new CommandError(`cannot write ${file}: ${whyOf(error)}`);
  });
  out(`${bytes} bytes written to ${file}`);
}

/** For its owner alone, as the data folder is. */
async function write(file: string, answer: Response): Promise<number> {
  await using target = await open(file, "w", 0o600);
  let bytes = 0;
  for await (const chunk of answer.body ?? []) {
    await target.writeFile(chunk);
    bytes += chunk.length;
  }
  return bytes;
}

function pathOf([className = "", name = ""]: readonly string[]): string {
  return `/api/agents/${encodeURIComponent(className)}/${encodeURIComponent(name)}`;
}

function toValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text; // so that a plain word needs no quotes within quotes
  }
}
