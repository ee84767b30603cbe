// The files that pages are made of: out of the executable, or out of dist/embed in development.
import { join } from "node:path";

/** Compressed as stored; `type` is that of the file inside. */
export type Asset = { type: string; immutable: boolean; packed(): Blob; etag(): Promise<string> };
export type Assets = { find(name: string): Asset | undefined };

const TYPES: Record<string, string> = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
  txt: "text/plain; charset=utf-8",
};

/** The build writes a hash of the content into the name of everything that a page links to. */
const HASHED = /-[0-9a-z]{8}\.[a-z]+$/;
const NAME = /^[\w-]+(\/[\w-]+)*\.[a-z]+$/;
const ROOT = "embed/console/";

/** `folder` is where the build left them; the executable has them inside and never looks there. */
export function openAssets(folder: string): Assets {
  return Bun.isStandaloneExecutable ? createEmbeddedAssets(() => Bun.embeddedFiles) : createFolderAssets(folder);
}

/** In the executable: the table is made at the first request, so that a start does not pay for it. */
export function createEmbeddedAssets(files: () => readonly Blob[]): Assets {
  let table: Map<string, Asset> | undefined;
  const read = () => new Map(files().flatMap(toEntry));
  return {
    find(name) {
      table ??= read();
      return table.get(name);
    },
  };
}

/** In development: files are looked up each time, so that a rebuilt page shows after a reload. */
export function createFolderAssets(folder: string): Assets {
  return {
    find(name) {
      const file = NAME.test(name) ? Bun.file(join(folder, "console", `${name}.gz`)) : undefined;
      return file && file.size > 0 ? toAsset(name, () => file) : undefined;
    },
  };
}

function toEntry(file: Blob): [string, Asset][] {
  const path = "name" in file && typeof file.name === "string" ? file.name : "";
  if (!path.startsWith(ROOT) || !path.endsWith(".gz")) return [];
  const name = path.slice(ROOT.length, -".gz".length);
  return [[name, toAsset(name, () => file)]];
}

function toAsset(name: string, packed: () => Blob): Asset {
  let tag: string | undefined;
  return {
    type: TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream",
    immutable: HASHED.test(name),
    packed,
    async etag() {
      // Weak, because the packed and the unpacked answer carry the same one.
      tag ??= `W/"${Bun.hash(await packed().bytes()).toString(36)}"`;
      return tag;
    },
  };
}
