// The console's sign-in over HTTP: a token or a sign-in code becomes a cookie.
import { Type as t } from "@sinclair/typebox";
import { Elysia } from "elysia";
import type { Access } from "./access.ts";
import { readJson } from "./api-body.ts";
import { Ok, ok } from "./envelope.ts";
import { AppError } from "./errors.ts";
import { PERMISSIONS, type Principal } from "./permissions.ts";
import { oneOf, Time, toTime } from "./schema.ts";
import type { TokenStore } from "./tokens.ts";

const Session = t.Object({
  name: t.String(),
  permissions: t.Array(oneOf(PERMISSIONS)),
  account_id: t.Optional(t.String()),
  expires_at: Time,
});

type SessionParts = {
  access: Access;
  tokens: TokenStore;
  sessionMs: number;
  cookieName: () => string;
  /** Under TLS, or behind a proxy that offers it. */
  secure: boolean;
  onSignIn: () => void;
};

export function sessionRoutes({ access, tokens, sessionMs, cookieName, secure, onSignIn }: SessionParts) {
  const setCookie = (value: string, maxAgeSeconds: number): HeadersInit => ({
    "set-cookie": `${cookieName()}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAgeSeconds}${secure ? "; Secure" : ""}`,
  });
  async function signIn(request: Request): Promise<Response> {
    const body = await readJson(request);
    const principal = principalOf(body);
    if (!principal) throw access.refused(request);
    const before = access.cookieOf(request);
    if (before !== undefined) tokens.endSession(before); // a sign-in always gets an id of its own
    const { value, expiresAt } = tokens.issue("sessions", principal.tokenId, sessionMs);
    onSignIn();
    return Response.json(ok(toSession(principal, expiresAt)), {
      headers: setCookie(value, Math.floor(sessionMs / 1000)),
    });
  }

  function principalOf(body: unknown): Principal | undefined {
    if (typeof body !== "object" || body === null) return undefined;
    if ("token" in body && typeof body.token === "string") return storedOnly(access.byToken(body.token));
    if (!("code" in body) || typeof body.code !== "string") return undefined;
    const tokenId = tokens.redeem(body.code);
    return tokenId === undefined ? undefined : tokens.principalOf(tokenId);
  }

  /** The machine's own key is for commands: it has no row a session could end with. */
  const storedOnly = (principal: Principal | undefined) =>
    principal && tokens.byId(principal.tokenId) ? principal : undefined;

  return new Elysia({ prefix: "/session", tags: ["Session"] })
    .get(
      "/",
      ({ request }) => {
        const session = access.sessionOf(request);
        if (!session) throw new AppError("access.missing");
        return ok(toSession(session.principal, session.expiresAt));
      },
      { response: Ok(Session), detail: { summary: "Who is signed in to the console" } },
    )
    .post("/", ({ request }) => signIn(request), {
      parse: "none",
      detail: {
        summary: "Sign in to the console",
        description: "With a token, or with the code of a sign-in link, which works once. Answers with a cookie.",
        requestBody: {
          required: true,
          content: {
            "application/json": {
              schema: { type: "object", properties: { token: { type: "string" }, code: { type: "string" } } },
            },
          },
        },
      },
    })
    .delete(
      "/",
      ({ request }) => {
        const session = access.sessionOf(request);
        const value = access.cookieOf(request);
        if (session && value !== undefined) tokens.endSession(value);
        return Response.json(ok(null), { headers: setCookie("", 0) });
      },
      { detail: { summary: "Sign out of the console" } },
    );
}

function toSession(principal: Principal, expiresAt: number) {
  return {
    name: principal.name,
    permissions: [...principal.permissions],
    ...(principal.scope.accountId !== undefined && { account_id: principal.scope.accountId }),
    expires_at: toTime(expiresAt),
  };
}
