// Providers that an account added itself, reached as `custom-{slug}`.
import type { Database } from "bun:sqlite";
import { AppError } from "../platform/errors.ts";
import { toTime } from "../platform/schema.ts";
import type { Secrets } from "../platform/secrets.ts";
import type { CustomProvider, ProviderWrite } from "./model.ts";
import { ownRow, type Provider } from "./providers.ts";
import { parseJson } from "./usage.ts";

type StoredProvider = {
  id: string;
  account_id: string;
  slug: string;
  created_ms: number;
  modified_ms: number;
  fields: string;
  headers: Uint8Array | null;
  private_allowed: number;
};
type Fields = Omit<ProviderWrite, "headers">;

type ProviderParts = { db: Database; secrets: Secrets; now: () => number };

const HIDDEN = "[hidden]";
const PROVIDERS_MAX = 1_000; // of one account; each is a row in memory
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

export type CustomProviderStore = ReturnType<typeof createCustomProviders>;

export function createCustomProviders({ db, secrets, now }: ProviderParts) {
  const live = new Map<string, Provider>();
  const byId = db.prepare<StoredProvider, [string, string]>(
    "select * from custom_providers where account_id = ? and id = ?",
  );
  const all = db.prepare<StoredProvider, []>("select * from custom_providers order by account_id, slug");
  const put = db.prepare(
    `insert into custom_providers (id, account_id, slug, created_ms, modified_ms, fields, headers, private_allowed)
     values (?, ?, ?, ?, ?, ?, ?, ?)
     on conflict (id) do update set slug = excluded.slug, modified_ms = excluded.modified_ms, fields = excluded.fields,
       headers = excluded.headers, private_allowed = excluded.private_allowed`,
  );
  refresh();

  function refresh(): void {
    live.clear();
    for (const row of all.all()) {
      const fields = fieldsOf(row);
      if (fields.enable === false) continue;
      const slug = `custom-${row.slug}`;
      const provider = { ...ownRow(slug, fields.base_url), privateAllowed: row.private_allowed === 1 };
      live.set(`${row.account_id}/${slug}`, { ...provider, headers: headersOf(row) });
    }
  }

  function fieldsOf(row: StoredProvider): Fields {
    const fields: Fields = JSON.parse(row.fields);
    return fields;
  }

  function headersOf(row: StoredProvider): Record<string, string> {
    const text = row.headers ? secrets.open(row.headers, contextOf(row.id)) : undefined;
    return text === undefined ? {} : parseHeaders(text);
  }

  function write(
    row: Pick<StoredProvider, "id" | "account_id" | "created_ms">,
    body: ProviderWrite,
    privateAllowed: boolean,
  ) {
    const { headers, ...fields } = body;
    const taken = all.all().find((one) => one.account_id === row.account_id && one.slug === body.slug);
    if (taken && taken.id !== row.id)
      throw new AppError("thing.exists", { say: "A provider with this slug exists already" });
    const sealed =
      headers === undefined ? null : secrets.seal(JSON.stringify(parseHeaders(headers)), contextOf(row.id));
    put.run(
      row.id,
      row.account_id,
      body.slug,
      row.created_ms,
      now(),
      JSON.stringify(fields),
      sealed,
      privateAllowed ? 1 : 0,
    );
    refresh();
    return toView(mustFind(row.account_id, row.id));
  }

  function mustFind(accountId: string, id: string): StoredProvider {
    const row = byId.get(accountId, id);
    if (!row) throw new AppError("thing.unknown", { say: "No such provider" });
    return row;
  }

  function toView(row: StoredProvider): CustomProvider {
    const names = Object.keys(headersOf(row));
    return {
      id: row.id,
      created_at: toTime(row.created_ms),
      modified_at: toTime(row.modified_ms),
      enable: true,
      beta: false,
      ...fieldsOf(row),
      ...(names.length > 0 && { headers: JSON.stringify(Object.fromEntries(names.map((name) => [name, HIDDEN]))) }),
    };
  }

  return {
    /** The hot path. */
    find: (accountId: string, slug: string) => live.get(`${accountId}/${slug}`),
    list(accountId: string): CustomProvider[] {
      const rows = all.all().filter((row) => row.account_id === accountId);
      const views = rows.map(toView);
      return views.sort((a, b) => (a.position ?? 0) - (b.position ?? 0) || (a.name < b.name ? -1 : 1));
    },
    get: (accountId: string, id: string) => toView(mustFind(accountId, id)),
    create(accountId: string, body: ProviderWrite, privateAllowed: boolean): CustomProvider {
      if (all.all().filter((row) => row.account_id === accountId).length >= PROVIDERS_MAX) {
        throw new AppError("input.invalid", { say: `An account has at most ${PROVIDERS_MAX} providers` });
      }
      return write({ id: Bun.randomUUIDv7(), account_id: accountId, created_ms: now() }, body, privateAllowed);
    },
    /** A header that comes back as it was shown keeps the value it has. */
    update(accountId: string, id: string, change: Partial<ProviderWrite>, privateAllowed: boolean): CustomProvider {
      const row = mustFind(accountId, id);
      const before = headersOf(row);
      const given = change.headers === undefined ? before : parseHeaders(change.headers);
      const keeps = change.headers === undefined || Object.values(given).includes(HIDDEN);
      // Else whoever may edit could have a value they were never shown sent to an address of their own.
      if (keeps && Object.keys(before).length > 0 && movesAway(fieldsOf(row).base_url, change.base_url)) {
        throw new AppError("input.invalid", { say: "headers: another address needs their values again" });
      }
      const headers = Object.entries(given).map(([name, value]) => [
        name,
        value === HIDDEN ? (before[name] ?? "") : value,
      ]);
      const { headers: _, ...rest } = change;
      const body = {
        ...fieldsOf(row),
        ...rest,
        ...(headers.length > 0 && { headers: JSON.stringify(Object.fromEntries(headers)) }),
      };
      return write(row, body, privateAllowed);
    },
    remove(accountId: string, id: string): CustomProvider {
      const gone = toView(mustFind(accountId, id));
      db.query("delete from custom_providers where account_id = ? and id = ?").run(accountId, id);
      refresh();
      return gone;
    },
  };
}

function movesAway(from: string, to: string | undefined): boolean {
  return to !== undefined && new URL(to).origin !== new URL(from).origin;
}

function contextOf(id: string): string {
  return `custom provider ${id}`;
}

function parseHeaders(text: string): Record<string, string> {
  const value = text === "" ? {} : parseJson(text);
  const fits =
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    Object.entries(value).every(
      ([name, one]) => HEADER_NAME.test(name) && typeof one === "string" && HEADER_VALUE.test(one),
    );
  if (!fits) throw new AppError("input.invalid", { say: "headers must be a JSON object of header names and texts" });
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name.toLowerCase(), String(one)]));
}
