// A real Chromium for one test file, and a page that remembers everything a careful reader of its console would see.
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { findChromium, INSTALL_CHROMIUM } from "../../scripts/chromium.ts";

// A sandbox needs privileges that containers and CI lack; the rest keeps Chromium from calling its maker.
const ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** One test, Chromium and all, on a busy Pi. */
export const BROWSER_MS_MAX = 60_000;

export function openBrowser(more: string[] = []): Promise<Browser> {
  const executablePath = findChromium({ install: false });
  if (executablePath === undefined) throw new Error(`There is no Chromium on this machine. ${INSTALL_CHROMIUM}`);
  return chromium.launch({ executablePath, args: [...ARGS, ...more] });
}

export type Watched = {
  page: Page;
  /** Errors, among them every violation of the content policy, in the browser's words. */
  complaints: string[];
  /** Every host that was asked for anything. */
  hosts: Set<string>;
  close(): Promise<void>;
};

/** A 401 that the test provokes is reported by the browser as an error; `expected` says which addresses may. */
export async function openPage(
  browser: Browser,
  { expected = [], ...options }: BrowserContextOptions & { expected?: string[] } = {},
): Promise<Watched> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const complaints: string[] = [];
  const hosts = new Set<string>();
  page.on("console", (message) => {
    if (message.type() !== "error") return;
    const { url } = message.location();
    const known = /status of 40[13] /.test(message.text()) && expected.some((path) => url.endsWith(path));
    if (!known) complaints.push(`${message.text()} (${url})`);
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith("data:")) hosts.add(new URL(request.url()).host);
  });
  return { page, complaints, hosts, close: () => context.close() };
}
