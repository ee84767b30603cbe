// The vectors are the senders' own published examples: fixtures we signed would only prove we agree with ourselves.
import { describe, expect, test } from "bun:test";
import { type PresetName, presetOf } from "../../src/hooks/presets.ts";
import {
  type Check,
  type Incoming,
  precheck,
  type SignatureCheck,
  toSecrets,
  verify,
} from "../../src/platform/signature.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

type Vector = {
  preset: PresetName;
  secret: string;
  body: string;
  atMs: number;
  headers: Record<string, string>;
};

const STANDARD = { "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330" };
const STANDARD_V1 = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const STANDARD_BODY = '{"test": 2432232314}';
const GITHUB_MAC = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
const SLACK_BODY =
  "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar" +
  "&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com" +
  "%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
const AT_MS = 1_614_265_330_000;

const VECTORS: Vector[] = [
  {
    preset: "github",
    secret: "It's a Secret to Everybody",
    body: "Hello, World!",
    atMs: 0,
    headers: { "x-hub-signature-256": `sha256=${GITHUB_MAC}` },
  },
  {
    preset: "generic",
    secret: "It's a Secret to Everybody",
    body: "Hello, World!",
    atMs: 0,
    headers: { "x-signature": `sha256=${GITHUB_MAC}` },
  },
  {
    preset: "bitbucket",
    secret: "It's a Secret to Everybody",
    body: "Hello World!",
    atMs: 0,
    headers: { "x-hub-signature": "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9" },
  },
  {
    preset: "slack",
    secret: "8f742231b10e8888abcd99yyyzzz85a5",
    body: SLACK_BODY,
    atMs: 1_531_420_618_000,
    headers: {
      "x-slack-request-timestamp": "1531420618",
      "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    },
  },
  {
    preset: "standard-webhooks",
    secret: STANDARD_SECRET,
    body: STANDARD_BODY,
    atMs: AT_MS,
    headers: { ...STANDARD, "webhook-signature": STANDARD_V1 },
  },
  {
    preset: "standard-webhooks",
    secret: "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=",
    body: STANDARD_BODY,
    atMs: AT_MS,
    headers: {
      ...STANDARD,
      "webhook-signature":
        "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==",
    },
  },
  {
    preset: "svix",
    secret: STANDARD_SECRET,
    body: STANDARD_BODY,
    atMs: AT_MS,
    headers: { "svix-id": STANDARD["webhook-id"], "svix-timestamp": "1614265330", "svix-signature": STANDARD_V1 },
  },
  {
    preset: "gitlab",
    secret: STANDARD_SECRET,
    body: STANDARD_BODY,
    atMs: AT_MS,
    headers: { ...STANDARD, "webhook-signature": STANDARD_V1 },
  },
  {
    preset: "stripe",
    secret: "whsec_test_secret",
    body: JSON.stringify({ id: "evt_test_webhook", object: "event" }, null, 2),
    atMs: AT_MS,
    headers: {
      "stripe-signature": "t=1614265330,v1=af4ead0627a34a8cca29808e8de9ada8e41a92e6237c63cef6eacf51d36cca34",
    },
  },
  {
    preset: "shopify",
    secret: "test_secret_key",
    body: '{"foo": "bar"}',
    atMs: 0,
    headers: { "x-shopify-hmac-sha256": "B23tXN681gZ0qIWNRrgtzBE9XSDo5yaUu6wfmhu3a7g=" },
  },
  {
    preset: "grafana",
    secret: "secret",
    body: "test message",
    atMs: 0,
    headers: { "x-grafana-alerting-signature": "3bcebf43c85d20bba6e3b6ba278af1d2ba3ab0d57de271b0ad30b833e851c5a6" },
  },
  {
    preset: "grafana",
    secret: "secret",
    body: "test message",
    atMs: 0,
    headers: {
      "x-grafana-alerting-signature": "ac18a483a582b60a883e974541afe25aa1026136163e94665649743324183ef1",
      "x-grafana-alerting-timestamp": "0",
    },
  },
  {
    preset: "tailscale",
    secret: "tskey-webhook-xxxxx",
    body: "[]",
    atMs: 1_663_781_880_000,
    headers: {
      "tailscale-webhook-signature": "t=1663781880,v1=d0c7eab3db9b03d230bd4abb6c017fb5eee9bca78d8ad5c485ec7c8d0dd6a8d0",
    },
  },
  {
    preset: "discord",
    secret: "d52880e28f61caa4c2a48a82e55f4751a92289a78009ea9f6532270c16ce8abe",
    body: '{"id":"787053080478613555","token":"ThisIsATokenFromDiscordThatIsVeryLong","type":1,"version":1}',
    atMs: AT_MS,
    headers: {
      "x-signature-timestamp": "1614265330",
      "x-signature-ed25519":
        "a2999257732a18e52d535bf4de66c819b1ab22c7974d659ce37896b0b0bf3d1376cd77ac5f29d73d708438a35548f0edaa69776af69629ff58430d5e8f774d00",
    },
  },
];

const incoming = (more: Partial<Incoming> & { headers: Headers }): Incoming => ({
  query: new URLSearchParams(),
  address: "192.0.2.1",
  nowMs: 0,
  body: bytes(""),
  ...more,
});

/** Their header is a list by design, so a second signature in it is no fault. */
const LISTS: PresetName[] = ["standard-webhooks", "svix", "gitlab", "stripe", "tailscale"];

const signatureHeader = (headers: Record<string, string>) =>
  Object.keys(headers).find((name) => /signature(?!-timestamp)|hmac/.test(name)) ?? "";

describe.each(VECTORS)("$preset", ({ preset, secret, body, atMs, headers }) => {
  const { verify: checks } = presetOf(preset);
  const name = signatureHeader(headers);
  const given = headers[name] ?? "";
  const check = (change: Partial<Incoming> = {}, secrets = [secret]) =>
    verify(checks, secrets, incoming({ headers: new Headers(headers), body: bytes(body), nowMs: atMs, ...change }));
  const withSignature = (value: string) => check({ headers: new Headers({ ...headers, [name]: value }) });

  test("rejects a body one byte longer", () => expect(check({ body: bytes(`${body} `) })).toBe("mismatch"));
  test("rejects another secret", () => {
    const other =
      preset === "discord" ? "00".repeat(32) : secret.startsWith("whpk_") ? `whpk_${"A".repeat(43)}=` : "b3RoZXI=";
    expect(check({}, [other])).toBe("mismatch");
  });
  test("calls an unsigned delivery missing", () => expect(check({ headers: new Headers() })).toBe("missing"));
  test("calls an empty signature missing", () => expect(withSignature("")).toBe("missing"));
  test("rejects a truncated, a longer and a doubled signature", () => {
    expect(withSignature(given.slice(0, -1))).toBe("malformed");
    expect(withSignature(`${given}0`)).toBe("malformed");
    if (!LISTS.includes(preset)) expect(withSignature(`${given}, ${given}`)).toBe("malformed");
  });
  test("rejects upper-case hex", () => {
    if (/[0-9a-f]{40,}$/.test(given))
      expect(withSignature(given.replace(/[0-9a-f]{40,}$/, (hex) => hex.toUpperCase()))).toBe("malformed");
  });
  test("accepts the sender's published example, also while a second secret is set", () => {
    expect(check()).toBe("ok");
    expect(check({}, ["b3RoZXI=", secret])).toBe("ok");
    const { body: _, ...head } = incoming({ headers: new Headers(headers), nowMs: atMs });
    expect(precheck(checks, head)).toBe("ok");
  });
});

test("a variable holds several secrets, unless its words are too short to be any", () => {
  expect(toSecrets("")).toEqual([]);
  expect(toSecrets("  first-secret second-secret ")).toEqual(["first-secret", "second-secret"]);
  expect(toSecrets("It's a Secret to Everybody")).toEqual(["It's a Secret to Everybody"]);
  expect(toSecrets("short")).toEqual(["short"]);
});

test("no checks, or an empty secret, is our own mistake and never lets anyone in", () => {
  const delivery = incoming({ headers: new Headers() });
  expect(() => verify([], ["secret"], delivery)).toThrow("no checks");
  expect(() => verify(presetOf("github").verify, [""], delivery)).toThrow("empty secret");
});

test("Gitea without a secret sends the bare prefix, which counts as unsigned", () => {
  const headers = new Headers({ "x-hub-signature-256": "sha256=", "x-gitea-signature": "" });
  expect(verify(presetOf("gitea").verify, ["secret"], incoming({ headers }))).toBe("missing");
});

test("Gitea signs the JSON inside a form, GitHub the form itself", async () => {
  const { createHmac } = await import("node:crypto");
  const json = '{"repository":{"full_name":"a/b"}}';
  const form = `payload=${encodeURIComponent(json)}`;
  const mac = (text: string) => createHmac("sha256", "secret").update(text).digest("hex");
  const sent = (signed: string, preset: PresetName) =>
    verify(
      presetOf(preset).verify,
      ["secret"],
      incoming({
        body: bytes(form),
        headers: new Headers({
          "content-type": "application/x-www-form-urlencoded",
          "x-hub-signature-256": `sha256=${mac(signed)}`,
        }),
      }),
    );
  expect([sent(json, "gitea"), sent(form, "gitea")]).toEqual(["ok", "mismatch"]);
  expect([sent(json, "github"), sent(form, "github")]).toEqual(["mismatch", "ok"]);
});

test("GitHub's SHA-1 header does not pass as Bitbucket's SHA-256 under the same name", () => {
  const headers = new Headers({ "x-hub-signature": "sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59" });
  const delivery = incoming({ headers, body: bytes("Hello, World!") });
  expect(verify(presetOf("bitbucket").verify, ["It's a Secret to Everybody"], delivery)).toBe("malformed");
});

test("a valid signature of one sender is worth nothing at another's address", () => {
  for (const vector of VECTORS) {
    for (const preset of ["github", "stripe", "slack", "discord", "twilio", "telegram"] as const) {
      if (preset === vector.preset || (preset === "github" && vector.preset === "generic")) continue;
      const delivery = incoming({ headers: new Headers(vector.headers), body: bytes(vector.body), nowMs: vector.atMs });
      expect(verify(presetOf(preset).verify, [vector.secret], delivery)).not.toBe("ok");
    }
  }
});

test("in generic, a wrong X-Hub-Signature-256 is not rescued by a right X-Signature", () => {
  const right = `sha256=${GITHUB_MAC}`;
  const sent = (headers: Record<string, string>) =>
    verify(
      presetOf("generic").verify,
      ["It's a Secret to Everybody"],
      incoming({ headers: new Headers(headers), body: bytes("Hello, World!") }),
    );
  expect(sent({ "x-hub-signature-256": `sha256=${"0".repeat(64)}`, "x-signature": right })).toBe("mismatch");
  expect(sent({ "x-hub-signature-256": "", "x-signature": right })).toBe("ok");
});

const STAMPED = VECTORS.filter(({ preset }) =>
  ["slack", "standard-webhooks", "svix", "gitlab", "stripe", "tailscale", "discord"].includes(preset),
);

test.each(STAMPED)("$preset is fresh at the age limit and stale one second past it, either way", (vector) => {
  const aged = (ageMs: number) =>
    verify(
      presetOf(vector.preset).verify,
      [vector.secret],
      incoming({ headers: new Headers(vector.headers), body: bytes(vector.body), nowMs: vector.atMs + ageMs }),
    );
  expect([300_000, 300_999, 301_000].map(aged)).toEqual(["ok", "ok", "stale"]);
  expect([-300_000, -300_001].map(aged)).toEqual(["ok", "stale"]);
});

test("a timestamp with a tail, a second timestamp, and none at all are refused", () => {
  const stripe = VECTORS.find(({ preset }) => preset === "stripe");
  const given = stripe?.headers["stripe-signature"] ?? "";
  const sent = (value: string) =>
    verify(
      presetOf("stripe").verify,
      [stripe?.secret ?? ""],
      incoming({ headers: new Headers({ "stripe-signature": value }), body: bytes(stripe?.body ?? ""), nowMs: AT_MS }),
    );
  expect(sent(given)).toBe("ok");
  expect(sent(given.replace("t=1614265330", "t=1614265330abc"))).toBe("stale");
  expect(sent(`t=1614265330,${given}`)).toBe("malformed");
  expect(sent(given.replace("t=1614265330,", ""))).toBe("malformed");
});

test("reads four signatures and ignores a fifth", () => {
  const after = (wrong: number) =>
    verify(
      presetOf("standard-webhooks").verify,
      [STANDARD_SECRET],
      incoming({
        body: bytes(STANDARD_BODY),
        nowMs: AT_MS,
        headers: new Headers({
          ...STANDARD,
          "webhook-signature": `${`v1,${"A".repeat(43)}= `.repeat(wrong)}${STANDARD_V1}`,
        }),
      }),
    );
  expect([after(3), after(4)]).toEqual(["ok", "mismatch"]);
});

test("an id that holds the separator could be cut elsewhere, so it is refused", () => {
  const headers = new Headers({ ...STANDARD, "webhook-id": "msg.1614265330", "webhook-signature": STANDARD_V1 });
  const delivery = incoming({ headers, body: bytes(STANDARD_BODY), nowMs: AT_MS });
  expect(verify(presetOf("standard-webhooks").verify, [STANDARD_SECRET], delivery)).toBe("malformed");
});

test("Linear's timestamp is inside the signed body, in milliseconds, and counts for a minute", async () => {
  const { createHmac } = await import("node:crypto");
  const sent = (body: string, nowMs: number) =>
    verify(
      presetOf("linear").verify,
      ["shop-secret"],
      incoming({
        nowMs,
        body: bytes(body),
        headers: new Headers({ "linear-signature": createHmac("sha256", "shop-secret").update(body).digest("hex") }),
      }),
    );
  const body = '{"webhookTimestamp":1614265330000}';
  expect([60_000, 60_001, -60_001].map((ageMs) => sent(body, AT_MS + ageMs))).toEqual(["ok", "stale", "stale"]);
  expect(sent('{"id":1}', AT_MS)).toBe("stale");
  expect(sent("not json", AT_MS)).toBe("stale");
});

test("a template with another algorithm, list and timestamp format is a matter of data", async () => {
  const { createHmac } = await import("node:crypto");
  const at = "2021-02-25T15:02:10Z";
  const check: SignatureCheck = {
    kind: "signature",
    header: "x-paddle",
    algorithm: "sha512",
    encoding: "base64",
    key: "hex",
    prefix: "h1=",
    separator: ";",
    stamp: { from: "item", name: "ts", format: "rfc3339", toleranceMs: 5_000 },
    signed: "{timestamp}:{header:x-id}|{body}",
  };
  const mac = createHmac("sha512", Buffer.from("00ff", "hex")).update(`${at}:7|body`).digest("base64");
  const sent = (change: Record<string, string> = {}, secret = "00ff") =>
    verify(
      [check],
      [secret],
      incoming({
        body: bytes("body"),
        nowMs: AT_MS,
        headers: new Headers({ "x-paddle": `ts=${at};h1=${mac}`, "x-id": "7", ...change }),
      }),
    );
  expect(sent()).toBe("ok");
  expect(sent({ "x-id": "8" })).toBe("mismatch");
  expect(sent({ "x-id": "" })).toBe("malformed");
  expect(sent({}, "not hex")).toBe("unconfigured");
});

describe("plain credentials", () => {
  const TOKEN = presetOf("sonarr").verify;
  const sent = (change: Partial<Incoming>, secret = "pass-word", checks: readonly Check[] = TOKEN) =>
    verify(checks, [secret], incoming({ headers: new Headers(), ...change }));
  const auth = (value: string) => ({ headers: new Headers({ authorization: value }) });
  const basic = (text: string) => auth(`Basic ${Buffer.from(text).toString("base64")}`);

  test("are refused when absent, empty, longer, shorter or of another case", () => {
    expect(sent({})).toBe("missing");
    expect(sent({ query: new URLSearchParams("token=") })).toBe("missing");
    for (const wrong of ["pass-wor", "pass-word2", "PASS-WORD"]) expect(sent(auth(`Bearer ${wrong}`))).toBe("mismatch");
    expect(sent(basic("pass-word"))).toBe("mismatch");
  });

  test("are taken from the places a sender can fill", () => {
    expect(sent(auth("Bearer pass-word"))).toBe("ok");
    expect(sent(basic("anyone:pass-word"))).toBe("ok");
    expect(sent({ headers: new Headers({ "x-webhook-token": "pass-word" }) })).toBe("ok");
    expect(sent({ query: new URLSearchParams("token=pass-word") })).toBe("ok");
    expect(sent({ pathToken: "pass-word" })).toBe("ok");
  });

  test("a basic secret with a colon binds the user name too", () => {
    expect([sent(basic("kim:pw"), "kim:pw"), sent(basic("eve:pw"), "kim:pw")]).toEqual(["ok", "mismatch"]);
  });

  test("combine with an address range, and both must hold", () => {
    const checks: Check[] = [{ kind: "address", ranges: ["10.0.0.0/8", "fd00::/8"] }, { kind: "bearer" }];
    const from = (address: string, token: string) => sent({ address, ...auth(`Bearer ${token}`) }, "pass-word", checks);
    expect(from("10.1.2.3", "pass-word")).toBe("ok");
    expect(from("fd00::7", "pass-word")).toBe("ok");
    expect(from("11.1.2.3", "pass-word")).toBe("mismatch");
    expect(from("10.1.2.3", "wrong")).toBe("mismatch");
  });
});
