// A house for webhooks with agent files of a test's own, there before it starts.
import { writeFiles } from "../support/agents.ts";
import { type House, type HouseOptions, tempFolder } from "../support/house.ts";
import { startHookHouse } from "../support/webhooks.ts";

export async function withAgents(files: Record<string, string>, options: HouseOptions = {}): Promise<House> {
  const folder = options.folder ?? tempFolder();
  await writeFiles(`${folder}/agents`, files);
  return startHookHouse({ ...options, folder });
}
