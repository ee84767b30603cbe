// Whether this host is ready, asked again while the page is looked at.
import { useEffect, useState } from "preact/hooks";

const ASK_MS = 10_000; // a person notices within seconds, and the host does not notice at all

type Health = "asking" | "ready" | "unready" | "silent";

const SAYS: Record<Health, string> = {
  asking: "Checking…",
  ready: "Ready",
  unready: "Not ready",
  silent: "No answer",
};

export function HealthPill() {
  const health = useHealth();
  return (
    <span class={`pill ${health}`} role="status">
      <i class="dot" />
      {SAYS[health]}
    </span>
  );
}

function useHealth(): Health {
  const [health, setHealth] = useState<Health>("asking");
  useEffect(() => {
    const ask = async () => {
      if (document.hidden) return;
      const answer = await fetch("/readyz").catch(() => undefined);
      setHealth(answer === undefined ? "silent" : answer.ok ? "ready" : "unready");
    };
    ask();
    const timer = setInterval(ask, ASK_MS);
    document.addEventListener("visibilitychange", ask);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", ask);
    };
  }, []);
  return health;
}
