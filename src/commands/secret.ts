// gatehouse secret: the secrets of an agent class. A value is read from standard input, so that no shell history keeps it.
import { Type as t } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { toKebab } from "../agents/runtime/names.ts";
import { type Command, CommandError, noWords } from "./command.ts";

const Listed = t.Array(t.Object({ name: t.String(), from: t.String(), updated_at: t.Union([t.String(), t.Null()]) }));

export const secret: Command = {
  summary: "set, list and remove the secrets of an agent class",
  usage: ["secret set CLASS NAME   (the value comes from standard input)", "secret list CLASS", "secret rm CLASS NAME"],
  async run({ args: [verb, className, name, ...rest], api, out, stdin }) {
    noWords(rest);
    if (className === undefined) throw new CommandError("say: secret set CLASS NAME, list CLASS, or rm CLASS NAME", 2);
    const kebab = toKebab(className); // as people write it: ChatRoom is chat-room
    const at = `/api/agent-secrets/${encodeURIComponent(kebab)}`;
    if (verb === "list" && name === undefined) {
      for (const one of Value.Parse(Listed, await api.call("GET", at))) {
        out([one.name, one.from, one.updated_at ?? ""].join("  ").trim());
      }
      return 0;
    }
    if (name === undefined) throw new CommandError("a secret has a name: gatehouse secret set CLASS NAME", 2);
    if (verb === "set") {
      const value = (await new Response(stdin()).text()).replace(/\r?\n$/, ""); // echo and editors end with one
      if (value === "")
        throw new CommandError("standard input was empty; try: printf %s VALUE | gatehouse secret set …", 2);
      await api.call("PUT", `${at}/${encodeURIComponent(name)}`, { value });
      out(`set ${name} for ${kebab}`);
      return 0;
    }
    if (verb === "rm") {
      await api.call("DELETE", `${at}/${encodeURIComponent(name)}`);
      out(`removed ${name} from ${kebab}`);
      return 0;
    }
    throw new CommandError("say set, list or rm", 2);
  },
};
