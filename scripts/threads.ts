// Which files are threads of their own: the addresses that src/index.ts spells, and nobody else.

const ADDRESS = /new URL\("\.\/([\w/-]+\.ts)", import\.meta\.url\)/g;

export function threadEntries(indexText: string): string[] {
  return Array.from(indexText.matchAll(ADDRESS), (match) => `src/${match[1]}`);
}
