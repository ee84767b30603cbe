// Webhook sources over HTTP: what there is, what is set, its secrets, and a try-out.
import { Type as t } from "@sinclair/typebox";
import { Elysia } from "elysia";
import type { Guard } from "../platform/access.ts";
import { Ok, ok } from "../platform/envelope.ts";
import { strict } from "../platform/schema.ts";
import type { Hooks } from "./hooks.ts";
import * as model from "./model.ts";
import { PRESET_NAMES, presetOf } from "./presets.ts";
import { sampleRequest } from "./samples.ts";
import { lookAround, toSourceView } from "./views.ts";

const SourceParams = t.Object({ source: model.SourceName });

export type HookRouteParts = { hooks: Hooks; guard: Guard; now: () => number };

export function hookSourceRoutes({ hooks, guard, now }: HookRouteParts) {
  const { sources } = hooks;
  const view = async (name: string) => toSourceView(sources.get(name), hooks, await lookAround(hooks));

  async function change(name: string, changes: model.SourceChange) {
    const source = sources.change(name, changes);
    if (!source.paused) await hooks.release();
    return view(source.name);
  }

  /** Through the front door: the same verification, journal and agent as a sender's own. */
  async function tryOut(name: string, entity: string | undefined) {
    const source = sources.get(name);
    const given = { id: `sample-${Bun.randomUUIDv7()}`, nowMs: now(), ...(entity !== undefined && { entity }) };
    const [secret] = sources.secretsOf(source.name);
    const { method, path, headers, body } = sampleRequest(source, secret, hooks.publicUrl, given);
    const answer = await hooks.receive(new Request(`http://localhost${path}`, { method, headers, body }));
    return { status: answer.status, answer: (await answer.text()).slice(0, 10_000), path };
  }

  return new Elysia({ prefix: "/hooks", tags: ["Webhooks"] })
    .use(guard)
    .get("/presets", () => ok(PRESET_NAMES.map((name) => ({ name, label: presetOf(name).label }))), {
      needs: "agents:read",
      response: Ok(t.Array(t.Object({ name: t.String(), label: t.String() }))),
      detail: { summary: "List the senders we know" },
    })
    .get(
      "/sources",
      async () => {
        const around = await lookAround(hooks);
        return ok(sources.all().map((source) => toSourceView(source, hooks, around)));
      },
      {
        needs: "agents:read",
        response: Ok(t.Array(model.SourceView)),
        detail: {
          summary: "List sources",
          description: "Every preset is a source of the same name; then those you made.",
        },
      },
    )
    .post("/sources", async ({ body }) => ok(await view(sources.create(body).name)), {
      needs: "agents:edit",
      body: model.SourceCreate,
      response: Ok(model.SourceView),
      detail: { summary: "Create a source", description: "Another way in for a sender that has one already." },
    })
    .get("/sources/:source", async ({ params }) => ok(await view(params.source)), {
      needs: "agents:read",
      params: SourceParams,
      response: Ok(model.SourceView),
      detail: { summary: "Read a source" },
    })
    .patch("/sources/:source", async ({ params, body }) => ok(await change(params.source, body)), {
      needs: "agents:edit",
      params: SourceParams,
      body: model.SourceChange,
      response: Ok(model.SourceView),
      detail: {
        summary: "Change a source",
        description: "Fields that are left out stay. `verify: none` lets everyone in.",
      },
    })
    .delete(
      "/sources/:source",
      async ({ params }) => {
        sources.remove(params.source);
        await hooks.release();
        return ok({ name: params.source });
      },
      {
        needs: "agents:edit",
        params: SourceParams,
        response: Ok(t.Object({ name: t.String() })),
        detail: { summary: "Delete a source", description: "With its secrets. A built-in one returns to its preset." },
      },
    )
    .put(
      "/sources/:source/secret",
      ({ params, body }) => ok({ secret: sources.setSecret(params.source, body?.secret).made }),
      {
        needs: "agents:edit",
        params: SourceParams,
        body: t.Optional(model.SecretWrite),
        response: Ok(model.SecretShown),
        detail: {
          summary: "Set the secret",
          description: "Replaces all stored ones. Without a value one is made and shown once.",
        },
      },
    )
    .post(
      "/sources/:source/secret/rotate",
      ({ params, body }) => {
        return ok({
          secret: sources.rotateSecret(params.source, body?.secret, (body?.overlap_seconds ?? 86_400) * 1000).made,
        });
      },
      {
        needs: "agents:edit",
        params: SourceParams,
        body: t.Optional(t.Partial(model.SecretRotate, strict)),
        response: Ok(model.SecretShown),
        detail: {
          summary: "Rotate the secret",
          description: "The old ones count for a while longer: a day, unless you say.",
        },
      },
    )
    .delete(
      "/sources/:source/secret",
      ({ params }) => {
        sources.clearSecrets(params.source);
        return ok({ name: params.source });
      },
      {
        needs: "agents:edit",
        params: SourceParams,
        response: Ok(t.Object({ name: t.String() })),
        detail: { summary: "Forget the secrets", description: "The stored ones; what the environment sets stays." },
      },
    )
    .post("/sources/:source/pause", async ({ params }) => ok(await change(params.source, { paused: true })), {
      needs: "agents:edit",
      params: SourceParams,
      response: Ok(model.SourceView),
      detail: { summary: "Pause a source", description: "Deliveries are verified and stored, and held." },
    })
    .post("/sources/:source/resume", async ({ params }) => ok(await change(params.source, { paused: false })), {
      needs: "agents:edit",
      params: SourceParams,
      response: Ok(model.SourceView),
      detail: { summary: "Resume a source", description: "What was held is delivered now." },
    })
    .post("/sources/:source/test", async ({ params, body }) => ok(await tryOut(params.source, body?.entity)), {
      needs: "agents:edit",
      params: SourceParams,
      body: t.Optional(
        t.Object({ entity: t.Optional(t.String({ minLength: 1, maxLength: 256, examples: ["acme/web"] })) }, strict),
      ),
      response: Ok(t.Object({ status: t.Integer(), answer: t.String(), path: t.String() })),
      detail: {
        summary: "Send a sample",
        description: "A signed delivery as this sender would make it, through the front door.",
      },
    });
}
