// Every check there is, one after the other; the last line is `N passed, N failed`.
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findChromium, INSTALL_CHROMIUM } from "./chromium.ts";

const ROOT = join(import.meta.dir, "..");
process.chdir(ROOT);

type Count = { passed: number; failed: number };
const total: Count = { passed: 0, failed: 0 };
const scratch = mkdtempSync(join(tmpdir(), "gatehouse-test-"));

await step("type check", () => tool("node_modules/.bin/tsc"));
await step("Biome", () => tool("node_modules/.bin/biome", "check", "--error-on-warnings", "."));

const files = Array.from(new Bun.Glob("test/**/*.test.ts").scanSync(ROOT)).sort();
const inBrowser = files.filter((file) => file.startsWith("test/browser/"));
const ofExecutable: string[] = files.filter((file) => /(binary|executable)\.test\.ts$/.test(file));
await step("tests", () => tests(files.filter((file) => !inBrowser.includes(file) && !ofExecutable.includes(file))));
await step("the executable", () => tests(ofExecutable));
if (findChromium({ install: true })) await step("in the browser", () => tests(inBrowser));
else console.log(`in the browser: left out, because there is no Chromium. ${INSTALL_CHROMIUM}`);

rmSync(scratch, { recursive: true });
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exit(total.failed === 0 ? 0 : 1);

async function step(name: string, run: () => Promise<Count>): Promise<void> {
  const startMs = performance.now();
  const { passed, failed } = await run();
  total.passed += passed;
  total.failed += failed;
  const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
  console.log(`${name}: ${passed} passed${failed > 0 ? `, ${failed} failed` : ""} (${seconds} s)`);
}

/** A tool is one check. */
async function tool(...command: string[]): Promise<Count> {
  return (await quiet(command)) === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
}

async function tests(paths: string[]): Promise<Count> {
  if (paths.length === 0) return { passed: 0, failed: 0 };
  const report = join(scratch, "report.xml");
  rmSync(report, { force: true });
  const options = ["--timeout=30000", "--only-failures", "--reporter=junit", `--reporter-outfile=${report}`];
  const code = await quiet([process.execPath, "test", ...options, ...paths.map((path) => `./${path}`)]);
  const count = readReport(report);
  // An error between tests, or a crash, fails the run without failing a test.
  return code !== 0 && count.failed === 0 ? { ...count, failed: 1 } : count;
}

/** Runs a command; what it prints matters only when it fails. One file for both streams keeps their order. */
async function quiet(command: string[]): Promise<number> {
  const path = join(scratch, "printed.txt");
  const file = openSync(path, "w");
  const code = await Bun.spawn(command, { stdin: "ignore", stdout: file, stderr: file }).exited;
  closeSync(file);
  if (code !== 0) console.log(readFileSync(path, "utf8"));
  return code;
}

function readReport(path: string): Count {
  try {
    const head = /<testsuites [^>]*>/.exec(readFileSync(path, "utf8"))?.[0] ?? "";
    const number = (name: string) => Number(new RegExp(` ${name}="(\\d+)"`).exec(head)?.[1] ?? 0);
    const failed = number("failures") + number("errors");
    return { passed: number("tests") - failed - number("skipped"), failed };
  } catch {
    return { passed: 0, failed: 1 }; // no report: the run did not get that far
  }
}
