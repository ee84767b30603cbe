// The first thing a request meets and the last thing an answer passes: ids, guards, headers, and every failure's body.
import type { TSchema } from "@sinclair/typebox";
import { Elysia, NotFoundError, ParseError, ValidationError } from "elysia";
import Memoirist from "memoirist";
import { apiFailure, type FailureBody, gatewayFailure, plainFailure } from "./envelope.ts";
import { AppError, toAppError } from "./errors.ts";
import type { Log } from "./log.ts";
import type { Counter, Metrics } from "./metrics.ts";
import type { OriginRule } from "./origin.ts";
import { enter, requestIdOf, startOf } from "./request.ts";

type Route = { method: string; path: string };
type EdgeParts = {
  log: Log;
  metrics: Metrics;
  origins: OriginRule;
  trustedProxies: readonly string[];
  /** Log every request: for finding a mistake, not for every day of a memory card's life. */
  trace: boolean;
  /** Asked only when a path did not match, to tell a wrong method from a wrong path. */
  routes: () => readonly Route[];
};

/** Strangers' bytes on our origin: whatever they are, they may not run as one of our pages. */
const UNTRUSTED = { "x-content-type-options": "nosniff", "content-security-policy": "sandbox" };
const PRIVATE = {
  "x-content-type-options": "nosniff",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cache-control": "no-store",
};

type CountedGroup = Group & { count(status: number, ms: number): void };
type Group = { prefix: string; name: string; failure: FailureBody; headers: Record<string, string> };
const GROUPS: readonly Group[] = [
  { prefix: "/v1", name: "gateway", failure: gatewayFailure, headers: UNTRUSTED },
  { prefix: "/webhooks", name: "intake", failure: plainFailure, headers: UNTRUSTED },
  { prefix: "/agents", name: "agents", failure: plainFailure, headers: UNTRUSTED },
  { prefix: "/api", name: "api", failure: apiFailure, headers: PRIVATE },
  { prefix: "", name: "pages", failure: plainFailure, headers: { "x-content-type-options": "nosniff" } },
];
const LATENCY_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

const CORS_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE";
const CORS_AGE_SECONDS = "600";

export function edge({ log, metrics, origins, trustedProxies, trace, routes }: EdgeParts) {
  const groups = counted(metrics);
  let methods: Memoirist<Set<string>> | undefined; // built at the first miss; most servers never see one

  function allowedMethods(path: string): string[] {
    methods ??= toMethodTable(routes());
    return [...(methods.find("GET", withoutSlash(path))?.store ?? [])];
  }

  /** By prefix and not by route: a path that matches nothing still has a group. The last one takes all. */
  function groupOf(path: string): CountedGroup {
    for (const group of groups) {
      const { length } = group.prefix;
      if (path.startsWith(group.prefix) && (path.length === length || path.charCodeAt(length) === 47 || length === 0))
        return group;
    }
    throw new Error("the last group takes every path");
  }

  /** Every answer leaves through here. What a route has set itself stays. */
  function finish(request: Request, path: string, status: number, headers: HeaderPut): void {
    const group = groupOf(path);
    headers.set("x-request-id", requestIdOf(request));
    for (const name in group.headers) if (!headers.has(name)) headers.set(name, group.headers[name] ?? "");
    const origin = origins.corsOrigin(request.headers.get("origin"));
    if (origin) {
      headers.set("access-control-allow-origin", origin);
      headers.set("access-control-expose-headers", "*");
      const before = headers.get("vary");
      headers.set("vary", before ? `${before}, origin` : "origin");
    }
    const ms = performance.now() - (startOf(request) ?? performance.now());
    group.count(status, ms);
    if (trace)
      log.debug("request", { request_id: requestIdOf(request), method: request.method, url: request.url, status, ms });
  }

  function preflight(request: Request): Response {
    const origin = origins.corsOrigin(request.headers.get("origin"));
    if (!origin) throw new AppError("access.origin");
    const headers = new Headers({
      "access-control-allow-methods": CORS_METHODS,
      "access-control-allow-headers": request.headers.get("access-control-request-headers") ?? "*",
      "access-control-max-age": CORS_AGE_SECONDS,
    });
    finish(request, pathOf(request), 204, headers);
    return new Response(null, { status: 204, headers });
  }

  function fail(thrown: unknown, request: Request, path: string): AppError {
    if (thrown instanceof NotFoundError) {
      const allow = allowedMethods(path);
      return allow.length === 0
        ? new AppError("route.unknown")
        : new AppError("route.method", { headers: { allow: allow.join(", ") } });
    }
    if (thrown instanceof ParseError)
      return thrown.cause instanceof AppError ? thrown.cause : new AppError("input.malformed");
    if (thrown instanceof ValidationError && thrown.type !== "response")
      return new AppError("input.invalid", { say: toSentence(thrown, request.url) });
    const error = toAppError(thrown);
    if (error.status >= 500 && !error.expected && !request.signal.aborted) {
      const cause = error.cause ?? error;
      log.error("request.failed", {
        request_id: requestIdOf(request),
        method: request.method,
        url: request.url,
        error: cause,
      });
    }
    return error;
  }

  return new Elysia({ name: "edge" })
    .onRequest(({ request, server }) => {
      enter(request, performance.now(), server, trustedProxies);
      // With an invalid Host Bun gives us a bare path, and the router would then cut the route out of its middle.
      if (request.url.charCodeAt(0) === 47) throw new AppError("host.invalid");
      if (request.method === "OPTIONS" && request.headers.has("access-control-request-method"))
        return preflight(request);
    })
    .onError({ as: "global" }, async ({ error: thrown, request, path }) => {
      const error = fail(thrown, request, path);
      if (error.delayMs > 0) await Bun.sleep(error.delayMs);
      const headers = new Headers({ ...error.headers, "content-type": "application/json" });
      if (error.status === 401) headers.set("www-authenticate", "Bearer");
      finish(request, path, error.status, headers);
      const body = JSON.stringify(groupOf(path).failure(error, requestIdOf(request)));
      return new Response(body, { status: error.status, headers });
    })
    .onAfterHandle({ as: "global" }, ({ responseValue, request, path, set }) => {
      if (responseValue instanceof Response) finish(request, path, responseValue.status, responseValue.headers);
      else finish(request, path, typeof set.status === "number" ? set.status : 200, toHeaderPut(set.headers));
    });
}

type HeaderPut = Pick<Headers, "get" | "has" | "set">;

function toHeaderPut(headers: Record<string, unknown>): HeaderPut {
  return {
    get: (name) => (typeof headers[name] === "string" ? headers[name] : null),
    has: (name) => name in headers,
    set: (name, value) => {
      headers[name] = value;
    },
  };
}

function pathOf(request: Request): string {
  const start = request.url.indexOf("/", request.url.indexOf("//") + 2);
  const end = request.url.indexOf("?", start);
  return request.url.slice(start, end === -1 ? undefined : end);
}

/** A group with its numbers beside it, so that counting a request needs no look-up by label. */
function counted(metrics: Metrics): CountedGroup[] {
  const requests = metrics.counter("gatehouse_http_requests_total", "Requests by route group and status");
  const seconds = metrics.histogram(
    "gatehouse_http_request_seconds",
    "Time to the head of the answer",
    LATENCY_SECONDS,
  );
  return GROUPS.map((group) => {
    const statuses = new Map<number, Counter>();
    const latency = seconds({ group: group.name });
    const count = (status: number, ms: number): void => {
      const known = statuses.get(status) ?? requests({ group: group.name, status });
      statuses.set(status, known);
      known.add();
      latency.observe(ms / 1000);
    };
    return { ...group, count };
  });
}

function toMethodTable(routes: readonly Route[]): Memoirist<Set<string>> {
  const byPath = new Map<string, Set<string>>();
  for (const { method, path } of routes) {
    const known = byPath.get(withoutSlash(path)) ?? new Set();
    known.add(method);
    if (method === "GET") known.add("HEAD");
    byPath.set(withoutSlash(path), known);
  }
  const table = new Memoirist<Set<string>>();
  for (const [path, known] of byPath) table.add("GET", path, known);
  return table;
}

/** The router takes `/x` and `/x/` for the same; a table of our own has to say so. */
function withoutSlash(path: string): string {
  return path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path;
}

/** Which field, and what was expected of it; never the value that was sent. */
function toSentence(error: ValidationError, url: string): string {
  const [first] = error.all;
  const message = first && "message" in first && typeof first.message === "string" ? first.message : "invalid";
  // A number out of its range is told without its place: Elysia has turned it from text to number by then.
  if (error.type === "property") return `query.${nameInQuery(url, error.value)}: ${message}`;
  const path =
    first && "path" in first && typeof first.path === "string" ? first.path.slice(1).replaceAll("/", ".") : "";
  const place = `${error.type}${path === "" ? "" : `.${path}`}`;
  const schema: TSchema | undefined = first && "schema" in first ? first.schema : undefined;
  if (Array.isArray(schema?.enum)) return `${place}: Expected one of ${schema.enum.join(", ")}`;
  const [, number] = Array.isArray(schema?.anyOf) ? schema.anyOf : []; // a number in a query: its text, or itself
  if (number?.type === "integer" || number?.type === "number") return `${place}: Expected ${number.type}`;
  const [example] = schema?.pattern !== undefined || schema?.format !== undefined ? (schema.examples ?? []) : [];
  return `${place}: ${message}${example === undefined ? "" : `, as in ${example}`}`;
}

function nameInQuery(url: string, value: unknown): string {
  const [name] = [...new URL(url).searchParams].find(([, text]) => Number(text) === value) ?? ["value"];
  return name;
}
