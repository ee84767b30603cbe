// gatehouse version: which build this is.
import { COMMIT, VERSION } from "../platform/version.ts";
import type { Command } from "./command.ts";

export const version: Command = {
  summary: "print version, commit and Bun version",
  usage: ["version"],
  async run({ out }) {
    out(`gatehouse ${VERSION} (${COMMIT}), Bun ${Bun.version}`);
    return 0;
  },
};
