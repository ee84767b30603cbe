// gatehouse init: an agents folder with an example that works. Nothing that is there is overwritten, but our own types.
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { SCAFFOLD } from "../agents/scaffold.ts";
import { type Command, CommandError, noWords, whyOf } from "./command.ts";

/** Generated, and only useful when it fits this version. */
const ALWAYS_WRITTEN = "types/gatehouse.d.ts";

export const init: Command = {
  summary: "make an agents folder with an example",
  usage: ["init [FOLDER]"],
  async run({ args: [folder, ...rest], config, out }) {
    noWords(rest);
    const root = folder ?? config.settings.agents;
    for (const [name, text] of Object.entries(SCAFFOLD)) {
      const path = join(root, name);
      if (existsSync(path) && name !== ALWAYS_WRITTEN) {
        out(`kept     ${path}`);
        continue;
      }
      try {
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, text);
      } catch (error) {
        throw new CommandError(`cannot write ${path}: ${whyOf(error)}`);
      }
      out(`written  ${path}`);
    }
    out("");
    out("Try it:  gatehouse agents call counter demo add 5");
    return 0;
  },
};
