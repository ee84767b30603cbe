// The model-facing paths: anything below a provider's name goes to that provider.
import { type Context, Elysia } from "elysia";
import type { Forward } from "./proxy.ts";

const ERRORS = [
  "gateway.unknown",
  "gateway.unauthorized",
  "gateway.provider",
  "gateway.path",
  "gateway.upstream",
  "gateway.timeout",
];
const detail = {
  tags: ["Gateway"],
  summary: "Forward a request to a provider",
  description:
    "Any method and path of the provider, such as `chat/completions`; body and answer pass unchanged. The gateway's token " +
    "travels in `gw-aig-authorization: Bearer …`, the provider's own key where the provider expects it.",
  "x-errors": ERRORS,
};

export const gatewayRoutes = (forward: Forward) => {
  const pass = ({ request, server }: Pick<Context, "request" | "server">) => {
    server?.timeout(request, 0); // a model may think longer than any idle limit of ours
    return forward(request);
  };
  const root = { ...detail, summary: "Forward a request to a provider's root" };
  return new Elysia({ name: "gateway", tags: ["Gateway"] })
    .all("/v1/:account_id/:gateway_id/:provider/*", pass, { parse: "none", detail })
    .all("/v1/:account_id/:gateway_id/:provider", pass, { parse: "none", detail: root });
};
