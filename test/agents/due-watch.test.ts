// Who is woken when the ledger says that it is due, with a clock and agents of the test's choice.
import { expect, test } from "bun:test";
import { join } from "node:path";
import { createDueWatch } from "../../src/agents/due-watch.ts";
import { openLedger } from "../../src/agents/ledger.ts";
import { createLog } from "../../src/platform/log.ts";
import { until } from "../support/agents.ts";
import { temporaryFolder } from "../support/temporary.ts";
import { THREADS } from "../support/threads.ts";

const NOW_MS = 1_700_000_000_000;
const silent = createLog({ level: "silent", pretty: false, now: Date.now, write() {} });

test("those who cannot be woken, however many, do not stand in front of the others", async () => {
  using folder = temporaryFolder();
  const ledger = openLedger(join(folder.path, "agents.db"), THREADS.ledger, silent);
  const className = "counter";
  const names = Array.from({ length: 1_200 }, (_, index) => String(index).padStart(4, "0"));
  const writes = names.flatMap((name, index) => [
    ledger.write({ do: "know", className, name, atMs: NOW_MS }),
    ledger.write({ do: "due", className, name, dueMs: NOW_MS - 10_000 + index }),
  ]);
  await Promise.all(writes);
  const woken: string[] = [];
  const watch = createDueWatch({
    ledger,
    now: () => NOW_MS,
    classNames: () => [className],
    canWake: (_, name) => name >= "1100" && !woken.includes(name),
    room: () => 3,
    wake: (_, name) => void woken.push(name),
    retryMs: 60_000,
  });
  watch.arm();
  await until(() => woken.length > 0);
  expect(woken).toEqual(["1100", "1101", "1102"]);
  watch.stop();
  await ledger.close();
});
