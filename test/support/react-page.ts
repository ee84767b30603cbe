// A page that uses the unmodified React hook, rendered in a process of its own; prints one JSON line per render.
import { Window } from "happy-dom";

const [host = "", token = ""] = process.argv.slice(2);
const window = new Window({ url: `http://${host}/` });
// React looks for these when it loads, so they come before it.
for (const name of ["document", "HTMLElement", "HTMLIFrameElement", "Node", "navigator"] as const) {
  Object.defineProperty(globalThis, name, { value: Reflect.get(window, name), configurable: true });
}
Object.defineProperty(globalThis, "window", { value: globalThis, configurable: true });
const { createElement, useEffect, useState } = await import("react");
const { createRoot } = await import("react-dom/client");
const { useAgent } = await import("agents/react");

type State = { count: number };
const print = (line: Record<string, unknown>): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

function Counter() {
  const [state, setState] = useState<State | undefined>();
  const agent = useAgent<State>({
    agent: "Counter",
    name: "page",
    host,
    protocol: "ws",
    query: { token },
    onStateUpdate: (next, source) => {
      print({ update: next, source });
      setState(next);
    },
    onIdentity: (name, className) => print({ name, className }),
  });
  useEffect(() => {
    if (state?.count === 0) void agent.call("add", [1]).then((result) => print({ result }));
    if (state?.count === 1) agent.setState({ count: 40 });
  }, [agent, state?.count]);
  return createElement("p", null, `count ${state?.count ?? "unknown"}`);
}

const place = document.createElement("div");
document.body.append(place);
createRoot(place).render(createElement(Counter));
let shown = "";
setInterval(() => {
  if (place.textContent !== shown) {
    shown = place.textContent ?? "";
    print({ shown });
  }
}, 5);
