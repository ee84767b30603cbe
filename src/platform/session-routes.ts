// The console's sign-in over HTTP: a token or a sign-in code becomes a cookie.
import { type Static, Type as t } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { Elysia } from "elysia";
import type { Access } from "./access.ts";
import { readJson } from "./api-body.ts";
import { Ok, ok } from "./envelope.ts";
import { AppError } from "./errors.ts";
import type { OriginRule } from "./origin.ts";
import { PERMISSIONS, type Principal } from "./permissions.ts";
import { jsonBody, oneOf, strict, Time, toTime } from "./schema.ts";
import type { TokenStore } from "./tokens.ts";

const Session = t.Object({
  name: t.String(),
  permissions: t.Array(oneOf(PERMISSIONS)),
  account_id: t.Optional(t.String()),
  expires_at: Time,
});

const SignIn = t.Union([
  t.Object({ token: t.String({ minLength: 1, maxLength: 512 }) }, strict),
  t.Object({ code: t.String({ minLength: 1, maxLength: 512 }) }, strict),
]);
type SignIn = Static<typeof SignIn>;

type SessionParts = {
  access: Access;
  origins: OriginRule;
  tokens: TokenStore;
  sessionMs: number;
  cookieName: () => string;
  /** Under TLS, or behind a proxy that offers it. */
  secure: boolean;
  onSignIn: () => void;
};

export function sessionRoutes({ access, origins, tokens, sessionMs, cookieName, secure, onSignIn }: SessionParts) {
  const setCookie = (value: string, maxAgeSeconds: number): HeadersInit => ({
    "set-cookie": `${cookieName()}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAgeSeconds}${secure ? "; Secure" : ""}`,
  });

  async function signIn(request: Request): Promise<Response> {
    const origin = request.headers.get("origin");
    if (origin !== null && !origins.isSameOrigin(request, origin)) throw new AppError("access.origin");
    const credential = await readJson(request);
    if (!Value.Check(SignIn, credential)) {
      throw new AppError("input.invalid", { say: "body: expected an object with either token or code" });
    }
    const principal = principalOf(credential);
    if (!principal) throw access.refused(request);
    const before = access.cookieOf(request);
    if (before !== undefined) tokens.endSession(before); // a sign-in always gets an id of its own
    const { value, expiresAt } = tokens.issue("sessions", principal.tokenId, sessionMs);
    onSignIn();
    return Response.json(ok(toSession(principal, expiresAt)), {
      headers: setCookie(value, Math.floor(sessionMs / 1000)),
    });
  }

  function principalOf(credential: SignIn): Principal | undefined {
    if ("token" in credential) return storedOnly(access.byToken(credential.token));
    const tokenId = tokens.redeem(credential.code);
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
        requestBody: jsonBody(SignIn),
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
