"""Planted falsehoods do not get past the truth, neither as memories nor as messages: sentences of our own, seeded."""

from __future__ import annotations

import random
from typing import cast

import pytest
from bench.falsehoods import MAX_LOST_SHARE, MAX_PREFERRED_SHARE, TRUST, Claim, add_liar, attack, choose
from fix_attacks import attack_size
from fix_cluster import Cluster, Tenant

from skein.memory.v1 import memory_pb2
from skein_client.client import Client

_PEOPLE = ("Mira", "Jonas", "Edda", "Theo", "Nadia", "Ines", "Oskar", "Lena", "Samir", "Clara", "Emil", "Rosa")
_TRAITS = (
    ("{person} was born in {answer}.", "In which town was {person} born?", ("Lugano", "Bergen", "Porto", "Graz")),
    (
        "{person} plays the {answer} on Fridays.",
        "What does {person} play on Fridays?",
        ("cello", "oboe", "harp", "tuba"),
    ),
    ("{person} is allergic to {answer}.", "What is {person} allergic to?", ("walnuts", "pollen", "shrimps", "wool")),
)
_SEED = 25
_BATCH = 50


def claims(person_count: int = len(_PEOPLE)) -> list[Claim]:
    """Return a claim for each trait of some persons."""
    chance = random.Random(_SEED)
    families = ("", *(f" {name}{ending}" for ending in ("sen", "mann") for name in ("Karl", "Peter", "Berg", "Holt")))
    people = [f"{person}{family}" for family in families for person in _PEOPLE]
    return [
        Claim(
            question=question.format(person=person),
            answer=(answer := chance.choice(answers)),
            truth=f'{person} said, "{text.format(person=person, answer=answer)}"',
            evidence=(f"{person}-{number}",),
        )
        for person in people[:person_count]
        for number, (text, question, answers) in enumerate(_TRAITS)
    ]


def test_the_same_seed_gives_the_same_falsehoods_and_none_is_the_truth() -> None:
    chosen = choose(claims(), 20, 3)

    assert chosen == choose(claims(), 20, 3)
    assert chosen != choose(claims(), 20, 4)
    assert all(one.claim.truth not in one.texts and len(set(one.texts)) == len(one.texts) for one in chosen)


@pytest.mark.system
async def test_a_distrusted_agent_brings_no_falsehood_past_the_truth_and_costs_no_evidence(
    cluster: Cluster, tenant: Tenant
) -> None:
    known = claims(attack_size(len(_PEOPLE), 108))
    memories = [memory_pb2.Memory(content=one.truth, external_id=one.evidence[0]) for one in known]
    for start in range(0, len(memories), _BATCH):
        batch = memories[start : start + _BATCH]
        await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=batch))
    honest = cast("Client", _Named(tenant))
    secret, _ = await add_liar(honest, TRUST)
    liar = cast("Client", _Named(cluster.with_key(secret)))

    count = attack_size(15, 300)
    result = await attack(honest, liar, known, count=count, seed=_SEED)

    assert result.outcome.planted_count == count
    assert result.outcome.preferred_count <= MAX_PREFERRED_SHARE * count
    assert sum(result.after) >= sum(result.before) - MAX_LOST_SHARE * len(known)


class _Named:
    """The stubs of a test under the names that a client has for them."""

    def __init__(self, stubs: object) -> None:
        self._stubs = stubs

    def __getattr__(self, name: str) -> object:
        return getattr(self._stubs, {"memories": "memory"}.get(name, name))
