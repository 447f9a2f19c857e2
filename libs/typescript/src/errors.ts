/** Errors of calls, with the details that the server sent. */

import { Code, ConnectError } from "@connectrpc/connect";

import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import type { ErrorReason } from "./gen/skein/errors/v1/errors_pb.js";

/** The documented reasons, by name. A newer cluster may send a reason that this version does not list. */
export type Reason = Exclude<keyof typeof ErrorReason, "UNSPECIFIED">;

/** One invalid field of a request. */
export interface Violation {
  /** Path of the field, such as "memory.tags[2]"; empty when the rule concerns the request as a whole. */
  readonly field: string;
  readonly description: string;
}

/** The details of an error; all of them are optional. */
export interface ErrorDetails {
  readonly reason?: Reason | undefined;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly violations?: readonly Violation[];
  readonly retryAfterMs?: number | undefined;
  readonly requestId?: string;
  readonly cause?: unknown;
}

/** A call that failed. `code` is the status, `reason` the exact case. */
export class SkeinError extends Error {
  override readonly name = "SkeinError";
  readonly code: Code;
  /** Undefined when no Skein service answered, such as when the connection failed. */
  readonly reason: Reason | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly Violation[];
  /** Milliseconds to wait before a retry can succeed; undefined when the server named none. */
  readonly retryAfterMs: number | undefined;
  /** Finds the call in the cluster's logs and traces. */
  readonly requestId: string;

  constructor(message: string, code: Code, details: ErrorDetails = {}) {
    super(message, { cause: details.cause });
    this.code = code;
    this.reason = details.reason;
    this.metadata = details.metadata ?? {};
    this.violations = details.violations ?? [];
    this.retryAfterMs = details.retryAfterMs;
    this.requestId = details.requestId ?? "";
  }
}

/** The endpoint or the key is missing or unusable; the message says which setting to change. */
export class NotConfigured extends Error {
  override readonly name = "NotConfigured";
}

/** Turn what a transport throws into a SkeinError. */
export function errorFromCall(cause: unknown, requestId: string): SkeinError {
  const error = ConnectError.from(cause);
  const info = error.findDetails(ErrorInfoSchema)[0];
  const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  return new SkeinError(error.rawMessage, info === undefined ? transportCode(error) : error.code, {
    reason: info?.reason as Reason | undefined,
    metadata: info?.metadata ?? {},
    violations: error
      .findDetails(BadRequestSchema)
      .flatMap((detail) => detail.fieldViolations)
      .map(({ field, description }) => ({ field, description })),
    retryAfterMs: delay === undefined ? undefined : Number(delay.seconds) * 1000 + delay.nanos / 1e6,
    requestId,
    cause,
  });
}

/** A broken connection is "aborted" in Node and "unknown" in browsers; no service has sent these. */
function transportCode(error: ConnectError): Code {
  const isBroken = error.code === Code.Aborted || (error.code === Code.Unknown && error.cause instanceof TypeError);
  return isBroken ? Code.Unavailable : error.code;
}
