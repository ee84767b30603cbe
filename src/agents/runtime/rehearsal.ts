// A spare thread lives the life of nobody once, so that the agent it becomes meets code that has run before.
import { COUNTERS_BYTES, type Load } from "../protocol.ts";
import { Agent } from "../sdk/agent.ts";
import { createLife } from "./life.ts";
import { createOutbox } from "./outbox.ts";
import { createWork } from "./work.ts";

class Nobody<Env, State> extends Agent<Env, State> {
  override observability = undefined; // the user's file may listen by now, and hears nothing of this

  override onRequest(): Response {
    this.setState({ asked: true } as State); // nobody's state is of no type
    return Response.json(this.state);
  }
}

const NOBODY = {
  name: "nobody",
  databasePath: ":memory:",
  env: {},
  classes: [],
  sockets: [],
  ledgerDueMs: null,
  props: undefined,
};
const REQUEST = {
  type: "request",
  id: 1,
  method: "GET",
  url: "http://localhost/",
  headers: [["accept", "*/*"]] as [string, string][],
  delivery: undefined,
  body: null,
  streamed: false,
} as const;

export async function rehearse(load: Load): Promise<void> {
  const { outputBytesMax, handlerMsMax } = load.limits;
  const counters = new Int32Array(COUNTERS_BYTES / Int32Array.BYTES_PER_ELEMENT);
  const answered = Promise.withResolvers<void>();
  const life = createLife(load, NOBODY, Nobody, {
    outbox: createOutbox(
      (batch) => batch.some(({ type }) => type === "head") && answered.resolve(),
      counters,
      outputBytesMax,
    ),
    work: createWork(counters, handlerMsMax, Date.now),
    now: Date.now,
    random: Math.random,
    newId: () => crypto.randomUUID(),
    report: answered.reject,
    onEventDone: () => {},
  });
  await life.start();
  life.take(REQUEST);
  await answered.promise;
  life.end();
}
