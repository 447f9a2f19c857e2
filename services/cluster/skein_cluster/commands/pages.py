"""`skein pages`: questions whose answers are composed of the facts that hold."""

from __future__ import annotations

from datetime import datetime

import click
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import memory_pb2, pages_pb2
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.cli.output import list_first
from skein_kit.rpc.well_known_types import to_timestamp

_PROFILE = "subject:"


@click.group()
def pages_command() -> None:
    """List, show, create, pin and delete pages.

    A page is about a subject, an entity or a filter, and has the facts that hold now. Each subject with facts has a
    profile: `skein pages show subject:ID`.
    """


@pages_command.command("list")
@options.limit_option
@click.option("--pinned", is_flag=True, help="Only pinned pages.")
@options.cluster_answer
async def list_(limit: int, environment: dict[str, str], *, pinned: bool) -> options.Answer:
    """List stored pages, the pinned ones first, and then the profiles of subjects."""
    request = pages_pb2.ListPagesRequest(page_size=limit, pinned_only=pinned)
    async with as_tenant(environment) as api:
        pages = await list_first(limit, api.curation.ListPages, request, "pages")
    yield {"pages": pages}
    lines = [
        (
            page.page_id,
            "pinned" if page.pinned else "",
            output.shorten(page.title or page.subject_id, 80),
            page.subject_id or page.entity_memory_id or output.shorten(page.filter.where, 80),
        )
        for page in pages
    ]
    output.print_table(output.table("page", "", "title", "about", ids=("page",)), lines, empty="There are no pages.")


@pages_command.command("show")
@click.argument("page_id")
@click.option("--as-of", type=options.Time(), help="Show the answer of this time.")
@options.cluster_answer
async def show(page_id: str, as_of: datetime | None, environment: dict[str, str]) -> options.Answer:
    """Show the page PAGE_ID, or subject:ID, with the facts that hold now."""
    request = pages_pb2.GetPageRequest(page_id=page_id, as_of_time=to_timestamp(as_of))
    async with as_tenant(environment) as api:
        answer = await api.curation.GetPage(request)
    yield answer
    output.echo_content(answer.text.rstrip())
    if answer.truncated:
        output.echo("There are more facts than the page shows.", err=True)


@pages_command.command("create")
@click.option("--title", default="", help="Title; by default the subject.")
@click.option("--subject", default="", help="About this person.")
@click.option("--entity", default="", help="About this memory of an entity, by id or external id, and what is linked.")
@click.option("--where", default="", help="Only memories that match this filter.")
@click.option("--pin", is_flag=True, help="Pin it.")
@click.option(
    "--section",
    "sections",
    multiple=True,
    metavar="TITLE=TYPE,…",
    help="A section of memories of these types; can be repeated. By default those of a profile.",
)
@options.cluster_answer
async def create(
    title: str,
    subject: str,
    entity: str,
    where: str,
    sections: tuple[str, ...],
    environment: dict[str, str],
    *,
    pin: bool,
) -> options.Answer:
    """Create a page about a subject, an entity or a filter."""
    page = pages_pb2.Page(title=title, subject_id=subject, entity_memory_id=entity, pinned=pin)
    if where:
        page.filter.CopyFrom(memory_pb2.MemoryFilter(where=where))
    page.sections.extend(_section(text) for text in sections)
    async with as_tenant(environment) as api:
        created = (await api.curation.CreatePage(pages_pb2.CreatePageRequest(page=page))).page
    yield created
    output.echo(f"Created {created.page_id}.")


@pages_command.command("pin")
@click.argument("page_id")
@options.cluster_answer
async def pin_(page_id: str, environment: dict[str, str]) -> options.Answer:
    """Pin a page: lists show it first, and MCP lists it. Of subject:ID it stores a page about that subject."""
    if page_id.startswith(_PROFILE):
        page = pages_pb2.Page(subject_id=page_id.removeprefix(_PROFILE), pinned=True)
        async with as_tenant(environment) as api:
            pinned = (await api.curation.CreatePage(pages_pb2.CreatePageRequest(page=page))).page
    else:
        pinned = await _set_pinned(environment, page_id, pinned=True)
    yield pinned
    output.echo(f"Pinned {pinned.page_id}.")


@pages_command.command("unpin")
@click.argument("page_id")
@options.cluster_answer
async def unpin(page_id: str, environment: dict[str, str]) -> options.Answer:
    """Unpin a page."""
    page = await _set_pinned(environment, page_id, pinned=False)
    yield page
    output.echo(f"Unpinned {page.page_id}.")


@pages_command.command("delete")
@click.argument("page_id")
@options.cluster_answer
async def delete(page_id: str, environment: dict[str, str]) -> options.Answer:
    """Delete a page. The facts stay."""
    async with as_tenant(environment) as api:
        await api.curation.DeletePage(pages_pb2.DeletePageRequest(page_id=page_id))
    yield {"deleted": page_id}
    output.echo(f"Deleted {page_id}.")


async def _set_pinned(environment: dict[str, str], page_id: str, *, pinned: bool) -> pages_pb2.Page:
    request = pages_pb2.UpdatePageRequest(
        page=pages_pb2.Page(page_id=page_id, pinned=pinned), update_mask=FieldMask(paths=["pinned"])
    )
    async with as_tenant(environment) as api:
        return (await api.curation.UpdatePage(request)).page


def _section(text: str) -> pages_pb2.PageSection:
    title, has_types, types = text.partition("=")
    if not (title.strip() and has_types and types.strip()):
        raise CommandError(f'"{text}" is no section; write it as "Plans=decision,task".', ExitCode.USAGE)
    return pages_pb2.PageSection(title=title.strip(), types=[name.strip() for name in types.split(",") if name.strip()])
