// Where webhooks come in. The body is read as raw bytes, and only after the credential was looked at.
import { Elysia } from "elysia";
import type { Hooks } from "./hooks.ts";

const ANSWERS = {
  200: { description: "Processed, or a duplicate of something that is" },
  202: { description: "Stored durably; processing goes on" },
  400: { description: "Payload invalid, or entity identifier missing" },
  401: { description: "Signature or credential invalid or missing" },
  404: { description: "No such source" },
  405: { description: "The source does not take this method" },
  413: { description: "The body is too large" },
  503: { description: "No room in the journal; nothing was stored" },
};

export const hookRoutes = (hooks: Hooks) =>
  new Elysia({ tags: ["Webhooks"] }).all("/webhooks/*", ({ request }) => hooks.receive(request), {
    parse: "none",
    detail: {
      summary: "Deliver a webhook",
      description:
        "`/webhooks/{entity_id}`, `/webhooks/{source}/{entity_id}`, or `/webhooks/{source}` with the entity in the " +
        "payload. A path token is `/webhooks/{source}/{entity_id}/{token}`. POST, and what the source lists beside it.",
      security: [],
      responses: ANSWERS,
    },
  });
