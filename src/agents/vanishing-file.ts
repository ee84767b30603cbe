// A file that is read once: its name is gone before the first byte leaves, so nothing is left behind when a reader stops.
import { open, unlink } from "node:fs/promises";

const CHUNK_BYTES = 64 * 1024;

export async function readVanishing(path: string): Promise<ReadableStream<Uint8Array>> {
  const file = await open(path, "r");
  await unlink(path);
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { bytesRead, buffer } = await file.read(new Uint8Array(CHUNK_BYTES));
      if (bytesRead > 0) return controller.enqueue(buffer.subarray(0, bytesRead));
      await file.close();
      controller.close();
    },
    cancel: () => file.close(),
  });
}
