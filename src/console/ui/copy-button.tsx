// A button that puts text on the clipboard and says so.
import { useEffect, useState } from "preact/hooks";
import { Icon } from "./icon.tsx";

const SAID_MS = 1_600; // long enough to be read, short enough not to linger

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [state, setState] = useState<"idle" | "copied" | "failed">("idle");
  useEffect(() => {
    if (state === "idle") return;
    const timer = setTimeout(() => setState("idle"), SAID_MS);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = async () => setState((await toClipboard(text)) ? "copied" : "failed");
  return (
    <button type="button" class={`copy ${state}`} onClick={copy} aria-label={`Copy ${label}`}>
      <Icon name={state === "copied" ? "check" : "copy"} />
      <span aria-live="polite">{{ idle: "Copy", copied: "Copied", failed: "Not copied" }[state]}</span>
    </button>
  );
}

/** Browsers offer the clipboard interface only under https or localhost; `http://pi:8787` needs the old way. */
async function toClipboard(text: string): Promise<boolean> {
  if (window.isSecureContext) {
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "offscreen";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
