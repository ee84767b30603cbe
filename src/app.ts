// The product as one Elysia app, edge first. This list is the table of contents; it never listens.
import { Elysia } from "elysia";
import { consoleRoutes } from "./console/routes.ts";
import type { Parts } from "./parts.ts";
import { accountRoutes } from "./platform/account-routes.ts";
import { apiBody } from "./platform/api-body.ts";
import { edge } from "./platform/edge.ts";
import { healthRoutes } from "./platform/health.ts";
import { openApiDocument } from "./platform/openapi.ts";
import { sessionRoutes } from "./platform/session-routes.ts";
import { tokenRoutes } from "./platform/token-routes.ts";

export type App = ReturnType<typeof createApp>;

export function createApp(parts: Parts) {
  const { settings, access } = parts;
  // Short host names (http://pi/) need the first setting; unknown keys are refused, not dropped, thanks to the second.
  const app = new Elysia({ handler: { standardHostname: false }, normalize: false });
  let document: Promise<object> | undefined;

  return app
    .use(
      edge({
        ...parts,
        trustedProxies: settings.trusted_proxies,
        trace: settings.log === "debug",
        routes: () => app.routes,
      }),
    )
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
        .use(apiBody(access.identify))
        .use(accountRoutes(parts))
        .use(tokenRoutes(parts)),
    );
}
