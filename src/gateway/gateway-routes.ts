// Managing gateways: the settings interface that existing clients of such gateways speak.
import { Type as t } from "@sinclair/typebox";
import { Elysia } from "elysia";
import type { Guard } from "../platform/access.ts";
import { Ok, ok } from "../platform/envelope.ts";
import type { LogStore } from "./logs/store.ts";
import { Gateway, GatewayCreate, GatewayQuery, GatewayWrite, NewToken, TokenName } from "./model.ts";
import { onePage } from "./paging.ts";
import type { GatewayStore } from "./settings.ts";

export type GatewayRouteParts = {
  guard: Guard;
  gateways: GatewayStore;
  logs: LogStore;
  /** A token with `run` for this gateway alone. */
  mintRun: (accountId: string, gatewayId: string, name: string) => { id: string; token: string };
  /** Tokens and tags of a gateway that is gone must not belong to one that is made later under its name. */
  onRemoved: (accountId: string, gatewayId: string) => void;
  /** What clients see as our origin. */
  originOf: (request: Request) => string;
};

const Account = t.Object({ account_id: t.String() });
const One = t.Object({ account_id: t.String(), gateway_id: t.String() });

export const gatewayManagement = ({ guard, gateways, logs, mintRun, onRemoved, originOf }: GatewayRouteParts) =>
  new Elysia({ prefix: "/accounts/:account_id/ai-gateway/gateways", tags: ["Gateways"] })
    .use(guard)
    .get("/", ({ params, query }) => onePage(gateways.list(params.account_id, query.search), query), {
      needs: "gateway:read",
      params: Account,
      query: GatewayQuery,
      response: Ok(t.Array(Gateway)),
      detail: { summary: "List gateways", description: "`search` looks at ids. A page past the end is empty." },
    })
    .post("/", ({ params, body }) => ok(gateways.create(params.account_id, body)), {
      needs: "gateway:edit",
      params: Account,
      body: GatewayCreate,
      response: Ok(Gateway),
      detail: {
        summary: "Create a gateway",
        description: "Without `authentication` it starts open, as in the set-up order: token first, then the switch.",
        "x-errors": ["input.invalid", "thing.exists"],
      },
    })
    .get("/:gateway_id", ({ params }) => ok(gateways.get(params.account_id, params.gateway_id)), {
      needs: "gateway:read",
      params: One,
      response: Ok(Gateway),
      detail: {
        summary: "Read a gateway's settings",
        description: "Credentials are hidden.",
        "x-errors": ["thing.unknown"],
      },
    })
    .put("/:gateway_id", ({ params, body }) => ok(gateways.update(params.account_id, params.gateway_id, body)), {
      needs: "gateway:edit",
      params: One,
      body: GatewayWrite,
      response: Ok(Gateway),
      detail: {
        summary: "Replace a gateway's settings",
        description: "A field that is left out is back at its default. Effective with the next request.",
        "x-errors": ["input.invalid", "thing.unknown"],
      },
    })
    .delete(
      "/:gateway_id",
      async ({ params: { account_id, gateway_id } }) => {
        const gone = gateways.remove(account_id, gateway_id);
        onRemoved(account_id, gateway_id);
        await logs.remove({ gateway: `${account_id}/${gateway_id}`, filters: [] });
        return ok(gone);
      },
      {
        needs: "gateway:edit",
        params: One,
        response: Ok(Gateway),
        detail: {
          summary: "Delete a gateway",
          description: "Its logs and tags go too, and the run tokens that were limited to it are revoked.",
          "x-errors": ["thing.unknown"],
        },
      },
    )
    .post(
      "/:gateway_id/tokens",
      ({ params: { account_id, gateway_id }, body }) => {
        gateways.get(account_id, gateway_id);
        const name = body?.name ?? `${account_id}/${gateway_id}`;
        return ok({ ...mintRun(account_id, gateway_id, name), name });
      },
      {
        needs: "gateway:edit",
        params: One,
        body: TokenName,
        response: NewToken,
        detail: {
          summary: "Create an authentication token",
          description: "With the run permission for this gateway. The value appears in this answer and never again.",
          "x-errors": ["input.invalid", "thing.unknown"],
        },
      },
    )
    .get(
      "/:gateway_id/url/:provider",
      ({ params: { account_id, gateway_id, provider }, request }) => {
        gateways.get(account_id, gateway_id);
        return ok(`${originOf(request)}/v1/${account_id}/${gateway_id}/${encodeURIComponent(provider)}`);
      },
      {
        needs: "gateway:read",
        params: t.Composite([One, t.Object({ provider: t.String({ maxLength: 100 }) })]),
        response: Ok(t.String()),
        detail: {
          summary: "The base address for a client",
          description: "Put it where an SDK takes its base URL.",
          "x-errors": ["thing.unknown"],
        },
      },
    );
