// Tags from the Swagger page: each operation executed as the page offers it, nothing typed.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Browser } from "playwright-core";
import { embed } from "../../scripts/embed.ts";
import { BROWSER_MS_MAX, openBrowser, openPage, type Watched } from "../support/browser.ts";
import { type House, startHouse } from "../support/house.ts";

setDefaultTimeout(BROWSER_MS_MAX);

let house: House;
let browser: Browser;
let watched: Watched;

beforeAll(async () => {
  await embed();
  house = await startHouse();
  browser = await openBrowser();
  watched = await openPage(browser, { expected: ["/swagger/json", "/api/session"], reducedMotion: "reduce" });
  const { page } = watched;
  await page.goto(`${house.url}/swagger#/Tags`);
  await page.getByLabel("Token").fill(house.adminToken);
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByRole("heading", { name: /^Gatehouse/ }).waitFor();
  if ((await page.locator("#operations-Tags-putApiAccountsAccountIdTags").count()) === 0)
    await page.locator("#operations-tag-Tags").click();
}, BROWSER_MS_MAX);
afterAll(async () => {
  await browser.close();
  await house[Symbol.asyncDispose]();
});

/** In this order: what one writes, the next ones read. */
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

test.each(OPERATIONS)(
  "%s runs its example with Try it out and Execute alone, and answers %i",
  async (operation, status) => {
    const { page, complaints } = watched;
    const route = page.locator(`#operations-Tags-${operation}`);
    await route.locator(".opblock-summary-control").click();
    await route.locator(".try-out__btn").click();
    const answered = page.waitForResponse((response) => /\/api\/(accounts|zones)\//.test(response.url()));
    await route.getByRole("button", { name: "Execute" }).click();
    const response = await answered;
    expect([response.status(), complaints]).toEqual([status, []]);
    if (operation.endsWith("Resources")) {
      const { result } = await response.json();
      expect(result.map(({ type, id }: { type: string; id: string }) => `${type} ${id}`)).toEqual([
        "queue orders",
        "worker checkout",
      ]);
    }
    await route.locator(".opblock-summary-control").click();
  },
);
