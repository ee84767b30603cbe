// Managing providers: the table everybody has, and the rows an account adds.
import { Type as t } from "@sinclair/typebox";
import { Elysia } from "elysia";
import type { Access, Guard } from "../platform/access.ts";
import { Ok, ok } from "../platform/envelope.ts";
import { AppError } from "../platform/errors.ts";
import type { AddressRule } from "./addresses.ts";
import type { CustomProviderStore } from "./custom-providers.ts";
import { CustomProvider, ProviderChange, ProviderQuery, ProviderWrite } from "./model.ts";
import { onePage } from "./paging.ts";
import type { Provider } from "./providers.ts";

export type ProviderRouteParts = {
  access: Access;
  guard: Guard;
  providers: CustomProviderStore;
  table: ReadonlyMap<string, Provider>;
  addresses: AddressRule;
};

const Account = t.Object({ account_id: t.String() });
const One = t.Object({ account_id: t.String(), id: t.String() });
const Row = t.Object({ slug: t.String(), base_url: t.String(), key_header: t.String(), local: t.Boolean() });

export const providerManagement = ({ access, guard, providers, table, addresses }: ProviderRouteParts) => {
  /** True when an admin asks for an address in the private network: only then it may be one. */
  async function leaveFor(request: Request, accountId: string, baseUrl: string): Promise<boolean> {
    const isAdmin = access.identify(request).permissions.has("admin");
    const problem = await addresses.problemOf(baseUrl);
    if (problem === "refused" || problem === "self") throw new AppError("input.invalid", { say: SENTENCES[problem] });
    if (problem === "private" && !isAdmin) access.require(request, "admin", { accountId });
    return isAdmin;
  }

  return new Elysia({ prefix: "/accounts/:account_id/ai-gateway", tags: ["Providers"] })
    .use(guard)
    .get("/providers", () => ok([...table.values()].filter(once()).map(toRow)), {
      needs: "gateway:read",
      params: Account,
      response: Ok(t.Array(Row)),
      detail: { summary: "The provider table", description: "Built-in rows and those of the settings file." },
    })
    .get(
      "/custom-providers",
      ({ params, query: { search = "", enable, beta, ...page } }) => {
        const fits = (one: CustomProvider): boolean =>
          [one.id, one.name, one.slug].some((text) => text.toLowerCase().includes(search.toLowerCase())) &&
          (enable === undefined || one.enable === enable) &&
          (beta === undefined || one.beta === beta);
        return onePage(providers.list(params.account_id).filter(fits), page);
      },
      {
        needs: "gateway:read",
        params: Account,
        query: ProviderQuery,
        response: Ok(t.Array(CustomProvider)),
        detail: { summary: "List an account's own providers", description: "Header values are hidden." },
      },
    )
    .post(
      "/custom-providers",
      async ({ params, body, request }) => {
        const leave = await leaveFor(request, params.account_id, body.base_url);
        return ok(providers.create(params.account_id, body, leave));
      },
      {
        needs: "gateway:edit",
        params: Account,
        body: ProviderWrite,
        response: Ok(CustomProvider),
        detail: {
          summary: "Add a provider",
          description: "Reached as `custom-{slug}`. An address in the private network needs an admin.",
          "x-errors": ["input.invalid", "thing.exists"],
        },
      },
    )
    .get("/custom-providers/:id", ({ params }) => ok(providers.get(params.account_id, params.id)), {
      needs: "gateway:read",
      params: One,
      response: Ok(CustomProvider),
      detail: { summary: "Read a provider", description: "Header values are hidden.", "x-errors": ["thing.unknown"] },
    })
    .patch(
      "/custom-providers/:id",
      async ({ params, body, request }) => {
        const before = providers.get(params.account_id, params.id);
        const leave = await leaveFor(request, params.account_id, body.base_url ?? before.base_url);
        return ok(providers.update(params.account_id, params.id, body, leave));
      },
      {
        needs: "gateway:edit",
        params: One,
        body: ProviderChange,
        response: Ok(CustomProvider),
        detail: {
          summary: "Change a provider",
          description: "Only the fields that are given.",
          "x-errors": ["input.invalid", "thing.unknown", "thing.exists"],
        },
      },
    )
    .delete("/custom-providers/:id", ({ params }) => ok(providers.remove(params.account_id, params.id)), {
      needs: "gateway:edit",
      params: One,
      response: Ok(CustomProvider),
      detail: {
        summary: "Remove a provider",
        description: "Effective with the next request.",
        "x-errors": ["thing.unknown"],
      },
    });
};

const SENTENCES = {
  refused: "base_url: link-local and metadata addresses are never contacted",
  self: "base_url: this is our own listener",
} as const;

/** Aliases share their row's name. */
function once(): (row: Provider) => boolean {
  const seen = new Set<string>();
  return ({ slug }) => !seen.has(slug) && seen.add(slug) !== undefined;
}

function toRow({ slug, base, version, key, local }: Provider) {
  return { slug, base_url: version ? `${base}/${version}` : base, key_header: key, local: local === true };
}
