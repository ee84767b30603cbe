// The wire of tags: schemas with worked examples. They are the document; the bodies are checked under the interface's own codes.
import { type Static, type TSchema, Type as t } from "@sinclair/typebox";
import { Ok } from "../platform/envelope.ts";
import type { ResourceTypes } from "./resource-types.ts";
import type { Tagged } from "./store.ts";

const TagMap = t.Record(t.String(), t.String(), { examples: [{ environment: "production", team: "engineering" }] });
const Cursor = t.Union([t.String(), t.Null()]);

export const TaggedResource = t.Object({
  id: t.String({ examples: ["checkout"] }),
  type: t.String({ examples: ["worker"] }),
  name: t.String({ description: "the resource's own name where we know it, else its id", examples: ["checkout"] }),
  tags: TagMap,
  etag: t.String({ examples: ["v1:4A2EQwB9GS6VEwLXh5kY3Q"] }),
  zone_id: t.Optional(t.String()),
  worker_id: t.Optional(t.String()),
  access_application_id: t.Optional(t.String()),
  tags_updated_at: t.String({ format: "date-time", examples: ["2027-01-01T00:00:00.000Z"] }),
});
export type TaggedResource = Static<typeof TaggedResource>;

export const PageInfo = t.Object({
  count: t.Integer({ description: "how many are on this page" }),
  cursor: Cursor,
  cursors: t.Object({ after: Cursor }),
});

export const One = Ok(TaggedResource);
export const pageOf = <T extends TSchema>(item: T) =>
  t.Object({ ...Ok(t.Array(item)).properties, result_info: PageInfo });
export const Bulk = Ok(t.Array(TaggedResource));
export const Imported = Ok(t.Object({ resources: t.Integer({ examples: [1200] }) }));
export const KeySummary = t.Object({
  key: t.String({ examples: ["environment"] }),
  values: t.Array(t.String(), { examples: [["production", "staging"]] }),
  truncated: t.Optional(
    t.Literal(true, { description: "the key has more than 1,000 values; its own list has them all" }),
  ),
});

const Parents = {
  worker_id: t.Optional(t.String({ description: "needed for worker_version" })),
  access_application_id: t.Optional(t.String({ description: "needed for access_application_policy" })),
};
const zoneField = { zone_id: t.Optional(t.String({ description: "needed for a type that lives in a zone" })) };

const reference = (type: string, id: string) => ({
  resource_type: t.String({ examples: [type] }),
  resource_id: t.String({ minLength: 1, maxLength: 1_024, examples: [id] }),
});
const example = (type: string, id: string) => ({ resource_type: type, resource_id: id });
const EXAMPLE_TAGS = { environment: "production", team: "engineering" };

/** One pair of examples for each level, so that what one operation writes the next one reads. */
export const EXAMPLES = { account: ["worker", "checkout"], zone: ["dns_record", "www"] } as const;

export function bodiesOf(level: keyof typeof EXAMPLES) {
  const [type, id] = EXAMPLES[level];
  const fields = { ...reference(type, id), ...Parents };
  return {
    set: t.Object({ ...fields, tags: TagMap }, { examples: [{ ...example(type, id), tags: EXAMPLE_TAGS }] }),
    patch: t.Object(
      { ...fields, tags: t.Record(t.String(), t.Union([t.String(), t.Null()])) },
      { examples: [{ ...example(type, id), tags: { team: "platform", temporary: null } }] },
    ),
    remove: t.Object(fields, { examples: [example(type, id)] }),
  };
}

const BulkItem = t.Object({
  ...reference("worker", "checkout"),
  ...Parents,
  ...zoneField,
  tags: TagMap,
  if_match: t.Optional(t.String({ description: "as the If-Match header of a single set" })),
});
const BULK_EXAMPLE = [
  { ...example("worker", "checkout"), tags: EXAMPLE_TAGS },
  { ...example("queue", "orders"), tags: { environment: "production" } },
];
export const BulkSet = t.Object(
  { resources: t.Array(BulkItem, { minItems: 1, maxItems: 1_000 }) },
  { examples: [{ resources: BULK_EXAMPLE }] },
);
export const NDJSON_EXAMPLE = `${BULK_EXAMPLE.map((line) => JSON.stringify(line)).join("\n")}\n`;

/** As the interface answers: `id` and `type` here, although a request says `resource_id` and `resource_type`. */
export function toResource(
  { id, type, name, tags, etag, updatedAtMs, ...place }: Tagged,
  types: ResourceTypes,
): TaggedResource {
  return {
    id,
    type,
    name,
    tags,
    etag,
    ...toPlace({ type, ...place }, types),
    tags_updated_at: new Date(updatedAtMs).toISOString(),
  };
}

/** A line of an export: what an import takes. */
export function toLine({ type, id, tags, ...place }: Tagged, types: ResourceTypes): string {
  return `${JSON.stringify({ ...example(type, id), ...toPlace({ type, ...place }, types), tags })}\n`;
}

function toPlace({ type, zoneId, parentId }: { type: string; zoneId: string; parentId: string }, types: ResourceTypes) {
  const parent = types.get(type)?.parent;
  return { ...(zoneId !== "" && { zone_id: zoneId }), ...(parent && { [parent]: parentId }) };
}
