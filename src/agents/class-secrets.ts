// The environment of each agent class: secrets sealed in the ledger, and variables for containers. Values go to threads only.
import { AppError } from "../platform/errors.ts";
import type { Secrets } from "../platform/secrets.ts";
import type { Ledger } from "./ledger.ts";
import { isClassName, toKebab } from "./runtime/names.ts";

export type ClassSecrets = ReturnType<typeof createClassSecrets>;
export type EnvSource = (className: string) => Record<string, string>;

const VARIABLE = /^GATEHOUSE_AGENT_ENV_([A-Z0-9_]+?)__([A-Za-z_][A-Za-z0-9_]*)$/;
const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
const VALUE_CHARS_MAX = 65_536;

type SecretParts = {
  ledger: Ledger;
  secrets: Secrets;
  env: Record<string, string | undefined>;
  now: () => number;
};

export function createClassSecrets({ ledger, secrets, env, now }: SecretParts) {
  const fromVariables = parseVariables(env);
  const stored = new Map<string, Map<string, { value: string; updatedMs: number }>>();
  const sources = new Set<EnvSource>();
  for (const row of ledger.secrets()) {
    const value = secrets.open(row.sealed, contextOf(row.class, row.name));
    if (value !== undefined) put(row.class, row.name, value, row.updated_ms);
  }

  function put(className: string, name: string, value: string, updatedMs: number): void {
    const own = stored.get(className) ?? new Map();
    stored.set(className, own.set(name, { value, updatedMs }));
  }

  return {
    /** What is set by hand wins over a variable, and a variable over what another part of the house adds. */
    of: (className: string): Record<string, string> => ({
      ...Object.assign({}, ...[...sources].map((source) => source(className))),
      ...Object.fromEntries(fromVariables.get(className) ?? []),
      ...Object.fromEntries([...(stored.get(className) ?? [])].map(([name, { value }]) => [name, value])),
    }),
    addSource: (source: EnvSource): void => void sources.add(source),
    list: (className: string) => [
      ...[...(stored.get(className) ?? [])].map(([name, { updatedMs }]) => ({
        name,
        from: "stored" as const,
        updatedMs,
      })),
      ...[...(fromVariables.get(className)?.keys() ?? [])].map((name) => ({
        name,
        from: "variable" as const,
        updatedMs: null,
      })),
    ],
    async set(className: string, name: string, value: string): Promise<void> {
      // Under any other spelling no class would ever see it.
      if (!isClassName(className)) throw new AppError("input.invalid", { say: "A class is named in kebab-case" });
      if (!NAME.test(name)) throw new AppError("input.invalid", { say: "A secret's name is letters, digits and _" });
      if (value === "" || value.length > VALUE_CHARS_MAX) {
        throw new AppError("input.invalid", { say: `A secret has 1 to ${VALUE_CHARS_MAX} characters` });
      }
      const atMs = now();
      const sealed = secrets.seal(value, contextOf(className, name));
      await ledger.write({ do: "secret", className, name, sealed, atMs });
      put(className, name, value, atMs);
    },
    async remove(className: string, name: string): Promise<boolean> {
      if (!stored.get(className)?.has(name)) return false;
      await ledger.write({ do: "unsecret", className, name });
      stored.get(className)?.delete(name);
      return true;
    },
  };
}

const contextOf = (className: string, name: string): string => `agent ${className} ${name}`;

/** `GATEHOUSE_AGENT_ENV_CHAT_ROOM__API_KEY` is API_KEY for the class chat-room. */
function parseVariables(env: Record<string, string | undefined>): Map<string, Map<string, string>> {
  const found = new Map<string, Map<string, string>>();
  for (const [variable, value] of Object.entries(env)) {
    const [, classPart, name] = VARIABLE.exec(variable) ?? [];
    if (!classPart || !name || !value) continue;
    const className = toKebab(classPart);
    found.set(className, (found.get(className) ?? new Map()).set(name, value));
  }
  return found;
}
