// gatehouse config: the settings in effect, and where each came from.
import { allowed, at, LEAVES } from "../platform/config.ts";
import { type Command, noWords } from "./command.ts";

export const config: Command = {
  summary: "print the effective settings and where each came from",
  usage: ["config [--explain]"],
  options: { explain: { type: "boolean" } },
  async run({ args, config: { settings, origins }, options, out }) {
    noWords(args);
    for (const { path, schema, variable, flag } of LEAVES) {
      const value = at(settings, path);
      const shown = value === undefined ? "(not set)" : schema.secret ? "********" : JSON.stringify(value);
      out(`${path} = ${shown}   # ${origins[path] ?? "not set"}`);
      if (options.explain) out(`    ${schema.description ?? ""}; ${allowed(schema)}; ${variable}, --${flag}`);
    }
    return 0;
  },
};
