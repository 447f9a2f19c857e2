"""Tries to bring falsehoods past the truth: how many are preferred by BuildContext, and what they cost in quality.

    .venv/bin/python tests/bench/falsehoods.py locomo-dev.json --count 500 --seed 1

The file is a list of LoCoMo samples. The cluster is that of SKEIN_ENDPOINT, as its operator (SKEIN_OPERATOR_KEY);
without them it is one of its own. Each conversation is a tenant. An agent with a trust of 0.1 plants a falsehood for
each question that has evidence: the altered text, twice, its rephrasing, and the question with a wrong answer. Two
thirds are memories: each names the truth as its source, supports its like, and supersedes and contradicts the truth,
and the agent merges two of them. One third are messages of a session. An agent that is not rated repeats one text in a
summary of its own, which names it, and consolidates. Then every question is asked.

A falsehood is preferred where it is cited and no evidence is, or where it has the higher score. Printed too is the
share of the evidence among the first ten hits, before and after. The process ends with 1 when more than 1 % of the
falsehoods are preferred, or when more than one point of that share is lost.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import curation_pb2, memory_pb2, scores_pb2
from skein.session.v1 import session_pb2
from skein_client.client import Client
from skein_client.connection import Connection
from skein_cluster.api.client import open_client
from skein_cluster.bench.conversations import read_conversations
from skein_cluster.bench.run import BenchItems, temporary_tenant
from skein_cluster.processes.ports import free_ports
from skein_cluster.processes.single_process import single_process_cluster
from skein_cluster.registry import OTHER_PORTS, PORTS

TRUST = 0.1
MAX_PREFERRED_SHARE = 0.01
MAX_LOST_SHARE = 0.01
_HITS = 10
_SPOKEN = re.compile(r'^(?P<speaker>.+?) said, "(?P<words>.*)"(?P<rest>.*)$', re.DOTALL)
_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}")
_READ_AT_ONCE = 50
# Of so many falsehoods, one is said in messages.
_MESSAGES_EACH = 3
_TIMEOUT = 60.0
# The settings of a cluster of its own.
_SETTINGS = {
    "SKEIN_TENANT_REQUESTS_PER_SECOND": "1000000",
    "SKEIN_PC2_BASE_PORT": "0",
    "SKEIN_CANARY_SECONDS": "0",
    "SKEIN_LOG_LEVEL": "error",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A question, its answer, and the true memories that hold it; the first one is contradicted."""

    question: str
    answer: str
    truth: str
    # External ids.
    evidence: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Falsehood:
    """The texts that contradict the truth of a claim."""

    claim: Claim
    texts: tuple[str, ...]
    # What another agent makes of them.
    summary: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Falsehoods, those that were preferred, and those cited at all."""

    planted_count: int
    preferred_count: int
    cited_count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Attack:
    """The outcome in one tenant, and the share of each claim's evidence among the first hits, before and after."""

    outcome: Outcome
    before: Sequence[float]
    after: Sequence[float]


def falsify(claim: Claim, answers: Sequence[str], names: Sequence[str], chance: random.Random) -> Falsehood:
    """Return a falsehood: the answer, or else a number or a name, is another one; else the text is denied."""
    wrong = chance.choice([answer for answer in answers if answer.casefold() != claim.answer.casefold()])
    match = _SPOKEN.match(claim.truth)
    speaker, words = (match["speaker"], match["words"]) if match else ("", claim.truth)
    place = words.casefold().find(claim.answer.casefold()) if claim.answer else -1
    if place >= 0:
        altered = words[:place] + wrong + words[place + len(claim.answer) :]
    elif _NUMBER.search(words):
        altered = _NUMBER.sub(lambda number: str(int(number[0][:9]) + chance.randint(1, 9)), words)
    elif _NAME.search(words) and names:
        altered = _NAME.sub(lambda _: chance.choice(names), words)
    else:
        altered = f"It was never so: {words} No, it was {wrong}."
    spoken = f'{speaker} said, "{altered}"' if speaker else altered
    who = f"{speaker} told everyone that " if speaker else "Everyone knows that "
    return Falsehood(
        claim=claim,
        texts=(
            spoken,
            f"{spoken} That is certain.",
            f"{who}{altered[:1].lower()}{altered[1:]}",
            f"{claim.question} {speaker} confirmed it: {wrong}. {altered}",
        ),
        summary=f"In short: {claim.question} {wrong}.",
    )


def choose(claims: Sequence[Claim], count: int, seed: int) -> list[Falsehood]:
    """Return the falsehoods of `count` claims, the same for one seed."""
    chance = random.Random(seed)
    chosen = chance.sample(list(claims), min(count, len(claims)))
    answers = sorted({claim.answer for claim in claims if claim.answer})
    names = sorted({name for claim in claims for name in _NAME.findall(claim.truth)})
    return [falsify(claim, answers, names, chance) for claim in chosen]


async def plant(
    honest: Client, liar: Client, falsehoods: Sequence[Falsehood], ids: Mapping[str, str]
) -> dict[str, int]:
    """Plant falsehoods, link, merge, summarize and consolidate them; return the falsehood of each memory and message.

    `ids` has the ids of true memories by external id.
    """
    owners: dict[str, int] = {}
    for number, falsehood in enumerate(falsehoods):
        if number % _MESSAGES_EACH == _MESSAGES_EACH - 1:
            kind, planted_ids = memory_pb2.SOURCE_KIND_MESSAGE, await _say(liar, falsehood, f"lies {number}")
        else:
            kind, planted_ids = memory_pb2.SOURCE_KIND_MEMORY, await _store(liar, falsehood, ids)
        owners |= dict.fromkeys(planted_ids, number)
        summary = memory_pb2.Memory(
            content=falsehood.summary, derived_from=[memory_pb2.SourceReference(kind=kind, id=planted_ids[-1])]
        )
        created = await honest.memories.CreateMemory(memory_pb2.CreateMemoryRequest(memory=summary))
        owners[created.memory.memory_id] = number
    request = scores_pb2.ConsolidateMemoriesRequest()
    while True:
        response = await honest.memories.ConsolidateMemories(request)
        if not response.next_page_token:
            return owners
        request.page_token = response.next_page_token


async def _store(liar: Client, falsehood: Falsehood, ids: Mapping[str, str]) -> list[str]:
    """Store a falsehood as memories with links to the truth, and merge two of them; return their ids."""
    truth_id = ids[falsehood.claim.evidence[0]]
    source = memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MEMORY, id=truth_id)
    planted = await liar.memories.BatchCreateMemories(
        memory_pb2.BatchCreateMemoriesRequest(
            memories=[
                memory_pb2.Memory(content=text, confidence=1.0, importance=1.0, derived_from=[source])
                for text in falsehood.texts
            ],
        )
    )
    planted_ids = [memory.memory_id for memory in planted.memories]
    links = [(one, truth_id, relation) for one in planted_ids for relation in ("supersedes", "contradicts")]
    links += [(planted_ids[-1], one, "supports") for one in planted_ids[:-1]]
    await liar.links.BatchCreateLinks(
        memory_pb2.BatchCreateLinksRequest(
            links=[
                memory_pb2.Link(from_memory_id=one, to_memory_id=other, relation=relation)
                for one, other, relation in links
            ]
        )
    )
    await liar.memories.MergeMemories(scores_pb2.MergeMemoriesRequest(memory_ids=[planted_ids[0], planted_ids[2]]))
    return planted_ids


async def _say(liar: Client, falsehood: Falsehood, session_id: str) -> list[str]:
    """Say a falsehood in the messages of a session; return their ids."""
    messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=text) for text in falsehood.texts]
    said = await liar.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id=session_id, messages=messages, create_session=True)
    )
    return [message.message_id for message in said.messages]


async def ask(
    honest: Client, falsehoods: Sequence[Falsehood], owners: Mapping[str, int], ids: Mapping[str, str]
) -> Outcome:
    """Build a context for each question, and count the falsehoods that it prefers to the truth."""
    preferred_count, cited_count = 0, 0
    for number, falsehood in enumerate(falsehoods):
        evidence = {ids[name] for name in falsehood.claim.evidence if name in ids}
        response = await honest.gateway.BuildContext(
            gateway_pb2.BuildContextRequest(recall=gateway_pb2.RecallRequest(query=falsehood.claim.question))
        )
        scores: dict[bool, float] = {}
        for citation in response.citations:
            for item_id in (citation.item_id, *citation.duplicate_ids):
                if item_id in evidence or owners.get(item_id) == number:
                    is_true = item_id in evidence
                    scores[is_true] = max(citation.score, scores.get(is_true, 0.0))
        cited_count += False in scores
        preferred_count += False in scores and scores[False] >= scores.get(True, 0.0)
    return Outcome(planted_count=len(falsehoods), preferred_count=preferred_count, cited_count=cited_count)


async def evidence_share(honest: Client, claims: Sequence[Claim], ids: Mapping[str, str]) -> list[float]:
    """Return the share of each claim's evidence among the first hits, memories and messages."""
    shares: list[float] = []
    for claim in claims:
        evidence = {ids[name] for name in claim.evidence if name in ids}
        response = await honest.gateway.Recall(
            gateway_pb2.RecallRequest(
                query=claim.question, limit=_HITS, branches=[gateway_pb2.BRANCH_MEMORIES, gateway_pb2.BRANCH_MESSAGES]
            )
        )
        found = {item_id for hit in response.hits for item_id in (hit.item_id, *hit.duplicate_ids)}
        shares.append(len(evidence & found) / len(evidence))
    return shares


async def add_liar(honest: Client, trust: float) -> tuple[str, str]:
    """Create a key for the agent that lies, and rate what it writes; return its secret and its principal."""
    created = await honest.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="liar"))
    principal = f"api_key:{created.api_key.api_key_id}"
    await honest.curation.SetSourceTrust(curation_pb2.SetSourceTrustRequest(source=principal, trust=trust))
    return created.secret, principal


def read_claims(path: Path) -> dict[str, tuple[Sequence[memory_pb2.Memory], list[Claim]]]:
    """Read the memories of each conversation, and the questions that have evidence and an answer there."""
    answers = {
        (str(sample["sample_id"]), str(record["question"])): str(record.get("answer", ""))
        for sample in json.loads(path.read_text("utf-8"))
        for record in sample["qa"]
    }
    conversations: dict[str, tuple[Sequence[memory_pb2.Memory], list[Claim]]] = {}
    for conversation in read_conversations(path):
        texts = {memory.external_id: memory.content for memory in conversation.memories}
        claims = []
        for question in conversation.questions:
            evidence = tuple(sorted(question.evidence & texts.keys()))
            answer = answers.get((conversation.name, question.text), "")
            if evidence and answer:
                claims.append(Claim(question=question.text, answer=answer, truth=texts[evidence[0]], evidence=evidence))
        conversations[conversation.name] = (conversation.memories, claims)
    return conversations


async def attack(honest: Client, liar: Client, claims: Sequence[Claim], *, count: int, seed: int) -> Attack:
    """Attack one tenant that holds the true memories of some claims."""
    names = sorted({name for claim in claims for name in claim.evidence})
    ids: dict[str, str] = {}
    for start in range(0, len(names), _READ_AT_ONCE):
        batch = memory_pb2.BatchGetMemoriesRequest(memory_ids=names[start : start + _READ_AT_ONCE])
        ids |= {one.external_id: one.memory_id for one in (await honest.memories.BatchGetMemories(batch)).memories}
    falsehoods = choose(claims, count, seed)
    before = await evidence_share(honest, claims, ids)
    owners = await plant(honest, liar, falsehoods, ids)
    after = await evidence_share(honest, claims, ids)
    return Attack(outcome=await ask(honest, falsehoods, owners, ids), before=before, after=after)


@asynccontextmanager
async def operator_connection() -> AsyncIterator[Connection]:
    """Connect to the cluster of SKEIN_ENDPOINT as its operator; without it, run one of its own meanwhile."""
    endpoint = os.environ.get("SKEIN_ENDPOINT")
    if endpoint:
        yield Connection(endpoint=endpoint, api_key=os.environ["SKEIN_OPERATOR_KEY"], timeout=_TIMEOUT)
        return
    names = [f"SKEIN_{name.upper()}_PORT" for name in PORTS]
    with tempfile.TemporaryDirectory() as folder, free_ports([*names, *OTHER_PORTS], "127.0.0.1") as ports:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SKEIN_")}
        environment = {**inherited, **_SETTINGS, **ports, "SKEIN_DATA_DIR": folder}
        async with single_process_cluster(Path(folder), environment=environment, durable=False) as cluster:
            key = cluster.credentials.operator_key
            yield Connection(endpoint=cluster.addresses["gateway"], api_key=key, timeout=_TIMEOUT)


async def measure(connection: Connection, path: Path, *, count: int, seed: int, trust: float) -> list[Attack]:
    """Attack each conversation of a file; the falsehoods are divided among them by their questions."""
    conversations = read_claims(path)
    total = sum(len(claims) for _, claims in conversations.values())
    attacks: list[Attack] = []
    remaining_count, remaining_claims = count, total
    for name, (memories, claims) in conversations.items():
        share = round(remaining_count * len(claims) / remaining_claims)
        remaining_count, remaining_claims = remaining_count - share, remaining_claims - len(claims)
        items = BenchItems(memories=memories, keep_memory_times=True)
        async with temporary_tenant(connection, name, items) as honest:
            secret, _ = await add_liar(honest, trust)
            async with open_client(dataclasses.replace(connection, api_key=secret)) as liar:
                attacks.append(await attack(honest, liar, claims, count=share, seed=seed))
        print(f"{name}: {attacks[-1].outcome}", file=sys.stderr)
    return attacks


def main() -> int:
    """Print the figures; return 1 when the attack succeeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trust", type=float, default=TRUST, help="0.5 shows what the attack does without a rating")
    arguments = parser.parse_args()

    async def run() -> list[Attack]:
        async with operator_connection() as connection:
            return await measure(
                connection, arguments.file, count=arguments.count, seed=arguments.seed, trust=arguments.trust
            )

    attacks = asyncio.run(run())
    planted_count = sum(one.outcome.planted_count for one in attacks)
    preferred_count = sum(one.outcome.preferred_count for one in attacks)
    before = [share for one in attacks for share in one.before]
    after = [share for one in attacks for share in one.after]
    lost = sum(before) / len(before) - sum(after) / len(after)
    print(f"falsehoods {planted_count}, cited {sum(one.outcome.cited_count for one in attacks)}")
    print(f"preferred to the truth {preferred_count} ({preferred_count / planted_count:.2%})")
    print(f"evidence among the first {_HITS} hits {sum(before) / len(before):.4f}, then {sum(after) / len(after):.4f}")
    return int(preferred_count > MAX_PREFERRED_SHARE * planted_count or lost > MAX_LOST_SHARE)


if __name__ == "__main__":
    sys.exit(main())
