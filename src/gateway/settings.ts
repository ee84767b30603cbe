// Gateways and their settings: stored in gateway.db, and kept in memory as the request path needs them.
import type { Database } from "bun:sqlite";
import { AppError } from "../platform/errors.ts";
import { toTime } from "../platform/schema.ts";
import type { Secrets } from "../platform/secrets.ts";
import type { Migration } from "../platform/sqlite.ts";
import type { GatewayCap } from "./logs/protocol.ts";
import type { Gateway, GatewayFields } from "./model.ts";

export const GATEWAY_MIGRATIONS: readonly Migration[] = [
  `create table gateways (
     account_id text not null, id text not null, created_ms integer not null, modified_ms integer not null,
     fields text not null, sealed blob, primary key (account_id, id)
   ) strict;
   create table custom_providers (
     id text primary key, account_id text not null, slug text not null,
     created_ms integer not null, modified_ms integer not null,
     fields text not null, headers blob, private_allowed integer not null, unique (account_id, slug)
   ) strict;
   insert into gateways (account_id, id, created_ms, modified_ms, fields) values (
     'home', 'default', unixepoch() * 1000, unixepoch() * 1000,
     '{"authentication":true,"collect_logs":true,"cache_invalidate_on_update":false,"cache_ttl":0,"rate_limiting_interval":0,"rate_limiting_limit":0}'
   );`,
];

/** What a request needs to know of its gateway. */
export type LiveGateway = {
  /** `account/gateway`, as it stands in the path. */
  key: string;
  scope: { accountId: string; gatewayId: string };
  /** Tells it from a later one of the same name. */
  createdMs: number;
  authentication: boolean;
  collectLogs: boolean;
  collectPayload: boolean;
  includeUsage: boolean;
};

type StoredGateway = {
  account_id: string;
  id: string;
  created_ms: number;
  modified_ms: number;
  fields: string;
  sealed: Uint8Array | null;
};

type GatewayParts = { db: Database; secrets: Secrets; now: () => number; onCap: (cap: GatewayCap) => void };

/** Shown instead of a credential, and taken back as "the one you have". */
const HIDDEN = "[hidden]";

export type GatewayStore = ReturnType<typeof createGatewayStore>;

export function createGatewayStore({ db, secrets, now, onCap }: GatewayParts) {
  const live = new Map<string, LiveGateway>();
  const rowOf = db.prepare<StoredGateway, [string, string]>("select * from gateways where account_id = ? and id = ?");
  const all = db.prepare<StoredGateway, []>("select * from gateways order by account_id, id");
  const put = db.prepare(
    `insert into gateways (account_id, id, created_ms, modified_ms, fields, sealed) values (?, ?, ?, ?, ?, ?)
     on conflict do update set modified_ms = excluded.modified_ms, fields = excluded.fields, sealed = excluded.sealed`,
  );
  for (const row of all.all()) remember(row);

  function remember(row: StoredGateway): void {
    const fields = readFields(row);
    const { authentication = false, collect_logs, collect_log_payload = true, include_usage = false } = fields;
    const key = `${row.account_id}/${row.id}`;
    live.set(key, {
      key,
      scope: { accountId: row.account_id, gatewayId: row.id },
      createdMs: row.created_ms,
      authentication,
      collectLogs: collect_logs,
      collectPayload: collect_log_payload,
      includeUsage: include_usage,
    });
  }

  function readFields(row: StoredGateway): GatewayFields {
    const plain: GatewayFields = JSON.parse(row.fields);
    const text = row.sealed ? secrets.open(row.sealed, contextOf(row)) : undefined;
    if (text === undefined) return plain;
    const secret: Pick<GatewayFields, "otel" | "stripe"> = JSON.parse(text);
    return { ...plain, ...secret };
  }

  function write(accountId: string, id: string, fields: GatewayFields, createdMs: number): Gateway {
    const { otel, stripe, ...plain } = fields;
    const hasSecret = otel !== undefined || stripe !== undefined;
    const place = { account_id: accountId, id };
    const sealed = hasSecret ? secrets.seal(JSON.stringify({ otel, stripe }), contextOf(place)) : null;
    const stored = { ...plain, cache_ttl: plain.cache_ttl ?? 0 }; // no cache and a cache of no seconds are one thing
    put.run(accountId, id, createdMs, now(), JSON.stringify(stored), sealed);
    const row = mustFind(accountId, id);
    remember(row);
    onCap(capOf(row));
    return toView(row);
  }

  function mustFind(accountId: string, id: string): StoredGateway {
    const row = rowOf.get(accountId, id);
    if (!row) throw new AppError("thing.unknown", { say: "No such gateway" });
    return row;
  }

  function capOf(row: StoredGateway): GatewayCap {
    const { log_management, log_management_strategy } = readFields(row);
    return {
      gateway: `${row.account_id}/${row.id}`,
      rowsMax: log_management ?? Number.MAX_SAFE_INTEGER,
      whenFull: log_management_strategy === "STOP_INSERTING" ? "stop" : "delete",
    };
  }

  function toView(row: StoredGateway): Gateway {
    return {
      id: row.id,
      created_at: toTime(row.created_ms),
      modified_at: toTime(row.modified_ms),
      is_default: row.id === "default",
      authentication: false,
      ...hidden(readFields(row)),
    };
  }

  return {
    /** The hot path: one look-up by the text of the path. */
    find: (key: string) => live.get(key),
    caps: () => all.all().map(capOf),
    list(accountId: string, search = ""): Gateway[] {
      const rows = all.all().filter((row) => row.account_id === accountId && row.id.includes(search.toLowerCase()));
      return rows.map(toView);
    },
    get: (accountId: string, id: string) => toView(mustFind(accountId, id)),
    create(accountId: string, { id, ...fields }: GatewayFields & { id: string }): Gateway {
      if (rowOf.get(accountId, id))
        throw new AppError("thing.exists", { say: "A gateway with this id exists already" });
      return write(accountId, id, fields, now());
    },
    /** Replaces all fields; what is not said is back at its default. */
    update(accountId: string, id: string, fields: GatewayFields): Gateway {
      const row = mustFind(accountId, id);
      return write(accountId, id, unhidden(fields, readFields(row)), row.created_ms);
    },
    remove(accountId: string, id: string): Gateway {
      const gone = toView(mustFind(accountId, id));
      db.query("delete from gateways where account_id = ? and id = ?").run(accountId, id);
      live.delete(`${accountId}/${id}`);
      return gone;
    },
  };
}

function contextOf({ account_id, id }: { account_id: string; id: string }): string {
  return `gateway ${account_id}/${id}`;
}

function hidden(fields: GatewayFields): GatewayFields {
  const { otel, stripe, ...rest } = fields;
  const targets = otel?.map(({ authorization, headers, ...target }) => ({
    ...target,
    headers: Object.fromEntries(Object.keys(headers).map((name) => [name, HIDDEN])),
    ...(authorization !== undefined && { authorization: HIDDEN }),
  }));
  return {
    ...rest,
    ...(otel !== undefined && { otel: targets ?? null }),
    ...(stripe !== undefined && { stripe: stripe && { ...stripe, authorization: HIDDEN } }),
  };
}

/** A client that reads, changes one field and writes all back must not lose what it was never shown. */
function unhidden(fields: GatewayFields, before: GatewayFields): GatewayFields {
  const { otel, stripe } = fields;
  const keep = (value: string, old: string | undefined): string => (value === HIDDEN ? (old ?? "") : value);
  const targets = otel?.map((target) => {
    const old = before.otel?.find(({ url }) => url === target.url);
    const headers = Object.entries(target.headers).map(([name, value]) => [name, keep(value, old?.headers[name])]);
    const { authorization } = target;
    return {
      ...target,
      headers: Object.fromEntries(headers),
      ...(authorization !== undefined && { authorization: keep(authorization, old?.authorization) }),
    };
  });
  return {
    ...fields,
    ...(targets && { otel: targets }),
    ...(stripe && { stripe: { ...stripe, authorization: keep(stripe.authorization, before.stripe?.authorization) } }),
  };
}
