// Encryption at rest: AES-256-GCM under a key that lives in a file of its own.
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export type Secrets = ReturnType<typeof createSecrets>;

/** `onLost` hears once of each that cannot be opened, because the key it was sealed under is gone. */
export function createSecrets(key: Uint8Array, onLost: (context: string) => void) {
  const lost = new Set<string>();

  /** `context` (which secret this is) is authenticated too, so that a sealed value cannot be moved to another row. */
  function seal(text: string, context: string): Uint8Array {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(Buffer.from(context));
    return Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
  }

  /** undefined: it is lost, and whoever needs it does without until it is set again. */
  function open(sealed: Uint8Array, context: string): string | undefined {
    try {
      return decipher(Buffer.from(sealed), context);
    } catch {
      if (!lost.has(context)) onLost(context);
      lost.add(context);
      return undefined;
    }
  }

  function decipher(bytes: Buffer, context: string): string {
    const nonce = bytes.subarray(0, NONCE_BYTES);
    const opened = createDecipheriv("aes-256-gcm", key, nonce).setAAD(Buffer.from(context));
    opened.setAuthTag(bytes.subarray(bytes.length - TAG_BYTES));
    const body = bytes.subarray(NONCE_BYTES, bytes.length - TAG_BYTES);
    return Buffer.concat([opened.update(body), opened.final()]).toString("utf8");
  }

  return { seal, open };
}

/** Makes the key on first use. A key that others can read is refused: then nothing it sealed was secret. */
export function loadKey(path: string): Uint8Array {
  if (!existsSync(path)) makeKey(path);
  if (process.platform !== "win32" && (statSync(path).mode & 0o077) !== 0) {
    throw new Error(`${path} can be read by others; run: chmod 600 ${path}`);
  }
  const key = readFileSync(path);
  if (key.length !== KEY_BYTES)
    throw new Error(`${path} is not a key of ${KEY_BYTES} bytes; restore it from your backup`);
  return key;
}

/** It gets its name when it is whole and on the disk: a full disk or a power cut must not leave half a key behind. */
function makeKey(path: string): void {
  const unnamed = `${path}.new`;
  writeFileSync(unnamed, randomBytes(KEY_BYTES), { mode: 0o600, flush: true });
  renameSync(unnamed, path);
}
