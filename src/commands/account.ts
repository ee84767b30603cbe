// gatehouse account: the namespaces of this machine.
import { Type as t } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { type Command, CommandError, noWords } from "./command.ts";

const Account = t.Object({ id: t.String(), name: t.String(), created_at: t.String() });

export const account: Command = {
  summary: "create and list accounts",
  usage: ["account create ID [NAME]", "account list"],
  async run({ args: [verb, id, name, ...rest], api, out }) {
    noWords(rest);
    if (verb === "create" && id !== undefined) {
      const made = Value.Parse(Account, await api.call("POST", "/api/accounts", { id, name }));
      out(`created ${made.id}`);
      return 0;
    }
    if (verb === "list") {
      noWords(id === undefined ? [] : [id]);
      for (const one of Value.Parse(t.Array(Account), await api.call("GET", "/api/accounts"))) {
        out(`${one.id}  ${one.name}  ${one.created_at}`);
      }
      return 0;
    }
    throw new CommandError("say create ID [NAME], or list", 2);
  },
};
