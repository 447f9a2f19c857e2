/** Retries: which failed calls are repeated, and after which pause. Pure: the random number is passed in. */

import type { DescMethod } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";

import type { SkeinError } from "./errors.js";

/** The call had no effect, or an unknown one: a repeatable call can be repeated. */
const TRANSIENT: ReadonlySet<Code> = new Set([Code.Unavailable, Code.Canceled]);
/** The call can be repeated after the pause that the server names, if it names one. */
const SERVER_ADVICE: ReadonlySet<Code> = new Set([Code.ResourceExhausted, Code.Aborted]);
/** A stream has no deadline of its own: an operation of the cluster behind it took too long. */
const INTERRUPTED: ReadonlySet<Code> = new Set([...TRANSIENT, Code.DeadlineExceeded]);
/** A stream may break a thousand times, so the doubling of pauses has an end. */
const MAX_DOUBLINGS = 60;
const READ_VERBS = /^(Get|List|BatchGet|Search|Stream)/;
const READS: ReadonlySet<string> = new Set([
  ...["Recall", "CompareEmbeddingModels", "BuildContext", "EmbedText", "Introspect", "TraverseLinks", "FindPaths"],
  ...["FindSimilar", "SuggestLinks", "SpreadActivation", "ExplainScore", "ExplainAccess", "ExportMemories", "ExportSubject"],
  ...["ExportData", "CompileBlocks", "DiffSnapshots", "ReplayRecall", "DiffRecall", "ReplayContext"],
]);

/** How often and how long to try: exponential back-off with jitter, within the call's own deadline. */
export interface RetryPolicy {
  /** Attempts in all; 1 turns retries off. */
  readonly attempts: number;
  readonly firstPauseMs: number;
  readonly maxPauseMs: number;
  /** How long a broken stream tries to resume: longer than a restart of the cluster takes. */
  readonly streamMs: number;
}

export const DEFAULT_RETRIES: RetryPolicy = { attempts: 6, firstPauseMs: 100, maxPauseMs: 5_000, streamMs: 300_000 };

/** Whether a second call of a method has no further effect: it reads, or its request carries a request_id. */
export function isRepeatable(method: DescMethod): boolean {
  return hasRequestId(method) || READ_VERBS.test(method.name) || READS.has(method.name);
}

export function hasRequestId(method: DescMethod): boolean {
  return method.input.field["requestId"] !== undefined;
}

/** Whether a repeatable call may be repeated after this error. */
export function isRetriable(error: SkeinError): boolean {
  return isAdvised(error) || TRANSIENT.has(error.code);
}

/** Whether a stream may be resumed after this error. */
export function isResumable(error: SkeinError): boolean {
  return isAdvised(error) || INTERRUPTED.has(error.code);
}

function isAdvised(error: SkeinError): boolean {
  return SERVER_ADVICE.has(error.code) && error.retryAfterMs !== undefined;
}

/**
 * Milliseconds to wait before the attempt of this number (2 is the first repetition).
 *
 * `random` (0 to 1) spreads the pauses over the upper half of the back-off, so that many callers do not return at the
 * same moment. The server's `retryAfterMs` is added in full.
 */
export function pauseBefore(
  policy: RetryPolicy,
  attempt: number,
  retryAfterMs: number | undefined,
  random: number,
): number {
  const pause = policy.firstPauseMs * 2 ** Math.min(attempt - 2, MAX_DOUBLINGS);
  return (retryAfterMs ?? 0) + Math.min(pause, policy.maxPauseMs) * (0.5 + random / 2);
}

/** Wait; rejects with the signal's reason when it is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
