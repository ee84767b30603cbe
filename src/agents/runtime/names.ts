// What an agent is called: its class in a URL, its own name, and the file its name leads to. Pure, and free of imports: threads load it.

export const NAME_CHARS_MAX = 128;
const SLUG_CHARS_MAX = 40; // readable in a listing, and far from the 255 bytes of a file name

/** The rule of the existing clients: `ChatRoom` is `chat-room`, `LOUD_AGENT` is `loud-agent`, `AIBot` is `a-i-bot`. */
export function toKebab(text: string): string {
  if (text === text.toUpperCase() && text !== text.toLowerCase()) return text.toLowerCase().replaceAll("_", "-");
  return text
    .replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
    .replace(/^-/, "")
    .replaceAll("_", "-")
    .replace(/-$/, "");
}

/** A class name becomes a folder and a path segment, so it may hold nothing a path could mean. */
export function isClassName(text: string): boolean {
  return /^[a-z0-9][a-z0-9$-]{0,127}$/.test(text);
}

export function isAgentName(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this refuses
  return text.length > 0 && text.length <= NAME_CHARS_MAX && !/[/?#\u0000-\u001f\u007f]/.test(text);
}

/** Two names that differ in one letter's case are two agents, on every file system: the digest keeps them apart. */
export function databasePath(folder: string, className: string, name: string): string {
  const digest = new Bun.CryptoHasher("sha256").update(name).digest("hex");
  const slug = name
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^\.+/, "")
    .slice(0, SLUG_CHARS_MAX);
  return `${folder}/${className}/${digest.slice(0, 2)}/${slug}-${digest.slice(0, 16)}.db`;
}
