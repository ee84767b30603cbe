// Builds the pages into dist/embed, compressed: what the executable carries, and what development serves.
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "..");
export const EMBED_FOLDER = join(ROOT, "dist/embed");
const PAGES = ["src/console/ui/index.html", "src/console/ui/swagger.html"];
/** Swagger UI's licence asks that its notices travel with it. */
const NOTICES = ["LICENSE", "NOTICE", "swagger-ui-bundle.js.LICENSE.txt"];

/** The new folder replaces the old one in one step, so that a running development server never sees half of it. */
export async function embed(): Promise<{ name: string; bytes: number; packed: number }[]> {
  const fresh = `${EMBED_FOLDER}.${process.pid}`;
  try {
    const files = [...(await pages()), ...(await notices())];
    const written = await Promise.all(files.map(([name, bytes]) => write(fresh, name, bytes)));
    await rm(EMBED_FOLDER, { recursive: true, force: true });
    await rename(fresh, EMBED_FOLDER);
    return written;
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

type File = [name: string, bytes: Uint8Array<ArrayBuffer>];

async function pages(): Promise<File[]> {
  const built = await Bun.build({
    entrypoints: PAGES.map((page) => join(ROOT, page)),
    minify: true,
    // Absolute, so that a page works under any path it is served from.
    publicPath: "/",
    naming: { entry: "[name].[ext]", chunk: "assets/[name]-[hash].[ext]", asset: "assets/[name]-[hash].[ext]" },
    define: { "process.env.NODE_ENV": '"production"' },
  });
  return Promise.all(
    built.outputs.map(async (file): Promise<File> => [file.path, new Uint8Array(await file.arrayBuffer())]),
  );
}

async function notices(): Promise<File[]> {
  const texts = NOTICES.map((name) => Bun.file(join(ROOT, "node_modules/swagger-ui-dist", name)).text());
  const joined = `Swagger UI\n\n${(await Promise.all(texts)).join("\n\n")}\n`;
  return [["assets/notices.txt", new TextEncoder().encode(joined)]];
}

/** Only the compressed form is kept: nearly every client takes it, and the executable stays small. */
async function write(folder: string, name: string, bytes: Uint8Array<ArrayBuffer>) {
  const path = join(folder, "console", `${name}.gz`);
  await mkdir(join(path, ".."), { recursive: true });
  const packed = Bun.gzipSync(bytes, { level: 9 });
  await Bun.write(path, packed);
  return { name, bytes: bytes.length, packed: packed.length };
}

if (import.meta.main) for (const file of await embed()) console.log(`${file.name} ${file.bytes} -> ${file.packed}`);
