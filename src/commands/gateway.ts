// gatehouse gateway: create and list gateways, switch authentication, make a run token.
import { Type as t } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { type Command, type CommandContext, CommandError, noWords } from "./command.ts";

const One = t.Object({ id: t.String(), authentication: t.Optional(t.Boolean()), collect_logs: t.Boolean() });
const Token = t.Object({ id: t.String(), token: t.String() });
const READ_ONLY = ["id", "created_at", "modified_at", "is_default"];
/** A new gateway in the way most people want one: logged, neither cached nor limited. */
const FRESH = {
  cache_invalidate_on_update: false,
  cache_ttl: 0,
  collect_logs: true,
  rate_limiting_interval: 0,
  rate_limiting_limit: 0,
};

export const gateway: Command = {
  summary: "create and list gateways, require a token, make one",
  usage: [
    "gateway create ID [--authentication] [--account ID]",
    "gateway list [--account ID]",
    "gateway auth on|off [ID] [--account ID]",
    "gateway token create [ID] [--name NAME] [--account ID]",
  ],
  options: { account: { type: "string" }, authentication: { type: "boolean" }, name: { type: "string" } },
  async run(context) {
    const [verb, second, third, ...rest] = context.args;
    noWords(rest);
    if (third === "") throw new CommandError("the gateway's id is empty", 2);
    if (verb === "create" && second !== undefined && third === undefined) return create(context, second);
    if (verb === "list" && second === undefined) return list(context);
    if (verb === "auth" && (second === "on" || second === "off"))
      return setAuth(context, third ?? "default", second === "on");
    if (verb === "token" && second === "create") return createToken(context, third ?? "default");
    throw new CommandError("say create ID, list, auth on|off [ID], or token create [ID]", 2);
  },
};

function base({ options }: CommandContext): string {
  const account = typeof options.account === "string" ? options.account : "home";
  return `/api/accounts/${encodeURIComponent(account)}/ai-gateway/gateways`;
}

async function create(context: CommandContext, id: string): Promise<number> {
  const authentication = context.options.authentication === true;
  await context.api.call("POST", base(context), { id, authentication, ...FRESH });
  context.out(`created ${id}, authentication ${authentication ? "on" : "off"}`);
  if (!authentication) context.out(`next: gatehouse gateway token create ${id}, then gatehouse gateway auth on ${id}`);
  return 0;
}

async function list(context: CommandContext): Promise<number> {
  for (let page = 1; ; page++) {
    const rows = Value.Parse(t.Array(One), await context.api.call("GET", `${base(context)}?per_page=100&page=${page}`));
    if (rows.length === 0) return 0;
    for (const row of rows) {
      const auth = row.authentication ? "authentication on" : "authentication off";
      context.out(`${row.id}  ${auth}  ${row.collect_logs ? "logged" : "not logged"}`);
    }
  }
}

/** Reads and writes back: the interface replaces all fields, and only one is meant to change. */
async function setAuth(context: CommandContext, id: string, authentication: boolean): Promise<number> {
  const path = `${base(context)}/${encodeURIComponent(id)}`;
  const now = Value.Parse(t.Record(t.String(), t.Unknown()), await context.api.call("GET", path));
  const fields = Object.fromEntries(Object.entries(now).filter(([name]) => !READ_ONLY.includes(name)));
  await context.api.call("PUT", path, { ...fields, authentication });
  context.out(`${id}: authentication ${authentication ? "on" : "off"}`);
  return 0;
}

async function createToken(context: CommandContext, id: string): Promise<number> {
  const name = typeof context.options.name === "string" ? context.options.name : undefined;
  const made = await context.api.call("POST", `${base(context)}/${encodeURIComponent(id)}/tokens`, { name });
  const { id: tokenId, token } = Value.Parse(Token, made);
  context.out(token);
  context.out(`id ${tokenId}; the value above is not shown again`);
  return 0;
}
