// A house for webhooks with agent files of a test's own, there before it starts.
import { writeFiles } from "./agents.ts";
import { type House, type HouseOptions, tempFolder } from "./house.ts";
import { startHookHouse } from "./webhooks.ts";

export async function withAgents(files: Record<string, string>, options: HouseOptions = {}): Promise<House> {
  const folder = options.folder ?? tempFolder();
  await writeFiles(`${folder}/agents`, files);
  return startHookHouse({ ...options, folder });
}
