// Read-only SQL on an agent's database, in a process of its own: a statement cannot be stopped, a process can.
import { rm } from "node:fs/promises";
import { AppError } from "../platform/errors.ts";

export type SqlBox = ReturnType<typeof createSqlBox>;
export type SqlRows = { columns: string[]; rows: unknown[][]; truncated: boolean };

const MS_MAX = 5_000;
const COPY_MS_MAX = 120_000; // a large database on a slow card
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

/** Whatever the agent has committed, in one file and without the log beside it. */
const COPIER = `
import { DatabaseSync } from "node:sqlite";
const { path, to } = JSON.parse(await new Response(Bun.stdin.stream()).text());
new DatabaseSync(path, { readOnly: true }).prepare("vacuum into ?").run(to);
process.stdout.write("copied");
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

  async function inTurn<T>(task: () => Promise<T>): Promise<T> {
    await enter();
    try {
      return await task();
    } finally {
      leave();
    }
  }

  return {
    query: (path: string, query: string): Promise<unknown> => inTurn(() => ask(path, query)),
    /** Into a file that does not exist yet; nothing is left of it when that fails. */
    copy: (path: string, to: string): Promise<void> =>
      inTurn(async () => {
        if ((await run(COPIER, { path, to }, COPY_MS_MAX)) === "copied") return;
        await rm(to, { force: true });
        throw new AppError("agent.slow", { say: "The database could not be copied" });
      }),
  };
}

async function ask(path: string, query: string): Promise<unknown> {
  const text = await run(READER, { path, query, rowsMax: ROWS_MAX, bytesMax: OUTPUT_BYTES_MAX }, MS_MAX);
  if (text === "") throw new AppError("agent.slow", { say: `The query was ended after ${MS_MAX} ms` });
  const answer: unknown = JSON.parse(text);
  if (typeof answer === "object" && answer !== null && "error" in answer) {
    throw new AppError("input.invalid", { say: String(answer.error) });
  }
  return answer;
}

/** What the script printed; nothing when it failed or took too long. */
async function run(script: string, input: Record<string, unknown>, msMax: number): Promise<string> {
  const child = Bun.spawn([process.execPath, "-e", script], {
    env: { BUN_BE_BUN: "1" },
    stdin: new Blob([JSON.stringify(input)]),
    stdout: "pipe",
    stderr: "ignore",
    timeout: msMax,
    killSignal: "SIGKILL",
  });
  const text = await new Response(child.stdout).text();
  return (await child.exited) === 0 ? text : "";
}
