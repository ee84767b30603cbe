// The frame around every page once signed in: navigation, the page itself, sign out.
import { useEffect, useState } from "preact/hooks";
import { Icon, Mark } from "./icon.tsx";
import { ELSEWHERE, PAGES, pageOf } from "./pages.ts";
import type { Session } from "./session.ts";

export function Shell({ session, onSignOut }: { session: Session; onSignOut(): void }) {
  const page = usePage();
  return (
    <div class="shell">
      <nav class="rail" aria-label="Console">
        <a class="brand" href="#/">
          <Mark />
          Gatehouse
        </a>
        <ul>
          {PAGES.map(({ path, title, icon }) => (
            <li key={path}>
              <a href={`#/${path}`} aria-current={page.path === path ? "page" : undefined}>
                <Icon name={icon} />
                <span>{title}</span>
              </a>
            </li>
          ))}
        </ul>
        <ul class="elsewhere">
          {ELSEWHERE.map(({ href, title, icon }) => (
            <li key={href}>
              <a href={href}>
                <Icon name={icon} />
                <span>{title}</span>
              </a>
            </li>
          ))}
        </ul>
        <button type="button" class="leave" onClick={onSignOut}>
          <Icon name="leave" />
          <span>Sign out</span>
        </button>
      </nav>
      <main class="page">
        <page.view session={session} />
      </main>
    </div>
  );
}

function usePage() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = () => setHash(location.hash);
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return pageOf(hash);
}
