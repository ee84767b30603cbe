// Schema pieces that several routes share.
import { Kind, type TSchema, TypeRegistry, Type as t } from "@sinclair/typebox";

TypeRegistry.Set<{ enum: readonly string[] }>("OneOf", (schema, value) => schema.enum.some((one) => one === value));

/** One of these words: typed by them, checked, and an `enum` in the OpenAPI document. */
export const oneOf = <T extends string>(values: readonly T[], options: Record<string, unknown> = {}) =>
  t.Unsafe<T>({ ...options, [Kind]: "OneOf", type: "string", enum: [...values] });

/** For request bodies: an unknown key is a mistake of the caller that we say, not one that we swallow. */
export const strict = { additionalProperties: false } as const;

/** What people call a thing. It is printed on terminals and in pages, so no control character. */
export const name = (example: string) =>
  t.String({ minLength: 1, maxLength: 100, pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]*$", examples: [example] });

export const Time = t.String({ format: "date-time", examples: ["2027-01-01T00:00:00.000Z"] });

export const toTime = (ms: number): string => new Date(ms).toISOString();

/** For `detail.requestBody` of a route that reads its body itself. The plugin's types know 3.0; our document is 3.1. */
export const jsonBody = (schema: TSchema) => ({
  required: true,
  content: { "application/json": { schema: schema as object } },
});
