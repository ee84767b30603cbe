// Turning a user's file into agent classes, and whatever goes wrong on the way into a problem with file and line.
import type { ClassSource, Problem } from "../protocol.ts";
import { Agent } from "../sdk/agent.ts";
import type { createSdk } from "../sdk/module.ts";
import { BUILT_IN } from "./built-in.ts";
import type { AgentClass } from "./life.ts";
import { toKebab } from "./names.ts";

/** `gatehouse` is ours alone; `agents` is the name existing files import, and ours wins over an installed package. */
export const SDK_MODULES = ["gatehouse", "agents"];

export function provideSdk(sdk: ReturnType<typeof createSdk>): void {
  Bun.plugin({
    name: "gatehouse",
    setup(build) {
      for (const name of SDK_MODULES) build.module(name, () => ({ loader: "object", exports: sdk }));
    },
  });
}

export async function loadClass(source: ClassSource): Promise<AgentClass> {
  if ("builtIn" in source) {
    const found = BUILT_IN[source.builtIn];
    if (!found) throw new Error(`There is no built-in class ${source.builtIn}`);
    return found;
  }
  const exported: unknown = (await importFile(source.file))[source.exportName];
  if (!isAgentClass(exported)) throw new Error(`${source.file} does not export an agent as ${source.exportName}`);
  return exported;
}

/** Every agent class a file exports, one row per class even when it has two names. */
export async function loadClasses(
  file: string,
): Promise<{ exportName: string; className: string; agent: AgentClass }[]> {
  const seen = new Set<AgentClass>();
  return Object.entries(await importFile(file)).flatMap(([exportName, value]) => {
    if (!isAgentClass(value) || seen.has(value)) return [];
    seen.add(value);
    return [{ exportName, className: classNameFor(exportName, value.name, file), agent: value }];
  });
}

/** Export name; a default export by its class name; an anonymous one (Bun calls it `<file>_default`) by its file. */
function classNameFor(exportName: string, ownName: string, file: string): string {
  if (exportName !== "default") return toKebab(exportName);
  const stem = file.replace(/^.*[/\\]/, "").replace(/\.[a-z]+$/, "");
  const anonymous = ownName === "" || ownName === "default" || ownName.endsWith("_default");
  return toKebab(anonymous ? stem : ownName);
}

async function importFile(file: string): Promise<Record<string, unknown>> {
  return import(file);
}

function isAgentClass(value: unknown): value is AgentClass {
  return typeof value === "function" && value.prototype instanceof Agent;
}

/** Bun's errors carry their place in different fields, by kind. */
export function toProblem(error: unknown): Problem {
  if (error instanceof AggregateError && error.errors.length > 0) return toProblem(error.errors[0]);
  const message = error instanceof Error || hasMessage(error) ? error.message : String(error);
  const place = placeOf(error);
  const stack = error instanceof Error && error.stack ? { stack: error.stack } : {};
  return { message, ...place, ...stack };
}

function placeOf(error: unknown): Pick<Problem, "file" | "line" | "column"> {
  if (typeof error !== "object" || error === null) return {};
  const position: unknown = Reflect.get(error, "position");
  const [at, fileKey] = typeof position === "object" && position !== null ? [position, "file"] : [error, "sourceURL"];
  const [file, line, column] = [fileKey, "line", "column"].map((key): unknown => Reflect.get(at, key));
  return {
    ...(typeof file === "string" && file !== "" ? { file } : {}),
    ...(typeof line === "number" && line > 0 ? { line } : {}),
    ...(typeof column === "number" && column > 0 ? { column } : {}),
  };
}

function hasMessage(error: unknown): error is { message: string } {
  return typeof error === "object" && error !== null && "message" in error && typeof error.message === "string";
}
