// The console's table of contents: a page is a row. Its address is the part of the URL after `#/`.
import type { ComponentType } from "preact";
import { HomePage } from "./home.tsx";
import type { IconName } from "./icon.tsx";
import type { Session } from "./session.ts";

export type Page = { path: string; title: string; icon: IconName; view: ComponentType<{ session: Session }> };
export type Elsewhere = { href: string; title: string; icon: IconName };

export const PAGES: readonly [Page, ...Page[]] = [{ path: "", title: "Home", icon: "home", view: HomePage }];

/** Pages of this host that are not part of the console. */
export const ELSEWHERE: readonly Elsewhere[] = [
  { href: "/swagger", title: "API reference", icon: "book" },
  { href: "/metrics", title: "Metrics", icon: "chart" },
  { href: "/readyz", title: "Health", icon: "pulse" },
];

/** The page of `#/gateway`, or of `#/gateway/anything/below`; home when there is none. */
export function pageOf(hash: string): Page {
  const path = /^#\/([^/?]*)/.exec(hash)?.[1] ?? "";
  return PAGES.find((page) => page.path === path) ?? PAGES[0];
}
