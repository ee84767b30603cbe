// What the OpenAPI document says of tag routes that read address and body themselves, with examples that run.
import type { TSchema } from "@sinclair/typebox";
import type { ErrorCode } from "../platform/errors.ts";
import { jsonBody } from "../platform/schema.ts";
import { EXAMPLES } from "./model.ts";

type Level = keyof typeof EXAMPLES;
type Parameter = {
  in: "path" | "query" | "header";
  name: string;
  required?: boolean;
  schema: object;
  description?: string;
  example?: unknown;
};

const text = { type: "string" } as const;
const list = { type: "array", items: text } as const;

const PATH: Record<Level, Parameter> = {
  account: { in: "path", name: "account_id", required: true, schema: text, example: "home" },
  zone: { in: "path", name: "zone_id", required: true, schema: text, example: "example.org" },
};

const PARAMETERS = {
  worker_id: { in: "query", name: "worker_id", schema: text, description: "needed for worker_version" },
  access_application_id: {
    in: "query",
    name: "access_application_id",
    schema: text,
    description: "needed for access_application_policy",
  },
  if_match: {
    in: "header",
    name: "If-Match",
    schema: text,
    description: "an etag, quoted or bare: write only if the tags are still these; `*`: only if it was tagged",
  },
  tag: {
    in: "query",
    name: "tag",
    schema: { ...list, maxItems: 20 },
    description:
      "`key`, `key=value`, `key=v1,v2` (any of up to 10), `!key`, `key!=value`, `key!=v1,v2`; all of them must hold (up to 20)",
    example: ["environment=production,staging", "!archived"],
  },
  types: { in: "query", name: "type", schema: list, description: "any of these types", example: ["worker", "queue"] },
  id: { in: "query", name: "id", schema: { ...list, maxItems: 50 }, description: "any of these ids" },
  name: {
    in: "query",
    name: "name",
    schema: { ...text, maxLength: 256 },
    description: "part of the name, in any case",
  },
  case_insensitive: {
    in: "query",
    name: "case_insensitive",
    schema: { type: "boolean", default: false },
    description: "compare keys and values of `tag` without case",
  },
  cursor: { in: "query", name: "cursor", schema: text, description: "`result_info.cursor` of the page before" },
  tag_key: { in: "path", name: "tag_key", required: true, schema: text, example: "environment" },
  type: { in: "query", name: "type", schema: text, description: "only values that resources of this type carry" },
} as const satisfies Record<string, Parameter>;

export const SEARCH = ["tag", "types", "id", "name", "case_insensitive"] as const;

/** In the order in which they are checked. */
export const FILTER_ERRORS: readonly ErrorCode[] = [
  ...(["tags.filters_max", "tags.filter", "tags.values_max", "tags.key_long", "tags.key", "tags.value_long"] as const),
  ...(["tags.type", "input.invalid"] as const),
];
export const SET_ERRORS: readonly ErrorCode[] = [
  ...(["tags.set_payload", "tags.type", "tags.key_long", "tags.key", "tags.value_long", "tags.precondition"] as const),
  ...(["tags.account_full", "input.too_large"] as const),
];

export type ParameterName = keyof typeof PARAMETERS;

type Says = {
  summary: string;
  description?: string;
  parameters?: readonly ParameterName[];
  errors?: readonly ErrorCode[];
};

export function says(level: Level, { summary, description, parameters = [], errors = [] }: Says) {
  return {
    summary,
    ...(description !== undefined && { description }),
    parameters: [PATH[level], ...parameters.map((name) => PARAMETERS[name])],
    "x-errors": [...errors],
  };
}

/** The two parameters that name a resource in an address. */
export function referring(level: Level, said: Says) {
  const [type, id] = EXAMPLES[level];
  const detail = says(level, said);
  const own = [
    { in: "query", name: "resource_type", required: true, schema: text, example: type },
    { in: "query", name: "resource_id", required: true, schema: text, example: id },
  ];
  return { ...detail, parameters: [...detail.parameters, ...own] };
}

export function sending(level: Level, body: TSchema, said: Says) {
  return { ...says(level, said), requestBody: jsonBody(body) };
}

/** Zone routes find their account themselves, so the guard's macro cannot speak for them. */
export function needing(permission: "tags:read" | "tags:edit") {
  return { security: [{ token: [] }], "x-needs": permission };
}
