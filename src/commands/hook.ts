// gatehouse hook: sources of webhooks, their secrets, and what became of deliveries.
import { type Static, Type as t } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { DeliveryView, RejectionView, SourceView } from "../hooks/model.ts";
import { parseSavedRequest } from "../hooks/saved-request.ts";
import { refusal } from "./api.ts";
import { type Command, type CommandContext, CommandError, plain } from "./command.ts";

const USAGE = {
  list: "hook list",
  show: "hook show SOURCE",
  create: "hook create NAME --preset PRESET [--class CLASS]",
  set: "hook set SOURCE [--class CLASS] [--verify none|preset] [--ordered|--no-ordered] [--ack-ms MS]",
  rm: "hook rm SOURCE",
  secret: "hook secret SOURCE [--generate] [--rotate [--overlap SECONDS]]     (the value comes from standard input)",
  pause: "hook pause SOURCE",
  resume: "hook resume SOURCE",
  test: "hook test SOURCE [--entity ENTITY]",
  deliveries: "hook deliveries [--source S] [--status pending|held|done|dead] [--agent NAME] [--limit N]",
  rejections: "hook rejections [--source S] [--limit N]",
  tail: "hook tail [SOURCE]",
  replay: "hook replay ID … | --source S | --status dead|done | --agent NAME | --since TIME",
  curl: "hook curl ID",
  explain: "hook explain [--as SOURCE[/ENTITY]] < saved-request",
};
type Verb = keyof typeof USAGE;

const EXPLAIN_BYTES_MAX = 675_000; // in base64, and with its headers, it must fit into one management call

const Count = t.Object({ count: t.Integer() });
const Made = t.Object({ secret: t.Union([t.String(), t.Null()]) });
const Tried = t.Object({ status: t.Integer(), answer: t.String(), path: t.String() });
const Explained = t.Object({
  fits: t.Array(t.String()),
  accepted: t.Boolean(),
  stages: t.Array(t.Object({ stage: t.String(), ok: t.Boolean(), says: t.String() })),
});

export const hook: Command = {
  summary: "webhook sources, their secrets, deliveries, replay, explain",
  usage: Object.values(USAGE),
  options: {
    preset: { type: "string" },
    class: { type: "string" },
    verify: { type: "string" },
    ordered: { type: "boolean" },
    "ack-ms": { type: "string" },
    generate: { type: "boolean" },
    rotate: { type: "boolean" },
    overlap: { type: "string" },
    entity: { type: "string" },
    source: { type: "string" },
    status: { type: "string" },
    agent: { type: "string" },
    since: { type: "string" },
    limit: { type: "string" },
    as: { type: "string" },
    json: { type: "boolean" },
  },
  async run(context) {
    const [verb = "", ...args] = context.args;
    const run = new Map(Object.entries(VERBS)).get(verb);
    if (!run) throw new CommandError(`say ${Object.keys(USAGE).join(", ")}`, 2);
    return run({ ...context, args });
  },
};

const VERBS: Record<Verb, (context: CommandContext) => Promise<number>> = {
  async list(context) {
    none("list", context.args);
    const all = Value.Parse(t.Array(SourceView), await context.api.call("GET", "/api/hooks/sources"));
    const used = all.filter(
      ({ built_in, secrets, counters }) =>
        !built_in || secrets.length > 0 || Object.values(counters).some((n) => n > 0),
    );
    show(context, used, (source) => context.out(toLine(source)));
    if (!context.options.json)
      context.out(`${all.length - used.length} more presets wait for a secret: gatehouse hook secret NAME`);
    return 0;
  },
  async show(context) {
    show(context, [await sourceOf(context, one("show", context.args))], (source) => {
      context.out(toLine(source));
      context.out(
        `  feeds    ${source.class}, answers within ${source.ack_ms} ms${source.ordered ? ", in order" : ""}`,
      );
      context.out(`  entity   ${source.entity.join("  ")}`);
      for (const { from, expires_at } of source.secrets)
        context.out(`  secret   ${from}${expires_at ? `, until ${expires_at}` : ""}`);
      for (const warning of source.warnings) context.out(`  warning  ${warning}`);
    });
    return 0;
  },
  async create({ args, options, api, out }) {
    const name = one("create", args);
    if (typeof options.preset !== "string") throw usage("create");
    await api.call("POST", "/api/hooks/sources", { name, preset: options.preset, ...changes(options) });
    out(`created ${name}; its address is /webhooks/${name}`);
    return 0;
  },
  async set({ args, options, api, out }) {
    const name = one("set", args);
    const wanted = changes(options);
    if (Object.keys(wanted).length === 0) throw usage("set");
    await api.call("PATCH", pathOf(name), wanted);
    out(`changed ${name}`);
    return 0;
  },
  async rm({ args, api, out }) {
    const name = one("rm", args);
    const { built_in } = await sourceOf({ api }, name);
    await api.call("DELETE", pathOf(name));
    out(built_in ? `${name} is back to its preset; its stored secret is forgotten` : `removed ${name}`);
    return 0;
  },
  async secret({ args, options, api, out, stdin }) {
    const name = one("secret", args);
    if (options.overlap !== undefined && !options.rotate) throw usage("secret"); // or the old one would end at once
    const text = options.generate ? "" : (await new Response(stdin()).text()).trim();
    if (text === "" && !options.generate)
      throw new CommandError("give the secret on standard input, or say --generate", 2);
    const body = {
      ...(text !== "" && { secret: text }),
      ...(options.rotate && options.overlap !== undefined && { overlap_seconds: Number(options.overlap) }),
    };
    const [method, path] = options.rotate
      ? ["POST", `${pathOf(name)}/secret/rotate`]
      : ["PUT", `${pathOf(name)}/secret`];
    const { secret } = Value.Parse(Made, await api.call(method, path, body));
    out(secret === null ? `set the secret of ${name}` : secret);
    return 0;
  },
  async pause({ args, api, out }) {
    await api.call("POST", `${pathOf(one("pause", args))}/pause`);
    out("paused; deliveries are stored and held");
    return 0;
  },
  async resume({ args, api, out }) {
    await api.call("POST", `${pathOf(one("resume", args))}/resume`);
    out("resumed");
    return 0;
  },
  async test({ args, options, api, out }) {
    const body = typeof options.entity === "string" ? { entity: options.entity } : {};
    const tried = Value.Parse(Tried, await api.call("POST", `${pathOf(one("test", args))}/test`, body));
    out(`POST ${tried.path} answered ${tried.status} ${tried.answer}`);
    return tried.status < 300 ? 0 : 1;
  },
  async deliveries(context) {
    none("deliveries", context.args);
    const rows = Value.Parse(
      t.Array(DeliveryView),
      await context.api.call(
        "GET",
        `/api/hooks/deliveries${queryOf(context.options, ["source", "status", "agent", "limit"])}`,
      ),
    );
    show(context, rows, (row) =>
      context.out(
        plain(
          `${row.received_at}  ${row.id}  ${row.source} ${row.type}  ${row.class}/${row.agent}  ${row.status}  ${row.attempts} attempt${row.attempts === 1 ? "" : "s"}${row.answer === null ? "" : `, ${row.answer}`}${row.duration_ms === null ? "" : `, ${row.duration_ms} ms`}${row.reason === null ? "" : `: ${row.reason}`}`,
        ),
      ),
    );
    return 0;
  },
  async rejections(context) {
    none("rejections", context.args);
    const rows = Value.Parse(
      t.Array(RejectionView),
      await context.api.call("GET", `/api/hooks/rejections${queryOf(context.options, ["source", "limit"])}`),
    );
    show(context, rows, (row) =>
      context.out(
        `${row.at}  ${row.source}  ${row.status} ${row.stage}: ${row.verdict}  ${row.method} ${row.path}  from ${row.address}`,
      ),
    );
    return 0;
  },
  async tail(context) {
    const { args, api, out } = context;
    const name = args.length === 0 ? undefined : one("tail", args);
    if (!(await api.isServed())) throw new CommandError("no server runs on this data folder, so nothing happens");
    const source = name === undefined ? undefined : await sourceOf(context, name);
    const query = source === undefined ? "" : `?source=${source.name}`;
    const answer = await api.fetch(`/api/hooks/tail${query}`, { headers: { accept: "text/event-stream" } });
    if (!answer.ok || !answer.body) throw await refusal(answer);
    let rest = "";
    for await (const chunk of untilCut(answer.body.pipeThrough(new TextDecoderStream()))) {
      const lines = `${rest}${chunk}`.split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line.startsWith("data: ")) out(plain(toTailLine(JSON.parse(line.slice(6)))));
    }
    throw new CommandError("the server has stopped");
  },
  async replay({ args, options, api, out }) {
    const filter = Object.fromEntries(
      ["source", "status", "agent", "since"].flatMap((name) =>
        typeof options[name] === "string" ? [[name, options[name]]] : [],
      ),
    );
    if (args.length === 0 && Object.keys(filter).length === 0) throw usage("replay");
    const { count } = Value.Parse(
      Count,
      await api.call("POST", "/api/hooks/replay", { ...filter, ...(args.length > 0 && { ids: args }) }),
    );
    out(`replaying ${count}`);
    return count > 0 ? 0 : 1;
  },
  async curl({ args, api, out }) {
    const answer = await api.fetch(`/api/hooks/deliveries/${encodeURIComponent(one("curl", args))}/curl`);
    if (!answer.ok) throw new CommandError("there is no delivery of this id");
    out((await answer.text()).trimEnd());
    return 0;
  },
  async explain(context) {
    none("explain", context.args);
    const saved = parseSavedRequest(await new Response(context.stdin()).bytes());
    if (!saved)
      throw new CommandError(
        "standard input does not begin with a request line such as POST /webhooks/github HTTP/1.1",
        2,
      );
    const { method, path, headers, body } = saved;
    if (body.length > EXPLAIN_BYTES_MAX)
      throw new CommandError(`a body of more than ${EXPLAIN_BYTES_MAX} bytes cannot be explained`);
    const asked = {
      method,
      path,
      headers,
      body_base64: Buffer.from(body).toString("base64"),
      ...(typeof context.options.as === "string" && { as: context.options.as }),
    };
    const answer = Value.Parse(Explained, await context.api.ask("/api/hooks/explain", asked));
    show(context, [answer], ({ fits, stages, accepted }) => {
      context.out(fits.length === 0 ? "No preset's own header is in it." : `Looks like: ${fits.join(", ")}.`);
      for (const { stage, ok, says } of stages) context.out(`${ok ? "ok  " : "FAIL"} ${stage.padEnd(10)} ${says}`);
      context.out(accepted ? "It would be accepted." : "It would be refused.");
    });
    return answer.accepted ? 0 : 1;
  },
};

/** A server that stops, or dies, ends the stream; why is in its own log. */
async function* untilCut(stream: ReadableStream<string>): AsyncGenerator<string> {
  const reader = stream.getReader();
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ value: undefined, done: true }));
    if (done || value === undefined) return;
    yield value;
  }
}

function show<T>({ options, out }: CommandContext, rows: T[], print: (row: T) => void): void {
  if (options.json) out(JSON.stringify(rows, null, 2));
  else rows.forEach(print);
}

function usage(verb: Verb): CommandError {
  return new CommandError(`usage: gatehouse ${USAGE[verb]}`, 2);
}

function one(verb: Verb, args: readonly string[]): string {
  const [only, ...rest] = args;
  if (only === undefined || rest.length > 0) throw usage(verb);
  return only;
}

function none(verb: Verb, args: readonly string[]): void {
  if (args.length > 0) throw usage(verb);
}

const pathOf = (name: string): string => `/api/hooks/sources/${encodeURIComponent(name)}`;

async function sourceOf({ api }: Pick<CommandContext, "api">, name: string): Promise<Static<typeof SourceView>> {
  return Value.Parse(SourceView, await api.call("GET", pathOf(name)));
}

function changes(options: CommandContext["options"]): Record<string, unknown> {
  return {
    ...(typeof options.class === "string" && { class: options.class }),
    ...(typeof options.verify === "string" && { verify: options.verify }),
    ...(typeof options.ordered === "boolean" && { ordered: options.ordered }),
    ...(typeof options["ack-ms"] === "string" && { ack_ms: Number(options["ack-ms"]) }),
  };
}

function queryOf(options: CommandContext["options"], names: string[]): string {
  const query = new URLSearchParams(
    names.flatMap((name) => (typeof options[name] === "string" ? [[name, options[name]]] : [])),
  );
  return query.size === 0 ? "" : `?${query}`;
}

function toLine({
  name,
  label,
  class: className,
  paused,
  verify,
  secrets,
  counters,
}: Static<typeof SourceView>): string {
  const state = paused
    ? "paused"
    : verify === "none"
      ? "OPEN TO EVERYONE"
      : secrets.length === 0
        ? "no secret"
        : "ready";
  const { done = 0, pending = 0, held = 0, dead = 0, rejected = 0 } = counters;
  return `${name.padEnd(18)} ${label} → ${className}  ${state}  ${done} done, ${pending + held} waiting, ${dead} dead, ${rejected} refused`;
}

function toTailLine(event: Record<string, unknown>): string {
  const {
    kind,
    at,
    source,
    status,
    class: className,
    agent,
    type,
    title,
    attempt,
    answer,
    reason,
    duration_ms,
    stage,
    verdict,
    address,
  } = event;
  if (kind === "rejection") return `${at}  ${source}  REFUSED ${status} ${stage}: ${verdict}  from ${address}`;
  const outcome = status === "pending" && reason === undefined ? "stored" : status;
  const more = [answer, duration_ms === undefined ? undefined : `${duration_ms} ms`, reason].filter(
    (part) => part !== undefined,
  );
  return `${at}  ${source} ${type}  ${className}/${agent}  ${outcome}, attempt ${attempt}${more.length > 0 ? ` (${more.join(", ")})` : ""}  ${title}`;
}
