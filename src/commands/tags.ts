// gatehouse tags: read, set, remove and find tags; carry all of them out and in.
import { existsSync } from "node:fs";
import { Type as t } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { refusal } from "./api.ts";
import { type Api, type Command, type CommandContext, CommandError } from "./command.ts";

const Resource = t.Object({ id: t.String(), type: t.String(), tags: t.Record(t.String(), t.String()) });
type Resource = typeof Resource.static;
const Page = t.Object({
  result: t.Array(t.Unknown()),
  result_info: t.Object({ cursor: t.Union([t.String(), t.Null()]) }),
});
const Imported = t.Object({ result: t.Object({ resources: t.Integer() }) });

const PROGRESS_MS = 1_000; // shorter work needs no news
const NEWLINE = 10;

const USAGE = {
  get: "tags get TYPE ID",
  set: "tags set TYPE ID KEY=VALUE … [--merge]",
  rm: "tags rm TYPE ID [KEY …]",
  find: "tags find [FILTER …] [--type T …] [--id ID …] [--name PART] [--ignore-case]",
  keys: "tags keys",
  values: "tags values KEY [--type T]",
  export: "tags export [FILTER …] > FILE",
  import: "tags import [FILE] < FILE",
};
type Verb = keyof typeof USAGE;

export const tags: Command = {
  summary: "read, set, find, export and import tags of resources",
  usage: [
    ...Object.values(USAGE),
    "tags …                (everywhere: [--account ID, default home] [--json])",
    "tags get|set|rm …     (where the type needs it: [--zone ID] [--worker ID] [--application ID])",
    "tags find|export …    (FILTER: key, key=value, key=v1,v2, '!key', 'key!=value'; all must hold)",
  ],
  options: {
    account: { type: "string" },
    zone: { type: "string" },
    worker: { type: "string" },
    application: { type: "string" },
    merge: { type: "boolean" },
    type: { type: "string", multiple: true, short: "t" },
    id: { type: "string", multiple: true },
    name: { type: "string" },
    "ignore-case": { type: "boolean", short: "i" },
    json: { type: "boolean" },
  },
  async run(context) {
    const [verb = "", ...args] = context.args;
    const run = new Map(Object.entries(VERBS)).get(verb);
    if (!run) throw new CommandError(`say ${Object.keys(USAGE).join(", ")}`, 2);
    await run({ ...context, args });
    return 0;
  },
};

const VERBS: Record<Verb, (context: CommandContext) => Promise<void>> = {
  async get(context) {
    const { type, id, rest } = subject(context, "get");
    if (rest.length > 0) throw wrong("get");
    const query = new URLSearchParams({ resource_type: type, resource_id: id, ...parents(context) });
    show(context, await context.api.call("GET", `${place(context)}?${query}`));
  },

  async set(context) {
    const { type, id, rest } = subject(context, "set");
    const given = Object.fromEntries(rest.map(toPair));
    const body = { resource_type: type, resource_id: id, ...parents(context), tags: given };
    show(context, await context.api.call(context.options.merge ? "PATCH" : "PUT", place(context), body));
  },

  /** Without keys all tags go; with keys only those. */
  async rm(context) {
    const { type, id, rest } = subject(context, "rm");
    const reference = { resource_type: type, resource_id: id, ...parents(context) };
    if (rest.length === 0) {
      await context.api.call("DELETE", place(context), reference);
      return;
    }
    const gone = Object.fromEntries(rest.map((key) => [key, null]));
    show(context, await context.api.call("PATCH", place(context), { ...reference, tags: gone }));
  },

  async find(context) {
    for await (const one of pages(context.api, `${account(context)}/resources`, search(context))) {
      if (context.options.json) context.out(JSON.stringify(one));
      else {
        const { type, id, tags: held } = Value.Parse(Resource, one);
        context.out([type, id, ...toWords(held)].join("  "));
      }
    }
  },

  async keys(context) {
    await list(context, `${account(context)}/keys`, new URLSearchParams());
  },

  async values(context) {
    const [key, ...rest] = context.args;
    if (key === undefined || rest.length > 0) throw wrong("values");
    const query = new URLSearchParams(texts(context, "type").map((type) => ["type", type]));
    const path = `${account(context)}/values/${encodeURIComponent(key)}`;
    await list(context, path, query);
  },

  async export(context) {
    const response = await context.api.fetch(`${account(context)}/export?${search(context)}`);
    if (!response.ok || !response.body) throw await refusal(response);
    const progress = startProgress(context, "exported");
    await context.pour(response.body.pipeThrough(progress.counting)).finally(progress.stop);
  },

  async import(context) {
    const [path, ...rest] = context.args;
    if (rest.length > 0) throw wrong("import");
    if (path !== undefined && !(await Bun.file(path).exists()))
      throw new CommandError(`${path} ${existsSync(path) ? "is not a file" : "does not exist"}`);
    const source = path === undefined ? context.stdin() : Bun.file(path).stream();
    const progress = startProgress(context, "sent");
    const response = await context.api
      .fetch(`${account(context)}/import`, {
        method: "POST",
        headers: { "content-type": "application/x-ndjson" },
        body: source.pipeThrough(progress.counting),
      })
      .finally(progress.stop);
    if (!response.ok) throw await refusal(response);
    const { result } = Value.Parse(Imported, await response.json());
    context.out(`imported ${result.resources} resources`);
  },
};

function subject({ args: [type, id, ...rest] }: CommandContext, verb: Verb) {
  if (type === undefined || id === undefined) throw wrong(verb);
  return { type, id, rest };
}

function wrong(verb: Verb): CommandError {
  return new CommandError(`usage: gatehouse ${USAGE[verb]}`, 2);
}

function account({ options }: CommandContext): string {
  return `/api/accounts/${encodeURIComponent(String(options.account ?? "home"))}/tags`;
}

function place(context: CommandContext): string {
  const { zone } = context.options;
  return zone === undefined ? account(context) : `/api/zones/${encodeURIComponent(String(zone))}/tags`;
}

function parents({ options }: CommandContext): Record<string, string> {
  return {
    ...(options.worker !== undefined && { worker_id: String(options.worker) }),
    ...(options.application !== undefined && { access_application_id: String(options.application) }),
  };
}

function search(context: CommandContext): URLSearchParams {
  const { args, options } = context;
  return new URLSearchParams([
    ...args.map((filter) => ["tag", filter]),
    ...texts(context, "type").map((type) => ["type", type]),
    ...texts(context, "id").map((id) => ["id", id]),
    ...(options.name === undefined ? [] : [["name", String(options.name)]]),
    ...(options["ignore-case"] ? [["case_insensitive", "true"]] : []),
  ]);
}

function texts({ options }: CommandContext, name: string): string[] {
  const value = options[name];
  return Array.isArray(value) ? value.map(String) : [];
}

/** `key=value`; a key alone has the empty value. The first `=` divides. */
function toPair(text: string): [string, string] {
  const at = text.indexOf("=");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function toWords(held: Resource["tags"]): string[] {
  return Object.entries(held).map(([key, value]) => `${key}=${value}`);
}

function show({ out, options }: CommandContext, result: unknown): void {
  if (options.json) out(JSON.stringify(result));
  else for (const word of toWords(Value.Parse(Resource, result).tags)) out(word);
}

async function list({ api, options, out }: CommandContext, path: string, query: URLSearchParams): Promise<void> {
  for await (const text of pages(api, path, query)) out(options.json ? JSON.stringify(text) : String(text));
}

async function* pages(api: Api, path: string, query: URLSearchParams): AsyncGenerator<unknown> {
  for (let cursor: string | null = ""; cursor !== null; ) {
    const response: Response = await api.fetch(`${path}?${query}${cursor && `&cursor=${cursor}`}`);
    if (!response.ok) throw await refusal(response);
    const page = Value.Parse(Page, await response.json());
    yield* page.result;
    cursor = page.result_info.cursor;
  }
}

/** Says once a second how many lines have passed; says nothing when it is over sooner. */
function startProgress({ err }: CommandContext, done: string) {
  let lines = 0;
  const timer = setInterval(() => err(`${lines} lines ${done}`), PROGRESS_MS);
  const counting = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, at + 1)) lines += 1;
      controller.enqueue(chunk);
    },
  });
  return { counting, stop: () => clearInterval(timer) };
}
