// The product as one Elysia app, edge first. This list is the table of contents; it never listens.
import { Elysia } from "elysia";
import { agentManagementRoutes } from "./agents/management.ts";
import { agentRoutes } from "./agents/routes.ts";
import { consoleRoutes } from "./console/routes.ts";
import { gatewayManagement } from "./gateway/gateway-routes.ts";
import { logManagement } from "./gateway/log-routes.ts";
import { providerManagement } from "./gateway/provider-routes.ts";
import { gatewayRoutes } from "./gateway/routes.ts";
import { hookDeliveryRoutes } from "./hooks/delivery-routes.ts";
import { hookRoutes } from "./hooks/routes.ts";
import { hookSourceRoutes } from "./hooks/source-routes.ts";
import type { Parts } from "./parts.ts";
import { accountRoutes } from "./platform/account-routes.ts";
import { apiBody } from "./platform/api-body.ts";
import { edge } from "./platform/edge.ts";
import { healthRoutes } from "./platform/health.ts";
import { openApiDocument } from "./platform/openapi.ts";
import { sessionRoutes } from "./platform/session-routes.ts";
import { tokenRoutes } from "./platform/token-routes.ts";
import { createResourceTypes } from "./tags/resource-types.ts";
import { tagRoutes } from "./tags/routes.ts";

export type App = ReturnType<typeof createApp>;

const SOCKET_BACKLOG_BYTES_MAX = 4 * 1024 * 1024; // what a client may be behind before we give it up

export function createApp(parts: Parts) {
  const { settings, access } = parts;
  // Short host names (http://pi/) need the first setting; unknown keys are refused, not dropped, thanks to the second.
  const app = new Elysia({
    handler: { standardHostname: false },
    normalize: false,
    // Counts only here, on the instance that listens. Pings keep quiet clients connected; a stalled one is cut off.
    websocket: {
      sendPings: true,
      idleTimeout: settings.agent.socket_idle_seconds,
      maxPayloadLength: settings.agent.frame_bytes_max,
      backpressureLimit: SOCKET_BACKLOG_BYTES_MAX,
      closeOnBackpressureLimit: true,
    },
  });
  let document: object | undefined;

  return app
    .use(
      edge({
        ...parts,
        trustedProxies: settings.trusted_proxies,
        trace: settings.log === "debug",
        routes: () => app.routes,
      }),
    )
    .use(gatewayRoutes(parts.gateway.forward))
    .use(consoleRoutes(parts.assets))
    .use(healthRoutes({ ...parts, metricsOpen: settings.metrics_open }))
    .get(
      "/swagger/json",
      ({ request }) => {
        access.identify(request);
        document ??= openApiDocument(app);
        return document;
      },
      { detail: { summary: "This document", security: [{ token: [] }], tags: ["Health"] } },
    )
    .use(hookRoutes(parts.hooks))
    .use(agentRoutes({ ...parts, onRevoked: parts.tokens.onRevoked }))
    .group("/api", (api) =>
      api
        .use(
          sessionRoutes({
            ...parts,
            sessionMs: settings.session_hours * 3_600_000,
            secure: settings.tls_cert !== undefined || settings.public_url?.startsWith("https:") === true,
            onSignIn: () => parts.onSignIn(),
          }),
        )
        // Before the house's body rules: tags have codes of their own for a body that is no good.
        .use(
          tagRoutes({
            ...parts,
            types: createResourceTypes(settings.tags.resource_types),
            missingStatus: settings.tags.missing_status,
          }),
        )
        .use(apiBody(access.identify))
        .use(accountRoutes(parts))
        .use(tokenRoutes(parts))
        .use(
          gatewayManagement({
            ...parts,
            ...parts.gateway,
            mintRun: (accountId, gatewayId, name) =>
              parts.tokens.mint({ name, permissions: ["run"], scope: { accountId, gatewayId } }),
            onRemoved: (accountId, gatewayId) => {
              parts.tokens.revokeWithin({ accountId, gatewayId });
              parts.tags.forget("ai_gateway", gatewayId, accountId);
            },
            originOf: (request) => settings.public_url ?? new URL(request.url).origin,
          }),
        )
        .use(logManagement({ ...parts, ...parts.gateway }))
        .use(providerManagement({ ...parts, ...parts.gateway }))
        .use(agentManagementRoutes(parts))
        .use(hookSourceRoutes(parts))
        .use(hookDeliveryRoutes(parts)),
    );
}
