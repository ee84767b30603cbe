// Whatever the chunks, the kept ends are the stream's own ends.
import { expect, test } from "bun:test";
import { createCapture } from "../../src/gateway/capture.ts";

const stream = Uint8Array.from({ length: 1_000 }, (_, index) => index % 251);

test.each([1, 2, 7, 64, 99, 100, 101, 150, 151, 333, 1_000])("chunks of %d bytes", (size) => {
  for (const length of [0, 1, 99, 100, 101, 149, 150, 151, 200, 777, 1_000]) {
    const capture = createCapture(100, 50);
    for (let at = 0; at < length; at += size) capture.add(stream.subarray(at, Math.min(length, at + size)));
    expect(capture.total).toBe(length);
    expect([...capture.head()]).toEqual([...stream.subarray(0, Math.min(100, length))]);
    const tail = length <= 100 ? undefined : [...stream.subarray(Math.max(100, length - 50), length)];
    expect(capture.tail() && [...(capture.tail() ?? [])]).toEqual(tail);
  }
});

test("keeps no tail when none is wanted", () => {
  const capture = createCapture(10, 0);
  capture.add(stream);
  expect([capture.head().byteLength, capture.tail(), capture.total]).toEqual([10, undefined, 1_000]);
});
