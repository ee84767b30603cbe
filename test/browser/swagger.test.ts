// The Swagger page as a person meets it: the way in from the page itself, Authorize, and a route tried out.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { embed } from "../../scripts/embed.ts";
import { BROWSER_MS_MAX, openBrowser, openPage } from "../support/browser.ts";
import { type House, startHouse } from "../support/house.ts";

setDefaultTimeout(BROWSER_MS_MAX);

let house: House;
let browser: Browser;

beforeAll(async () => {
  await embed();
  house = await startHouse();
  browser = await openBrowser();
});
afterAll(async () => {
  await browser.close();
  await house[Symbol.asyncDispose]();
});

const DOOR = { expected: ["/swagger/json", "/api/session", "/api/tokens"] };
const host = () => new URL(house.url).host;

/** Opens `GET /api/tokens`, executes it, and answers the status that the page shows. */
async function tryOut(page: Page): Promise<string> {
  const route = page.locator("#operations-Tokens-getApiTokens");
  if ((await route.count()) === 0) await page.locator("#operations-tag-Tokens").click();
  if ((await route.locator(".try-out__btn").count()) === 0) await route.locator(".opblock-summary-control").click();
  if ((await route.locator(".execute").count()) === 0) await route.locator(".try-out__btn").click();
  const answered = page.waitForResponse(`${house.url}/api/tokens`);
  await route.getByRole("button", { name: "Execute" }).click();
  const status = (await answered).status();
  await route.locator(".live-responses-table .response-col_status", { hasText: String(status) }).waitFor();
  return String(status);
}

test("without a token the page says so and opens with one; a wrong one is refused first", async () => {
  const watched = await openPage(browser, DOOR);
  const { page } = watched;
  await page.goto(`${house.url}/swagger`);
  await page.getByRole("heading", { name: "The API document needs a token" }).waitFor();
  expect(await page.locator(".swagger-ui").count()).toBe(0);

  await page.getByLabel("Token").fill("gh_wrong");
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByText("This token is not valid.").waitFor();

  await page.getByLabel("Token").fill(house.adminToken);
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByRole("heading", { name: /^Gatehouse/ }).waitFor();
  expect(await tryOut(page)).toBe("200");

  const download = page.waitForEvent("download");
  await page.getByRole("link", { name: "Download the OpenAPI document" }).click();
  const saved = await (await download).path();
  expect((await Bun.file(saved).json()).openapi).toStartWith("3.1");

  await page.reload(); // the token that opened the page is remembered by it
  await page.getByRole("heading", { name: /^Gatehouse/ }).waitFor();
  expect([...watched.hosts]).toEqual([host()]);
  expect(watched.complaints).toEqual([]);
  await watched.close();
});

test("Authorize takes a token, which every try-out then carries", async () => {
  const watched = await openPage(browser, DOOR);
  const { page } = watched;
  // The document is there, the credential is not: what somebody sees whose session has ended meanwhile.
  const { body: document } = await house.api("GET", "/swagger/json");
  await page.route("**/swagger/json", (route) => route.fulfill({ json: document }));
  await page.goto(`${house.url}/swagger`);
  await page.getByRole("heading", { name: /^Gatehouse/ }).waitFor();
  expect(await tryOut(page)).toBe("401");

  await page.locator(".btn.authorize").click();
  await page.locator(".auth-container input").fill(house.adminToken);
  await page.locator(".auth-container .btn.authorize").click();
  await page.locator(".auth-container .btn-done").click();
  expect(await tryOut(page)).toBe("200");
  expect([...watched.hosts]).toEqual([host()]);
  expect(watched.complaints).toEqual([]);
  await watched.close();
});

test("who is signed in to the console needs no token here", async () => {
  const watched = await openPage(browser, DOOR);
  const { page } = watched;
  await page.goto(`${house.url}/`);
  await page.getByLabel("Token").fill(house.adminToken);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("link", { name: "API reference" }).click();
  await page.getByRole("heading", { name: /^Gatehouse/ }).waitFor();
  expect(await tryOut(page)).toBe("200");
  expect(watched.complaints).toEqual([]);
  await watched.close();
});

test.each(["light", "dark"] as const)(
  "in %s the page keeps to it, and at phone width nothing sticks out",
  async (colorScheme) => {
    const watched = await openPage(browser, { ...DOOR, viewport: { width: 390, height: 800 }, colorScheme });
    const { page } = watched;
    await page.goto(`${house.url}/swagger`);
    await page.getByLabel("Token").fill(house.adminToken);
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByRole("heading", { name: /^Gatehouse/ }).waitFor();
    expect(await page.evaluate(() => document.documentElement.classList.contains("dark-mode"))).toBe(
      colorScheme === "dark",
    );
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
    await watched.close();
  },
);
