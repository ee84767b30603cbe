// Throw-away thread: checks one user file, imports it, and says which agent classes it holds. The main thread never runs it.

import type { BuiltInUse, Problem } from "./protocol.ts";
import { BUILT_IN } from "./runtime/built-in.ts";
import type { AgentClass } from "./runtime/life.ts";
import { loadClasses, provideSdk, SDK_MODULES, toProblem } from "./runtime/loader.ts";
import { isClassName } from "./runtime/names.ts";
import { Agent, type AgentOptions } from "./sdk/agent.ts";
import { callablesOf } from "./sdk/callable.ts";
import { createSdk } from "./sdk/module.ts";

export type ClassDescription = {
  className: string;
  exportName: string;
  options: Pick<AgentOptions, "public" | "clientState" | "sandbox">;
  callables: { name: string; description: string; streaming: boolean }[];
  /** Which hooks the class has of its own; a sleeping agent is not woken for one it lacks. */
  hooks: string[];
  /** Where its file declares it; an anonymous class has no name to look for. */
  line?: number;
};
export type Description =
  /** `fingerprint` changes with the file and with everything it imports. */
  { ok: true; classes: ClassDescription[]; fingerprint: string; uses: BuiltInUse } | { ok: false; problem: Problem };
export type DescribeRequest = { file: string } | { builtIn: true };

declare const self: Worker & { postMessage(message: Description): void };

const HOOKS = ["onRequest", "onConnect", "onMessage", "onClose"] as const;
const post = self.postMessage.bind(self);

self.onmessage = async ({ data }: MessageEvent<DescribeRequest>) => {
  try {
    provideSdk(createSdk(() => undefined));
    post("file" in data ? await describeFile(data.file) : describeBuiltIn());
  } catch (error) {
    post({ ok: false, problem: toProblem(error) });
  }
  process.exit(0);
};

/**
 * Bundled first, only to look: it runs nothing and names the line of an import that leads nowhere, which `import()` does
 * not. The bundler of Bun 1.4.4 remembers folders of the whole process, so that a package installed meanwhile is not
 * there for it until an `import()` has found it.
 */
async function describeFile(file: string): Promise<Description> {
  let bundle = await bundleOf(file);
  if (!bundle.success && (await loads(file))) bundle = await bundleOf(file);
  const [failure] = bundle.logs.filter((log) => log.level === "error");
  if (!bundle.success) return { ok: false, problem: { file, ...toProblem(failure) } };
  const hasher = new Bun.CryptoHasher("sha256");
  const uses = { workerThreads: false, diagnosticsChannel: false };
  for (const output of bundle.outputs) {
    const text = await output.text();
    hasher.update(text);
    uses.workerThreads ||= text.includes("worker_threads");
    uses.diagnosticsChannel ||= text.includes("diagnostics_channel");
  }
  const found = await loadClasses(file);
  const odd = found.find(({ className }) => !isClassName(className));
  if (odd) return { ok: false, problem: { file, message: `"${odd.className}" cannot be a class name in a URL` } };
  const text = await Bun.file(file).text();
  const classes = found.map(({ exportName, className, agent }) => ({
    ...toDescription(className, exportName, agent),
    ...lineOf(agent.name, text),
  }));
  return { ok: true, classes, fingerprint: hasher.digest("hex"), uses };
}

function lineOf(name: string, text: string): { line?: number } {
  const at = text.split("\n").findIndex((line) => new RegExp(`\\bclass\\s+${RegExp.escape(name)}\\b`).test(line));
  return at === -1 ? {} : { line: at + 1 };
}

const bundleOf = (file: string) =>
  Bun.build({ entrypoints: [file], target: "bun", external: SDK_MODULES, throw: false });

const loads = (file: string): Promise<boolean> =>
  loadClasses(file).then(
    () => true,
    () => false, // the bundler's own report, which has the line, is the one to tell
  );

function describeBuiltIn(): Description {
  const classes = Object.entries(BUILT_IN).map(([className, agent]) => toDescription(className, className, agent));
  return { ok: true, classes, fingerprint: "built-in", uses: { workerThreads: false, diagnosticsChannel: false } };
}

function toDescription(className: string, exportName: string, agent: AgentClass): ClassDescription {
  const { public: open, clientState, sandbox } = agent.options ?? {};
  const callables = [...callablesOf(agent.prototype)].map(([name, { description = "", streaming = false }]) => {
    return { name, description, streaming };
  });
  return {
    className,
    exportName,
    options: {
      ...(open === true || open === "read" ? { public: open } : {}),
      ...(clientState === true ? { clientState } : {}),
      ...(sandbox === false ? { sandbox } : {}),
    },
    callables,
    hooks: HOOKS.filter((hook) => agent.prototype[hook] !== Agent.prototype[hook]),
  };
}
