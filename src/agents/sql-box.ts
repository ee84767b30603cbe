// Read-only SQL on an agent's database, in a process of its own: a statement cannot be stopped, a process can.
import { AppError } from "../platform/errors.ts";

export type SqlBox = ReturnType<typeof createSqlBox>;
export type SqlRows = { columns: string[]; rows: unknown[][]; truncated: boolean };

const MS_MAX = 5_000;
const ROWS_MAX = 1_000;
const OUTPUT_BYTES_MAX = 8 * 1024 * 1024;
const AT_ONCE_MAX = 2; // each is a process of some 40 MB
const WAITING_MAX = 8; // a page asks for several things at once; they take their turns, 20 seconds at the worst

/** Runs under this same executable as plain Bun. The authorizer is the wall: a read-only handle alone still has ATTACH. */
const READER = `
import { constants, DatabaseSync } from "node:sqlite";
const { path, query, rowsMax, bytesMax } = JSON.parse(await new Response(Bun.stdin.stream()).text());
const ALLOWED = new Set([constants.SQLITE_SELECT, constants.SQLITE_READ, constants.SQLITE_FUNCTION, constants.SQLITE_RECURSIVE]);
const answer = (value) => process.stdout.write(JSON.stringify(value, (_, one) =>
  typeof one === "bigint" ? one.toString() : one instanceof Uint8Array ? { base64: Buffer.from(one).toString("base64") } : one));
try {
  const db = new DatabaseSync(path, { readOnly: true });
  db.setAuthorizer((action) => ALLOWED.has(action) ? constants.SQLITE_OK : constants.SQLITE_DENY);
  const statement = db.prepare(query);
  const columns = statement.columns().map((column) => column.name);
  statement.setReturnArrays?.(true);
  const rows = [];
  let bytes = 0;
  let truncated = false;
  for (const row of statement.iterate()) {
    const values = Array.isArray(row) ? row : Object.values(row);
    bytes += JSON.stringify(values, (_, one) => typeof one === "bigint" ? one.toString() : one).length;
    if (rows.length >= rowsMax || bytes > bytesMax) { truncated = true; break; }
    rows.push(values);
  }
  answer({ columns, rows, truncated });
} catch (error) {
  answer({ error: error instanceof Error ? error.message : "failed" });
}
process.exit(0);
`;

export function createSqlBox() {
  let running = 0;
  const waiting: (() => void)[] = [];

  async function enter(): Promise<void> {
    if (running < AT_ONCE_MAX) running++;
    else if (waiting.length >= WAITING_MAX) throw new AppError("agent.busy", { headers: { "retry-after": "1" } });
    else await new Promise<void>((resolve) => waiting.push(resolve));
  }

  /** Whoever waits longest takes the place over. */
  function leave(): void {
    const next = waiting.shift();
    if (next) next();
    else running--;
  }

  return {
    async query(path: string, query: string): Promise<unknown> {
      await enter();
      try {
        return await ask(path, query);
      } finally {
        leave();
      }
    },
  };
}

async function ask(path: string, query: string): Promise<unknown> {
  const child = Bun.spawn([process.execPath, "-e", READER], {
    env: { BUN_BE_BUN: "1" },
    stdin: new Blob([JSON.stringify({ path, query, rowsMax: ROWS_MAX, bytesMax: OUTPUT_BYTES_MAX })]),
    stdout: "pipe",
    stderr: "ignore",
    timeout: MS_MAX,
    killSignal: "SIGKILL",
  });
  const text = await new Response(child.stdout).text();
  if ((await child.exited) !== 0 || text === "") {
    throw new AppError("agent.slow", { say: `The query was ended after ${MS_MAX} ms` });
  }
  const answer: unknown = JSON.parse(text);
  if (typeof answer === "object" && answer !== null && "error" in answer) {
    throw new AppError("input.invalid", { say: String(answer.error) });
  }
  return answer;
}
