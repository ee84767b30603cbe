// The answer of a streaming callable, chunk by chunk.

export type StreamSink = { chunk(value: unknown): void; end(value: unknown): void; error(message: string): void };

export class StreamingResponse {
  readonly #sink: StreamSink;
  #closed = false;

  constructor(sink: StreamSink) {
    this.#sink = sink;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** `false` when the stream has ended: nobody would hear it. */
  send(chunk: unknown): boolean {
    if (this.#closed) return false;
    this.#sink.chunk(chunk);
    return true;
  }

  end(finalChunk?: unknown): boolean {
    return this.#finish(() => this.#sink.end(finalChunk));
  }

  error(message: string): boolean {
    return this.#finish(() => this.#sink.error(message));
  }

  #finish(last: () => void): boolean {
    if (this.#closed) return false;
    this.#closed = true;
    last();
    return true;
  }
}
