// The OpenAPI document: what the Swagger plugin reads out of our routes' schemas, made valid 3.1 and complete.
import { registerSchemaPath, toOpenAPIPath } from "@elysiajs/swagger/utils";
import type { AnyElysia } from "elysia";
import { ERRORS, type ErrorCode } from "./errors.ts";
import { VERSION } from "./version.ts";

type Json = { [name: string]: Json } | Json[] | string | number | boolean | null;
type Table = { [name: string]: Json };
type Route = AnyElysia["routes"][number];

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

const DOCUMENTATION = {
  openapi: "3.1.0",
  info: {
    title: "Gatehouse",
    version: VERSION,
    description:
      "AI gateway, webhook agents and resource tags. Authorize with a token to try the routes from this page.",
  },
  servers: [{ url: "/" }],
  components: {
    securitySchemes: { token: { type: "http", scheme: "bearer", description: "A Gatehouse token (gh_…)" } },
    schemas: {
      Failure: {
        type: "object",
        required: ["success", "errors", "messages", "result"],
        properties: {
          success: { const: false },
          errors: {
            type: "array",
            items: { type: "object", properties: { code: { type: "integer" }, message: { type: "string" } } },
          },
          messages: { type: "array" },
          result: { type: "null" },
        },
      },
    },
  },
};

/** From the routes alone: an app that is used by another one, as the plugin wants it, no longer knows its own server. */
export function openApiDocument({ routes }: AnyElysia): Table {
  const paths: Record<string, Table> = {};
  for (const route of routes) {
    if (route.hooks?.detail?.hide === true) continue;
    const path = toPath(route.path);
    const operations = paths[path] ?? {};
    for (const method of route.method === "ALL" ? METHODS : [route.method]) {
      operations[method.toLowerCase()] = toOperation(derive(route, method), route, path, method.toLowerCase());
    }
    paths[path] = operations;
  }
  return { ...DOCUMENTATION, paths };
}

/** What the plugin makes of one route's schemas. */
function derive({ path, hooks }: Route, method: string): Table {
  const schema = {};
  registerSchemaPath({ schema, hook: hooks, method, path, models: {}, contentType: hooks?.type });
  const paths = asTable(toJson(JSON.stringify(schema)));
  return asTable(asTable(paths[toOpenAPIPath(path)])[method.toLowerCase()]);
}

function toOperation(known: Table, { hooks, path: routePath }: Route, path: string, method: string): Table {
  const { "x-needs": needs, "x-errors": errors, ...said } = asTable(toJson(JSON.stringify(hooks?.detail ?? {})));
  const parameters = toParameters(known.parameters, path);
  const body = asTable(said.requestBody ?? known.requestBody);
  return {
    ...said,
    ...(known.tags !== undefined && { tags: known.tags }),
    // No `_`: Swagger UI takes one in a deep link for an old way to write a space, and complains.
    operationId: `${method}${path.replace(/[^A-Za-z0-9]+(\w?)/g, (_, letter) => letter.toUpperCase())}`,
    ...(parameters.length > 0 && { parameters }),
    ...(Object.keys(body).length > 0 && { requestBody: jsonOnly(body) }),
    responses: toResponses(
      { ...asTable(known.responses), ...asTable(said.responses) },
      toCodes(errors, needs, body),
      routePath,
    ),
    ...(needs !== undefined &&
      needs !== "any" && { description: `${text(said.description)} Needs \`${text(needs)}\`.`.trim() }),
  };
}

/** The route's own list of failures, and those that its guard and its body imply. */
function toCodes(errors: Json | undefined, needs: Json | undefined, body: Table): ErrorCode[] {
  const named = Array.isArray(errors) ? errors.filter(isErrorCode) : [];
  const guarded: ErrorCode[] =
    needs === undefined ? [] : needs === "any" ? ["access.missing"] : ["access.missing", "access.denied"];
  const sent: ErrorCode[] =
    Object.keys(body).length > 0 ? ["input.invalid", "input.too_large", "input.media_type"] : [];
  return [...new Set([...named, ...guarded, ...(named.length > 0 ? [] : sent)])];
}

function toResponses(known: Table, codes: readonly ErrorCode[], path: string): Table {
  const responses: Table = {};
  for (const [status, response] of Object.entries(known)) {
    const { content, description } = asTable(response);
    responses[status] = {
      description: text(description) || (Number(status) < 300 ? "Done" : "Refused"),
      ...(content !== undefined && { content: asTable(jsonOnly({ content }).content) }),
    };
  }
  for (const code of codes) {
    const [status, sentence, number] = ERRORS[code];
    const before = text(asTable(responses[status]).description);
    const line = `${number}: ${sentence}`;
    responses[status] = {
      description:
        before === "" || before === "Refused" ? line : before.includes(line) ? before : `${before}\n\n${line}`,
      ...(path.startsWith("/api") && {
        content: { "application/json": { schema: { $ref: "#/components/schemas/Failure" } } },
      }),
    };
  }
  const succeeds = Object.keys(responses).some((status) => Number(status) < 400);
  return succeeds ? responses : { 200: { description: "Done" }, ...responses };
}

/** Path parameters are all listed, required and typed; examples belong to the schema. */
function toParameters(known: Json | undefined, path: string): Json[] {
  const listed = (Array.isArray(known) ? known.map(asTable) : []).map(({ examples, schema, ...rest }) => ({
    ...rest,
    schema: { ...asTable(schema), ...(examples !== undefined && examples !== null && { examples }) },
  })) as Table[];
  const names = Array.from(path.matchAll(/\{([^}]+)\}/g), (match) => match[1] ?? "");
  const missing = names.filter((name) => !listed.some((one) => one.in === "path" && one.name === name));
  return [
    ...listed.map((one) => (one.in === "path" ? { ...one, required: true } : one)),
    ...missing.map((name) => ({ in: "path", name, required: true, schema: { type: "string" } })),
  ];
}

/** The plugin offers every body in three media types; ours are JSON unless the route itself says otherwise. */
function jsonOnly(body: Table): Table {
  const content = asTable(body.content);
  const json = content["application/json"] ?? content.none;
  return json === undefined ? body : { ...body, content: { "application/json": json } };
}

function toPath(path: string): string {
  const named = path.replace(/\*$/, "{path}").replace(/:([A-Za-z_]+)\??/g, "{$1}");
  return named.length > 1 ? named.replace(/\/$/, "") : named;
}

function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === "string" && value in ERRORS;
}

function isTable(value: unknown): value is Table {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const asTable = (value: unknown): Table => (isTable(value) ? value : {});
const text = (value: Json | undefined): string => (typeof value === "string" ? value : "");
const toJson = (source: string): Json => JSON.parse(source);
