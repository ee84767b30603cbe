// gatehouse version: which build this is.
import { COMMIT, VERSION } from "../platform/version.ts";
import { type Command, noWords } from "./command.ts";

export const version: Command = {
  summary: "print version, commit and Bun version",
  usage: ["version"],
  async run({ args, out }) {
    noWords(args);
    out(`gatehouse ${VERSION} (${COMMIT}), Bun ${Bun.version}`);
    return 0;
  },
};
