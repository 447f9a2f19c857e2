/** The client in Node: gRPC, and the endpoint and key of the environment. */

import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

import { Client, type ClientOptions } from "./client.js";
import { NotConfigured } from "./errors.js";

export * from "./index.js";

const DEFAULT_ENDPOINT = "127.0.0.1:50050";
/** A response may be larger than the largest request that the cluster accepts. */
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;
/** A connection whose peer is gone is detected within 32 seconds and replaced. */
const KEEPALIVE = { pingIntervalMs: 12_000, pingTimeoutMs: 20_000 };

/** The options of a client over gRPC. */
export interface GrpcClientOptions extends ClientOptions {
  /** "host:port", or "https://host:port" for TLS. */
  readonly endpoint: string;
  /** A file of certificates (PEM) to trust at a TLS endpoint, in place of Node's own. */
  readonly caFile?: string | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Call a cluster over gRPC. Close the client at the end. */
export function connect(options: GrpcClientOptions): Client {
  const { endpoint, caFile } = options;
  const baseUrl = endpoint.includes("://") ? endpoint.replace(/\/+$/, "") : `http://${endpoint}`;
  const tls = caFile === undefined ? {} : { ca: read(caFile, "SKEIN_CA_FILE") };
  const sessionManager = new Http2SessionManager(baseUrl, KEEPALIVE, tls);
  const transport = createGrpcTransport({ baseUrl, sessionManager, readMaxBytes: MAX_RESPONSE_BYTES });
  return new Client(transport, options, () => sessionManager.abort());
}

/**
 * Use SKEIN_ENDPOINT and SKEIN_API_KEY (or SKEIN_API_KEY_FILE), SKEIN_TENANT_ID, SKEIN_SPACE_ID and SKEIN_CA_FILE.
 *
 * Missing values come from the credentials.json in the data folder of `skein up`. Its key is sent to its own endpoint
 * only, so that no other cluster sees it. Throws NotConfigured.
 */
export function fromEnvironment(
  options: Partial<GrpcClientOptions> = {},
  environment: Environment = process.env,
): Client {
  const path = join(dataDir(environment), "credentials.json");
  const credentials = readCredentials(path);
  const endpoint = environment["SKEIN_ENDPOINT"] || credentials.endpoint || DEFAULT_ENDPOINT;
  const ownKey = endpoint === credentials.endpoint ? credentials.api_key : undefined;
  const apiKey = readKey(environment) || ownKey;
  if (!apiKey && options.apiKey === undefined) {
    throw new NotConfigured(`No key for ${endpoint}: set SKEIN_API_KEY, or run \`skein up\`, which writes ${path}.`);
  }
  const tenantId = environment["SKEIN_TENANT_ID"];
  const spaceId = environment["SKEIN_SPACE_ID"];
  const caFile = environment["SKEIN_CA_FILE"] || undefined;
  return connect({ endpoint, apiKey: apiKey ?? "", tenantId, spaceId, caFile, ...options });
}

function dataDir(environment: Environment): string {
  const chosen = environment["SKEIN_DATA_DIR"];
  if (chosen) return chosen.replace(/^~(?=\/|$)/, homedir());
  return join(environment["XDG_DATA_HOME"] || join(homedir(), ".local", "share"), "skein");
}

function readKey(environment: Environment): string {
  const path = environment["SKEIN_API_KEY_FILE"];
  const key = environment["SKEIN_API_KEY"] || (path ? read(path, "SKEIN_API_KEY_FILE") : "");
  return key.trim();
}

function read(path: string, setting: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new NotConfigured(`Cannot read the file that ${setting} names.`, { cause });
  }
}

function readCredentials(path: string): { endpoint?: string; api_key?: string } {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return {};
    throw new NotConfigured(`Cannot read ${path}. Set SKEIN_ENDPOINT and SKEIN_API_KEY instead.`, { cause });
  }
}
