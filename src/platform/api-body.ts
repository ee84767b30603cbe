// How `/api` reads a body: JSON only, bounded, and only from somebody we know.
import { Elysia } from "elysia";
import { AppError } from "./errors.ts";
import { readBytes } from "./request.ts";

const API_BODY_BYTES_MAX = 1024 * 1024; // management calls are small; uploads belong to the gateway and the intake
const LEVELS_MAX = 64; // far past what we take; a failed schema writes the body down, and 10,000 levels take it a second
const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;
const utf8 = new TextDecoder("utf-8", { fatal: true });

/** `admit` throws for a stranger, and runs before a byte of the body is read. */
export function apiBody(admit: (request: Request) => unknown) {
  return new Elysia({ name: "api-body" }).onParse({ as: "scoped" }, ({ request }) => {
    admit(request);
    return readJson(request);
  });
}

export async function readJson(request: Request): Promise<unknown> {
  const bytes = await readBytes(request, API_BODY_BYTES_MAX);
  if (bytes.byteLength === 0) return undefined;
  if (!JSON_TYPE.test(request.headers.get("content-type") ?? "")) throw new AppError("input.media_type");
  const value = parse(bytes);
  if (isDeep(value, LEVELS_MAX)) {
    throw new AppError("input.invalid", { say: `The body is nested too deeply (maximum ${LEVELS_MAX} levels)` });
  }
  return value;
}

function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(utf8.decode(bytes));
  } catch (cause) {
    throw new AppError("input.malformed", { cause });
  }
}

function isDeep(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((item) => isDeep(item, levels - 1));
}
