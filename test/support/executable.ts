// The built executable as a child process: started from a folder of the test's choice, stopped by its id.
import { mkdirSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");
export const EXECUTABLE = join(ROOT, "dist", process.platform === "win32" ? "gatehouse.exe" : "gatehouse");

let built = false; // once per run, however many files need it

export function buildExecutable(): void {
  if (built) return;
  const build = Bun.spawnSync([process.execPath, "scripts/build.ts", "--no-measure"], { cwd: ROOT });
  if (build.exitCode !== 0) throw new Error(`the build failed:\n${build.stdout}${build.stderr}`);
  built = true;
}

export type Running = {
  url: string;
  pid: number;
  printed(): string;
  stop(signal?: NodeJS.Signals): Promise<number | null>;
};
export type Ended = { code: number; out: string; err: string };

type Start = { executable: string; cwd: string; args?: string[]; env?: Record<string, string> };

/** Resolves when it says that it is ready; throws with what it printed when it ends instead. */
export async function start({ executable, cwd, args = [], env = {} }: Start): Promise<Running> {
  mkdirSync(cwd, { recursive: true });
  const child = spawn({ executable, cwd, args, env });
  const { promise, resolve, reject } = Promise.withResolvers<Running>();
  const stop = async (signal: NodeJS.Signals = "SIGTERM") => {
    child.kill(signal);
    await child.exited;
    return child.exitCode;
  };
  let printed = "";
  const follow = async () => {
    // Read to the end, also once it is ready: a child that writes into a closed pipe is a broken child.
    for await (const chunk of child.stderr.pipeThrough(new TextDecoderStream())) {
      printed += chunk;
      const line = printed.split("\n").find((each) => each.includes('"ready"'));
      const address = line && /"address":"([^"]+)"/.exec(line)?.[1];
      if (address) resolve({ url: address, pid: child.pid, printed: () => printed, stop });
    }
    reject(new Error(`ended with ${await child.exited} before it was ready:\n${printed}`));
  };
  follow();
  return promise;
}

/** Runs it to its end: for verbs, and for starts that must fail. */
export async function runToEnd(how: Start): Promise<Ended> {
  const child = spawn(how);
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, out, err };
}

/** Only what is given: nothing of the test run's own environment may decide what happens. */
function spawn({ executable, cwd, args = [], env = {} }: Start) {
  return Bun.spawn([executable, ...args], { cwd, env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
}
