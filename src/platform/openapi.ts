// The OpenAPI document: what the Swagger plugin says of our routes, made valid 3.1 and complete.
import { swagger } from "@elysiajs/swagger";
import { toOpenAPIPath } from "@elysiajs/swagger/utils";
import { type AnyElysia, Elysia } from "elysia";
import { ERRORS, type ErrorCode } from "./errors.ts";
import { VERSION } from "./version.ts";

type Json = { [name: string]: Json } | Json[] | string | number | boolean | null;
type Table = { [name: string]: Json };
type Route = { method: string; path: string; hooks?: { detail?: Record<string, unknown> } };

const METHODS = ["get", "post", "put", "patch", "delete"];

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

/** Asked from an instance that never listens: the plugin would otherwise serve a page of its own, from a CDN. */
export async function openApiDocument(app: AnyElysia): Promise<Table> {
  // `never`: the plugin types a document as 3.0 with every word a literal; ours is 3.1 (it has `const`), and checked by a test.
  const plugin = swagger({ path: "/swagger", documentation: DOCUMENTATION as never, excludeStaticFile: false });
  const answer = await new Elysia().use(app).use(plugin).handle(new Request("http://localhost/swagger/json"));
  const document: Json = toJson(await answer.text());
  return complete(isTable(document) ? document : {}, app.routes);
}

/** Our own routes are the list; of the plugin's entry for each we keep what it derived from the schemas. */
function complete(document: Table, routes: readonly Route[]): Table {
  const derived = asTable(document.paths);
  const paths: Record<string, Table> = {};
  for (const route of routes) {
    if (route.hooks?.detail?.hide === true) continue;
    const path = toPath(route.path);
    const known = asTable(derived[toOpenAPIPath(route.path)]);
    const operations = paths[path] ?? {};
    for (const method of route.method === "ALL" ? METHODS : [route.method.toLowerCase()]) {
      operations[method] = toOperation(asTable(known[method]), route, path, method);
    }
    paths[path] = operations;
  }
  return { ...document, paths };
}

function toOperation(known: Table, { hooks, path: routePath }: Route, path: string, method: string): Table {
  const detail = asTable(toJson(JSON.stringify(hooks?.detail ?? {})));
  const { "x-needs": needs, "x-errors": errors, hide: _hide, ...said } = detail;
  const parameters = toParameters(known.parameters, path);
  const body = asTable(said.requestBody ?? known.requestBody);
  return {
    ...known,
    ...said,
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
  return Object.keys(responses).length > 0 ? responses : { 200: { description: "Done" } };
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
