"""`skein models`: register, reindex, compare, activate, offer and delete embedding models (as the operator)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import click
from rich.text import Text

from skein.recall.v1 import recall_pb2 as pb
from skein_cluster.api.client import as_operator
from skein_cluster.cli import options, output
from skein_cluster.cli.output import list_first

_POLL_SECONDS = 1.0


@click.group()
def models_command() -> None:
    """List, register, reindex, compare, activate, offer and delete embedding models (as the operator)."""


@models_command.command("list")
@options.cluster_answer
async def list_(environment: dict[str, str]) -> options.Answer:
    """List the registered models by name."""
    async with as_operator(environment) as api:
        models = list((await api.index.ListEmbeddingModels(pb.ListEmbeddingModelsRequest())).embedding_models)
    yield {"embedding_models": models}
    lines = [
        (
            model.model,
            _state(model),
            model.provider,
            model.dimensions,
            model.endpoint,
            output.format_time(model.create_time),
        )
        for model in models
    ]
    table = output.table("model", "state", "provider", "dimensions", "endpoint", "registered", numbers=("dimensions",))
    output.print_table(table, lines, empty="There are no models.")


@models_command.command("register")
@click.argument("model")
@click.option(
    "--provider", type=click.Choice(["openai", "caller", "embedded"]), default="openai", show_default=True,
    help="Source of the vectors: an HTTP endpoint, the caller, or the cluster itself.",
)  # fmt: skip
@click.option("--dimensions", type=click.IntRange(1, 4000), required=True, help="Dimensions of its vectors.")
@click.option("--endpoint", default="", help='Base URL, such as https://host/v1; "/embeddings" is appended.')
@click.option("--remote-model", default="", help="Name of the model at the endpoint; default: MODEL.")
@click.option("--batch-size", type=click.IntRange(1, 256), help="Most texts of one request.")
@click.option(
    "--timeout", "timeout_seconds", type=click.FloatRange(0.1, 120), help="Timeout of one request, in seconds."
)
@click.option(
    "--window",
    "window_characters",
    type=click.IntRange(200, 100_000),
    help="Characters of a text that the model reads at least.",
)
@click.option("--query-prefix", default="", help='Text put before each query, such as "query: ".')
@click.option("--passage-prefix", default="", help='Text put before each stored text, such as "passage: ".')
@click.option(
    "--similarity-floor",
    type=click.FloatRange(-1, 1),
    help="Cosine of unrelated texts, with --similarity-ceiling; default: measured when the reindex starts.",
)
@click.option(
    "--similarity-ceiling", type=click.FloatRange(-1, 2), help="Cosine that the ranking counts as full similarity."
)
@options.cluster_answer
async def register(model: str, environment: dict[str, str], **settings: Any) -> options.Answer:
    """Register MODEL without activating it.

    The recall service reads the key of its endpoint from SKEIN_EMBEDDINGS_API_KEY.
    """
    embedding_model = pb.EmbeddingModel(
        model=model, **{name: value for name, value in settings.items() if value is not None}
    )
    embedding_model = await _register(environment, embedding_model)
    yield embedding_model
    output.echo(
        f"Registered {embedding_model.model} ({embedding_model.provider}, {embedding_model.dimensions} dimensions)."
    )


@models_command.command("reindex")
@click.argument("model")
@click.option("--tenant", "tenant_id", default="", help="Only items of this tenant; default: of all tenants.")
@click.option("--rate", type=click.FloatRange(0.1, 100_000), help="Most texts per second; default: a setting.")
@click.option("--wait", is_flag=True, help="Wait until it is complete.")
@options.cluster_answer
async def reindex(
    model: str, tenant_id: str, rate: float | None, environment: dict[str, str], *, wait: bool
) -> options.Answer:
    """Compute MODEL's vectors of all items in the background; searches still use the active model."""
    request = pb.StartReindexRequest(model=model, tenant_id=tenant_id, texts_per_second=rate or 0.0)
    started = [await _reindex(environment, request, wait=wait)]
    yield {"reindexes": started}
    _show(started)


@models_command.command("reindexes")
@click.argument("reindex_id", required=False)
@options.limit_option
@options.cluster_answer
async def reindexes(reindex_id: str | None, limit: int, environment: dict[str, str]) -> options.Answer:
    """Show the progress of REINDEX_ID, or of all reindexes, newest first."""
    listed = await _reindexes(environment, reindex_id, limit)
    yield {"reindexes": listed}
    _show(listed)


@models_command.command("cancel-reindex")
@click.argument("reindex_id")
@options.cluster_answer
async def cancel_reindex(reindex_id: str, environment: dict[str, str]) -> options.Answer:
    """Cancel REINDEX_ID. New items no longer get vectors of its model; existing vectors are kept."""
    async with as_operator(environment) as api:
        response = await api.index.CancelReindex(pb.CancelReindexRequest(reindex_id=reindex_id))
    yield {"reindexes": [response.reindex]}
    _show([response.reindex])


@models_command.command("compare")
@click.argument("model")
@click.option("--tenant", "tenant_id", default="", help="Only this tenant; default: all with recent searches.")
@click.option("--query", "queries", multiple=True, help="Query (repeatable); default: recent queries.")
@click.option("--top", type=click.IntRange(1, 100), default=10, show_default=True, help="Nearest items to compare.")
@options.cluster_answer
async def compare(
    model: str, tenant_id: str, queries: tuple[str, ...], top: int, environment: dict[str, str]
) -> options.Answer:
    """Compare the nearest items of MODEL with those of the active model."""
    request = pb.CompareEmbeddingModelsRequest(model=model, tenant_id=tenant_id, queries=queries, limit=top)
    async with as_operator(environment) as api:
        comparison = await api.index.CompareEmbeddingModels(request)
    yield comparison
    overall = comparison.overall
    lines = [
        (row.tenant_id or "all", row.query_count, f"{row.agreement:.3f}", row.same_first_count)
        for row in (*comparison.tenants, overall)
    ]
    title = f"{comparison.model} and {comparison.active_model}, nearest {comparison.limit}"
    table = output.table(
        "tenant", "queries", "agreement", "same first", title=title, numbers=("queries", "agreement", "same first")
    )
    output.print_table(
        table, lines if overall.query_count else [], empty="There are no recent queries; give --query and --tenant."
    )


@models_command.command("activate")
@click.argument("model")
@click.option("--force", is_flag=True, help="Activate even if items lack its vectors; only keyword search finds these.")
@options.cluster_answer
async def activate(model: str, environment: dict[str, str], *, force: bool) -> options.Answer:
    """Activate MODEL; to go back, activate the former model."""
    response = await _activate(environment, pb.ActivateEmbeddingModelRequest(model=model, force=force))
    yield response
    former = "" if response.former_model in {"", model} else f" instead of {response.former_model}"
    output.echo(f"{response.embedding_model.model} is active{former}; all processes use it within five seconds.")


@models_command.command("offer")
@click.argument("model")
@click.option("--withdraw", is_flag=True, help="No further tenant can choose MODEL.")
@options.cluster_answer
async def offer(model: str, environment: dict[str, str], *, withdraw: bool) -> options.Answer:
    """Let tenants choose MODEL by their policy (embedding_model)."""
    async with as_operator(environment) as api:
        response = await api.index.OfferEmbeddingModel(pb.OfferEmbeddingModelRequest(model=model, withdraw=withdraw))
    yield response
    name = response.embedding_model.model
    output.echo(f"No further tenant can choose {name}." if withdraw else f"Tenants can choose {name}.")


@models_command.command("delete")
@click.argument("model")
@options.cluster_answer
async def delete(model: str, environment: dict[str, str]) -> options.Answer:
    """Delete MODEL and its vectors."""
    async with as_operator(environment) as api:
        await api.index.DeleteEmbeddingModel(pb.DeleteEmbeddingModelRequest(model=model))
    yield {"model": model}
    output.echo(f"Deleted {model}.")


def _state(model: pb.EmbeddingModel) -> str:
    states = {"active": model.active, "followed": model.followed, "offered": model.offered}
    return ", ".join(name for name, holds in states.items() if holds)


def _show(reindexes: list[pb.Reindex]) -> None:
    lines = [
        (
            job.reindex_id,
            job.model,
            job.tenant_id or "all",
            pb.ReindexState.Name(job.state).removeprefix("REINDEX_STATE_").lower(),
            f"{job.done_tenant_count}/{job.tenant_count}",
            f"{job.seen_count}/{job.document_count}",
            job.embedded_count,
            job.missing_count,
        )
        for job in reindexes
    ]
    numbers = ("tenants", "seen", "embedded", "missing")
    table = output.table("reindex", "model", "tenant", "state", *numbers, numbers=numbers)
    output.print_table(table, lines, empty="There are no reindexes.")
    if any(job.missing_count for job in reindexes):
        output.stderr_console().print(
            Text("Once the model is active, only keyword search finds items without its vectors.")
        )


async def _register(environment: Mapping[str, str], model: pb.EmbeddingModel) -> pb.EmbeddingModel:
    async with as_operator(environment) as api:
        request = pb.RegisterEmbeddingModelRequest(embedding_model=model)
        return (await api.index.RegisterEmbeddingModel(request)).embedding_model


async def _reindex(environment: Mapping[str, str], request: pb.StartReindexRequest, *, wait: bool) -> pb.Reindex:
    async with as_operator(environment) as api:
        result = (await api.index.StartReindex(request)).reindex
        while wait and result.state == pb.REINDEX_STATE_RUNNING:
            await asyncio.sleep(_POLL_SECONDS)
            result = (await api.index.GetReindex(pb.GetReindexRequest(reindex_id=result.reindex_id))).reindex
        return result


async def _reindexes(environment: Mapping[str, str], reindex_id: str | None, limit: int) -> list[pb.Reindex]:
    async with as_operator(environment) as api:
        if reindex_id:
            return [(await api.index.GetReindex(pb.GetReindexRequest(reindex_id=reindex_id))).reindex]
        request = pb.ListReindexesRequest(page_size=limit)
        return await list_first(limit, api.index.ListReindexes, request, "reindexes")


async def _activate(
    environment: Mapping[str, str], request: pb.ActivateEmbeddingModelRequest
) -> pb.ActivateEmbeddingModelResponse:
    async with as_operator(environment) as api:
        return await api.index.ActivateEmbeddingModel(request)
