// Where the thread entries are when tests run from source: the same names as in src/index.ts.
import type { Threads } from "../../src/parts.ts";

export const THREADS: Threads = {};
