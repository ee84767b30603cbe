// The gateway as one part of the house: opened with its databases and threads, closed in reverse.
import { join } from "node:path";
import type { Access } from "../platform/access.ts";
import type { Log } from "../platform/log.ts";
import type { Metrics } from "../platform/metrics.ts";
import type { OriginRule } from "../platform/origin.ts";
import type { Secrets } from "../platform/secrets.ts";
import type { Settings } from "../platform/settings.ts";
import { openDatabase } from "../platform/sqlite.ts";
import { createAddressRule } from "./addresses.ts";
import { createCustomProviders } from "./custom-providers.ts";
import { type LogStore, startLogs } from "./logs/store.ts";
import { providerTable } from "./providers.ts";
import { createProxy } from "./proxy.ts";
import { createGatewayStore, GATEWAY_MIGRATIONS } from "./settings.ts";
import { createUpstream } from "./upstream.ts";

type GatewayParts = {
  folder: string;
  settings: Settings;
  log: Log;
  now: () => number;
  metrics: Metrics;
  access: Access;
  origins: OriginRule;
  secrets: Secrets;
  /** The port is known only once the server listens. */
  listening: { port: number };
  /** Address of src/gateway/logs/worker.ts. */
  logThreadUrl: string;
};

const LOCAL_KEY_CHARS = 64;

export type GatewayPart = ReturnType<typeof openGateway>;

export function openGateway({
  folder,
  settings,
  log,
  now,
  metrics,
  access,
  origins,
  secrets,
  listening,
  logThreadUrl,
}: GatewayParts) {
  const { upstream_idle_ms, log_rows, log_days, log_bytes, providers: ownProviders, prices } = settings.gateway;
  const db = openDatabase(join(folder, "gateway.db"), GATEWAY_MIGRATIONS);
  const gateways = createGatewayStore({ db, secrets, now, onCap: (cap) => logs.setCap(cap) });
  const retention = { rowsMax: log_rows, daysMax: log_days, bytesMax: log_bytes };
  const setup = { path: join(folder, "logs.db"), retention, caps: gateways.caps(), prices };
  const logs: LogStore = startLogs({ threadUrl: logThreadUrl, setup, log, metrics });

  const table = providerTable(ownProviders);
  const providers = createCustomProviders({ db, secrets, now });
  const listener = () => ({ host: settings.host, port: listening.port, publicUrl: settings.public_url });
  const addresses = createAddressRule({ listener, now });
  const upstream = createUpstream({ idleMsMax: upstream_idle_ms, now: () => performance.now() });
  metrics.gauge("gatehouse_gateway_requests_in_flight", "Gateway requests under way", upstream.count);
  const forward = createProxy({
    access,
    origins,
    gateways,
    providers: { find: (accountId, slug) => table.get(slug) ?? providers.find(accountId, slug) },
    addresses,
    upstream,
    record: logs.record,
    metrics,
    // The key of this machine's own commands, and an admin token that somebody chose.
    bareTokenChars: [LOCAL_KEY_CHARS, ...(settings.admin_token === undefined ? [] : [settings.admin_token.length])],
  });

  return {
    forward,
    inFlight: upstream.count,
    gateways,
    providers,
    table,
    addresses,
    logs,
    async close() {
      upstream.stop();
      await logs.stop();
      db.close();
    },
  };
}
