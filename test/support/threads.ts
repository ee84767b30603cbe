// Where the thread entries are when tests run from source: the same names as in src/index.ts.
import { join } from "node:path";
import type { Threads } from "../../src/parts.ts";

export const THREADS: Threads = {};

/** Where scripts/build leaves the pages. */
export const EMBED_FOLDER = join(import.meta.dir, "../../dist/embed");
