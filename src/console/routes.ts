// The HTTP face of the pages: the console, the Swagger page, and the files both are made of.
import { Elysia } from "elysia";
import { AppError } from "../platform/errors.ts";
import type { Asset, Assets } from "./assets.ts";

/** Nothing but our own files: no inline script or style, no other host, no frame around us. */
const CONTENT_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join("; ");

const FILE_HEADERS = {
  "cross-origin-resource-policy": "same-origin",
  vary: "accept-encoding",
  "x-content-type-options": "nosniff",
};

const PAGE_HEADERS = {
  ...FILE_HEADERS,
  "content-security-policy": CONTENT_POLICY,
  "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
  "referrer-policy": "no-referrer",
  "x-frame-options": "DENY",
};

const YEAR_SECONDS = 31_536_000; // the longest that caches honour
const FOREVER = `public, max-age=${YEAR_SECONDS}, immutable`;

export const consoleRoutes = (assets: Assets) =>
  new Elysia({ tags: ["Pages"] })
    .get("/", ({ request }) => page(assets, "index.html", request), {
      detail: { summary: "The console", description: "A page; sign in on it with a token or a sign-in link." },
    })
    .get("/swagger", ({ request }) => page(assets, "swagger.html", request), {
      detail: { summary: "Swagger UI", description: "A page that shows this document and lets you try it." },
    })
    .get("/assets/*", ({ request, params }) => file(assets, `assets/${params["*"]}`, request), {
      detail: {
        summary: "A file of a page",
        description: "Scripts, styles and pictures, straight out of the program.",
      },
    });

function page(assets: Assets, name: string, request: Request): Promise<Response> {
  const asset = assets.find(name);
  if (!asset) throw new AppError("route.unknown", { say: "The pages are not built; run scripts/build" });
  return answer(asset, request, PAGE_HEADERS);
}

function file(assets: Assets, name: string, request: Request): Promise<Response> {
  const asset = assets.find(name);
  if (!asset) throw new AppError("route.unknown");
  return answer(asset, request, FILE_HEADERS);
}

async function answer(asset: Asset, request: Request, base: Record<string, string>): Promise<Response> {
  const etag = await asset.etag();
  const headers = new Headers({ ...base, etag, "cache-control": asset.immutable ? FOREVER : "no-cache" });
  if (isKnown(request.headers.get("if-none-match"), etag)) return new Response(null, { status: 304, headers });
  headers.set("content-type", asset.type);
  if (!takesGzip(request.headers.get("accept-encoding"))) {
    return new Response(Bun.gunzipSync(await asset.packed().bytes()), { headers });
  }
  headers.set("content-encoding", "gzip");
  return new Response(asset.packed(), { headers });
}

function isKnown(ifNoneMatch: string | null, etag: string): boolean {
  if (ifNoneMatch === null) return false;
  const opaque = (tag: string) => tag.trim().replace(/^W\//, "");
  return ifNoneMatch.split(",").some((tag) => tag.trim() === "*" || opaque(tag) === opaque(etag));
}

/** `gzip;q=0` is a refusal; `*` stands for what is not named. */
export function takesGzip(acceptEncoding: string | null): boolean {
  const weights = new Map<string, number>();
  for (const item of (acceptEncoding ?? "").toLowerCase().split(",")) {
    const [coding = "", ...parameters] = item.split(";").map((part) => part.trim());
    const weight = parameters.find((parameter) => parameter.startsWith("q="));
    weights.set(coding, weight === undefined ? 1 : Number(weight.slice(2)));
  }
  return (weights.get("gzip") ?? weights.get("x-gzip") ?? weights.get("*") ?? 0) > 0;
}
