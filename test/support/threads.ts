// Where the thread entries are when tests run from source: the same names as in src/index.ts.
import { join } from "node:path";
import type { Threads } from "../../src/parts.ts";

const at = (path: string): string => new URL(`../../src/${path}`, import.meta.url).href;

export const THREADS: Threads = {
  gatewayLogs: at("gateway/logs/worker.ts"),
  agent: at("agents/worker.ts"),
  describe: at("agents/describe-worker.ts"),
  ledger: at("agents/ledger-worker.ts"),
  journal: at("hooks/journal-worker.ts"),
};

/** Where scripts/build leaves the pages. */
export const EMBED_FOLDER = join(import.meta.dir, "../../dist/embed");
