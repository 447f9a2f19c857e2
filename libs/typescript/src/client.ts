/** Typed clients of every public service, and short ways to the most used calls. */

import type { DescService, MessageInitShape } from "@bufbuild/protobuf";
import { type CallOptions, type Client as ServiceClient, createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";

import { AuthService } from "./gen/skein/auth/v1/auth_pb.js";
import {
  Branch,
  type BuildContextRequestSchema,
  type BuildContextResponse,
  GatewayService,
  type RecallRequestSchema,
  type RecallResponse,
  type RememberResponse,
} from "./gen/skein/gateway/v1/gateway_pb.js";
import { BlockService } from "./gen/skein/memory/v1/blocks_pb.js";
import { CurationService } from "./gen/skein/memory/v1/curation_pb.js";
import { type Change, HistoryService, type StreamChangesResponse } from "./gen/skein/memory/v1/history_pb.js";
import {
  type Link,
  LinkService,
  type ListLinksRequestSchema,
  type ListMemoriesRequestSchema,
  type Memory,
  type MemorySchema,
  MemoryService,
  OnConflict,
  OnSimilar,
} from "./gen/skein/memory/v1/memory_pb.js";
import { SnapshotService } from "./gen/skein/memory/v1/snapshots_pb.js";
import { type FindSimilarResponse, RecallService, SearchMode } from "./gen/skein/recall/v1/recall_pb.js";
import {
  type ListMessagesRequestSchema,
  type ListSessionsRequestSchema,
  type Message,
  MessageRole,
  type MessageSchema,
  type Session,
  SessionService,
  type StreamMessagesResponse,
} from "./gen/skein/session/v1/session_pb.js";
import { TenancyService } from "./gen/skein/tenancy/v1/tenancy_pb.js";
import { SkeinError } from "./errors.js";
import { DEFAULT_RETRIES, type RetryPolicy } from "./retry.js";
import { resume } from "./streams.js";
import { type Identity, SkeinTransport } from "./transport.js";

const DEFAULT_TIMEOUT_MS = 10_000;
const MODES = { hybrid: SearchMode.HYBRID, keyword: SearchMode.KEYWORD, semantic: SearchMode.SEMANTIC } as const;
const ROLES = {
  user: MessageRole.USER,
  assistant: MessageRole.ASSISTANT,
  system: MessageRole.SYSTEM,
  tool: MessageRole.TOOL,
} as const;
const BRANCHES = {
  memories: Branch.MEMORIES,
  messages: Branch.MESSAGES,
  blocks: Branch.BLOCKS,
  profile: Branch.PROFILE,
  window: Branch.WINDOW,
} as const;

const ON_SIMILAR = { keep: OnSimilar.KEEP, return: OnSimilar.RETURN, reinforce: OnSimilar.REINFORCE } as const;

const ON_CONFLICT = {
  fail: OnConflict.FAIL,
  update: OnConflict.UPDATE,
  return: OnConflict.RETURN,
  supersede: OnConflict.SUPERSEDE,
} as const;

/** The fields of a request or a message, as an object. */
type Fields<T> = Omit<T, "$typeName" | "$unknown">;
/** A page's own parameter, which the iterators manage. */
type Listed<T> = Omit<Fields<T>, "pageToken">;

/** A memory: its content alone, or its fields. */
export type MemoryInput = string | Fields<MessageInitShape<typeof MemorySchema>>;
/** A message: its fields, with the role as a plain name or as a MessageRole. */
export type MessageInput = Omit<Fields<MessageInitShape<typeof MessageSchema>>, "role"> & {
  role: keyof typeof ROLES | MessageRole;
};
/** What `remember` takes beside the memories. */
export interface RememberOptions {
  readonly sessionId?: string;
  readonly messages?: readonly MessageInput[];
  readonly subjectId?: string;
  readonly agentId?: string;
  /** What happens if a stored memory says the same. Left out, the stored one is returned to a caller who may read it. */
  readonly onSimilar?: keyof typeof ON_SIMILAR;
  /** What happens with a fact whose key another fact of the person has; "fail", the default, refuses the call. */
  readonly onConflict?: keyof typeof ON_CONFLICT;
  readonly requestId?: string;
}
/** What `recall` takes beside the query: the fields of RecallRequest, with plain names for mode and branches. */
export type RecallOptions = Omit<Fields<MessageInitShape<typeof RecallRequestSchema>>, "query" | "mode" | "branches"> & {
  mode?: keyof typeof MODES | SearchMode;
  branches?: readonly (keyof typeof BRANCHES | Branch)[];
};
/** What `buildContext` takes beside the query: the options of `recall`, and those of the text. */
export type ContextOptions = RecallOptions &
  Omit<Fields<MessageInitShape<typeof BuildContextRequestSchema>>, "recall">;

/** Errors after which a ledger has a new first text. */
const BEGIN_ANEW: readonly string[] = ["CONTEXT_LEDGER_NOT_FOUND", "CONTEXT_LEDGER_CHANGED"];

/** Where a client calls, and how. */
export interface ClientOptions extends Identity {
  /** Milliseconds for one call, retries included; 10,000 when left out. Each call may set its own. */
  readonly timeoutMs?: number | undefined;
  readonly retries?: Partial<RetryPolicy> | undefined;
}

/** The options of a client over HTTP. */
export interface HttpClientOptions extends ClientOptions {
  /** The gateway's HTTP port, such as "https://memory.example". */
  readonly baseUrl: string;
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/**
 * A client of a cluster.
 *
 * The attributes are generated clients, one for each public service: `skein.memories.getMemory({ memoryId })`. Every call
 * carries the credential and a deadline, is repeated when that is safe, and rejects with a SkeinError when it fails.
 */
export class Client {
  readonly auth: ServiceClient<typeof AuthService>;
  readonly tenancy: ServiceClient<typeof TenancyService>;
  readonly sessions: ServiceClient<typeof SessionService>;
  readonly memories: ServiceClient<typeof MemoryService>;
  readonly links: ServiceClient<typeof LinkService>;
  readonly blocks: ServiceClient<typeof BlockService>;
  readonly curation: ServiceClient<typeof CurationService>;
  readonly snapshots: ServiceClient<typeof SnapshotService>;
  /** What happened; `streamChanges` and `followSession` resume their streams by themselves. */
  readonly history: ServiceClient<typeof HistoryService>;
  /** The search service by itself; `recall` asks the gateway, which searches everything at once. */
  readonly index: ServiceClient<typeof RecallService>;
  readonly gateway: ServiceClient<typeof GatewayService>;
  readonly #transport: Transport;
  readonly #retries: RetryPolicy;
  readonly #close: () => void;

  /** Call through the transport of a protocol; `close` ends its connections. `connect` and `connectHttp` are the short ways. */
  constructor(transport: Transport, options: ClientOptions, close: () => void = () => undefined) {
    this.#retries = { ...DEFAULT_RETRIES, ...options.retries };
    this.#transport = new SkeinTransport(transport, options, options.timeoutMs ?? DEFAULT_TIMEOUT_MS, this.#retries);
    this.#close = close;
    this.auth = this.service(AuthService);
    this.tenancy = this.service(TenancyService);
    this.sessions = this.service(SessionService);
    this.memories = this.service(MemoryService);
    this.links = this.service(LinkService);
    this.blocks = this.service(BlockService);
    this.curation = this.service(CurationService);
    this.snapshots = this.service(SnapshotService);
    this.history = this.service(HistoryService);
    this.index = this.service(RecallService);
    this.gateway = this.service(GatewayService);
  }

  /** Return the generated client of any other service of the contract. */
  service<T extends DescService>(description: T): ServiceClient<T> {
    return createClient(description, this.#transport);
  }

  /** End the connections, without which a program in Node does not exit. */
  close(): void {
    this.#close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /**
   * Store memories (a text is a note) and append messages to a session, which the first message opens.
   *
   * `subjectId` names the person whom all of it is about, and `agentId` the agent: of items without their own, and of a
   * new session. Memories are stored first. If the messages are refused after that, correct them and repeat the call with the error's
   * `requestId`: the memories are not stored twice.
   */
  async remember(
    memories: MemoryInput | readonly MemoryInput[],
    options: RememberOptions = {},
    call?: CallOptions,
  ): Promise<RememberResponse> {
    const items: readonly MemoryInput[] = isList(memories) ? memories : [memories];
    const request = {
      memories: items.map((item) => (typeof item === "string" ? { content: item } : item)),
      messages: (options.messages ?? []).map(({ role, ...fields }) => ({
        ...fields,
        role: typeof role === "string" ? ROLES[role] : role,
      })),
      sessionId: options.sessionId ?? "",
      subjectId: options.subjectId ?? "",
      agentId: options.agentId ?? "",
      onSimilar: options.onSimilar === undefined ? OnSimilar.UNSPECIFIED : ON_SIMILAR[options.onSimilar],
      onConflict: ON_CONFLICT[options.onConflict ?? "fail"],
      requestId: options.requestId ?? "",
    };
    return await this.gateway.remember(request, call);
  }

  /** Return memories, messages and blocks for a query, best first; `incomplete` names the branches that failed. */
  async recall(query: string, options: RecallOptions = {}, call?: CallOptions): Promise<RecallResponse> {
    return await this.gateway.recall(recallRequest(query, options), call);
  }

  /** Return the best hits for a query as one text for a prompt, within `tokenBudget` tokens (0: 2,000). */
  async buildContext(query: string, options: ContextOptions = {}, call?: CallOptions): Promise<BuildContextResponse> {
    return await this.gateway.buildContext(contextRequest(query, options), call);
  }

  /**
   * Return the context of one conversation, which keeps the prompt cache of a model's provider. `ledgerId` names the
   * conversation, such as its session.
   */
  contextLedger(ledgerId: string, options: ContextOptions = {}): ContextLedger {
    return new ContextLedger(this, ledgerId, options);
  }

  /** Return the memories and messages most similar to a stored item, best first. */
  async findSimilar(
    itemId: string,
    options: { subjectId?: string; limit?: number; mode?: keyof typeof MODES | SearchMode; minSimilarity?: number } = {},
    call?: CallOptions,
  ): Promise<FindSimilarResponse> {
    return await this.index.findSimilar({ ...options, itemId, mode: searchMode(options.mode) }, call);
  }

  /** Yield every memory that passes the filter, newest first. */
  listMemories(request: Listed<MessageInitShape<typeof ListMemoriesRequestSchema>> = {}): AsyncGenerator<Memory> {
    return pages((pageToken) => this.memories.listMemories({ ...request, pageToken }), (page) => page.memories);
  }

  /** Yield every link of one memory, newest first. */
  listLinks(request: Listed<MessageInitShape<typeof ListLinksRequestSchema>>): AsyncGenerator<Link> {
    return pages((pageToken) => this.links.listLinks({ ...request, pageToken }), (page) => page.links);
  }

  /** Yield every session, newest update first. */
  listSessions(request: Listed<MessageInitShape<typeof ListSessionsRequestSchema>> = {}): AsyncGenerator<Session> {
    return pages((pageToken) => this.sessions.listSessions({ ...request, pageToken }), (page) => page.sessions);
  }

  /** Yield every message of one session, in order of sequence. */
  listMessages(request: Listed<MessageInitShape<typeof ListMessagesRequestSchema>>): AsyncGenerator<Message> {
    return pages((pageToken) => this.sessions.listMessages({ ...request, pageToken }), (page) => page.messages);
  }

  /**
   * Yield the changes of the tenant's memory after a position, or from now on without one.
   *
   * The iterator has no end and resumes broken streams. Keep the position of the last change to continue later.
   */
  streamChanges(
    options: {
      position?: string;
      eventTypes?: string[];
      entityType?: string;
      entityId?: string;
      signal?: AbortSignal;
    } = {},
  ): AsyncGenerator<Change, void, undefined> {
    const { position: start = "", signal, ...filter } = options;
    let position = start;
    const cursor = {
      open: (abort: AbortSignal) => this.history.streamChanges({ position, filter }, { signal: abort }),
      advance: (response: StreamChangesResponse) => {
        position = response.position;
        return response.change;
      },
      isOver: () => false,
    };
    return resume(cursor, this.#retries, signal);
  }

  /** Yield a session's messages as they are appended, until it ends; without `afterSequence` from now on. */
  followSession(
    sessionId: string,
    options: { afterSequence?: bigint; signal?: AbortSignal } = {},
  ): AsyncGenerator<Message, void, undefined> {
    let afterSequence = options.afterSequence;
    let isOver = false;
    const cursor = {
      open: (signal: AbortSignal) => {
        const request = afterSequence === undefined ? { sessionId } : { sessionId, afterSequence };
        return this.sessions.streamMessages(request, { signal });
      },
      advance: (response: StreamMessagesResponse) => {
        afterSequence = response.sequence;
        isOver = response.isOver;
        return response.message;
      },
      isOver: () => isOver,
    };
    return resume(cursor, this.#retries, options.signal);
  }
}

/** Call a cluster over HTTP, in any runtime that has `fetch`: browsers, Node, Deno, workers. */
export function connectHttp(options: HttpClientOptions): Client {
  const { baseUrl, fetch } = options;
  const transport = createConnectTransport({
    baseUrl,
    // As numbers of JSON, integers above 2^53 would lose digits on their way through other programs.
    useBinaryFormat: true,
    ...(fetch === undefined ? {} : { fetch }),
  });
  return new Client(transport, options);
}

function contextRequest(query: string, options: ContextOptions): MessageInitShape<typeof BuildContextRequestSchema> {
  const {
    tokenBudget = 0,
    sessionId = "",
    format = 0,
    order = 0,
    citeOrigins = false,
    ledgerId = "",
    ledgerRevision = 0n,
    requestId = "",
    ...recall
  } = options;
  const text = { tokenBudget, sessionId, format, order, citeOrigins, ledgerId, ledgerRevision, requestId };
  return { ...text, recall: recallRequest(query, recall) };
}

function recallRequest(query: string, options: RecallOptions): MessageInitShape<typeof RecallRequestSchema> {
  const { mode, branches = [], ...fields } = options;
  return {
    ...fields,
    query,
    mode: searchMode(mode),
    branches: branches.map((branch) => (typeof branch === "string" ? BRANCHES[branch] : branch)),
  };
}

function searchMode(mode: keyof typeof MODES | SearchMode = SearchMode.UNSPECIFIED): SearchMode {
  return typeof mode === "string" ? MODES[mode] : mode;
}

function isList<T>(value: T | readonly T[]): value is readonly T[] {
  return Array.isArray(value);
}

async function* pages<Page extends { nextPageToken: string }, Item>(
  list: (pageToken: string) => Promise<Page>,
  items: (page: Page) => Item[],
): AsyncGenerator<Item, void, undefined> {
  let pageToken = "";
  do {
    const page = await list(pageToken);
    yield* items(page);
    pageToken = page.nextPageToken;
  } while (pageToken);
}

/**
 * The context of one conversation, of which each turn sends what is new alone. `text` is what the prompt has. A turn adds
 * to its end and leaves every earlier character as it is, unless its answer names a `rebase`: then the text is a new one.
 * Take one turn at a time.
 */
export class ContextLedger {
  /** What each turn since the last first text added: a list of parts for providers that take several. */
  readonly parts: string[] = [];
  #revision = 0n;

  constructor(
    private readonly client: Client,
    private readonly ledgerId: string,
    private readonly options: ContextOptions,
  ) {}

  get text(): string {
    return this.parts.join("");
  }

  /** Bring the text up to date for a query. A ledger that has expired, or that another turn changed, begins anew. */
  async turn(query: string, call?: CallOptions): Promise<BuildContextResponse> {
    let response: BuildContextResponse;
    try {
      response = await this.build(query, call);
    } catch (error) {
      if (!(error instanceof SkeinError) || !BEGIN_ANEW.includes(error.reason ?? "")) {
        throw error;
      }
      this.#revision = 0n;
      response = await this.build(query, call);
    }
    if (response.rebase) {
      this.parts.length = 0;
    }
    if (response.text) {
      this.parts.push(response.text);
    }
    this.#revision = response.ledgerRevision;
    return response;
  }

  private async build(query: string, call?: CallOptions): Promise<BuildContextResponse> {
    const options = { ...this.options, ledgerId: this.ledgerId, ledgerRevision: this.#revision };
    return await this.client.buildContext(query, options, call);
  }
}
