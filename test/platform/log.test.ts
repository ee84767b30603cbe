import { expect, test } from "bun:test";
import { createLog, redact, redactText } from "../../src/platform/log.ts";

const SECRET = "s3cr3t-value";

test.each([
  "authorization",
  "Proxy-Authorization",
  "gw-aig-authorization",
  "cf-aig-authorization",
  "cookie",
  "set-cookie",
  "x-api-key",
  "api-key",
  "x-goog-api-key",
  "x-auth-key",
  "x-hub-signature-256",
  "x-slack-signature",
  "x-gitlab-token",
  "x-telegram-bot-api-secret-token",
  "webhook-signature",
  "password",
  "client_secret",
])("the value of %s is never written, at any depth", (name) => {
  expect(JSON.stringify(redact({ a: { headers: { [name]: SECRET } }, list: [{ [name]: SECRET }] }))).not.toContain(
    SECRET,
  );
  expect(JSON.stringify(redact({ headers: new Headers({ [name]: SECRET }) }))).not.toContain(SECRET);
});

test.each([
  [`http://h/agents/a/b?token=${SECRET}`, "?token="],
  [`http://h/x?a=1&token=${SECRET}&b=2`, "&b=2"],
  [`http://h/#code=${SECRET}`, "#code="],
  [`https://user:${SECRET}@h/x`, "user:"],
  [`Bearer gh_${SECRET}`, "Bearer"],
  [`the provider refused Bearer sk-${SECRET}.x/y+z= today`, "today"],
  [`authorization: basic ${SECRET}=`, "basic"],
])("credentials inside text are cut out and the rest stays: %p", (text, rest) => {
  expect(redactText(text)).not.toContain(SECRET);
  expect(redactText(text)).toContain(rest);
});

test("an error keeps its message, stack and cause, without credentials", () => {
  const error = new Error(`failed at ?token=${SECRET}`, { cause: new Error(`gh_${SECRET}`) });
  const text = JSON.stringify(redact({ error }));
  expect(text).toContain("failed at");
  expect(text).toContain("cause");
  expect(text).not.toContain(SECRET);
});

test("a line below the level is not written, and a line is one JSON object", () => {
  const lines: string[] = [];
  const log = createLog({ level: "warn", pretty: false, now: () => 0, write: (line) => void lines.push(line) });
  log.info("quiet");
  log.warn("loud", { n: 1 });
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { time: "1970-01-01T00:00:00.000Z", level: "warn", event: "loud", n: 1 },
  ]);
});

test("a cycle in the fields ends instead of hanging", () => {
  const cycle: Record<string, unknown> = {};
  cycle.self = cycle;
  expect(JSON.stringify(redact(cycle))).toContain("[…]");
});

test("on a terminal a line is one line, and what a stranger sent cannot move the cursor", () => {
  const lines: string[] = [];
  const log = createLog({ level: "info", pretty: true, now: () => 0, write: (line) => void lines.push(line) });
  log.info("seen", { path: "/x\u001b[2J", name: "a\nb", n: 1 });
  expect(lines.join("")).toEndWith('seen path="/x\\u001b[2J" name="a\\nb" n=1\n');
});
