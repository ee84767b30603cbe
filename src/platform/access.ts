// Who sends this request, and may they? Every credential is read here and nowhere else.
import { timingSafeEqual } from "node:crypto";
import { Elysia } from "elysia";
import type { Brake } from "./brake.ts";
import { AppError } from "./errors.ts";
import type { OriginRule } from "./origin.ts";
import { may, type Permission, type Principal, type Scope } from "./permissions.ts";
import { addressOf } from "./request.ts";
import { sha256, type TokenStore } from "./tokens.ts";

export type Access = ReturnType<typeof createAccess>;
export type Guard = ReturnType<typeof accessGuard>;

type AccessParts = {
  tokens: TokenStore;
  brake: Brake;
  origins: OriginRule;
  /** Gives the machine's own commands admin authority; from a file only the owner can read. */
  localKey: string;
  /** Two servers on one host share cookies, so the port is part of the name. */
  cookieName: () => string;
};

const LOCAL: Principal = { tokenId: "local", name: "this machine", permissions: new Set(["admin"]), scope: {} };
const SAFE_METHODS = new Set(["GET", "HEAD", "OPTIONS"]);

export function createAccess({ tokens, brake, origins, localKey, cookieName }: AccessParts) {
  const localHash = sha256(localKey);

  function byToken(value: string): Principal | undefined {
    return tokens.byValue(value) ?? (timingSafeEqual(sha256(value), localHash) ? LOCAL : undefined);
  }

  function sessionOf(request: Request) {
    const value = cookieOf(request);
    const session = value === undefined ? undefined : tokens.bySession(value);
    if (!session) return undefined;
    // A cookie comes along whoever made the browser ask, so what changes something must come from our own page.
    const risky = !SAFE_METHODS.has(request.method) || request.headers.has("upgrade");
    const origin = request.headers.get("origin") ?? "";
    if (risky && !origins.isSameOrigin(request, origin)) throw new AppError("access.origin");
    return session;
  }

  function cookieOf(request: Request): string | undefined {
    const wanted = `${cookieName()}=`;
    const pair = request.headers
      .get("cookie")
      ?.split(/;\s*/)
      .find((part) => part.startsWith(wanted));
    return pair?.slice(wanted.length);
  }

  /** The bearer token, else the console's cookie. A wrong token is not rescued by a cookie. */
  function ofRequest(request: Request): Principal | undefined {
    const bearer = bearerOf(request);
    return bearer === undefined ? sessionOf(request)?.principal : byToken(bearer);
  }

  /** Throws unless somebody valid sent this. Wrong credentials wait behind each other; missing ones are no guess. */
  function identify(request: Request): Principal {
    const principal = ofRequest(request);
    if (principal) return principal;
    if (bearerOf(request) === undefined) throw new AppError("access.missing");
    throw refused(request);
  }

  function refused(request: Request): AppError {
    const delayMs = brake.fail(addressOf(request));
    if (delayMs === undefined) return new AppError("access.slow_down", { headers: { "retry-after": "10" } });
    return new AppError("access.missing", { delayMs });
  }

  /** An account that does not exist and one that is not yours get the same answer. */
  function require(request: Request, permission: Permission, scope: Scope): Principal {
    const principal = identify(request);
    const exists = scope.accountId === undefined || tokens.hasAccount(scope.accountId);
    if (!exists || !may(principal, permission, scope)) throw new AppError("access.denied");
    return principal;
  }

  return { byToken, ofRequest, identify, refused, require, sessionOf, cookieOf, hasAccount: tokens.hasAccount };
}

/**
 * A route says `needs: "tags:read"` and is entered by nobody else. It runs as `transform`, that is before the
 * schemas, so that a stranger learns nothing from a validation message.
 */
export function accessGuard(access: Access) {
  return new Elysia({ name: "access" }).macro({
    needs: (permission: Permission | "any") => ({
      detail: { security: [{ token: [] }], "x-needs": permission },
      transform({ request, params }: { request: Request; params: unknown }) {
        if (permission === "any") access.identify(request);
        else access.require(request, permission, toScope(params));
      },
    }),
  });
}

function toScope(params: unknown): Scope {
  const of = (name: string): string | undefined => {
    if (typeof params !== "object" || params === null || !(name in params)) return undefined;
    const value: unknown = Reflect.get(params, name);
    return typeof value === "string" ? value : "\0"; // an escape that does not decode names nothing that exists
  };
  return { accountId: of("account_id"), gatewayId: of("gateway_id"), agentClass: of("class"), agentName: of("name") };
}

function bearerOf(request: Request): string | undefined {
  const header = request.headers.get("authorization");
  const [, value] = header?.match(/^Bearer +(\S+)\s*$/i) ?? [];
  return header === null ? undefined : (value ?? "");
}
