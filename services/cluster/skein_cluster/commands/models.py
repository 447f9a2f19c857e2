"""`skein models`: the embedding models of the cluster, and how one takes another's place (as the operator)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from skein.recall.v1 import recall_pb2 as pb
from skein_cluster.api.client import as_operator
from skein_cluster.cli import options, output
from skein_cluster.cli.pagination import list_first

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECONDS_BETWEEN = 1.0


@click.group()
def models_command() -> None:
    """List and register embedding models, make one's vectors, compare it with the one in force, and switch."""


@models_command.command("list")
@options.cluster_options
@options.json_option
def list_(environment: dict[str, str], *, as_json: bool) -> None:
    """List the registered models by name."""
    models = asyncio.run(_list(environment))
    if as_json:
        output.print_json({"embedding_models": [output.message_to_dict(model) for model in models]})
        return
    lines = [
        (
            model.model,
            "in force" if model.active else "follows" if model.followed else "",
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
    help="Who makes the vectors: an HTTP endpoint, the caller, or the cluster itself.",
)  # fmt: skip
@click.option("--dimensions", type=click.IntRange(1, 4000), required=True, help="Numbers of one vector.")
@click.option("--endpoint", default="", help='Where it is asked, to which "/embeddings" is added: https://host/v1.')
@click.option("--remote-model", default="", help="What the endpoint calls it; default: MODEL.")
@click.option("--batch-size", type=click.IntRange(1, 256), help="Texts of one request.")
@click.option(
    "--timeout", "timeout_seconds", type=click.FloatRange(0.1, 120), help="Seconds that one request may take."
)
@click.option(
    "--window",
    "window_characters",
    type=click.IntRange(200, 100_000),
    help="Characters that it surely reads of one text.",
)
@options.cluster_options
@options.json_option
def register(model: str, environment: dict[str, str], *, as_json: bool, **settings: Any) -> None:
    """Register MODEL; it does not become the one in force.

    The key of its endpoint is SKEIN_EMBEDDINGS_API_KEY in the environment of the recall service.
    """
    embedding_model = pb.EmbeddingModel(
        model=model, **{name: value for name, value in settings.items() if value is not None}
    )
    registered = asyncio.run(_register(environment, embedding_model))
    if as_json:
        output.print_json(output.message_to_dict(registered))
        return
    output.echo(f"Registered {registered.model} ({registered.provider}, {registered.dimensions} dimensions).")


@models_command.command("reindex")
@click.argument("model")
@click.option("--tenant", "tenant_id", default="", help="Only this tenant's items; default: every tenant's.")
@click.option("--rate", type=click.FloatRange(0.1, 100_000), help="Texts a second at most; default: the cluster's.")
@click.option("--wait", is_flag=True, help="Come back when it is complete.")
@options.cluster_options
@options.json_option
def reindex(
    model: str, tenant_id: str, rate: float | None, environment: dict[str, str], *, wait: bool, as_json: bool
) -> None:
    """Make MODEL's vectors of everything in the background; the model in force goes on being searched."""
    request = pb.StartReindexRequest(model=model, tenant_id=tenant_id, texts_per_second=rate or 0.0)
    _show([asyncio.run(_reindex(environment, request, wait=wait))], as_json=as_json)


@models_command.command("progress")
@click.argument("reindex_id", required=False)
@options.limit_option
@options.cluster_options
@options.json_option
def progress(reindex_id: str | None, limit: int, environment: dict[str, str], *, as_json: bool) -> None:
    """Show how far REINDEX_ID is, or all of them, newest first."""
    _show(asyncio.run(_progress(environment, reindex_id, limit)), as_json=as_json)


@models_command.command("cancel")
@click.argument("reindex_id")
@options.cluster_options
@options.json_option
def cancel(reindex_id: str, environment: dict[str, str], *, as_json: bool) -> None:
    """End REINDEX_ID: its model follows no longer; the vectors that it has stay."""
    _show([asyncio.run(_cancel(environment, reindex_id))], as_json=as_json)


@models_command.command("compare")
@click.argument("model")
@click.option("--tenant", "tenant_id", default="", help="Only in this tenant; default: in all that searched lately.")
@click.option(
    "--query", "queries", multiple=True, help="What to search for (repeatable); default: what was asked lately."
)
@click.option("--top", type=click.IntRange(1, 100), default=10, show_default=True, help="Nearest items to compare.")
@options.cluster_options
@options.json_option
def compare(
    model: str, tenant_id: str, queries: tuple[str, ...], top: int, environment: dict[str, str], *, as_json: bool
) -> None:
    """Say how many of the nearest items MODEL has in common with the model in force."""
    request = pb.CompareEmbeddingModelsRequest(model=model, tenant_id=tenant_id, queries=queries, limit=top)
    compared = asyncio.run(_compare(environment, request))
    if as_json:
        output.print_json(output.message_to_dict(compared))
        return
    overall = compared.overall
    lines = [
        (row.tenant_id or "all", row.query_count, f"{row.agreement:.3f}", row.same_first_count)
        for row in (*compared.tenants, overall)
    ]
    title = f"{compared.model} beside {compared.active_model}, the nearest {compared.limit}"
    table = output.table(
        "tenant", "queries", "agreement", "same first", title=title, numbers=("queries", "agreement", "same first")
    )
    output.print_table(
        table, lines if overall.query_count else [], empty="Nothing was asked lately; give --query and --tenant."
    )


@models_command.command("use")
@click.argument("model")
@click.option("--force", is_flag=True, help="Although items lack its vectors: those are found by their words alone.")
@options.cluster_options
@options.json_option
def use(model: str, environment: dict[str, str], *, force: bool, as_json: bool) -> None:
    """Put MODEL in force; the way back is the same command with the other name."""
    response = asyncio.run(_use(environment, pb.ActivateEmbeddingModelRequest(model=model, force=force)))
    if as_json:
        output.print_json(output.message_to_dict(response))
        return
    before = "" if response.former_model in {"", model} else f" instead of {response.former_model}"
    output.echo(f"{response.embedding_model.model} is in force{before}; every process knows within five seconds.")


@models_command.command("drop")
@click.argument("model")
@options.cluster_options
@options.json_option
def drop(model: str, environment: dict[str, str], *, as_json: bool) -> None:
    """Forget MODEL and delete its vectors."""
    asyncio.run(_drop(environment, model))
    if as_json:
        output.print_json({"model": model})
        return
    output.echo(f"Dropped {model}.")


def _show(reindexes: list[pb.Reindex], *, as_json: bool) -> None:
    if as_json:
        output.print_json({"reindexes": [output.message_to_dict(job) for job in reindexes]})
        return
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
    output.print_table(table, lines, empty="Nothing was ever reindexed.")
    if any(job.missing_count for job in reindexes):
        output.stderr_console().print(
            Text("Items that are missing are found by their words alone once the model is in force.")
        )


async def _list(environment: Mapping[str, str]) -> list[pb.EmbeddingModel]:
    async with as_operator(environment) as api:
        return list((await api.index.ListEmbeddingModels(pb.ListEmbeddingModelsRequest())).embedding_models)


async def _register(environment: Mapping[str, str], model: pb.EmbeddingModel) -> pb.EmbeddingModel:
    async with as_operator(environment) as api:
        request = pb.RegisterEmbeddingModelRequest(embedding_model=model)
        return (await api.index.RegisterEmbeddingModel(request)).embedding_model


async def _reindex(environment: Mapping[str, str], request: pb.StartReindexRequest, *, wait: bool) -> pb.Reindex:
    async with as_operator(environment) as api:
        result = (await api.index.StartReindex(request)).reindex
        while wait and result.state == pb.REINDEX_STATE_RUNNING:
            await asyncio.sleep(_SECONDS_BETWEEN)
            result = (await api.index.GetReindex(pb.GetReindexRequest(reindex_id=result.reindex_id))).reindex
        return result


async def _progress(environment: Mapping[str, str], reindex_id: str | None, limit: int) -> list[pb.Reindex]:
    async with as_operator(environment) as api:
        if reindex_id:
            return [(await api.index.GetReindex(pb.GetReindexRequest(reindex_id=reindex_id))).reindex]
        request = pb.ListReindexesRequest(page_size=limit)
        return await list_first(limit, api.index.ListReindexes, request, "reindexes")


async def _cancel(environment: Mapping[str, str], reindex_id: str) -> pb.Reindex:
    async with as_operator(environment) as api:
        return (await api.index.CancelReindex(pb.CancelReindexRequest(reindex_id=reindex_id))).reindex


async def _compare(
    environment: Mapping[str, str], request: pb.CompareEmbeddingModelsRequest
) -> pb.CompareEmbeddingModelsResponse:
    async with as_operator(environment) as api:
        return await api.index.CompareEmbeddingModels(request)


async def _use(
    environment: Mapping[str, str], request: pb.ActivateEmbeddingModelRequest
) -> pb.ActivateEmbeddingModelResponse:
    async with as_operator(environment) as api:
        return await api.index.ActivateEmbeddingModel(request)


async def _drop(environment: Mapping[str, str], model: str) -> None:
    async with as_operator(environment) as api:
        await api.index.DeleteEmbeddingModel(pb.DeleteEmbeddingModelRequest(model=model))
