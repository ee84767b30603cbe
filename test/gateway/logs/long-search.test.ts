// A search through many rows is somebody's patience, never everybody's: requests are answered and logged meanwhile.
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { startGatewayHouse, startProvider } from "../support/provider.ts";

const ROWS = 500_000;

test("a request is answered while half a million rows are being searched", async () => {
  await using provider = startProvider();
  await using house = await startGatewayHouse(provider.url);
  await house.logs(); // the database is there now
  const db = new Database(join(house.folder, "data/logs.db"));
  db.run(
    `insert into logs (id, gateway, created_ms, provider, model, method, path, status, success, outcome, duration_ms,
       estimated, custom_cost, request_bytes, response_bytes, authentication, metadata)
     with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)
     select printf('%08x-0000-7000-8000-000000000000', i), 'home/default', i, 'openai', 'gpt-4o-mini', 'POST',
       'chat/completions', 200, 1, 'answered', 1.0, 0, 0, 1, 1, 1, '{"team":"red"}' from n`,
    [ROWS],
  );
  db.close();
  const order: string[] = [];
  const searched = house.logs("?search=nothing-has-this&meta_info=true").then((rows) => {
    order.push("searched");
    return rows;
  });
  // Each waits for the one before: if the search held anything up, it would be done before the tenth.
  for (let index = 0; index < 10; index++) {
    const answer = await fetch(`${house.base}/openai/models`, { headers: { "gw-aig-authorization": house.runToken } });
    expect(answer.status).toBe(200);
  }
  order.push("answered");
  expect(await searched).toEqual([]);
  expect(order).toEqual(["answered", "searched"]);
  expect((await house.logs("?per_page=1"))[0]?.path).toBe("models");
}, 30_000);
