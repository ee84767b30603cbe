// gatehouse token: mint, list and revoke tokens from the machine itself.
import { Type as t } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { toKebab } from "../agents/runtime/names.ts";
import { PERMISSIONS } from "../platform/permissions.ts";
import { type Command, CommandError, noWords } from "./command.ts";

const Token = t.Object({
  id: t.String(),
  name: t.String(),
  permissions: t.Array(t.String()),
  account_id: t.Optional(t.String()),
  gateway_id: t.Optional(t.String()),
  agent_class: t.Optional(t.String()),
  agent_name: t.Optional(t.String()),
  expires_at: t.Union([t.String(), t.Null()]),
  last_used_at: t.Union([t.String(), t.Null()]),
});
const NewToken = t.Object({ id: t.String(), token: t.String() });

export const token: Command = {
  summary: "create, list and revoke tokens",
  usage: [
    "token create NAME --permission P [--permission P …] [--account ID] [--gateway ID] [--class C] [--agent NAME] [--expires TIME]",
    "token create --admin [NAME]",
    "token list",
    "token revoke ID",
  ],
  options: {
    admin: { type: "boolean" },
    permission: { type: "string", multiple: true, short: "p" },
    account: { type: "string" },
    gateway: { type: "string" },
    class: { type: "string" },
    agent: { type: "string" },
    expires: { type: "string" },
  },
  async run({ args: [verb, subject, ...rest], options, api, out }) {
    noWords(rest);
    if (verb === "create") {
      const name = subject ?? (options.admin ? "admin from the command line" : undefined);
      if (name === undefined)
        throw new CommandError("a token needs a name: gatehouse token create NAME --permission run", 2);
      if (!options.admin && options.permission === undefined)
        throw new CommandError(`say what it may do, --permission and one of ${PERMISSIONS.join(", ")}`, 2);
      const made = await api.call("POST", "/api/tokens", {
        name,
        permissions: options.admin ? ["admin"] : (options.permission ?? []),
        account_id: options.account,
        gateway_id: options.gateway,
        agent_class: typeof options.class === "string" ? toKebab(options.class) : undefined, // as `secret` takes it
        agent_name: options.agent,
        expires_at: options.expires,
      });
      const { id, token: value } = Value.Parse(NewToken, made);
      out(value);
      out(`id ${id}; the value above is not shown again`);
      return 0;
    }
    if (verb === "list") {
      noWords(subject === undefined ? [] : [subject]);
      for (const one of Value.Parse(t.Array(Token), await api.call("GET", "/api/tokens"))) {
        const place = [one.account_id, one.gateway_id, one.agent_class, one.agent_name].filter(Boolean).join("/");
        const used = one.last_used_at ? `used ${one.last_used_at}` : "never used";
        const ends = one.expires_at ? `, expires ${one.expires_at}` : "";
        out([one.id, one.name, one.permissions.join(","), place || "everywhere", `${used}${ends}`].join("  "));
      }
      return 0;
    }
    if (verb === "revoke" && subject !== undefined) {
      await api.call("DELETE", `/api/tokens/${encodeURIComponent(subject)}`);
      out(`revoked ${subject}`);
      return 0;
    }
    throw new CommandError("say create, list or revoke ID", 2);
  },
};
