// Builds the executable: for this machine, for named targets, or for all of them with their checksums.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { EMBED_FOLDER, embed } from "./embed.ts";
import { measure } from "./measure.ts";
import { threadEntries } from "./threads.ts";

const ROOT = join(import.meta.dir, "..");
const DIST = join(ROOT, "dist");

/** The program, and every thread it starts as an entry of its own. */
const INDEX = "src/index.ts";
const THREADS = threadEntries(readFileSync(join(ROOT, INDEX), "utf8"));

/** Bun's name of a target, and the npm package whose executable becomes ours: no other download is needed. */
const TARGETS = {
  "linux-arm64": ["bun-linux-arm64", "@oven/bun-linux-aarch64"],
  "linux-x64": ["bun-linux-x64", "@oven/bun-linux-x64"],
  "linux-x64-musl": ["bun-linux-x64-musl", "@oven/bun-linux-x64-musl"],
  "darwin-arm64": ["bun-darwin-arm64", "@oven/bun-darwin-aarch64"],
  "windows-x64": ["bun-windows-x64", "@oven/bun-windows-x64"],
} as const;
type Target = keyof typeof TARGETS;

const FLAGS = [
  "--compile",
  // Start to listening in two thirds of the time; with it, top-level await needs the format said.
  "--bytecode",
  "--format=esm",
  // Stack traces name the line of the source.
  "--sourcemap",
  // Otherwise the executable believes it is in development, and so does Bun.serve.
  '--define=process.env.NODE_ENV="production"',
  // A .env or bunfig.toml of whatever folder we are started in is not ours to obey: the latter can run code.
  "--no-compile-autoload-dotenv",
  "--no-compile-autoload-bunfig",
  // Agent files import packages with an `exports` map and use the `paths` of their tsconfig.
  "--compile-autoload-package-json",
  "--compile-autoload-tsconfig",
];

const options = process.argv.slice(2).filter((argument) => argument.startsWith("--"));
const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const unknown = [...options.filter((option) => option !== "--no-measure"), ...wanted.filter((name) => !isTarget(name))];
if (unknown.length > 0) {
  console.error(`Not a target: ${unknown.join(", ")}. Targets: all, ${Object.keys(TARGETS).join(", ")}.`);
  process.exit(2);
}

const about = manifest();
const files = await embed();
console.log(`embedded ${files.length} files, ${kib(files.reduce((sum, file) => sum + file.packed, 0))}`);

if (wanted.length === 0) {
  const file = compile(process.platform === "win32" ? "gatehouse.exe" : "gatehouse", []);
  if (!options.includes("--no-measure")) console.log(await measure(file));
} else {
  const targets = wanted.includes("all") ? keys(TARGETS) : wanted.filter(isKnown);
  const built = targets.map((target) =>
    compile(`gatehouse-${target}${isWindows(target) ? ".exe" : ""}`, cross(target)),
  );
  writeFileSync(join(DIST, "SHA256SUMS"), built.map((file) => `${sha256(file)}  ${basename(file)}\n`).join(""));
  console.log("checksums in dist/SHA256SUMS");
}

function compile(name: string, extra: string[]): string {
  mkdirSync(DIST, { recursive: true });
  const target = join(DIST, name);
  // Built beside and then renamed: a running executable cannot be written to, only replaced. The map that Bun leaves
  // beside it goes: the executable carries it inside.
  const folder = mkdtempSync(join(DIST, "new-"));
  const fresh = join(folder, name);
  const args = [
    process.execPath,
    "build",
    ...FLAGS,
    ...defines(),
    ...extra,
    "--asset",
    EMBED_FOLDER,
    INDEX,
    ...THREADS,
  ];
  const run = Bun.spawnSync([...args, `--outfile=${fresh}`], { cwd: ROOT, stderr: "pipe", stdout: "pipe" });
  if (run.exitCode !== 0) {
    rmSync(folder, { recursive: true });
    console.error(`${run.stdout.toString()}${run.stderr.toString()}`);
    process.exit(1);
  }
  chmodSync(fresh, 0o755);
  renameSync(fresh, target);
  rmSync(folder, { recursive: true });
  console.log(`built dist/${name}, ${(statSync(target).size / 1e6).toFixed(1)} MB, ${THREADS.length} thread entries`);
  return target;
}

function cross(target: Target): string[] {
  const [bunTarget, packageName] = TARGETS[target];
  return [`--target=${bunTarget}`, `--compile-executable-path=${runtime(packageName, isWindows(target))}`];
}

/** The Bun of another platform, out of its npm package. Kept in .bun/runtime, so that it is fetched once. */
function runtime(packageName: string, windows: boolean): string {
  const folder = join(ROOT, ".bun/runtime", `${packageName.replace("@oven/", "")}-${about.bun}`);
  const file = join(folder, "package/bin", windows ? "bun.exe" : "bun");
  if (existsSync(file)) return file;
  mkdirSync(folder, { recursive: true });
  console.log(`fetching ${packageName}@${about.bun}`);
  run(["npm", "pack", "--silent", "--pack-destination", folder, `${packageName}@${about.bun}`], ROOT);
  run(["tar", "xzf", `${packageName.slice(1).replace("/", "-")}-${about.bun}.tgz`], folder);
  return file;
}

function run(command: string[], cwd: string): void {
  const { exitCode, stderr } = Bun.spawnSync(command, { cwd, stderr: "pipe" });
  if (exitCode === 0) return;
  console.error(`${command.join(" ")} failed:\n${stderr.toString()}`);
  process.exit(1);
}

/** What `gatehouse version` prints; outside a build the name does not exist. */
function defines(): string[] {
  return [`--define=GATEHOUSE_COMMIT=${JSON.stringify(about.commit)}`];
}

function manifest(): { bun: string; commit: string } {
  const text: unknown = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  if (!isManifest(text)) throw new Error("package.json names no bun among its devDependencies");
  return { bun: text.devDependencies.bun, commit: commit() };
}

/** Neither git nor a clone is needed: an unpacked archive builds too. */
function commit(): string {
  if (!Bun.which("git")) return "unknown";
  const git = (...args: string[]) => Bun.spawnSync(["git", ...args], { cwd: ROOT, stderr: "ignore" });
  const head = git("rev-parse", "--short=12", "HEAD");
  const changed = git("status", "--porcelain", "--untracked-files=no").stdout.toString() !== "";
  return head.exitCode === 0 ? `${head.stdout.toString().trim()}${changed ? "-changed" : ""}` : "unknown";
}

function isManifest(value: unknown): value is { devDependencies: { bun: string } } {
  if (typeof value !== "object" || value === null || !("devDependencies" in value)) return false;
  const { devDependencies: dev } = value;
  return typeof dev === "object" && dev !== null && "bun" in dev && typeof dev.bun === "string";
}

function isTarget(name: string): boolean {
  return name === "all" || isKnown(name);
}
function isKnown(name: string): name is Target {
  return name in TARGETS;
}
function isWindows(target: Target): boolean {
  return target.startsWith("windows");
}
function keys<K extends string>(table: Record<K, unknown>): K[] {
  const names: K[] = [];
  for (const name in table) names.push(name);
  return names;
}
function sha256(file: string): string {
  return new Bun.CryptoHasher("sha256").update(readFileSync(file)).digest("hex");
}
function kib(bytes: number): string {
  return `${(bytes / 1024).toFixed(0)} KiB`;
}
