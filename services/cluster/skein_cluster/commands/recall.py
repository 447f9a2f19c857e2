"""`skein recall`: query the tenant's memory, and show the relevance of each hit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar, cast

import click
from rich.text import Text

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein_client.client import Client
from skein_client.errors import PermissionDenied
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import command_lines, options, output
from skein_cluster.cli.recall_hits import format_components, format_profile, hit_kind, hit_text, hit_time
from skein_kit.rpc.well_known_types import to_timestamp

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

# Sessions searched for messages; a tenant with more sessions is assumed to have messages.
_SESSIONS = 100
_BRANCHES = {
    "memories": gateway_pb2.BRANCH_MEMORIES,
    "messages": gateway_pb2.BRANCH_MESSAGES,
    "blocks": gateway_pb2.BRANCH_BLOCKS,
    "profile": gateway_pb2.BRANCH_PROFILE,
}
_STORED = frozenset({gateway_pb2.BRANCH_MEMORIES, gateway_pb2.BRANCH_MESSAGES})
MODES = {
    "hybrid": recall_pb2.SEARCH_MODE_HYBRID,
    "keyword": recall_pb2.SEARCH_MODE_KEYWORD,
    "semantic": recall_pb2.SEARCH_MODE_SEMANTIC,
}


def filter_options(command: Decorated) -> Decorated:
    """Add --agent, --subject, --where, --as-of and --valid-at.

    The command gets a MemoryFilter as `item_filter`, None without any condition, and a datetime or None as
    `as_of_time`.
    """

    @functools.wraps(command)
    def with_filter(
        *arguments: Any, agent: str, subject: str, where: str, valid_at: datetime | None, **values: Any
    ) -> Any:
        visible_to = memory_pb2.ScopeContext(agent_id=agent, subject_id=subject) if agent or subject else None
        item_filter = memory_pb2.MemoryFilter(visible_to=visible_to, where=where, valid_at_time=to_timestamp(valid_at))
        return command(*arguments, item_filter=item_filter if item_filter.ListFields() else None, **values)

    decorated: Any = with_filter
    for option in (
        click.option(
            "--valid-at",
            type=options.Time(),
            help="Only memories that were true at this time, by their validity.",
        ),
        click.option(
            "--as-of",
            "as_of_time",
            type=options.Time(),
            help="Answer as at this time: with what was known then, and not since.",
        ),
        click.option(
            "--where",
            default="",
            help="Only items that pass a condition, such as 'kind = memory OR role != assistant'.",
        ),
        click.option(
            "--subject", default="", help="Only items of this person and nobody else, what is shared, the profile."
        ),
        click.option("--agent", default="", help="Only items visible to this agent, and its blocks."),
    ):
        decorated = option(decorated)
    return cast("Decorated", decorated)


def mode_option(command: Decorated) -> Decorated:
    """Add --mode; the command gets `mode`, a name in MODES."""
    return click.option(
        "--mode",
        type=click.Choice(list(MODES)),
        default="hybrid",
        show_default=True,
        help="Search by words and meaning, only by words, or only by meaning.",
    )(command)


def show_incomplete(branches: Iterable[gateway_pb2.Branch]) -> None:
    """Name the missing branches on stderr, if any."""
    names = ", ".join(gateway_pb2.Branch.Name(branch).removeprefix("BRANCH_").lower() for branch in branches)
    if names:
        output.stderr_console().print(Text(f"Incomplete: {names} did not answer."))


def show_expansions(expansions: Iterable[recall_pb2.QueryExpansion]) -> None:
    """Tell on stderr what parts of the query were read as."""
    for expansion in expansions:
        output.stderr_console().print(Text(f"read '{expansion.written}' as '{expansion.read_as}'"))


def show_receipt(receipt_id: str) -> None:
    """Print the id of the answer's receipt, if it has one, on stderr."""
    if receipt_id:
        output.echo(f"Receipt {receipt_id}.", err=True)


def show_pending(count: int) -> None:
    """Tell on stderr how many items have no vector yet, if any."""
    if count:
        output.stderr_console().print(
            Text(f"Not embedded yet: {count}. Only the words of these items are found so far.")
        )


def show_as_of(as_of_time: datetime | None, purged_count: int) -> None:
    """Tell on stderr as of which time the answer is, if any, and how many items of then were purged since."""
    if as_of_time is not None:
        purged = f" {purged_count} memories and messages of then were purged since." if purged_count else ""
        output.stderr_console().print(Text(f"As it was known on {as_of_time:%Y-%m-%d %H:%M:%S} UTC.{purged}"))


@click.command()
@options.text_argument
@click.option(
    "--limit",
    type=click.IntRange(1, 100),
    help="Maximum number of hits.  [default: 10, and 25 where TEXT asks for all of something]",
)
@click.option(
    "--branch",
    "branches",
    type=click.Choice(list(_BRANCHES)),
    multiple=True,
    help="Search only these items (repeatable).",
)
@click.option(
    "--min-relevance",
    type=click.FloatRange(0, 1),
    help="Leave out hits of a lower relevance; 0 keeps all.  [default: the tenant's policy]",
)
@click.option(
    "--min-trust", type=click.FloatRange(0, 1), default=0.0, help="Leave out memories of a lower trust; 0.5 is neutral."
)
@mode_option
@click.option("--explain", is_flag=True, help="Show the score of each hit, and what it is made of.")
@filter_options
@options.cluster_answer
async def recall_command(  # noqa: PLR0913 - one argument for each option.
    text: str,
    limit: int | None,
    branches: tuple[str, ...],
    min_relevance: float | None,
    min_trust: float,
    mode: str,
    item_filter: memory_pb2.MemoryFilter | None,
    as_of_time: datetime | None,
    *,
    explain: bool,
    environment: dict[str, str],
) -> options.Answer:
    """Recall items about TEXT, best first, with the relevance of each."""
    request = gateway_pb2.RecallRequest(
        query=text,
        limit=limit,
        branches=[_BRANCHES[branch] for branch in branches],
        filter=item_filter,
        min_relevance=min_relevance,
        min_trust=min_trust,
        mode=MODES[mode],
        as_of_time=to_timestamp(as_of_time),
    )
    # Return the response, and whether the tenant is empty.
    async with as_tenant(environment) as api:
        response = await api.gateway.Recall(request)
        includes_stored_items = not request.branches or bool({*request.branches} & _STORED)
        has_no_results = not response.hits and not response.HasField("profile") and not response.incomplete
        is_empty = includes_stored_items and has_no_results and await is_tenant_empty(api)
    yield response
    lines = [
        (
            f"{hit.relevance:.2f}" if hit.HasField("relevance") else "–",
            hit_kind(hit),
            output.format_time(hit_time(hit)),
            hit_text(hit),
            *((f"{hit.score:.3f}", format_components(hit)) if explain else ()),
        )
        for hit in response.hits
    ]
    show_expansions(response.query_expansions)
    if explain and response.asks_for_all:
        output.stderr_console().print(Text("Understood to ask for all of something: more hits, cut by share."))
    if response.HasField("profile"):
        output.stdout_console().print(Text(format_profile(response.profile)))
    if is_empty:
        output.echo(command_lines.store_hint(environment), err=True)
    else:
        output.print_table(
            output.table(
                *("relevance", "kind", "when", "text"),
                *(("score", "components") if explain else ()),
                numbers=("relevance", "score"),
            ),
            lines,
            empty=_empty_text(response),
        )
    show_as_of(as_of_time, response.purged_count)
    show_pending(response.pending_embedding_count)
    show_receipt(response.receipt_id)
    show_incomplete(response.incomplete)


def _empty_text(response: gateway_pb2.RecallResponse) -> str:
    if response.nothing_relevant:
        return "No hit is relevant enough: --min-relevance 0 shows all."
    return "No hits." if response.HasField("profile") else "Nothing was found."


async def is_tenant_empty(api: Client) -> bool:
    """Tell whether the tenant has no memory and no message that the credential can read."""
    try:
        memories = await api.memories.ListMemories(memory_pb2.ListMemoriesRequest(page_size=1))
        sessions = await api.sessions.ListSessions(session_pb2.ListSessionsRequest(page_size=_SESSIONS))
    except PermissionDenied:
        return False
    has_messages = any(session.message_count for session in sessions.sessions) or sessions.next_page_token
    return not memories.memories and not has_messages
