import { expect, test } from "bun:test";
import { parseSavedRequest } from "../../src/hooks/saved-request.ts";

const parse = (text: string) => parseSavedRequest(Buffer.from(text));

test("what does not begin like a request is none", () => {
  for (const text of ["", "hello", "{}", "post /x HTTP/1.1\n\n", "POST\n\n"]) expect(parse(text)).toBeUndefined();
});

test("start line, headers and body are told apart, whatever the line ends", () => {
  for (const end of ["\n", "\r\n"]) {
    const saved = parse(
      [
        "POST https://pi.example/webhooks/x?a=1 HTTP/1.1",
        "Content-Type: text/plain",
        "X-Name:  Größe ",
        "",
        "line 1",
        "",
        "line 3",
        "",
      ].join(end),
    );
    expect(saved).toMatchObject({
      method: "POST",
      path: "/webhooks/x?a=1",
      headers: [
        ["Content-Type", "text/plain"],
        ["X-Name", "Größe"],
      ],
    });
    expect(Buffer.from(saved?.body ?? []).toString()).toBe(["line 1", "", "line 3", ""].join(end));
  }
});

test("the body is kept byte for byte", () => {
  const bytes = Buffer.concat([Buffer.from("POST /x\n\n"), Buffer.from([0, 255, 13, 10, 13, 10])]);
  expect([...(parseSavedRequest(bytes)?.body ?? [])]).toEqual([0, 255, 13, 10, 13, 10]);
});
