// The log database: a row a request, bodies apart so that a list never reads them.
import type { Migration } from "../../platform/sqlite.ts";

export const LOG_MIGRATIONS: readonly Migration[] = [
  // One index: rows of a gateway by time. An id is found by it too, because a UUIDv7 holds its own time.
  `create table logs (
     seq integer primary key,
     id text not null, gateway text not null, created_ms integer not null,
     provider text not null, model text, model_type text, method text not null, path text not null,
     status integer not null, success integer not null, outcome text not null, cached integer not null default 0,
     duration_ms real not null, first_byte_ms real,
     tokens_in integer, tokens_out integer, tokens_cached integer, tokens_cache_write integer, tokens_reasoning integer,
     estimated integer not null, cost real, custom_cost integer not null,
     request_type text, response_type text, request_bytes integer not null, response_bytes integer not null,
     event_id text, metadata text, token_id text, token_name text, authentication integer not null, user_agent text,
     attempts integer not null default 1, step integer not null default 0,
     feedback integer, score integer
   ) strict;
   create index logs_by_time on logs (gateway, created_ms);
   create table bodies (
     seq integer primary key,
     request blob, request_encoding text, request_complete integer not null,
     response blob, response_encoding text, response_complete integer not null
   ) strict;
   create trigger bodies_follow after delete on logs begin delete from bodies where seq = old.seq; end;`,
];

/** Milliseconds since 1970 out of a UUIDv7's first 48 bits; NaN when the text is none. */
export function timeOfId(id: string): number {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-7/.test(id) ? Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16) : Number.NaN;
}
