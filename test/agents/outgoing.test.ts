// Webhooks that agents send, to a receiver that is a real server and checks them with the libraries receivers use.
import { describe, expect, test } from "bun:test";
import { verify as verifyGithub } from "@octokit/webhooks-methods";
import { Webhook } from "standardwebhooks";
import { createOutgoing, SEND_ATTEMPTS_MAX, WebhookError } from "../../src/agents/runtime/outgoing.ts";
import { startAgents, until } from "../support/agents.ts";

type Got = { headers: Headers; body: string };

function receiver(answer: (count: number) => Response | Promise<Response>) {
  const got: Got[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      got.push({ headers: request.headers, body: await request.text() });
      return answer(got.length);
    },
  });
  return { got, url: `http://127.0.0.1:${server.port}/in`, [Symbol.asyncDispose]: () => server.stop(true) };
}

const WHSEC = `whsec_${Buffer.from("0123456789abcdef01234567").toString("base64")}`;
const outgoing = (deny: string[] = [], nowMs = Date.now()) =>
  createOutgoing({
    deny,
    secretOf: (name) => (name === "OUT" ? "named secret" : undefined),
    now: () => nowMs,
    random: () => 0.5,
    newId: () => "id-1",
  });
const fails = async (promise: Promise<unknown>): Promise<{ message: string; status: number | undefined }> => {
  const error = await promise.then(
    () => new Error("it passed"),
    (thrown) => thrown,
  );
  return { message: error.message, status: error instanceof WebhookError ? error.status : undefined };
};

describe("refusals", () => {
  test("a non-2xx answer throws with its status, a redirect is not followed, silence ends in time", async () => {
    await using moved = receiver(() => Response.redirect("http://127.0.0.1:1/", 302));
    await using broken = receiver(() => new Response("no", { status: 503 }));
    await using silent = receiver(() => new Response(new ReadableStream({ pull: () => new Promise(() => {}) })));
    expect((await fails(outgoing().send(moved.url, {}))).status).toBe(302);
    expect((await fails(outgoing().send(broken.url, {}))).status).toBe(503);
    expect((await fails(outgoing().send(silent.url, {}, { timeoutMs: 50 }))).status).toBe(0);
    expect((await fails(outgoing().send("http://127.0.0.1:1/", {}))).status).toBe(0);
  });

  test("addresses on the deny list are refused by name and by number, and nothing else is", async () => {
    await using ok = receiver(() => new Response());
    const { port } = new URL(ok.url);
    expect((await fails(outgoing(["127.0.0.0/8"]).send(ok.url, {}))).message).toContain("never contacted");
    expect((await fails(outgoing(["127.0.0.0/8"]).send(`http://localhost:${port}/`, {}))).message).toContain(
      "never contacted",
    );
    expect((await fails(outgoing(["localhost"]).send(`http://localhost:${port}/`, {}))).message).toContain(
      "never contacted",
    );
    for (const [entry, host] of [
      ["127.0.0.0/8", "[::ffff:127.0.0.1]"],
      ["LocalHost", "localhost."],
    ]) {
      const refused = await fails(outgoing([entry ?? ""]).send(`http://${host}:${port}/`, {}));
      expect(refused.message).toContain("never contacted");
    }
    expect((await outgoing(["10.0.0.0/8"]).send(ok.url, {})).status).toBe(200);
    expect(ok.got.length).toBe(1);
  });

  test("what is no address, no JSON or too large is refused before anything is sent", async () => {
    expect((await fails(outgoing().send("ftp://host/", {}))).message).toContain("http or https");
    expect((await fails(outgoing().send("nonsense", {}))).message).toContain("http or https");
    expect((await fails(outgoing().send("http://127.0.0.1:1/", undefined))).message).toContain("JSON");
    expect((await fails(outgoing().send("http://127.0.0.1:1/", "x".repeat(5 * 1024 * 1024 - 1)))).message).toContain(
      "at most",
    );
    expect((await fails(outgoing().send("http://127.0.0.1:1/", {}, { secretName: "NONE" }))).message).toContain(
      "no secret",
    );
  });
});

test("what the receiver said counts, also when the rest of its answer never comes", async () => {
  const slowly = () =>
    new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode("so far")),
      pull: () => new Promise(() => {}),
    });
  await using yes = receiver(() => new Response(slowly(), { status: 201 }));
  await using no = receiver(() => new Response(slowly(), { status: 410 }));
  expect(await outgoing().send(yes.url, {}, { timeoutMs: 300 })).toEqual({ status: 201, body: "so far" });
  expect((await fails(outgoing().send(no.url, {}, { timeoutMs: 300 }))).status).toBe(410);
});

test("the body is JSON and both signatures fit it, by the receivers' own libraries", async () => {
  await using ok = receiver(() => new Response("thanks", { status: 201 }));
  expect(await outgoing().send(ok.url, { text: "größer" }, { secret: WHSEC, headers: { "x-extra": "1" } })).toEqual({
    status: 201,
    body: "thanks",
  });
  const [got] = ok.got;
  const headers = Object.fromEntries(got?.headers ?? []);
  expect([got?.body, headers["content-type"], headers["x-extra"]]).toEqual([
    '{"text":"größer"}',
    "application/json",
    "1",
  ]);
  expect(await verifyGithub(WHSEC, got?.body ?? "", headers["x-signature"] ?? "")).toBe(true);
  expect(new Webhook(WHSEC).verify(got?.body ?? "", headers)).toEqual({ text: "größer" });
  await outgoing().send(ok.url, {}, { secretName: "OUT" });
  expect(await verifyGithub("named secret", "{}", ok.got[1]?.headers.get("x-signature") ?? "")).toBe(true);
  await outgoing().send(ok.url, {});
  expect(ok.got[2]?.headers.has("x-signature")).toBe(false);
});

describe("queued", () => {
  test("a secret is not stored: it has to be named", () => {
    expect(() => outgoing().queued("http://host/", {}, { secret: "s" })).toThrow("secretName");
  });

  test("backs off, honours Retry-After, stops at 410 and after ten attempts", async () => {
    await using busy = receiver(
      (count) => new Response(null, { status: 503, headers: count === 2 ? { "retry-after": "3600" } : {} }),
    );
    const { queued, attempt } = outgoing();
    let it = queued(busy.url, {}, {});
    const delays: number[] = [];
    for (;;) {
      const again = await attempt(it).catch(() => undefined);
      if (!again) break;
      delays.push(again.delayS);
      it = again.next;
    }
    expect(delays.length).toBe(SEND_ATTEMPTS_MAX - 1);
    expect(delays.slice(0, 4)).toEqual([9, 3_600, 81, 243]);
    const seconds = delays.reduce((sum, delay) => sum + delay, 0) - 3_600 + 27;
    expect(seconds / 3_600).toBeGreaterThan(20);
    expect(new Set(busy.got.map(({ headers }) => headers.get("webhook-id"))).size).toBe(1);
    await using gone = receiver(() => new Response(null, { status: 410 }));
    expect((await fails(attempt(queued(gone.url, {}, {})))).status).toBe(410);
  });

  test("an attempt that is cut off is made again by the agent's next life", async () => {
    const cut = Promise.withResolvers<void>();
    await using slow = receiver((count) => (count === 1 ? cut.promise.then(() => new Response()) : new Response()));
    await using agents = await startAgents({
      files: {
        "sender.ts": `import { Agent, callable } from "gatehouse";
          export class Sender extends Agent {
            @callable() later(url: string) { return this.queueWebhook(url, { hello: 1 }); }
            @callable() exit() { process.exit(1); }
          }`,
      },
    });
    await agents.call("sender", "a", "later", [slow.url]);
    await until(() => slow.got.length === 1);
    await agents.call("sender", "a", "exit", []).catch(() => {});
    await until(() => slow.got.length === 2);
    cut.resolve();
    expect(await agents.house("sender", "a", "dead")).toEqual([]);
  });

  test("an agent's queued webhook arrives; one that is gone becomes a dead letter", async () => {
    await using ok = receiver(() => new Response());
    await using gone = receiver(() => new Response(null, { status: 410 }));
    await using agents = await startAgents({
      files: {
        "sender.ts": `import { Agent, WebhookError } from "gatehouse";
          export class Sender extends Agent {
            async onRequest(request) {
              const { url, how } = await request.json();
              if (how === "queue") return Response.json(await this.queueWebhook(url, { hello: 1 }, { secretName: "OUT" }));
              try { return Response.json(await this.sendWebhook(url, { hello: 1 }, { secret: "s" })); }
              catch (error) { return Response.json({ status: error.status, known: error instanceof WebhookError }); }
            }
          }`,
      },
      secretsOf: () => ({ OUT: "named secret" }),
    });
    const post = async (url: string, how: string) =>
      (await agents.fetch("sender", "a", "/", { method: "POST", body: JSON.stringify({ url, how }) })).json();
    expect(await post(ok.url, "now")).toEqual({ status: 200, body: "" });
    expect(await post(gone.url, "now")).toEqual({ status: 410, known: true });
    await post(ok.url, "queue");
    await until(() => ok.got.length === 2);
    expect(await verifyGithub("named secret", ok.got[1]?.body ?? "", ok.got[1]?.headers.get("x-signature") ?? "")).toBe(
      true,
    );
    await post(gone.url, "queue");
    const dead = await until(async () => {
      const letters = await agents.house("sender", "a", "dead");
      return Array.isArray(letters) && letters.length > 0 ? letters : undefined;
    });
    expect(dead[0]).toMatchObject({ callback: "onQueuedWebhook", error: expect.stringContaining("410") });
    expect(gone.got.length).toBe(2);
  });
});
