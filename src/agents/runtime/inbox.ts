// What reaches a started agent: requests, calls, its clients' frames. Each is answered, whatever the agent's code does.
import type { CallBy, CallOutcome, SocketInfo, ToAgent } from "../protocol.ts";
import type { Agent } from "../sdk/agent.ts";
import { WebhookAgent } from "../sdk/webhook-agent.ts";
import type { Connection } from "./connections.ts";
import { withOccasion } from "./context.ts";
import type { Deliveries } from "./deliveries.ts";
import type { Runtime } from "./life.ts";
import type { Outbox } from "./outbox.ts";
import { createRequests } from "./requests.ts";
import { findCallable, findMethod, messageOf, NotCallable } from "./rpc.ts";
import { greet, hear } from "./wire.ts";

type InboxParts = {
  agent: Agent;
  runtime: Runtime;
  outbox: Outbox;
  deliveries: Deliveries;
  fail: (error: unknown, connection?: Connection) => Promise<void>;
  house: (verb: string, args: unknown[]) => Promise<unknown>;
  onNoted: (id: number, ok: boolean) => void;
  onEventDone: () => void;
};

export function createInbox({ agent, runtime, outbox, deliveries, fail, house, onNoted, onEventDone }: InboxParts) {
  const { work, connections, peers } = runtime;
  const requests = createRequests(outbox, async (request, head) => {
    const { delivery } = head;
    const handle = () => withOccasion({ request, delivery }, async () => agent.onRequest(request));
    // A WebhookAgent remembers what it has done together with its history, in one commit.
    const once = delivery !== undefined && !(agent instanceof WebhookAgent);
    const response = await (once ? deliveries.once(delivery, handle) : handle());
    await runtime.settled();
    return response;
  });
  /** Frames wait until their connection was greeted: clients send as soon as the socket is open. */
  const greeted = new Map<number, Promise<void>>();

  async function onRequest(message: Extract<ToAgent, { type: "request" }>): Promise<void> {
    try {
      await work.run(() => requests.take(message));
    } catch (error) {
      outbox.put({ type: "done", id: message.id, outcome: { ok: false, code: "agent.failed" } });
      await fail(error);
    }
  }

  async function onCall({ id, method, args, by }: Extract<ToAgent, { type: "call" }>): Promise<void> {
    let outcome: CallOutcome;
    try {
      outcome = { ok: true, output: await work.run(() => call(method, args, by)) };
      structuredClone(outcome.output); // what cannot cross fails here, with its own sentence
    } catch (error) {
      const code = error instanceof NotCallable ? "agent.method" : "agent.call_failed";
      outcome = { ok: false, code, message: messageOf(error) };
    }
    outbox.put({ type: "done", id, outcome });
  }

  async function call(method: string, args: unknown[], by: CallBy): Promise<unknown> {
    if (by === "house") return house(method, args);
    const output = await withOccasion({}, async () => {
      if (by === "agent") return findMethod(agent, method)(args);
      const { run, streaming } = findCallable(agent, method);
      if (streaming) throw new NotCallable(`Method ${method} streams its answer; call it over a WebSocket`);
      const answer = await run(args);
      JSON.stringify(answer); // it leaves as JSON, so what JSON cannot hold fails here, with its own sentence
      return answer;
    });
    await runtime.settled();
    return output;
  }

  function onOpen(info: SocketInfo): void {
    const connection = connections.add(info);
    const greeting = work
      .run(() => greet(agent, runtime, connection))
      .catch(async (error) => {
        connection.close(1011, "Uncaught exception during session setup");
        await fail(error, connection);
      })
      .finally(() => {
        greeted.delete(info.socket);
        onEventDone();
      });
    greeted.set(info.socket, greeting);
  }

  /** In order per connection; across connections nothing waits. */
  async function onSocket(socket: number, task: (connection: Connection) => Promise<void>): Promise<void> {
    const greeting = greeted.get(socket);
    if (greeting) await greeting;
    const connection = connections.bySocket(socket);
    try {
      if (connection) await work.run(() => task(connection));
    } catch (error) {
      await fail(error, connection);
    } finally {
      onEventDone();
    }
  }

  const onFrame = ({ socket, data }: Extract<ToAgent, { type: "frame" }>) =>
    onSocket(socket, (connection) => hear(agent, runtime, connection, data));

  const onClosed = ({ socket, code, reason, clean }: Extract<ToAgent, { type: "closed" }>) =>
    onSocket(socket, async (connection) => {
      connections.remove(socket);
      runtime.emit("disconnect", { connectionId: connection.id, code, reason });
      await withOccasion({ connection }, () => agent.onClose(connection, code, reason, clean));
    });

  return function take(message: ToAgent): void {
    if (message.type === "request") void onRequest(message);
    else if (message.type === "piece") requests.piece(message.id, message.bytes);
    else if (message.type === "eof") requests.eof(message.id, message.broken);
    else if (message.type === "credit") requests.credit(message.id, message.pieces);
    else if (message.type === "cancel") requests.cancel(message.id);
    else if (message.type === "call") void onCall(message);
    else if (message.type === "open") onOpen(message.info);
    else if (message.type === "frame") void onFrame(message);
    else if (message.type === "closed") void onClosed(message);
    else if (message.type === "answered") peers.answered(message.id, message.outcome);
    else if (message.type === "noted") onNoted(message.id, message.ok);
  };
}
