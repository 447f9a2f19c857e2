// Uses the TypeScript client against a running cluster, one step in each run; says in the end what it saw. Checked by
// the compiler before it runs. For what only the test can do it asks by a line on its output ({"ask": …}).
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline/promises";

import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import { generateText, streamText } from "ai";
import OpenAI from "openai";
import { Code, connectHttp, isRepeatable, memoryFetch, type Reason, SkeinError, withMemory } from "skein-client";
import { connect, fromEnvironment } from "skein-client/node";
import { BlockService } from "skein-client/skein/memory/v1/blocks_pb";
import { file_skein_auth_v1_accounts } from "skein-client/skein/auth/v1/accounts_pb";
import { file_skein_auth_v1_auth } from "skein-client/skein/auth/v1/auth_pb";
import { file_skein_auth_v1_oauth } from "skein-client/skein/auth/v1/oauth_pb";
import { file_skein_gateway_v1_gateway } from "skein-client/skein/gateway/v1/gateway_pb";
import { file_skein_memory_v1_blocks } from "skein-client/skein/memory/v1/blocks_pb";
import { file_skein_memory_v1_curation } from "skein-client/skein/memory/v1/curation_pb";
import { file_skein_memory_v1_history } from "skein-client/skein/memory/v1/history_pb";
import { file_skein_memory_v1_memory, Scope } from "skein-client/skein/memory/v1/memory_pb";
import { file_skein_memory_v1_snapshots } from "skein-client/skein/memory/v1/snapshots_pb";
import { file_skein_recall_v1_recall } from "skein-client/skein/recall/v1/recall_pb";
import { file_skein_session_v1_session } from "skein-client/skein/session/v1/session_pb";
import { file_skein_tenancy_v1_tenancy } from "skein-client/skein/tenancy/v1/tenancy_pb";

const { STEP = "", ENDPOINT = "", ORIGIN = "", KEY = "", MODEL = "" } = process.env;
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const FILES = [
  ...[file_skein_auth_v1_accounts, file_skein_auth_v1_auth, file_skein_auth_v1_oauth, file_skein_gateway_v1_gateway],
  ...[file_skein_memory_v1_blocks, file_skein_memory_v1_curation, file_skein_memory_v1_history],
  ...[file_skein_memory_v1_memory, file_skein_memory_v1_snapshots, file_skein_recall_v1_recall],
  ...[file_skein_session_v1_session, file_skein_tenancy_v1_tenancy],
];

async function ask(question: string): Promise<string> {
  console.log(JSON.stringify({ ask: question }));
  return (await lines.next()).value ?? "";
}

async function refusal(call: Promise<unknown>): Promise<SkeinError> {
  try {
    await call;
  } catch (error) {
    if (error instanceof SkeinError) return error;
    throw error;
  }
  throw new Error("it was not refused");
}

function clientOf(protocol: string) {
  return protocol === "grpc"
    ? connect({ endpoint: ENDPOINT, apiKey: KEY })
    : connectHttp({ baseUrl: ORIGIN, apiKey: KEY });
}

/** Ways of asking the model at MODEL, by SDK and method; each returns the text of the answer. */
function askers(fetch?: typeof globalThis.fetch): Record<string, (wrap: Wrap, question: string) => Promise<string>> {
  const apiKey = "none";
  const openai = (wrap: Wrap) => wrap(new OpenAI({ baseURL: `${MODEL}/v1`, apiKey, maxRetries: 0 }));
  const anthropic = (wrap: Wrap) => wrap(new Anthropic({ baseURL: MODEL, apiKey, maxRetries: 0 }));
  const said = (content: string) => [{ role: "user" as const, content }];
  const model = "m";
  return {
    async "chat.create"(wrap, question) {
      const answer = await openai(wrap).chat.completions.create({ model, messages: said(question) });
      return answer.choices[0]?.message.content ?? "";
    },
    async "chat.create-stream"(wrap, question) {
      let text = "";
      const events = await openai(wrap).chat.completions.create({ model, messages: said(question), stream: true });
      for await (const event of events) text += event.choices[0]?.delta.content ?? "";
      return text;
    },
    async "chat.stream"(wrap, question) {
      const stream = openai(wrap).chat.completions.stream({ model, messages: said(question) });
      return (await stream.finalContent()) ?? "";
    },
    async "chat.parse"(wrap, question) {
      const answer = await openai(wrap).chat.completions.parse({ model, messages: said(question) });
      return answer.choices[0]?.message.content ?? "";
    },
    async "responses.create"(wrap, question) {
      return (await openai(wrap).responses.create({ model, input: question })).output_text;
    },
    async "responses.stream"(wrap, question) {
      return (await openai(wrap).responses.stream({ model, input: said(question) }).finalResponse()).output_text;
    },
    async "messages.create"(wrap, question) {
      const answer = await anthropic(wrap).messages.create({ model, max_tokens: 9, messages: said(question) });
      return answer.content.map((block) => (block.type === "text" ? block.text : "")).join("");
    },
    async "messages.stream"(wrap, question) {
      return await anthropic(wrap).messages.stream({ model, max_tokens: 9, messages: said(question) }).finalText();
    },
    async "beta.create-raw"(wrap, question) {
      const request = { model, max_tokens: 9, messages: said(question) };
      const { data } = await anthropic(wrap).beta.messages.create(request).withResponse();
      return data.content.map((block) => (block.type === "text" ? block.text : "")).join("");
    },
    async "ai.generate"(_, prompt) {
      const provider = createOpenAI({ baseURL: `${MODEL}/v1`, apiKey, fetch });
      return (await generateText({ model: provider.chat(model), prompt })).text;
    },
    async "ai.stream"(_, prompt) {
      const provider = createOpenAI({ baseURL: `${MODEL}/v1`, apiKey, fetch });
      return await streamText({ model: provider.chat(model), prompt }).text;
    },
  };
}
type Wrap = <C extends { withOptions(options: { fetch: typeof fetch }): unknown }>(client: C) => C;

const steps: Record<string, () => Promise<unknown>> = {
  /** What each way of asking a model answers and stores. */
  async memory() {
    using skein = clientOf("grpc");
    const report: Record<string, unknown> = {};
    for (const way of Object.keys(askers())) {
      const options = { subjectId: `person-${way}`, sessionId: `chat-${way}` };
      await skein.remember(`The piano of ${way} stands in the yard`, options);
      const ask = askers(memoryFetch(skein, options))[way]!;
      const answer = await ask((client) => withMemory(client, skein, options), "Where does the piano stand?");
      const stored: string[] = [];
      for await (const message of skein.listMessages({ sessionId: options.sessionId })) stored.push(message.content);
      report[way] = [answer, ...stored];
    }
    // An answer that cannot be stored is returned.
    const errors: string[] = [];
    const options = { subjectId: "gone", sessionId: "chat-gone", onError: (error: SkeinError) => errors.push(error.reason ?? "") };
    await skein.remember([], { ...options, messages: [{ role: "user", content: "Hello" }] });
    await skein.sessions.deleteSession({ sessionId: "chat-gone" });
    const answer = await askers()["chat.create"]!((client) => withMemory(client, skein, options), "Where is it?");
    // A recall that fails asks no model.
    const costly = { subjectId: "p", sessionId: "s", tokenBudget: 1_000_000 };
    const refused = askers()["chat.create"]!((client) => withMemory(client, skein, costly), "Unasked");
    const cause = await refused.then(
      () => "",
      (error: unknown) => String(error instanceof OpenAI.APIConnectionError ? error.cause : error),
    );
    return { ways: report, gone: [answer, ...errors], cause };
  },

  /** Which methods may be repeated, by path. */
  async repeatable() {
    const methods = FILES.flatMap((file) => file.services).flatMap((service) => service.methods);
    return Object.fromEntries(
      methods.map((method) => [`/${method.parent.typeName}/${method.name}`, isRepeatable(method)]),
    );
  },

  async use() {
    const report: Record<string, unknown> = {};
    for (const protocol of ["grpc", "http"]) {
      using skein = clientOf(protocol);
      const text = `Anna prefers green tea, says ${protocol}`;
      await skein.remember([text, { content: "Tea is at four", scope: Scope.GLOBAL, data: { cups: 3 } }], {
        sessionId: protocol,
        messages: [{ role: "user", content: "The kettle is broken" }],
      });
      const { hits } = await skein.recall("tea", { branches: ["memories"], limit: 5, mode: "keyword", minRelevance: 0 });
      const context = await skein.buildContext("tea", { tokenBudget: 300, sessionId: protocol });
      const ledger = skein.contextLedger(`ledger-${protocol}`, { tokenBudget: 300 });
      await ledger.turn("tea");
      const firstText = ledger.text;
      await ledger.turn("tea");
      const listed: string[] = [];
      for await (const memory of skein.listMemories({ pageSize: 1 })) listed.push(memory.content);
      const messages: string[] = [];
      for await (const message of skein.listMessages({ sessionId: protocol })) messages.push(message.content);
      await skein.blocks.createBlock({ block: { label: "persona", value: "You are patient." }, agentId: protocol });
      const compiled = await skein.service(BlockService).compileBlocks({ agentId: protocol });
      const similar = await skein.findSimilar(hits[0]?.itemId ?? "", { mode: "keyword" });
      report[protocol] = {
        found: hits.map((hit) => hit.memory?.content).includes(text),
        context: context.text.includes("tea"),
        ledger: firstText.includes("tea") && ledger.text.startsWith(firstText) && ledger.parts.length <= 2,
        listed: listed.includes(text),
        messages,
        block: compiled.text.includes("patient"),
        similar: similar.hits.length > 0,
      };
    }
    return report;
  },

  async errors() {
    const report: Record<string, unknown> = {};
    for (const protocol of ["grpc", "http"]) {
      using skein = clientOf(protocol);
      const missing = await refusal(skein.memories.getMemory({ memoryId: crypto.randomUUID() }));
      const reason: Reason | undefined = missing.reason;
      const invalid = await refusal(skein.memories.listMemories({ pageSize: -1 }));
      const taken = { type: "fact", key: "user.city", content: "Graz" };
      await skein.remember({ ...taken, subjectId: protocol });
      const updated = await skein.remember({ ...taken, subjectId: protocol, content: "Bonn" }, { onConflict: "update" });
      const conflict = await refusal(skein.remember({ ...taken, subjectId: protocol, content: "Linz" }));
      const late = await refusal(skein.recall("tea", {}, { timeoutMs: 0.001 }));
      const stop = new AbortController();
      stop.abort(new Error("no longer wanted"));
      const aborted = await skein.recall("tea", {}, { signal: stop.signal }).catch((error: Error) => error.message);
      report[protocol] = {
        missing: [Code[missing.code], reason, missing.requestId !== ""],
        invalid: [Code[invalid.code], invalid.reason, invalid.violations.map((violation) => violation.field)],
        updated: [updated.existingIndexes, updated.memories[0]?.content],
        conflict: [Code[conflict.code], conflict.reason, conflict.metadata["key"]],
        late: Code[late.code],
        aborted,
      };
    }
    const overHttp = clientOf("http");
    report["stream"] = (await refusal(overHttp.streamChanges().next())).reason;
    const unknown = connect({ endpoint: ENDPOINT, apiKey: "nobody's" });
    report["stranger"] = (await refusal(unknown.recall("tea"))).reason;
    unknown.close();
    const nowhere = connect({ endpoint: "127.0.0.1:9", apiKey: KEY, retries: { attempts: 1 } });
    report["nowhere"] = Code[(await refusal(nowhere.recall("tea"))).code];
    nowhere.close();
    return report;
  },

  /** The services behind fail a few times. */
  async retried() {
    using skein = clientOf(process.env["PROTOCOL"] ?? "");
    const start = performance.now();
    const { memories } = await skein.remember("Anna prefers green tea");
    return { content: memories.map((memory) => memory.content), waitedMs: performance.now() - start };
  },

  /** A server that is always unavailable counts what comes. */
  async counted() {
    let count = 0;
    const server = createServer((request, response) => {
      count += 1;
      request.resume();
      response.writeHead(503, { "content-type": "application/json" });
      response.end(JSON.stringify({ code: "unavailable", message: "later" }));
    });
    await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const retries = { attempts: 3, firstPauseMs: 1 };
    const skein = connectHttp({ baseUrl, apiKey: KEY, retries });
    const counts: number[] = [];
    for (const call of [
      () => skein.memories.getMemory({ memoryId: "m" }),
      () => skein.memories.createMemory({ memory: { content: "tea" } }),
      () => skein.history.testWebhook({ webhookId: "w" }),
    ]) {
      count = 0;
      await refusal(call());
      counts.push(count);
    }
    server.close();
    server.closeAllConnections();
    return counts;
  },

  async stream() {
    using skein = clientOf(process.env["PROTOCOL"] ?? "");
    const { position } = await skein.history.listChanges({ newestFirst: true, pageSize: 1 });
    const seen: string[] = [];
    await skein.remember("the first");
    for await (const change of skein.streamChanges({ position, eventTypes: ["memory_created"] })) {
      seen.push((await skein.memories.getMemory({ memoryId: change.entityId })).memory?.content ?? "");
      if (seen.length === 3) break;
      await ask("break the connections");
      await skein.remember(seen.length === 1 ? "the second" : "the third");
    }
    await skein.remember([], { sessionId: "s", messages: [{ role: "user", content: "hello" }] });
    await skein.sessions.endSession({ sessionId: "s" });
    const messages: string[] = [];
    for await (const message of skein.followSession("s", { afterSequence: 0n })) messages.push(message.content);
    const refused = await refusal(skein.streamChanges({ position: "nonsense" }).next());
    return { seen, messages, refused: refused.reason };
  },

  async environment() {
    using skein = fromEnvironment();
    return (await skein.recall("tea")).hits.length;
  },
};

const step = steps[STEP];
if (step === undefined) throw new Error(`no step ${STEP}`);
console.log(JSON.stringify({ report: await step() }));
lines.return?.();
process.stdin.destroy();
