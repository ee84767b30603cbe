// What lies under the data folder: which kind of file system, and how much room is left.
import { statfsSync } from "node:fs";

/** Linux's numbers for file systems over a network, where SQLite's locks and WAL are not safe. */
const NETWORK_TYPES: Record<number, string> = {
  26985: "NFS",
  20859: "SMB",
  4283649346: "CIFS",
  4266872130: "SMB2",
  16914839: "9P",
  12805120: "CephFS",
  1397113167: "AFS",
};

export function networkFileSystem(folder: string): string | undefined {
  return process.platform === "linux" ? NETWORK_TYPES[statfsSync(folder).type] : undefined;
}

export function freeBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}
