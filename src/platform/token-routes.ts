// Tokens over HTTP: mint, list, revoke.
import { Type as t } from "@sinclair/typebox";
import { Elysia } from "elysia";
import type { Access, Guard } from "./access.ts";
import { AccountId } from "./account-routes.ts";
import { Ok, ok } from "./envelope.ts";
import { AppError } from "./errors.ts";
import { grantProblem, mayGrant, PERMISSIONS, type Principal } from "./permissions.ts";
import { name, oneOf, strict, Time, toTime } from "./schema.ts";
import { type TokenRow, type TokenStore, toPermissions, toScope } from "./tokens.ts";

const Name = name("laptop");
const Permission = oneOf(PERMISSIONS);

const Token = t.Object({
  id: t.String(),
  name: Name,
  permissions: t.Array(Permission),
  account_id: t.Optional(t.String()),
  gateway_id: t.Optional(t.String()),
  agent_class: t.Optional(t.String()),
  agent_name: t.Optional(t.String()),
  created_at: Time,
  expires_at: t.Union([Time, t.Null()]),
  last_used_at: t.Union([Time, t.Null()]),
});
const TokenWrite = t.Object(
  {
    name: Name,
    permissions: t.Array(Permission, { minItems: 1, maxItems: PERMISSIONS.length, examples: [["run"]] }),
    account_id: t.Optional(AccountId),
    gateway_id: t.Optional(t.String({ minLength: 1, maxLength: 64 })),
    agent_class: t.Optional(t.String({ minLength: 1, maxLength: 128 })),
    agent_name: t.Optional(t.String({ minLength: 1, maxLength: 128 })),
    expires_at: t.Optional(Time),
  },
  strict,
);
const NewToken = t.Composite([
  Token,
  t.Object({ token: t.String({ description: "the value; it is never shown again" }) }),
]);

type TokenParts = { access: Access; guard: Guard; tokens: TokenStore; now: () => number };

export function tokenRoutes({ access, guard, tokens, now }: TokenParts) {
  const visible = (principal: Principal) => (row: TokenRow) => mayGrant(principal, toPermissions(row), toScope(row));
  const toView = (row: TokenRow) => toToken(row, tokens.lastUsed(row));

  return new Elysia({ prefix: "/tokens", tags: ["Tokens"] })
    .use(guard)
    .get(
      "/",
      ({ request }) =>
        ok(
          tokens
            .all()
            .filter(visible(grantor(access, request)))
            .map(toView),
        ),
      {
        needs: "any",
        response: Ok(t.Array(Token)),
        detail: {
          summary: "List tokens",
          description: "Without their values. Needs admin, or gateway:edit for run tokens.",
        },
      },
    )
    .post(
      "/",
      ({ body, request }) => {
        const principal = grantor(access, request);
        const { account_id: accountId, gateway_id: gatewayId, agent_class: agentClass, agent_name: agentName } = body;
        const scope = { accountId, gatewayId, agentClass, agentName };
        if (!mayGrant(principal, body.permissions, scope)) throw new AppError("access.denied");
        const problem = grantProblem(body.permissions, scope);
        if (problem) throw new AppError("input.invalid", { say: problem });
        if (accountId !== undefined && !tokens.hasAccount(accountId)) throw new AppError("access.denied");
        const expiresAt = body.expires_at === undefined ? undefined : Date.parse(body.expires_at);
        if (expiresAt !== undefined && !(expiresAt > now())) {
          throw new AppError("input.invalid", { say: "expires_at must lie in the future" });
        }
        const { id, token } = tokens.mint({ name: body.name, permissions: body.permissions, scope, expiresAt });
        const row = tokens.byId(id);
        if (!row) throw new AppError("internal");
        return ok({ ...toView(row), token });
      },
      {
        needs: "any",
        body: TokenWrite,
        response: Ok(NewToken),
        detail: {
          summary: "Create a token",
          description:
            "The value appears in this answer and never again. Admins mint any; gateway:edit mints run for its own gateways.",
        },
      },
    )
    .delete(
      "/:id",
      ({ params: { id }, request }) => {
        const principal = grantor(access, request);
        const row = tokens.byId(id);
        if (!row || !visible(principal)(row)) throw new AppError("thing.unknown", { say: "No such token" });
        tokens.revoke(id);
        return ok({ id });
      },
      {
        needs: "any",
        params: t.Object({ id: t.String() }),
        response: Ok(t.Object({ id: t.String() })),
        detail: { summary: "Revoke a token", description: "Effective at once, for requests and for console sessions." },
      },
    );
}

/** Whoever may hand out some token or other. */
function grantor(access: Access, request: Request): Principal {
  const principal = access.identify(request);
  const { permissions } = principal;
  if (!permissions.has("admin") && !permissions.has("gateway:edit")) throw new AppError("access.denied");
  return principal;
}

function toToken(row: TokenRow, lastUsedAt: number | null) {
  return {
    id: row.id,
    name: row.name,
    permissions: toPermissions(row),
    ...(row.account_id !== null && { account_id: row.account_id }),
    ...(row.gateway_id !== null && { gateway_id: row.gateway_id }),
    ...(row.agent_class !== null && { agent_class: row.agent_class }),
    ...(row.agent_name !== null && { agent_name: row.agent_name }),
    created_at: toTime(row.created_at),
    expires_at: row.expires_at === null ? null : toTime(row.expires_at),
    last_used_at: lastUsedAt === null ? null : toTime(lastUsedAt),
  };
}
