import { afterAll, beforeAll, expect, test } from "bun:test";
import { type House, startHouse } from "../support/house.ts";

let house: House;
beforeAll(async () => {
  house = await startHouse();
});
afterAll(() => house[Symbol.asyncDispose]());

const ready = async () => {
  const answer = await house.fetch("/readyz");
  return { code: answer.status, ...(await answer.json()) };
};

test("a server that stops is alive but no longer ready, and says which part it is", async () => {
  while ((await ready()).code !== 200) await Bun.sleep(1); // its threads are still starting
  const parts = { listening: true, gateway_logs: true, journal: true };
  expect(await ready()).toEqual({ code: 200, status: "ready", parts });
  house.parts.listening.stopping = true;
  expect(await ready()).toEqual({ code: 503, status: "not ready", parts: { ...parts, listening: false } });
  expect((await house.fetch("/healthz")).status).toBe(200);
  house.parts.listening.stopping = false;
});
