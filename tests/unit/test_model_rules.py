"""The rules by which one model takes another's place, without a database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.errors import DimensionsMismatch, FieldInvalid
from skein_kit.outbound.fetch import SafeHttpClient
from skein_kit.settings import SettingInvalid
from skein_recall.errors import ModelNotFound
from skein_recall.index import rpc as index_convert
from skein_recall.models import convert as models_convert
from skein_recall.models import model as model_module
from skein_recall.models.model import (
    EVERY_TENANT,
    EmbeddingModel,
    EndpointConfig,
    ModelChoice,
    ModelRegistry,
    ModelSnapshot,
)
from skein_recall.quality.recent_queries import RecentQueries
from skein_recall.quality.rpc import ModelAgreement
from skein_recall.reindexes.model import PendingReindex
from skein_recall.settings import RecallSettings

AT = datetime(2026, 1, 1, tzinfo=UTC)
LATER = AT + timedelta(seconds=15)
TENANT, OTHER = uuid4(), uuid4()
REMOTE = EndpointConfig(
    endpoint="https://models.example/v1", remote_model="m", batch_size=1, timeout_seconds=1.0, window_characters=500
)


def model(
    name: str, *, active: bool = False, remote: EndpointConfig | None = REMOTE, followed: UUID | None = None
) -> EmbeddingModel:
    return EmbeddingModel(
        model=name,
        provider="caller" if remote is None else "openai",
        dimensions=3,
        table_name=name,
        active=active,
        create_time=AT,
        endpoint=remote,
        followed_tenant_ids=frozenset() if followed is None else frozenset({followed}),
    )


def due(**values: object) -> PendingReindex:
    nothing = dict.fromkeys(("scan_time", "after_id", "is_finished", "is_stale", "embedded_count"))
    return PendingReindex(**{"reindex_id": uuid4(), "model": "m", "settle_time": LATER, **nothing, **values})  # type: ignore[arg-type]


def look(*, finished: bool, stale: bool = False, made: int = 0) -> PendingReindex:
    return due(scan_time=AT, after_id=uuid4(), is_finished=finished, is_stale=stale, embedded_count=made)


@pytest.mark.parametrize(
    ("known", "at", "begins"),
    [
        (due(), AT, True),
        (look(finished=False), LATER, False),
        (look(finished=False, stale=True), LATER, False),
        (look(finished=True), AT, False),
        (look(finished=True), LATER, True),
        (look(finished=True, made=1), AT, True),
        (look(finished=True, stale=True), AT, True),
    ],
    ids=["none yet", "under way", "under way and stale", "too early", "late enough", "it made some", "stale"],
)
def test_a_look_begins_when_the_last_one_was_not_the_last(known: PendingReindex, at: datetime, *, begins: bool) -> None:
    assert known.is_scan_due(at) is begins


def test_a_model_follows_where_a_reindex_of_it_stands_and_it_is_not_in_force() -> None:
    models = ModelSnapshot(
        {
            one.model: one
            for one in (
                model("active", active=True, followed=EVERY_TENANT),
                model("every", followed=EVERY_TENANT),
                model("mine", followed=TENANT),
                model("given", remote=None, followed=EVERY_TENANT),
                model("idle"),
            )
        }
    )

    assert [one.model for one in models.followed_in(TENANT)] == ["every", "mine"]
    assert [one.model for one in models.followed_in(OTHER)] == ["every"]
    # A tenant that chose another model gets no vectors of the active one, but those of the one that it left just now.
    chosen = replace(models, choice=ModelChoice(model="every", former_model="idle"))
    assert (chosen.active.model, chosen.get("").model) == ("every", "every")
    assert [one.model for one in chosen.followed_in(OTHER)] == ["idle"]
    assert models.get("").model == models.active.model == "active"
    with pytest.raises(ModelNotFound):
        models.get("nobody-s")
    with pytest.raises(ModelNotFound):
        _ = ModelSnapshot({}).active


async def test_the_registry_is_believed_for_some_time_and_read_anew_when_it_was_changed_here() -> None:
    store = Models()
    registry = ModelRegistry(store, seconds=60.0)
    assert (await registry.active(TENANT)).model == (await registry.active(None)).model == "m"
    assert (await registry.active(TENANT, datetime.fromtimestamp(0, UTC))).model == "former"
    assert (store.reads, store.choices) == (1, 0)
    registry.invalidate()
    await registry.models()
    assert store.reads == 2


async def test_the_choices_of_tenants_are_read_where_models_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "MAX_CACHED_CHOICES", 1)
    store = Models(offer_time=datetime.fromtimestamp(0, UTC))
    registry = ModelRegistry(store, seconds=60.0)

    chosen = [(await registry.active(tenant_id)).model for tenant_id in (TENANT, TENANT, OTHER, TENANT, None)]

    assert chosen == ["chosen", "chosen", "m", "chosen", "m"]
    assert (store.reads, store.choices) == (1, 3)


class Models:
    """A registry of two models, of which one tenant chose the second."""

    def __init__(self, offer_time: datetime | None = None) -> None:
        self.reads = self.choices = 0
        self._offer_time = offer_time

    async def list_models(self) -> list[EmbeddingModel]:
        self.reads += 1
        return [model("m", active=True), replace(model("chosen"), offer_time=self._offer_time)]

    async def read_choice(self, tenant_id: UUID) -> ModelChoice:
        self.choices += 1
        return ModelChoice(model="chosen" if tenant_id == TENANT else None)

    async def active_as_of(self, at: datetime, tenant_id: UUID | None) -> EmbeddingModel:
        return model("former")


@given(st.lists(st.tuples(st.integers(0, 4), st.text(max_size=3)), max_size=60))
def test_a_bounded_number_of_recent_queries_is_kept_once_each(queries: list[tuple[int, str]]) -> None:
    recent = RecentQueries(max_tenants=2, max_queries=3)
    for tenant, text in queries:
        recent.add(UUID(int=tenant), text)

    last = list(dict.fromkeys(UUID(int=tenant) for tenant, text in reversed(queries) if text))[:2]
    assert recent.tenants() == last
    for tenant_id in last:
        kept = recent.queries(tenant_id, 3)
        assert 1 <= len(kept) == len(set(kept)) <= 3
        assert recent.queries(tenant_id, 1) == kept[-1:]


def test_a_text_that_is_no_question_is_not_kept() -> None:
    recent = RecentQueries()
    recent.add(UUID(int=1), "word " * 2000)

    assert recent.tenants() == []


def test_agreement_is_the_share_of_what_the_model_in_force_finds() -> None:
    a, b, c, d = (uuid4() for _ in range(4))
    one, all_ = ModelAgreement(), ModelAgreement()
    one.add([a, b], [a, c])
    one.add([a, b, c, d], [d, c, b, a])
    one.add([], [a])
    all_.join(one)
    all_.join(ModelAgreement())

    assert (one.queries, one.same_first, one.mean) == (3, 1, 0.75)
    assert (all_.queries, all_.mean) == (3, 0.75)
    assert ModelAgreement().mean == 1.0


def test_vectors_that_are_brought_have_the_model_s_length_and_a_direction() -> None:
    request = pb.PutEmbeddingRequest(external_id="x", embeddings=[pb.Embedding(values=[0, 3, 4])])
    given_ = index_convert.caller_vectors(request, model("m"))
    assert [round(float(value), 3) for value in given_.vectors[0]] == [0.0, 0.6, 0.8]
    assert (given_.item_id, given_.kind) == (None, "memory")

    with pytest.raises(DimensionsMismatch):
        index_convert.caller_vectors(pb.PutEmbeddingRequest(embeddings=[pb.Embedding(values=[1, 2])]), model("m"))
    with pytest.raises(FieldInvalid):
        index_convert.caller_vectors(pb.PutEmbeddingRequest(embeddings=[pb.Embedding(values=[0, 0, 0])]), model("m"))


def test_an_endpoint_gets_what_its_operator_did_not_say() -> None:
    model = pb.EmbeddingModel(model="m", provider="openai", dimensions=3, endpoint="https://models.example/v1/")

    remote = models_convert.draft(model, SafeHttpClient()).endpoint

    assert remote is not None
    assert (remote.endpoint, remote.remote_model, remote.batch_size) == ("https://models.example/v1", "m", 32)
    assert (remote.timeout_seconds, remote.window_characters) == (10.0, 2000)


def test_a_change_that_another_process_may_not_know_is_not_taken_for_known() -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_ADVANCED_RECALL_SETTLE_SECONDS"):
        RecallSettings.read({"SKEIN_ADVANCED_RECALL_SETTLE_SECONDS": "1", "SKEIN_ADVANCED_RECALL_MODELS_SECONDS": "2"})


@over("nice", ["-1", "20"])
def test_bulk_threads_come_before_no_call(nice: str) -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_ADVANCED_RECALL_EMBEDDER_BULK_NICE to a number from 0 to 19"):
        RecallSettings.read({"SKEIN_ADVANCED_RECALL_EMBEDDER_BULK_NICE": nice})
