// The console as a person meets it: the way in, the addresses, the way out.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Browser } from "playwright-core";
import { embed } from "../../scripts/embed.ts";
import { ADMIN_ID } from "../../src/platform/tokens.ts";
import { BROWSER_MS_MAX, openBrowser, openPage, type Watched } from "../support/browser.ts";
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

const SESSION = { expected: ["/api/session"] };
const host = () => new URL(house.url).host;

async function signIn({ page }: Watched): Promise<void> {
  await page.goto(`${house.url}/`);
  await page.getByLabel("Token").fill(house.adminToken);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: host() }).waitFor();
}

function code(): string {
  const { tokens } = house.parts;
  if (!tokens.byId(ADMIN_ID)) tokens.mint({ name: "admin", permissions: ["admin"] }, ADMIN_ID);
  return tokens.issue("sign_in_codes", ADMIN_ID, 60_000).value;
}

test("a wrong token is refused with a sentence, and nothing of the console shows", async () => {
  const watched = await openPage(browser, SESSION);
  const { page } = watched;
  await page.goto(`${house.url}/`);
  await page.getByLabel("Token").fill("gh_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("This token is not valid").waitFor();
  expect(await page.getByRole("navigation").count()).toBe(0);
  expect(await page.context().cookies()).toEqual([]);
  expect(watched.complaints).toEqual([]);
  await watched.close();
});

test("a sign-in link that was used already is refused", async () => {
  const used = code();
  await house.fetch("/api/session", {
    method: "POST",
    body: JSON.stringify({ code: used }),
    headers: { "content-type": "application/json" },
  });
  const watched = await openPage(browser, SESSION);
  await watched.page.goto(`${house.url}/#code=${used}`);
  await watched.page.getByText("This sign-in link was used already").waitFor();
  expect(watched.complaints).toEqual([]);
  await watched.close();
});

test("a token opens the console, which asks no other host and breaks no policy", async () => {
  const watched = await openPage(browser, SESSION);
  const { page } = watched;
  await signIn(watched);
  await page.getByText("Ready").waitFor();
  expect(await page.locator(".address code").allTextContents()).toEqual([
    `${house.url}/v1/home/default/{provider}`,
    `${house.url}/webhooks/{source}/{entity}`,
    `${house.url}/agents/{class}/{name}`,
    `${house.url}/api`,
  ]);
  const [cookie] = await page.context().cookies();
  expect([cookie?.httpOnly, cookie?.sameSite]).toEqual([true, "Strict"]);
  expect(await page.evaluate(() => document.cookie)).toBe("");
  await page.reload();
  await page.getByText("Signed in as test admin").waitFor();
  expect([...watched.hosts]).toEqual([host()]);
  expect(watched.complaints).toEqual([]);
  await watched.close();
});

test("a sign-in link opens the console and leaves no code in the address", async () => {
  const watched = await openPage(browser);
  const { page } = watched;
  await page.goto(`${house.url}/#code=${code()}`);
  await page.getByRole("heading", { name: host() }).waitFor();
  expect(page.url()).toBe(`${house.url}/`);
  expect(watched.complaints).toEqual([]);
  await watched.close();
});

test("signing out ends the session on the server too", async () => {
  const watched = await openPage(browser, SESSION);
  const { page } = watched;
  await signIn(watched);
  const cookies = await page.context().cookies();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
  await page.context().addCookies(cookies);
  await page.reload();
  await page.getByLabel("Token").waitFor();
  expect(watched.complaints).toEqual([]);
  await watched.close();
});

test.each(["127.0.0.1", "house.test"])("an address is copied with one click under %s", async (name) => {
  // A name that is not localhost over plain http is what a LAN has: there the clipboard interface does not exist.
  const own = await openBrowser(["--host-resolver-rules=MAP house.test 127.0.0.1"]);
  const watched = await openPage(own, { ...SESSION, permissions: ["clipboard-read", "clipboard-write"] });
  const { page } = watched;
  const origin = house.url.replace("127.0.0.1", name);
  await page.goto(`${origin}/`);
  await page.getByLabel("Token").fill(house.adminToken);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Copy the API address" }).click();
  await page.getByText("Copied").waitFor();
  await page.getByRole("heading", { name }).evaluate((heading) => heading.replaceWith(document.createElement("input")));
  await page.locator(".head input").press("Control+V");
  expect(await page.locator(".head input").inputValue()).toBe(`${origin}/api`);
  expect(watched.complaints).toEqual([]);
  await own.close();
});

test("each example can be chosen, and names this host", async () => {
  const watched = await openPage(browser, SESSION);
  await signIn(watched);
  const card = watched.page.getByRole("region", { name: "Gateway" });
  await card.getByRole("tab", { name: "Python" }).click();
  expect(await card.locator("pre").textContent()).toContain(`base_url="${house.url}/v1/home/default/openai"`);
  await watched.close();
});

test.each([
  { width: 360, colorScheme: "light" },
  { width: 360, colorScheme: "dark" },
  { width: 1280, colorScheme: "light" },
  { width: 1280, colorScheme: "dark" },
] as const)(
  "at $width pixels in $colorScheme nothing sticks out and text stands out",
  async ({ width, colorScheme }) => {
    const watched = await openPage(browser, { ...SESSION, viewport: { width, height: 800 }, colorScheme });
    const { page } = watched;
    await signIn(watched);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
    const [ink = 0, paper = 0] = await page.evaluate(() => {
      const { color, backgroundColor } = getComputedStyle(document.body);
      return [color, backgroundColor].map((text) => Number(/\d+/.exec(text)?.[0]));
    });
    expect(colorScheme === "dark" ? ink - paper : paper - ink).toBeGreaterThan(150);
    await watched.close();
  },
);
