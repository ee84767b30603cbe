// From file, environment and flags to settings, or to sentences that say what is wrong. Pure: the caller brings all three.
import type { TSchema } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { Settings } from "./settings.ts";

export type ConfigInput = {
  file?: { path: string; text: string };
  env: Record<string, string | undefined>;
  /** `--port 80` is `{ port: "80" }`; names as in `flagOf`. */
  flags: Record<string, string | boolean>;
};
export type Config = {
  settings: Settings;
  /** Where each setting came from: `default`, the file, a variable, a flag. */
  origins: Record<string, string>;
  warnings: string[];
};
export type ConfigResult = ({ ok: true } & Config) | { ok: false; problems: string[] };

/** One setting that holds a value of its own, as opposed to a section. */
export type Leaf = { path: string; schema: TSchema; variable: string; flag: string };

export const LEAVES: readonly Leaf[] = leavesOf(Settings, []);

/** Read by other parts of the program, so never an unknown variable. */
const OTHER_VARIABLES = /^GATEHOUSE_(CONFIG|AGENT_ENV_.*)$/;

export function parseConfig({ file, env, flags }: ConfigInput): ConfigResult {
  const values: Record<string, unknown> = {};
  const origins: Record<string, string> = {};
  const problems: string[] = [];
  const warnings: string[] = [];
  const put = (path: string, value: unknown, origin: string): void => {
    assign(values, path.split("."), value);
    origins[path] = origin;
  };
  const putText = (leaf: Leaf, text: string, origin: string): void => {
    const value = fromText(leaf.schema, text);
    if (value === undefined) problems.push(complain(leaf, text, origin));
    else put(leaf.path, value, origin);
  };

  for (const leaf of LEAVES) {
    if (leaf.schema.default !== undefined) put(leaf.path, structuredClone(leaf.schema.default), "default");
  }
  if (file) readFile(file, put, problems);
  const byVariable = new Map(LEAVES.map((leaf) => [leaf.variable, leaf]));
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith("GATEHOUSE_") || !text || OTHER_VARIABLES.test(name)) continue;
    const leaf = byVariable.get(name);
    if (!leaf) warnings.push(`${name} is no setting and is ignored`);
    else if (text.startsWith("tcp://"))
      warnings.push(`${name} was set by the container platform (tcp://…) and is ignored`);
    else putText(leaf, text, name);
  }
  const byFlag = new Map(LEAVES.map((leaf) => [leaf.flag, leaf]));
  for (const [flag, text] of Object.entries(flags)) {
    const leaf = byFlag.get(flag);
    if (!leaf) problems.push(`--${flag} is not a known flag`);
    else putText(leaf, String(text), `--${flag}`);
  }

  for (const leaf of LEAVES) {
    const value = at(values, leaf.path);
    if (value !== undefined && !Value.Check(leaf.schema, value)) {
      problems.push(complain(leaf, value, origins[leaf.path] ?? "default"));
    }
  }
  if ((values.tls_cert === undefined) !== (values.tls_key === undefined)) {
    problems.push("tls_cert and tls_key are given together or not at all");
  }
  if (problems.length > 0) return { ok: false, problems };
  // Checked leaf by leaf above, so that each sentence names one setting; this is the proof for the type.
  return { ok: true, settings: Value.Decode(Settings, values), origins, warnings };
}

function leavesOf(schema: TSchema, path: string[]): Leaf[] {
  if (schema.type === "object" && schema.properties && Object.keys(schema.properties).length > 0) {
    const properties: Record<string, TSchema> = schema.properties;
    return Object.entries(properties).flatMap(([name, child]) => leavesOf(child, [...path, name]));
  }
  const name = path.join("_");
  return [
    { path: path.join("."), schema, variable: `GATEHOUSE_${name.toUpperCase()}`, flag: name.replaceAll("_", "-") },
  ];
}

function readFile(
  { path: filePath, text }: { path: string; text: string },
  put: (path: string, value: unknown, origin: string) => void,
  problems: string[],
): void {
  let table: unknown;
  try {
    table = Bun.TOML.parse(text);
  } catch (error) {
    problems.push(`${filePath} is not valid TOML: ${error instanceof Error ? error.message : "unreadable"}`);
    return;
  }
  const known = new Set(LEAVES.map((leaf) => leaf.path));
  const walk = (value: unknown, path: string): void => {
    if (known.has(path)) put(path, value, filePath);
    else if (isTable(value) && (path === "" || [...known].some((leaf) => leaf.startsWith(`${path}.`)))) {
      for (const [name, child] of Object.entries(value)) walk(child, path === "" ? name : `${path}.${name}`);
    } else problems.push(`${filePath}: "${path}" is not a known setting`);
  };
  walk(table, "");
}

function fromText(schema: TSchema, text: string): unknown {
  // A choice between numbers is written as text here, like any number.
  const choice = schema.anyOf?.find((one: TSchema) => String(one.const) === text);
  if (choice) return choice.const;
  if (schema.type === "integer" || schema.type === "number")
    return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : undefined;
  if (schema.type === "boolean")
    return /^(true|1|on|yes)$/i.test(text) ? true : /^(false|0|off|no)$/i.test(text) ? false : undefined;
  if (schema.type === "array") return text.split(/[\s,]+/).filter((item) => item !== "");
  if (schema.type === "object") return undefined;
  return text;
}

function complain(leaf: Leaf, value: unknown, origin: string): string {
  const given = leaf.schema.secret ? `${String(value).length} characters` : JSON.stringify(value);
  return `${leaf.path} (${origin}): got ${given}, allowed is ${allowed(leaf.schema)}`;
}

/** What a setting takes, in words, from its schema. */
export function allowed(schema: TSchema): string {
  const {
    type,
    minimum,
    maximum,
    minLength,
    maxLength,
    format,
    pattern,
    items,
    anyOf,
    enum: words,
    const: literal,
  } = schema;
  if (Array.isArray(anyOf)) return anyOf.map(allowed).join(", ");
  if (literal !== undefined) return String(literal);
  if (Array.isArray(words)) return words.join(", ");
  if (type === "integer" || type === "number") return `a whole number from ${minimum ?? "any"} to ${maximum ?? "any"}`;
  if (type === "boolean") return "true or false";
  if (type === "array") return `a list, each ${allowed(items)}`;
  if (type === "object") return "a table in the settings file";
  if (format === "base-url") return "an address such as http://192.168.1.5:11434/v1";
  if (format === "origin") return "an origin such as https://pi.example.org";
  if (format === "time-zone") return "a time zone such as Europe/Berlin";
  if (format === "address-range") return "an IP address or range such as 10.0.0.0/8";
  if (pattern) return `text matching ${pattern}`;
  return minLength > 1
    ? `text of ${minLength} to ${maxLength ?? "any number of"} characters`
    : "text that is not empty";
}

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

export function at(values: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((table, name) => (isTable(table) ? table[name] : undefined), values);
}

function assign(table: Record<string, unknown>, [name = "", ...rest]: string[], value: unknown): void {
  if (rest.length === 0) {
    table[name] = value;
    return;
  }
  const child = table[name];
  const next = isTable(child) ? child : {};
  table[name] = next;
  assign(next, rest, value);
}
