// Looking after agents over /api: what exists, what waits, what failed, and their secrets.
import { Type as t } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { Elysia } from "elysia";
import type { Access, Guard } from "../platform/access.ts";
import { Ok, ok } from "../platform/envelope.ts";
import { AppError } from "../platform/errors.ts";
import { may } from "../platform/permissions.ts";
import { toTime } from "../platform/schema.ts";
import type { Agents } from "./agents.ts";
import type { ClassSecrets } from "./class-secrets.ts";
import * as model from "./model.ts";
import type { Tickets } from "./tickets.ts";
import { createViews } from "./views.ts";

type ManagementParts = { agents: Agents; access: Access; guard: Guard; classSecrets: ClassSecrets; tickets: Tickets };

export function agentManagementRoutes({ agents, access, guard, classSecrets, tickets }: ManagementParts) {
  const views = createViews(agents);

  function issueTicket(request: Request, className: string, name: string, wanted: string | undefined) {
    const principal = access.identify(request);
    const mayEdit = may(principal, "agents:edit", { agentClass: className, agentName: name });
    if (wanted === "agents:edit" && !mayEdit) throw new AppError("access.denied");
    const edits = wanted === undefined ? mayEdit : wanted === "agents:edit";
    const { value, expiresMs } = tickets.issue({ className, name, mayEdit: edits, tokenId: principal.tokenId });
    return { token: value, expires_at: toTime(expiresMs), permission: edits ? "agents:edit" : "agents:read" };
  }

  return new Elysia({ tags: ["Agents"] })
    .use(guard)
    .get("/agents", async () => ok(await views.overview()), {
      needs: "agents:read",
      response: Ok(model.Overview),
      detail: { summary: "List agent classes", description: "And the files that do not load, with line and message." },
    })
    .get(
      "/agents/:class",
      async ({ params, query }) => {
        const { rows, next } = await views.list(params.class, query);
        return ok(rows, { count: rows.length, cursor: next, cursors: { after: next } });
      },
      {
        needs: "agents:read",
        params: model.ClassParams,
        query: model.ListQuery,
        response: Ok(t.Array(model.AgentView)),
        detail: {
          summary: "List a class's agents",
          description: "By name; `cursor` is the last name of the page before.",
        },
      },
    )
    .get("/agents/:class/:name", async ({ params }) => ok(await views.detail(params.class, params.name)), {
      needs: "agents:read",
      params: model.AgentParams,
      response: Ok(model.AgentDetail),
      detail: { summary: "Look at one agent", description: "Wakes it: sizes and counts are exact." },
    })
    .delete(
      "/agents/:class/:name",
      async ({ params }) => {
        await agents.destroy(params.class, params.name);
        return ok({ id: `${params.class}/${params.name}` });
      },
      {
        needs: "agents:edit",
        params: model.AgentParams,
        response: Ok(model.Gone),
        detail: {
          summary: "Destroy an agent",
          description: "Its database is removed and its clients are closed with 4410.",
        },
      },
    )
    .get("/agents/:class/:name/state", async ({ params }) => ok(await views.state(params.class, params.name)), {
      needs: "agents:read",
      params: model.AgentParams,
      response: Ok(model.State),
      detail: { summary: "Read an agent's state", description: "null when it was never set." },
    })
    .post(
      "/agents/:class/:name/call",
      async ({ params, body }) => {
        return ok({ output: (await agents.call(params.class, params.name, body.method, body.args ?? [])) ?? null });
      },
      {
        needs: "agents:edit",
        params: model.AgentParams,
        body: model.CallWrite,
        response: Ok(model.CallResult),
        detail: { summary: "Call a callable method", description: "422 with the method's own message when it throws." },
      },
    )
    .get("/agents/:class/:name/queue", async ({ params }) => ok(await views.queue(params.class, params.name)), {
      needs: "agents:read",
      params: model.AgentParams,
      response: Ok(t.Array(model.QueueItem)),
      detail: { summary: "List queued tasks", description: "The first 1,000, in the order in which they run." },
    })
    .delete("/agents/:class/:name/queue/:id", async ({ params }) => ok(await one("dequeue", params)), {
      needs: "agents:edit",
      params: model.ItemParams,
      response: Ok(model.Gone),
      detail: { summary: "Remove a queued task" },
    })
    .get("/agents/:class/:name/schedules", async ({ params }) => ok(await views.schedules(params.class, params.name)), {
      needs: "agents:read",
      params: model.AgentParams,
      response: Ok(t.Array(model.Schedule)),
      detail: { summary: "List schedules", description: "The first 1,000, soonest first." },
    })
    .delete("/agents/:class/:name/schedules/:id", async ({ params }) => ok(await one("cancelSchedule", params)), {
      needs: "agents:edit",
      params: model.ItemParams,
      response: Ok(model.Gone),
      detail: { summary: "Cancel a schedule" },
    })
    .get("/agents/:class/:name/dead", async ({ params }) => ok(await views.dead(params.class, params.name)), {
      needs: "agents:read",
      params: model.AgentParams,
      response: Ok(t.Array(model.DeadLetter)),
      detail: { summary: "List dead letters", description: "Tasks whose attempts are spent, latest first." },
    })
    .post("/agents/:class/:name/dead/:id/retry", async ({ params }) => ok(await one("retryDead", params)), {
      needs: "agents:edit",
      params: model.ItemParams,
      response: Ok(model.Gone),
      detail: { summary: "Try a dead letter again", description: "Back into the queue with all its attempts." },
    })
    .delete("/agents/:class/:name/dead/:id", async ({ params }) => ok(await one("dropDead", params)), {
      needs: "agents:edit",
      params: model.ItemParams,
      response: Ok(model.Gone),
      detail: { summary: "Drop a dead letter" },
    })
    .post(
      "/agents/:class/:name/ticket",
      ({ params, request, body }) => {
        return ok(issueTicket(request, params.class, params.name, body?.permission));
      },
      {
        needs: "agents:read",
        params: model.AgentParams,
        body: t.Optional(model.TicketWrite),
        response: Ok(model.TicketView),
        detail: {
          summary: "Get a ticket",
          description: "A value for ?token= that opens this one agent for 60 seconds.",
        },
      },
    )
    .post(
      "/agents/:class/:name/sql",
      async ({ params, body }) => ok(await views.sql(params.class, params.name, body.query)),
      {
        needs: "agents:read",
        params: model.AgentParams,
        body: model.SqlWrite,
        response: Ok(model.SqlAnswer),
        detail: {
          summary: "Query an agent's database",
          description: "Read only, 5 seconds, 1,000 rows; does not wake it.",
        },
      },
    )
    .get(
      "/agents/:class/:name/export",
      async ({ params }) =>
        new Response(await views.copy(params.class, params.name), {
          headers: {
            "content-type": "application/vnd.sqlite3",
            "content-disposition": 'attachment; filename="agent.db"',
          },
        }),
      {
        needs: "agents:read",
        params: model.AgentParams,
        detail: { summary: "Copy an agent's database", description: "A consistent SQLite file; does not wake it." },
      },
    )
    .get("/agent-secrets/:class", ({ params }) => ok(classSecrets.list(params.class).map(toSecretView)), {
      needs: "agents:read",
      params: model.ClassParams,
      response: Ok(t.Array(model.SecretView)),
      detail: { summary: "List a class's secrets", description: "Names only: no route returns a value." },
    })
    .put(
      "/agent-secrets/:class/:secret",
      async ({ params, body }) => {
        await classSecrets.set(params.class, params.secret, body.value);
        agents.roster.renew([params.class]);
        return ok({ id: params.secret });
      },
      {
        needs: "agents:edit",
        params: model.SecretParams,
        body: model.SecretWrite,
        response: Ok(model.Gone),
        detail: {
          summary: "Set a secret",
          description: "In this.env of this class alone; its running agents restart with it.",
        },
      },
    )
    .delete(
      "/agent-secrets/:class/:secret",
      async ({ params }) => {
        if (!(await classSecrets.remove(params.class, params.secret))) throw new AppError("thing.unknown");
        agents.roster.renew([params.class]);
        return ok({ id: params.secret });
      },
      {
        needs: "agents:edit",
        params: model.SecretParams,
        response: Ok(model.Gone),
        detail: { summary: "Remove a secret" },
      },
    );

  async function one(verb: string, params: { class: string; name: string; id: string }) {
    const done = Value.Parse(t.Boolean(), await agents.house(params.class, params.name, verb, params.id));
    if (!done) throw new AppError("thing.unknown");
    return { id: params.id };
  }
}

function toSecretView({ name, from, updatedMs }: ReturnType<ClassSecrets["list"]>[number]) {
  return { name, from, updated_at: updatedMs === null ? null : toTime(updatedMs) };
}
