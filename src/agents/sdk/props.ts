// Props as they travel from `getAgentByName` to another agent's `onStart`: JSON text, so plain data, and bounded.

const PROPS_BYTES_MAX = 64 * 1024; // they say what an agent is for; what it works on belongs in a call

export function toPropsText(props: unknown): string {
  if (!isPlainObject(props)) throw new Error("props must be a plain object");
  const text = JSON.stringify(props, plainOnly);
  if (Buffer.byteLength(text) > PROPS_BYTES_MAX) throw new Error(`props may be at most ${PROPS_BYTES_MAX} bytes long`);
  return text;
}

/** JSON would drop a function and empty a Map without a word. */
function plainOnly(key: string, value: unknown): unknown {
  const simple = value === null || ["string", "number", "boolean", "undefined"].includes(typeof value);
  if (simple || Array.isArray(value) || isPlainObject(value)) return value;
  throw new Error(`props must be plain data, and "${key}" is not`);
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
