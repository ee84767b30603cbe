// Tags from the Swagger page: each operation executed as the page offers it, nothing typed.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Browser } from "playwright-core";
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

const OPERATIONS = [
  ["putApiAccountsAccountIdTags", 200],
  ["patchApiAccountsAccountIdTags", 200],
  ["getApiAccountsAccountIdTags", 200],
  ["postApiAccountsAccountIdTagsBulk", 200],
  ["postApiAccountsAccountIdTagsImport", 200],
  ["getApiAccountsAccountIdTagsResources", 200],
  ["getApiAccountsAccountIdTagsKeys", 200],
  ["getApiAccountsAccountIdTagsValuesTagKey", 200],
  ["getApiAccountsAccountIdTagsSummary", 200],
  ["getApiAccountsAccountIdTagsExport", 200],
  ["deleteApiAccountsAccountIdTags", 204],
  ["putApiZonesZoneIdTags", 200],
  ["patchApiZonesZoneIdTags", 200],
  ["getApiZonesZoneIdTags", 200],
  ["deleteApiZonesZoneIdTags", 204],
] as const;

test("every operation's example runs with Try it out and Execute alone", async () => {
  const watched = await openPage(browser, { expected: ["/swagger/json", "/api/session"] });
  const { page } = watched;
  await page.goto(`${house.url}/swagger`);
  await page.getByLabel("Token").fill(house.adminToken);
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByRole("heading", { name: /^Gatehouse/ }).waitFor();
  if ((await page.locator("#operations-Tags-putApiAccountsAccountIdTags").count()) === 0)
    await page.locator("#operations-tag-Tags").click();
  const seen: [string, number][] = [];
  let found: unknown;
  for (const [operation] of OPERATIONS) {
    const route = page.locator(`#operations-Tags-${operation}`);
    await route.locator(".opblock-summary-control").click();
    await route.locator(".try-out__btn").click();
    const answered = page.waitForResponse((response) => /\/api\/(accounts|zones)\//.test(response.url()));
    await route.getByRole("button", { name: "Execute" }).click();
    const response = await answered;
    seen.push([operation, response.status()]);
    if (operation.endsWith("Resources")) found = await response.json();
  }
  expect(seen).toEqual(OPERATIONS.map(([operation, status]) => [operation, status]));
  expect(found).toMatchObject({
    result: [
      { type: "queue", id: "orders" },
      { type: "worker", id: "checkout" },
    ],
  });
  expect(watched.complaints).toEqual([]);
  await watched.close();
});
