// From the identifier a sender uses to the name of one agent. Pure; who owns a plain name is the journal's to remember.

export const NAME_CHARACTERS_MAX = 128; // what an agent's address takes

/** Lower-case; `/` and everything outside `a-z0-9._-` become `-`. Dots alone would be a relative path, so they do too. */
export function sanitize(identifier: string): string {
  const name = identifier.toLowerCase().replace(/[^a-z0-9._-]/gu, "-");
  return /^\.+$/.test(name) ? "-".repeat(name.length) : name;
}

/** undefined: it names nobody. */
export function parseIdentifier(text: string): string | undefined {
  const length = sanitize(text).length;
  return length === 0 || length > NAME_CHARACTERS_MAX ? undefined : text.toLowerCase();
}

/** Its own name already, so no mapping is needed. */
export function isPlain(identifier: string): boolean {
  return sanitize(identifier) === identifier;
}

/** For an identifier whose plain name belongs to another one. */
export function distinctName(identifier: string): string {
  const suffix = new Bun.CryptoHasher("sha256").update(identifier.toLowerCase()).digest("hex").slice(0, 8);
  return `${sanitize(identifier).slice(0, NAME_CHARACTERS_MAX - suffix.length - 1)}-${suffix}`;
}
