/** A transport that adds identity, deadline, request id, retries and typed errors to every call. */

import {
  clone,
  create,
  type DescMessage,
  type DescMethodStreaming,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import type { ContextValues, StreamResponse, Transport, UnaryResponse } from "@connectrpc/connect";

import { errorFromCall, NotConfigured, type SkeinError } from "./errors.js";
import { hasRequestId, isRepeatable, isRetriable, pauseBefore, type RetryPolicy, sleep } from "./retry.js";

const REQUEST_ID = "skein-request-id";
const REVISION = "skein-revision";
const MIN_REVISION = "skein-min-revision";

/** Who calls, and how long a call may take. */
export interface Identity {
  /** An API key, an operator's key, or an access token. */
  readonly apiKey: string;
  /** For an operator's key: the tenant to act in. */
  readonly tenantId?: string | undefined;
  /** Claims, which the access log records beside the credential's own agent. They grant no permission. */
  readonly agentId?: string | undefined;
  readonly sessionId?: string | undefined;
  /** The space in which calls act; without it reads reach all that the caller sees, and writes the default space. */
  readonly spaceId?: string | undefined;
}

/** Wraps the transport of a protocol. */
export class SkeinTransport implements Transport {
  readonly #inner: Transport;
  readonly #headers: readonly [string, string][];
  readonly #timeoutMs: number;
  readonly #retries: RetryPolicy;
  // The newest revision in the answers. The client sends it, so that its reads never go backwards, whichever server
  // answers. Revisions are texts of one length that sort by age.
  #revision = "0".repeat(16);

  constructor(inner: Transport, identity: Identity, timeoutMs: number, retries: RetryPolicy) {
    this.#inner = inner;
    this.#timeoutMs = timeoutMs;
    this.#retries = retries;
    if (!/^[\x20-\x7e]+$/.test(identity.apiKey)) {
      throw new NotConfigured("The API key is empty or contains a character that no key has. Copy the key again.");
    }
    const optional: [string, string | undefined][] = [
      ["skein-tenant-id", identity.tenantId],
      ["skein-agent-id", identity.agentId],
      ["skein-session-id", identity.sessionId],
      ["skein-space-id", identity.spaceId],
    ];
    this.#headers = [
      ["authorization", `Bearer ${identity.apiKey}`],
      ...optional.flatMap(([name, value]): [string, string][] => (value ? [[name, value]] : [])),
    ];
  }

  /** Call within `timeoutMs`, retries included. */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
    header: HeadersInit | undefined,
    input: MessageInitShape<I>,
    contextValues?: ContextValues,
  ): Promise<UnaryResponse<I, O>> {
    const headers = this.#headersOf(header);
    const { request, requestId } = withRequestId(method, input, headers);
    const deadline = performance.now() + (timeoutMs ?? this.#timeoutMs);
    for (let attempt = 1; ; attempt++) {
      const remainingMs = Math.max(1, Math.ceil(deadline - performance.now()));
      if (!header || !new Headers(header).has(MIN_REVISION)) headers.set(MIN_REVISION, this.#revision);
      try {
        const response = await this.#inner.unary(method, signal, remainingMs, headers, request, contextValues);
        this.#observe(response.header, response.trailer);
        return response;
      } catch (cause) {
        signal?.throwIfAborted();
        const error = this.#error(cause, requestId);
        const pauseMs = pauseBefore(this.#retries, attempt + 1, error.retryAfterMs, Math.random());
        const isLast = attempt >= this.#retries.attempts || performance.now() + pauseMs >= deadline;
        if (isLast || !isRepeatable(method) || !isRetriable(error)) throw error;
        await sleep(pauseMs, signal);
      }
    }
  }

  /** Open a stream. It does not retry, because only its caller knows the position. */
  async stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodStreaming<I, O>,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
    header: HeadersInit | undefined,
    input: AsyncIterable<MessageInitShape<I>>,
    contextValues?: ContextValues,
  ): Promise<StreamResponse<I, O>> {
    const headers = this.#headersOf(header);
    const requestId = headers.get(REQUEST_ID) ?? newId();
    headers.set(REQUEST_ID, requestId);
    try {
      const response = await this.#inner.stream(method, signal, timeoutMs, headers, input, contextValues);
      return { ...response, message: this.#messages(response.message, signal, requestId) };
    } catch (cause) {
      signal?.throwIfAborted();
      throw this.#error(cause, requestId);
    }
  }

  async *#messages<T>(messages: AsyncIterable<T>, signal: AbortSignal | undefined, requestId: string) {
    try {
      yield* messages;
    } catch (cause) {
      signal?.throwIfAborted();
      throw this.#error(cause, requestId);
    }
  }

  #headersOf(header: HeadersInit | undefined): Headers {
    const headers = new Headers(header);
    for (const [name, value] of this.#headers) if (!headers.has(name)) headers.set(name, value);
    return headers;
  }

  #error(cause: unknown, requestId: string): SkeinError {
    const error = errorFromCall(cause, requestId);
    // An error shows a state too, and the next read must not show an older one.
    const metadata: unknown = cause instanceof Error && "metadata" in cause ? cause.metadata : undefined;
    if (metadata instanceof Headers) this.#observe(metadata);
    return error;
  }

  #observe(...metadata: Headers[]): void {
    for (const headers of metadata) {
      const revision = headers.get(REVISION);
      if (revision !== null && revision > this.#revision) this.#revision = revision;
    }
  }
}

/** Give a write its request_id and the call its id, the same in every attempt. */
function withRequestId<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  input: MessageInitShape<I>,
  headers: Headers,
): { request: MessageShape<I>; requestId: string } {
  const chosen = headers.get(REQUEST_ID);
  const requestId = chosen ?? newId();
  headers.set(REQUEST_ID, requestId);
  const message = create(method.input, input);
  if (!hasRequestId(method) || (message as { requestId?: string }).requestId) return { request: message, requestId };
  // A copy: the caller may send the same message again, as another write.
  const request = clone(method.input, message);
  // A caller may use one id in the logs for several calls, and each of them must have its effect.
  (request as { requestId?: string }).requestId = chosen === null ? requestId : newId();
  return { request, requestId };
}

/** A random id. `randomUUID` is missing on pages that came over plain HTTP. */
function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
