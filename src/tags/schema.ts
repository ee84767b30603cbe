// The tables of tags.db, and why a filtered page does not scan.
//
// The ordered list of an account's resources is cut into segments of up to 2,048. In its segment a resource has a slot,
// and for every key and every key=value pair (a term) a segment keeps the set of slots that carry it. A filter is then a
// handful of bit operations a segment: segments are visited in order, and the page ends the walk as soon as it is full.
//
// Numbers of segments, keys and pairs are never used twice (autoincrement): a long walk pauses to let others work, and what
// it has looked up must not mean something else afterwards.
import type { Migration } from "../platform/sqlite.ts";

export const TAG_TABLES: readonly Migration[] = [
  `create table resources (
     place integer primary key, -- segment * 2048 + slot
     account_id text not null,
     type text not null,
     id text not null,
     zone_id text not null,
     parent_id text not null,
     tags text not null, -- canonical JSON, so that its hash is the etag
     updated_at_ms integer not null
   ) strict;
   create unique index resources_in_order on resources (account_id, type, id, zone_id, parent_id);

   -- Where each segment starts; it ends where the next one of its account does.
   create table segments (
     segment integer primary key autoincrement,
     account_id text not null,
     type text not null,
     id text not null,
     zone_id text not null,
     parent_id text not null
   ) strict;
   create unique index segments_in_order on segments (account_id, type, id, zone_id, parent_id);

   -- Distinct keys and values with the number of resources that carry them: lists read these, and a query starts with its rarest term.
   -- 'folded' is the text without case, null where that changes nothing.
   create table keys (
     key_id integer primary key autoincrement,
     account_id text not null,
     key text not null,
     folded text,
     resources integer not null
   ) strict;
   create unique index keys_by_text on keys (account_id, key);
   create index keys_by_folded on keys (account_id, folded) where folded is not null;
   create table pairs (
     pair_id integer primary key autoincrement,
     key_id integer not null,
     value text not null,
     folded text,
     resources integer not null
   ) strict;
   create unique index pairs_by_text on pairs (key_id, value);
   create index pairs_by_folded on pairs (key_id, folded) where folded is not null;
   create table value_types (
     key_id integer not null,
     type text not null,
     value text not null,
     resources integer not null,
     primary key (key_id, type, value)
   ) strict, without rowid;

   -- A term is twice a key_id, or twice a pair_id plus one; 0 is every resource.
   create table postings (
     term integer not null,
     segment integer not null,
     slots blob not null,
     primary key (term, segment)
   ) strict, without rowid;

   create table accounts (
     account_id text primary key,
     resources integer not null,
     tags integer not null
   ) strict, without rowid;
   create table zones (zone_id text primary key, account_id text not null) strict, without rowid;`,
];
