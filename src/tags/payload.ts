// What a caller sent, checked: a reference to a resource, a map of tags, or the code of the first rule it breaks.
import { readJson } from "../platform/api-body.ts";
import { AppError, type ErrorCode } from "../platform/errors.ts";
import { isLongerThan, isValueLong, keyFault, type Tags } from "./filter.ts";
import { naming } from "./naming.ts";
import type { Position } from "./position.ts";
import type { ResourceTypes } from "./resource-types.ts";
import type { Patch, Write } from "./store.ts";

/** Where a reference was made: on an account's or a zone's route, or in a list whose items name their own zone. */
export type Level = { level: "account" } | { level: "zone"; zoneId: string } | { level: "any" };

type Fields = Record<string, unknown>;
type Values = Record<string, string | null>;

export const ID_CHARS_MAX = 1_024; // of any id; long enough for a path, short enough for an index
export const BULK_MAX = 1_000; // resources of one bulk set: one transaction, during which nobody else writes

export type Payloads = ReturnType<typeof createPayloads>;

export function createPayloads(types: ResourceTypes) {
  /** `code` is what a missing or unusable field is called where this was sent. */
  function reference(fields: Fields, at: Level, code: ErrorCode): Position {
    const { resource_type: type, resource_id: id } = fields;
    if (!isId(type) || !isId(id)) throw new AppError(code);
    const kind = types.get(type);
    if (!kind || (at.level !== "any" && at.level !== kind.level)) throw new AppError("tags.type");
    const zoneId = kind.level === "account" ? "" : at.level === "zone" ? at.zoneId : fields.zone_id;
    const parentId = kind.parent ? fields[kind.parent] : "";
    if ((kind.level === "zone" && !isId(zoneId)) || (kind.parent && !isId(parentId))) throw new AppError(code);
    return { type, id, zoneId: String(zoneId), parentId: String(parentId) };
  }

  function write(body: unknown, at: Level): Write {
    const { position, tags } = writeOf(body, at, isTags);
    return { position, tags };
  }

  /** As a set, but a null takes a key away. */
  function patch(body: unknown, at: Level): Patch {
    return writeOf(body, at, isPatch);
  }

  /** One line of an import, or one item of a bulk set: `if_match` stands for the header, `where` for its number. */
  function item(body: unknown, where: string): Write {
    const { position, tags } = naming(where, () => write(body, { level: "any" }));
    const ifMatch = isFields(body) ? body.if_match : undefined;
    if (ifMatch !== undefined && typeof ifMatch !== "string") {
      throw new AppError("tags.set_payload", { say: `${where}: if_match must be a string` });
    }
    return { position, tags, ifMatch, where };
  }

  /** The shape of all of it first (1002), then the type, then each key and value: the order the interface documents. */
  function writeOf<T extends Values>(body: unknown, at: Level, isShape: (value: unknown) => value is T) {
    if (!isFields(body) || !isId(body.resource_type) || !isId(body.resource_id) || !isShape(body.tags)) {
      throw new AppError("tags.set_payload");
    }
    const position = reference(body, at, "tags.set_payload");
    const keys = Object.keys(body.tags).map(keyFault);
    for (const fault of ["tags.key_long", "tags.key"] as const) if (keys.includes(fault)) throw new AppError(fault);
    if (Object.values(body.tags).some((value) => value !== null && isValueLong(value))) {
      throw new AppError("tags.value_long");
    }
    return { position, tags: body.tags };
  }

  return {
    reference,
    write,
    patch,
    query: (query: URLSearchParams, at: Level): Position => reference(Object.fromEntries(query), at, "tags.reference"),
    /** The body says what to delete; clients that send none may say it in the query. */
    remove(body: unknown, query: URLSearchParams, at: Level): Position {
      const fields = body === undefined ? Object.fromEntries(query) : body;
      if (!isFields(fields)) throw new AppError("tags.delete_payload");
      return reference(fields, at, "tags.delete_payload");
    },
    item,
    bulk(body: unknown): Write[] {
      const items = isFields(body) ? body.resources : undefined;
      if (!Array.isArray(items) || items.length === 0 || items.length > BULK_MAX) {
        throw new AppError("tags.set_payload");
      }
      return items.map((one, index) => item(one, `resources[${index}]`));
    },
  };
}

/** JSON under this interface's own codes: whatever is wrong with its form is an invalid payload. Too large stays too large. */
export async function readBody(request: Request, code: ErrorCode): Promise<unknown> {
  try {
    return await readJson(request);
  } catch (error) {
    const isForm = error instanceof AppError && (error.code === "input.media_type" || error.code === "input.malformed");
    throw isForm ? new AppError(code, { cause: error }) : error;
  }
}

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A NUL or half a surrogate pair would not come back from the database as it went in. */
function isText(value: unknown): value is string {
  return typeof value === "string" && value.isWellFormed() && !value.includes("\0");
}

function isId(value: unknown): value is string {
  return isText(value) && value !== "" && !isLongerThan(value, ID_CHARS_MAX);
}

function isTags(value: unknown): value is Tags {
  return isFields(value) && Object.values(value).every(isText);
}

function isPatch(value: unknown): value is Values {
  return isFields(value) && Object.values(value).every((one) => one === null || isText(one));
}
