// Tickets: how long they count, and how many there may be.
import { expect, test } from "bun:test";
import { createTickets, TICKET_MS } from "../../src/agents/tickets.ts";

const ticket = { className: "counter", name: "a", mayEdit: true, tokenId: "t" };

test("a ticket counts for its minute and not a millisecond longer, and falls with its token", () => {
  let nowMs = 1_000;
  const tickets = createTickets(() => nowMs);
  const [one, other] = [tickets.issue(ticket), tickets.issue({ ...ticket, tokenId: "other" })];
  nowMs += TICKET_MS - 1;
  expect(tickets.read(one.value)).toMatchObject(ticket);
  tickets.revoke("t");
  expect([tickets.read(one.value), tickets.read(other.value)?.tokenId]).toEqual([undefined, "other"]);
  nowMs += 1;
  expect(tickets.read(other.value)).toBeUndefined();
});

test("past ten thousand the oldest goes", () => {
  const tickets = createTickets(() => 0);
  const [first, second] = [tickets.issue(ticket).value, tickets.issue(ticket).value];
  for (let count = 2; count < 10_000; count++) tickets.issue(ticket);
  expect(tickets.read(first)).toBeDefined();
  tickets.issue(ticket);
  expect([tickets.read(first), tickets.read(second) !== undefined]).toEqual([undefined, true]);
});
