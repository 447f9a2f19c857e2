/** The typed TypeScript client of a Skein cluster. `skein-client/node` adds gRPC and the credentials of `skein up`. */

export { Code } from "@connectrpc/connect";

export {
  Client,
  type ClientOptions,
  connectHttp,
  ContextLedger,
  type ContextOptions,
  type HttpClientOptions,
  type MemoryInput,
  type MessageInput,
  type RecallOptions,
} from "./client.js";
export { type ErrorDetails, NotConfigured, type Reason, SkeinError, type Violation } from "./errors.js";
export { isRepeatable, type RetryPolicy } from "./retry.js";
export type { Identity } from "./transport.js";
export { memoryFetch, type MemoryOptions, withMemory } from "./with_memory.js";
