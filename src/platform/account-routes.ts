// Accounts over HTTP: namespaces for gateways, tags and tokens.
import { Type as t } from "@sinclair/typebox";
import { Elysia } from "elysia";
import type { Access, Guard } from "./access.ts";
import { Ok, ok } from "./envelope.ts";
import { AppError } from "./errors.ts";
import type { Principal } from "./permissions.ts";
import { name, strict, Time, toTime } from "./schema.ts";
import type { Account as AccountRow, TokenStore } from "./tokens.ts";

export const AccountId = t.String({ pattern: "^[a-z0-9][a-z0-9_-]{0,63}$", examples: ["home"] });
const Name = name("My lab");
const Account = t.Object({ id: AccountId, name: Name, created_at: Time });
const AccountWrite = t.Object({ id: AccountId, name: t.Optional(Name) }, strict);

type AccountParts = { access: Access; guard: Guard; tokens: TokenStore };

export function accountRoutes({ access, guard, tokens }: AccountParts) {
  return new Elysia({ prefix: "/accounts", tags: ["Accounts"] })
    .use(guard)
    .get("/", ({ request }) => ok(visibleAccounts(tokens, access.identify(request)).map(toAccount)), {
      needs: "any",
      response: Ok(t.Array(Account)),
      detail: {
        summary: "List accounts",
        description: "All of them; a token limited to an account sees that one, one limited to an agent none.",
      },
    })
    .post(
      "/",
      ({ body: { id, name } }) => {
        if (tokens.hasAccount(id))
          throw new AppError("thing.exists", { say: "An account with this id exists already" });
        return ok(toAccount(tokens.createAccount(id, name ?? id)));
      },
      {
        needs: "admin",
        body: AccountWrite,
        response: Ok(Account),
        detail: {
          summary: "Create an account",
          description: "An account is a namespace for gateways, tags and tokens.",
        },
      },
    );
}

/** A token limited to an agent has no business in any account. */
function visibleAccounts(tokens: TokenStore, { scope }: Principal): AccountRow[] {
  if (scope.agentClass !== undefined) return [];
  return tokens.accountList().filter(({ id }) => scope.accountId === undefined || id === scope.accountId);
}

function toAccount({ id, name, created_at }: AccountRow) {
  return { id, name, created_at: toTime(created_at) };
}
