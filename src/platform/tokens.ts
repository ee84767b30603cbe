// Accounts, tokens and console sessions as they are stored: values never, only their SHA-256.
import type { Database } from "bun:sqlite";
import { randomBytes, timingSafeEqual } from "node:crypto";
import { PERMISSIONS, type Permission, type Principal, type Scope } from "./permissions.ts";
import type { Migration } from "./sqlite.ts";

export const ACCESS_MIGRATIONS: readonly Migration[] = [
  `create table accounts (id text primary key, name text not null, created_at integer not null) strict;
   create table tokens (
     id text primary key, hash blob not null unique, name text not null, permissions text not null,
     account_id text, gateway_id text, agent_class text, agent_name text,
     created_at integer not null, expires_at integer, last_used_at integer
   ) strict;
   create table sessions (
     hash blob primary key, token_id text not null references tokens on delete cascade, expires_at integer not null
   ) strict;
   create table sign_in_codes (
     hash blob primary key, token_id text not null references tokens on delete cascade, expires_at integer not null
   ) strict;
   create table first_start (done_at integer not null) strict;`,
];

export type TokenRow = {
  id: string;
  hash: Uint8Array;
  name: string;
  permissions: string;
  account_id: string | null;
  gateway_id: string | null;
  agent_class: string | null;
  agent_name: string | null;
  created_at: number;
  expires_at: number | null;
  last_used_at: number | null;
};
export type Account = { id: string; name: string; created_at: number };
export type Grant = { name: string; permissions: readonly Permission[]; scope?: Scope; expiresAt?: number | undefined };

/** The one slot that GATEHOUSE_ADMIN_TOKEN fills; a new value replaces, and so revokes, the old one. */
export const ADMIN_ID = "admin";

type Known = { hash: Uint8Array; principal: Principal; expiresAt: number };

export type TokenStore = ReturnType<typeof createTokenStore>;

export function createTokenStore(db: Database, now: () => number) {
  const insertToken = db.query<null, [string, Uint8Array, string, string, ...(string | null)[], number, number | null]>(
    `insert into tokens (id, hash, name, permissions, account_id, gateway_id, agent_class, agent_name, created_at, expires_at)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const known = new Map<string, Known>(); // by hash, so that checking a token touches no disk
  const accounts = new Set<string>();
  const used = new Map<string, number>(); // written in batches: a token in use must not cost a commit a request
  const listeners = new Set<(tokenId: string) => void>();
  for (const row of all()) remember(row);
  for (const { id } of accountList()) accounts.add(id);

  function remember(row: TokenRow): void {
    const { hash } = row;
    known.set(hash.toHex(), { hash, principal: toPrincipal(row), expiresAt: row.expires_at ?? Infinity });
  }

  /** A row that a full disk has kept from being deleted is revoked all the same. */
  function isValid({ hash }: TokenRow): boolean {
    return (known.get(hash.toHex())?.expiresAt ?? 0) > now();
  }

  /** Looked up by hash, which nobody can steer towards a stored one, then compared in constant time. */
  function byValue(value: string): Principal | undefined {
    const hash = sha256(value);
    const found = known.get(hash.toHex());
    if (!found || !timingSafeEqual(found.hash, hash) || found.expiresAt <= now()) return undefined;
    used.set(found.principal.tokenId, now());
    return found.principal;
  }

  function mint(grant: Grant, id: string = Bun.randomUUIDv7(), value = `gh_${randomBytes(32).toString("base64url")}`) {
    const { accountId = null, gatewayId = null, agentClass = null, agentName = null } = grant.scope ?? {};
    const permissions = PERMISSIONS.filter((permission) => grant.permissions.includes(permission));
    const places = [accountId, gatewayId, agentClass, agentName];
    insertToken.run(
      id,
      sha256(value),
      grant.name,
      JSON.stringify(permissions),
      ...places,
      now(),
      grant.expiresAt ?? null,
    );
    const row = byId(id);
    if (!row) throw new Error("a token that was just stored is not there");
    remember(row);
    return { id, token: value };
  }

  function revoke(id: string): boolean {
    const row = byId(id);
    if (!row) return false;
    // In memory first: on a full disk the caller is told that it failed, and nobody gets in with it all the same.
    known.delete(row.hash.toHex());
    used.delete(id);
    for (const listener of listeners) listener(id);
    db.query("delete from tokens where id = ?").run(id);
    return true;
  }

  /** A place is gone: tokens that were limited to it would open whatever is made later under its name. */
  function revokeWithin({ accountId, gatewayId }: { accountId: string; gatewayId: string }): void {
    const inside = all().filter((row) => row.account_id === accountId && row.gateway_id === gatewayId);
    for (const { id } of inside) revoke(id);
  }

  function setAdmin(value: string): void {
    const row = byId(ADMIN_ID);
    if (row && timingSafeEqual(row.hash, sha256(value))) return;
    db.transaction(() => {
      revoke(ADMIN_ID);
      // Somebody may choose the value of a token that was minted before: it moves into the slot.
      const same = all().find(({ hash }) => timingSafeEqual(hash, sha256(value)));
      if (same) revoke(same.id);
      mint({ name: "admin", permissions: ["admin"] }, ADMIN_ID, value);
    })();
  }

  /** A random value that stands for a token: a session in a cookie, or a sign-in link. */
  function issue(
    table: "sessions" | "sign_in_codes",
    tokenId: string,
    lifeMs: number,
  ): { value: string; expiresAt: number } {
    const value = randomBytes(32).toString("base64url");
    const expiresAt = now() + lifeMs;
    db.query(`delete from ${table} where expires_at <= ?`).run(now());
    db.query(`insert into ${table} (hash, token_id, expires_at) values (?, ?, ?)`).run(
      sha256(value),
      tokenId,
      expiresAt,
    );
    return { value, expiresAt };
  }

  function bySession(value: string): { principal: Principal; expiresAt: number } | undefined {
    const row = db
      .query<{ token_id: string; expires_at: number }, [Uint8Array, number]>(
        "select token_id, expires_at from sessions where hash = ? and expires_at > ?",
      )
      .get(sha256(value), now());
    const token = row && byId(row.token_id);
    if (!token || !isValid(token)) return undefined;
    used.set(token.id, now());
    return { principal: toPrincipal(token), expiresAt: row.expires_at };
  }

  const endSession = (value: string): void => void db.query("delete from sessions where hash = ?").run(sha256(value));

  /** Deleting it is what makes it single use: of two callers at once, one finds it gone. */
  function redeem(code: string): string | undefined {
    return db
      .query<{ token_id: string }, [Uint8Array, number]>(
        "delete from sign_in_codes where hash = ? and expires_at > ? returning token_id",
      )
      .get(sha256(code), now())?.token_id;
  }

  function byId(id: string): TokenRow | null {
    return db.query<TokenRow, [string]>("select * from tokens where id = ?").get(id);
  }

  function all(): TokenRow[] {
    return db.query<TokenRow, []>("select * from tokens order by created_at, id").all();
  }

  function accountList(): Account[] {
    return db.query<Account, []>("select id, name, created_at from accounts order by created_at, id").all();
  }

  function createAccount(id: string, name: string): Account {
    const account = { id, name, created_at: now() };
    db.query("insert into accounts (id, name, created_at) values (?, ?, ?)").run(id, name, account.created_at);
    accounts.add(id);
    return account;
  }

  /** Runs `welcome` once in the life of a data folder; if that fails it has not happened. */
  function atFirstStart(welcome: () => void): void {
    db.transaction(() => {
      if (db.query("select 1 from first_start").get()) return;
      db.query("insert into first_start (done_at) values (?)").run(now());
      welcome();
    }).immediate();
  }

  function flushUsed(): void {
    const update = db.query("update tokens set last_used_at = ? where id = ?");
    db.transaction(() => used.forEach((atMs, id) => void update.run(atMs, id)))();
    used.clear();
  }

  return {
    byValue,
    mint,
    revoke,
    revokeWithin,
    setAdmin,
    issue,
    bySession,
    endSession,
    redeem,
    byId,
    principalOf: (id: string) => {
      const row = byId(id);
      return row && isValid(row) ? toPrincipal(row) : undefined;
    },
    all,
    accountList,
    createAccount,
    hasAccount: (id: string) => accounts.has(id),
    atFirstStart,
    flushUsed,
    lastUsed: (row: TokenRow) => used.get(row.id) ?? row.last_used_at,
    onRevoked: (listener: (tokenId: string) => void) => void listeners.add(listener),
  };
}

/** Every request pays for this: a plain array is filled in a fifth of the time that a Buffer takes. */
export function sha256(value: string): Uint8Array {
  const digest = new Uint8Array(32);
  Bun.SHA256.hash(value, digest);
  return digest;
}

export function toScope(row: TokenRow): Scope {
  return {
    accountId: row.account_id ?? undefined,
    gatewayId: row.gateway_id ?? undefined,
    agentClass: row.agent_class ?? undefined,
    agentName: row.agent_name ?? undefined,
  };
}

export function toPermissions(row: TokenRow): Permission[] {
  const stored: unknown = JSON.parse(row.permissions);
  return Array.isArray(stored) ? PERMISSIONS.filter((permission) => stored.includes(permission)) : [];
}

function toPrincipal(row: TokenRow): Principal {
  return { tokenId: row.id, name: row.name, permissions: new Set(toPermissions(row)), scope: toScope(row) };
}
