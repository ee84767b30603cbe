// One page of a list that fits in memory, in the envelope that page-by-page clients read.
import { ok } from "../platform/envelope.ts";

const PER_PAGE = 20;

/** Past the end the page is empty: clients ask for the next one until it is. */
export function onePage<T>(all: readonly T[], { page = 1, per_page = PER_PAGE }: { page?: number; per_page?: number }) {
  const rows = all.slice((page - 1) * per_page, page * per_page);
  return ok(rows, pageInfo(page, per_page, rows.length, all.length));
}

export function pageInfo(page: number, perPage: number, count: number, total: number) {
  return { page, per_page: perPage, count, total_count: total, total_pages: Math.ceil(total / perPage) };
}
