// Twilio's published examples, and those of its own library's tests.
import { expect, test } from "bun:test";
import { type Incoming, verify } from "../../src/platform/signature.ts";

const DOCS = {
  CallSid: "CA1234567890ABCDE",
  Caller: "+12349013030",
  Digits: "1234",
  From: "+12349013030",
  To: "+18005551212",
};
const SPEC = { ...DOCS, Caller: "+14158675309", From: "+14158675309" };
const ADDRESS = "mycompany.com/myapp.php?foo=1&bar=2";

const sent = (url: string | undefined, signature: string, fields: [string, string][], change: Partial<Incoming> = {}) =>
  verify([{ kind: "twilio" }], ["12345"], {
    headers: new Headers({ "content-type": "application/x-www-form-urlencoded", "x-twilio-signature": signature }),
    query: new URLSearchParams(),
    address: "192.0.2.1",
    nowMs: 0,
    ...(url !== undefined && { url }),
    body: new TextEncoder().encode(new URLSearchParams(fields).toString()),
    ...change,
  });

test.each([
  [`https://${ADDRESS}`, "0/KCTR6DLpKmkAf8muzZqo1nDgQ=", DOCS],
  [`https://${ADDRESS}`, "RSOYDt4T1cUTdK1PDd93/VVr8B8=", SPEC],
  [`https://${ADDRESS.replace("/", ":443/")}`, "kvajT1Ptam85bY51eRf/AJRuM3w=", SPEC],
  [`https://${ADDRESS}`, "kvajT1Ptam85bY51eRf/AJRuM3w=", SPEC],
  [`http://${ADDRESS}`, "0ZXoZLH/DfblKGATFgpif+LLRf4=", SPEC],
  [`http://${ADDRESS.replace("/", ":1234/")}`, "Zmvh+3yNM1Phv2jhDCwEM3q5ebU=", SPEC],
  [`https://user:pass@${ADDRESS}`, "CukzLTc1tT5dXEDIHm/tKBanW10=", SPEC],
] as const)("accepts %s with %s and not with a changed field", (url, signature, fields) => {
  expect(sent(url, signature, Object.entries(fields))).toBe("ok");
  expect(sent(url, signature, Object.entries({ ...fields, Digits: "9999" }))).toBe("mismatch");
  expect(sent(`${url}&baz=3`, signature, Object.entries(fields))).toBe("mismatch");
});

test("sorts and dedupes repeated fields", () => {
  const fields = (...digits: string[]): [string, string][] => [
    ["Sid", "CA123"],
    ["SidAccount", "AC123"],
    ...digits.map((digit): [string, string] => ["Digits", digit]),
  ];
  const signature = "IK+Dwps556ElfBT0I3Rgjkr1wJU=";
  expect(sent(`https://${ADDRESS}`, signature, fields("5678", "1234", "1234"))).toBe("ok");
  expect(sent(`https://${ADDRESS}`, signature, fields("1234", "5678"))).toBe("ok");
});

test("a JSON body is bound by its hash in the address, and one that nothing covers is refused", () => {
  const hash = "0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620";
  const url = `https://${ADDRESS}&bodySHA256=${hash}`;
  const json = (text: string, at: string, signature = "a9nBmqA0ju/hNViExpshrM61xv4=") =>
    sent(at, signature, [], {
      headers: new Headers({ "content-type": "application/json", "x-twilio-signature": signature }),
      body: new TextEncoder().encode(text),
    });
  expect(json('{"property": "value", "boolean": true}', url)).toBe("ok");
  expect(json('{"property": "value", "boolean": false}', url)).toBe("mismatch");
  expect(json("{}", `https://${ADDRESS}`, "RSOYDt4T1cUTdK1PDd93/VVr8B8=")).toBe("mismatch");
});

test("without a public address it says that something of ours is missing; garbled headers are malformed", () => {
  expect(sent(undefined, "0/KCTR6DLpKmkAf8muzZqo1nDgQ=", Object.entries(DOCS))).toBe("unconfigured");
  expect(sent(`https://${ADDRESS}`, "", Object.entries(DOCS))).toBe("missing");
  expect(sent(`https://${ADDRESS}`, "0/KCTR6DLpKmkAf8muzZqo1nDgQ", Object.entries(DOCS))).toBe("malformed");
});
