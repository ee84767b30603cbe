// Agent classes that come with the executable; a user's class of the same name replaces one.
import { WebhookAgent } from "../sdk/webhook-agent.ts";
import type { AgentClass } from "./life.ts";

export const BUILT_IN: Record<string, AgentClass> = { "webhook-agent": WebhookAgent };
