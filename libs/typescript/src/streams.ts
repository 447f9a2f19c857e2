/** Streams that resume at their position when the connection breaks, or when the cluster ends an old stream. */

import { SkeinError } from "./errors.js";
import { isResumable, pauseBefore, type RetryPolicy, sleep } from "./retry.js";

/** The cluster sends a heartbeat every 15 seconds; a connection that is silent for longer is taken for dead. */
const SILENCE_MS = 60_000;

/** The position of a stream. */
export interface Cursor<Response, Item> {
  /** Open the stream at the position. */
  open(signal: AbortSignal): AsyncIterable<Response>;
  /** Move the position; return the item, or undefined for a heartbeat. */
  advance(response: Response): Item | undefined;
  /** Whether there is nothing more to come. */
  isOver(): boolean;
}

/** Yield the items until the stream is over. Throws SkeinError after `policy.streamMs` of failures. */
export async function* resume<Response, Item>(
  cursor: Cursor<Response, Item>,
  policy: RetryPolicy,
  signal?: AbortSignal,
): AsyncGenerator<Item, void, undefined> {
  let failures = 0;
  let firstFailure = 0;
  while (!cursor.isOver()) {
    signal?.throwIfAborted();
    const connection = new AbortController();
    const stop = (): void => connection.abort(signal?.reason);
    signal?.addEventListener("abort", stop, { once: true });
    let silence: ReturnType<typeof setTimeout> | undefined;
    const watch = (): void => {
      clearTimeout(silence);
      silence = setTimeout(() => connection.abort(), SILENCE_MS);
    };
    try {
      watch();
      for await (const response of cursor.open(connection.signal)) {
        failures = 0;
        const item = cursor.advance(response);
        if (item !== undefined) {
          // The caller may take its time.
          clearTimeout(silence);
          yield item;
        }
        watch();
      }
    } catch (error) {
      signal?.throwIfAborted();
      const isSilent = connection.signal.aborted;
      if (failures++ === 0) firstFailure = performance.now();
      const isLate = performance.now() - firstFailure >= policy.streamMs;
      const mayResume = isSilent || (error instanceof SkeinError && isResumable(error));
      if (!mayResume || isLate || policy.attempts === 1) throw error;
      const retryAfterMs = error instanceof SkeinError ? error.retryAfterMs : undefined;
      await sleep(pauseBefore(policy, failures + 1, retryAfterMs, Math.random()), signal);
    } finally {
      clearTimeout(silence);
      signal?.removeEventListener("abort", stop);
      connection.abort();
    }
  }
}
