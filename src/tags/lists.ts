// The lists of what is in use: keys, the values of a key, and both together, by code point.
import type { Database } from "bun:sqlite";

export type TextPage = { items: string[]; more: boolean };
/** `truncated`: the key has more values than are shown; its own list has them all. */
export type KeySummary = { key: string; values: string[]; truncated?: true };

const SUMMARY_VALUES_MAX = 1_000; // of one key; a key with a serial number as value would otherwise fill the memory
const SUMMARY_CHARS_MAX = 2_097_152; // of one page, which then ends before its hundredth key

export function createLists(db: Database, pageRows: number) {
  const selectKeys = db.prepare<{ key_id: number; text: string }, [string, string, number]>(
    "select key_id, key as text from keys where account_id = ? and key > ? order by key limit ?",
  );
  const selectKey = db.prepare<{ key_id: number }, [string, string]>(
    "select key_id from keys where account_id = ? and key = ?",
  );
  // An empty value is a value, so the first page begins at it and a later one behind its last.
  const selectValues = db.prepare<{ text: string }, [number, string, number]>(
    "select value as text from pairs where key_id = ? and value >= ? order by value limit ?",
  );
  const selectValuesOfType = db.prepare<{ text: string }, [number, string, string, number]>(
    "select value as text from value_types where key_id = ? and type = ? and value >= ? order by value limit ?",
  );

  function toPage(rows: { text: string }[]): TextPage {
    return { items: rows.slice(0, pageRows).map(({ text }) => text), more: rows.length > pageRows };
  }

  return {
    keys: (account: string, after = ""): TextPage => toPage(selectKeys.all(account, after, pageRows + 1)),
    values(account: string, key: string, type?: string, after?: string): TextPage {
      const keyId = selectKey.get(account, key)?.key_id;
      if (keyId === undefined) return { items: [], more: false };
      const from = after === undefined ? "" : `${after}\0`; // nothing sorts between a text and itself with a NUL
      if (type === undefined) return toPage(selectValues.all(keyId, from, pageRows + 1));
      return toPage(selectValuesOfType.all(keyId, type, from, pageRows + 1));
    },
    summary(account: string, after = ""): { items: KeySummary[]; more: boolean } {
      const items: KeySummary[] = [];
      let chars = 0;
      const keys = selectKeys.all(account, after, pageRows + 1);
      for (const { key_id, text: key } of keys) {
        if (items.length === pageRows || chars > SUMMARY_CHARS_MAX) break;
        const all = selectValues.all(key_id, "", SUMMARY_VALUES_MAX + 1).map(({ text }) => text);
        const values = all.slice(0, SUMMARY_VALUES_MAX);
        items.push({ key, values, ...(all.length > values.length && { truncated: true as const }) });
        chars += values.reduce((sum, value) => sum + value.length, 0);
      }
      return { items, more: items.length < keys.length };
    },
  };
}
