// What `import … from "gatehouse"` gives, and `"agents"` likewise: the names an agent file may use.

import { currentOccasion } from "../runtime/context.ts";
import { SqlError } from "../runtime/database.ts";
import type { Life } from "../runtime/life.ts";
import { isAgentName } from "../runtime/names.ts";
import { WebhookError } from "../runtime/outgoing.ts";
import { Agent } from "./agent.ts";
import { callable } from "./callable.ts";
import { classNameOf, createNamespace } from "./namespace.ts";
import { toPropsText } from "./props.ts";
import { StreamingResponse } from "./streaming-response.ts";
import { WebhookAgent } from "./webhook-agent.ts";

/** `life` answers for the one agent of this thread; before it has one, only classes can be defined. */
export function createSdk(life: () => Life | undefined) {
  const here = (): Life => {
    const it = life();
    if (!it) throw new Error("This works inside an agent's methods, not while its file loads");
    return it;
  };
  /** Of the options only `props` means something here; where an agent lives is not a question on one machine. */
  async function getAgentByName(target: unknown, name: string, { props }: { props?: unknown } = {}) {
    if (!isAgentName(name)) throw new Error("That is no name for an agent");
    const { peers } = here().runtime;
    const className = classNameOf(target);
    if (props !== undefined) await peers.start(className, name, toPropsText(props));
    return createNamespace(className, peers).getByName(name);
  }
  return {
    Agent,
    WebhookAgent,
    WebhookError,
    StreamingResponse,
    SqlError,
    callable,
    unstable_callable: callable,
    getAgentByName,
    getCurrentAgent: () => {
      const { connection, request } = currentOccasion();
      return { agent: life()?.agent, connection, request, email: undefined };
    },
    /** Requests reach agents without it here; a Worker-style entry that calls it gets its answer all the same. */
    async routeAgentRequest(request: Request): Promise<Response | null> {
      const [prefix, className, name] = new URL(request.url).pathname.split("/").filter((part) => part !== "");
      if (prefix !== "agents" || className === undefined || name === undefined) return null;
      return (await getAgentByName(className, name)).fetch(request);
    },
  };
}
