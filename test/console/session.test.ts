// The page's side of a sign-in, against a real server and a browser that keeps its cookie, or does not.
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { currentSession, signIn, signOut } from "../../src/console/ui/session.ts";
import { type House, startHouse } from "../support/house.ts";

const realFetch = globalThis.fetch;
let house: House;
beforeAll(async () => {
  house = await startHouse();
});
afterEach(() => {
  globalThis.fetch = realFetch;
});
afterAll(() => house[Symbol.asyncDispose]());

/** What a browser adds to a page's requests: where it came from, and its cookie. */
function browse({ keepsCookie, origin = house.url }: { keepsCookie: boolean; origin?: string }): void {
  let cookie = "";
  const fetch = async (path: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    const headers = { ...Object.fromEntries(new Headers(init.headers)), origin, cookie };
    const answer = await realFetch(`${origin}${String(path)}`, { ...init, headers });
    if (keepsCookie) cookie = answer.headers.get("set-cookie")?.split(";")[0] ?? cookie;
    return answer;
  };
  globalThis.fetch = Object.assign(fetch, { preconnect: realFetch.preconnect });
}

test("a cookie that the browser did not keep is no sign-in, and the page says what to do", async () => {
  browse({ keepsCookie: false });
  expect(await signIn({ token: house.adminToken })).toEqual({ problem: expect.stringContaining("https address") });
});

test("a token signs in until the page signs out", async () => {
  browse({ keepsCookie: true });
  expect(await signIn({ token: house.adminToken })).toMatchObject({ session: { permissions: ["admin"] } });
  expect(await currentSession()).toMatchObject({ name: "test admin" });
  expect(await signOut()).toBeUndefined();
  expect(await currentSession()).toBeUndefined();
});

test("a sign-out that nobody heard is not shown as one", async () => {
  browse({ keepsCookie: true, origin: "http://127.0.0.1:1" });
  expect(await signOut()).toStartWith("This browser is still signed in. The server does not answer");
});
