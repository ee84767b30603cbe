import { describe, expect, test } from "bun:test";
import { openDatabase } from "../../src/platform/sqlite.ts";
import { ACCESS_MIGRATIONS, ADMIN_ID, createTokenStore } from "../../src/platform/tokens.ts";

function store() {
  const clock = { nowMs: 1_000 };
  const db = openDatabase(":memory:", ACCESS_MIGRATIONS);
  const open = () => createTokenStore(db, () => clock.nowMs);
  const count = (table: string) => db.query<{ n: number }, []>(`select count(*) n from ${table}`).get()?.n;
  return { clock, db, tokens: open(), reopen: open, count };
}
const admin = { name: "x", permissions: ["admin"] } as const;

describe("the admin token that a setting gives", () => {
  const [one, two] = ["a".repeat(32), "b".repeat(32)];

  test("replaces the one before it", () => {
    const { tokens } = store();
    tokens.setAdmin(one);
    tokens.setAdmin(two);
    expect(tokens.byValue(one)).toBeUndefined();
    expect(tokens.byValue(two)?.tokenId).toBe(ADMIN_ID);
  });

  test("has not been used because the one before it was", () => {
    const { tokens } = store();
    tokens.setAdmin(one);
    tokens.byValue(one);
    tokens.setAdmin(two);
    const row = tokens.byId(ADMIN_ID);
    expect(row && tokens.lastUsed(row)).toBeNull();
  });

  test("stays as it is when it is given again, so that its sessions live on", () => {
    const { tokens } = store();
    tokens.setAdmin(one);
    const session = tokens.issue("sessions", ADMIN_ID, 1_000).value;
    tokens.setAdmin(one);
    expect(tokens.bySession(session)).toBeDefined();
  });

  test("may be the value of a token that was minted before", () => {
    const { tokens } = store();
    const { token } = tokens.mint(admin);
    tokens.setAdmin(token);
    expect(tokens.byValue(token)?.tokenId).toBe(ADMIN_ID);
    expect(tokens.all().map(({ id }) => id)).toEqual([ADMIN_ID]);
  });
});

test("a session and a sign-in code end with the time of their token", () => {
  const { tokens, clock } = store();
  const { id } = tokens.mint({ ...admin, expiresAt: clock.nowMs + 10 });
  const session = tokens.issue("sessions", id, 1_000).value;
  clock.nowMs += 9;
  expect(tokens.bySession(session)).toBeDefined();
  expect(tokens.principalOf(id)).toBeDefined();
  clock.nowMs += 1;
  expect(tokens.bySession(session)).toBeUndefined();
  expect(tokens.principalOf(id)).toBeUndefined();
});

test.each(["sessions", "sign_in_codes"] as const)("%s whose time is over do not pile up", (table) => {
  const { tokens, clock, count } = store();
  const { id } = tokens.mint(admin);
  tokens.issue(table, id, 10);
  clock.nowMs += 10;
  tokens.issue(table, id, 10);
  expect(count(table)).toBe(1);
});

test("whoever holds a connection open hears of a revocation, once", () => {
  const { tokens } = store();
  const heard: string[] = [];
  tokens.onRevoked((id) => void heard.push(id));
  const { id } = tokens.mint(admin);
  tokens.revoke(id);
  tokens.revoke(id);
  expect(heard).toEqual([id]);
});

test("a revocation that the disk refuses says so, and the token opens nothing all the same", () => {
  const { tokens, db } = store();
  const { id, token } = tokens.mint(admin);
  db.run("create trigger full before delete on tokens begin select raise(fail, 'database or disk is full'); end");
  expect(() => tokens.revoke(id)).toThrow("disk is full");
  expect(tokens.byValue(token)).toBeUndefined();
});

test("the time of last use, by token or by session, outlives a restart", () => {
  const { tokens, clock, reopen } = store();
  const byValue = tokens.mint(admin);
  const bySession = tokens.mint(admin);
  const session = tokens.issue("sessions", bySession.id, 1_000).value;
  clock.nowMs += 5;
  tokens.byValue(byValue.token);
  tokens.bySession(session);
  tokens.flushUsed();
  expect(
    reopen()
      .all()
      .map(({ last_used_at }) => last_used_at),
  ).toEqual([clock.nowMs, clock.nowMs]);
});

test("an account answers with the time that is stored", () => {
  const { db } = store();
  let nowMs = 0;
  const tokens = createTokenStore(db, () => nowMs++);
  expect([tokens.createAccount("work", "Work")]).toEqual(tokens.accountList());
});

test("a revocation that the disk refuses still ends the token, its sessions and its sign-in links", () => {
  const { tokens, db } = store();
  const { id, token } = tokens.mint(admin);
  const session = tokens.issue("sessions", id, 1_000).value;
  db.run("create trigger full before delete on tokens begin select raise(abort, 'disk is full'); end");
  expect(() => tokens.revoke(id)).toThrow("disk is full");
  expect([tokens.byValue(token), tokens.bySession(session), tokens.principalOf(id)]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

test("with a gateway go its own tokens, and not those of its namesake in another account", () => {
  const { tokens } = store();
  const mint = (accountId: string, gatewayId: string) =>
    tokens.mint({ name: "x", permissions: ["run"], scope: { accountId, gatewayId } }).token;
  const [gone, namesake, neighbour] = [mint("home", "lab"), mint("other", "lab"), mint("home", "default")];
  tokens.revokeWithin({ accountId: "home", gatewayId: "lab" });
  const left = [gone, namesake, neighbour].map((value) => tokens.byValue(value) !== undefined);
  expect(left).toEqual([false, true, true]);
});
