"""Anthropic's memory tool on blocks: the commands that Claude sends, and the answers that its documentation lists."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import blocks_pb2
from skein_adapters.anthropic_memory import MemoryToolError, SkeinMemoryTool
from skein_client import Client

NOTES = "/memories/notes.md"
TEXT = "Tests come first.\nSpaces, no tabs.\n"


@pytest.fixture
async def client(cluster: Cluster, tenant: Tenant) -> AsyncIterator[Client]:
    async with Client(endpoint=cluster.endpoint, api_key=tenant.api_key, timeout=60) as client:
        yield client


@pytest.fixture
def memory(client: Client) -> SkeinMemoryTool:
    return SkeinMemoryTool(client, agent_id="coder", subject_id="anna")


async def do(memory: SkeinMemoryTool, command: str, path: str = NOTES, **more: Any) -> str:
    return await memory.execute({"command": command, "path": path, **more})


async def test_a_file_is_written_and_read_with_line_numbers(memory: SkeinMemoryTool) -> None:
    created = await do(memory, "create", file_text=TEXT)
    whole = await do(memory, "view")
    part = await do(memory, "view", view_range=[2, -1])

    assert created == f"File created successfully at: {NOTES}"
    header = f"Here's the content of {NOTES} with line numbers:\n"
    assert whole == f"{header}     1\tTests come first.\n     2\tSpaces, no tabs.\n     3\t"
    assert part == f"{header}     2\tSpaces, no tabs.\n     3\t"


async def test_a_directory_lists_two_levels_with_sizes(memory: SkeinMemoryTool) -> None:
    for path in (NOTES, "/memories/a/b.txt", "/memories/a/c/d/e.txt", "/memories/.hidden"):
        await do(memory, "create", path, file_text="x" * 1536)

    listed = await do(memory, "view", "/memories")

    header, *lines = listed.split("\n")
    assert header == "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:"
    assert lines == [
        "6K\t/memories",
        "3K\t/memories/a/",
        "1.5K\t/memories/a/b.txt",
        "1.5K\t/memories/a/c/",
        "1.5K\t/memories/notes.md",
    ]


async def test_a_text_is_replaced_only_where_it_is_unique(memory: SkeinMemoryTool) -> None:
    await do(memory, "create", file_text="one\ntwo\none")

    with pytest.raises(MemoryToolError, match="Multiple occurrences of old_str `one` in lines: 1, 3"):
        await do(memory, "str_replace", old_str="one", new_str="three")
    with pytest.raises(MemoryToolError, match="did not appear verbatim"):
        await do(memory, "str_replace", old_str="four", new_str="three")
    answer = await do(memory, "str_replace", old_str="two", new_str="TWO")

    assert answer.endswith("     1\tone\n     2\tTWO\n     3\tone")


async def test_lines_are_inserted_after_a_line(memory: SkeinMemoryTool) -> None:
    await do(memory, "create", file_text="one\nthree\n")

    await do(memory, "insert", insert_line=1, insert_text="two\n")
    await do(memory, "insert", insert_line=0, insert_text="zero")
    with pytest.raises(MemoryToolError, match=r"within the range \[0, 4\]"):
        await do(memory, "insert", insert_line=9, insert_text="nine")

    assert (await do(memory, "view")).endswith("     1\tzero\n     2\tone\n     3\ttwo\n     4\tthree\n     5\t")


async def test_files_and_directories_are_renamed_and_deleted(memory: SkeinMemoryTool) -> None:
    await do(memory, "create", "/memories/a/b.txt", file_text="b")
    await do(memory, "create", "/memories/a/c.txt", file_text="c")

    await memory.execute({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/z"})
    moved = await do(memory, "view", "/memories/z/c.txt")
    await do(memory, "delete", "/memories/z/b.txt")
    await do(memory, "create", "/memories/z/b.txt", file_text="again")
    again = await do(memory, "view", "/memories/z/b.txt")
    await do(memory, "delete", "/memories/z")

    assert moved.endswith("     1\tc")
    assert again.endswith("     1\tagain")
    assert await do(memory, "view", "/memories") == (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:\n0B\t/memories"
    )


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/memories/../secrets", "/memories/./a", "memories/a", "/memories//a", "/memoriesx", "", 7]
)
async def test_a_path_outside_of_the_directory_is_refused(memory: SkeinMemoryTool, path: Any) -> None:
    answer = await memory.result("toolu_1", {"command": "create", "path": path, "file_text": "x"})

    assert (answer["tool_use_id"], answer["is_error"]) == ("toolu_1", True)
    assert (await do(memory, "view", "/memories")).endswith("0B\t/memories")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ({"command": "create", "path": NOTES, "file_text": "x"}, f"File {NOTES} already exists"),
        ({"command": "create", "path": "/memories", "file_text": "x"}, "is a directory"),
        ({"command": "create", "path": "/memories/long", "file_text": "x" * 100_001}, "at most 100000 characters"),
        ({"command": "view", "path": "/memories/no"}, "does not exist. Please provide a valid path."),
        ({"command": "insert", "path": "/memories/no", "insert_line": 0, "insert_text": "x"}, "does not exist"),
        ({"command": "delete", "path": "/memories"}, "Cannot delete"),
        ({"command": "delete", "path": "/memories/no"}, "does not exist"),
        ({"command": "rename", "old_path": "/memories/no", "new_path": "/memories/n"}, "does not exist"),
        ({"command": "rename", "old_path": NOTES, "new_path": NOTES}, "already exists"),
        ({"command": "rename", "old_path": NOTES, "new_path": f"{NOTES}/x"}, "Cannot rename"),
        ({"command": "erase", "path": NOTES}, "Unknown command: erase"),
        ({}, "Unknown command: None"),
    ],
)
async def test_what_cannot_be_done_is_told_to_the_model(
    memory: SkeinMemoryTool, command: dict[str, Any], said: str
) -> None:
    await do(memory, "create", file_text=TEXT)

    answer = await memory.result("toolu_1", command)

    assert answer["is_error"] is True
    assert said in answer["content"]


async def test_directories_of_two_people_and_two_agents_are_apart(client: Client, memory: SkeinMemoryTool) -> None:
    await do(memory, "create", file_text=TEXT)

    for other in (
        SkeinMemoryTool(client, agent_id="coder", subject_id="ben"),
        SkeinMemoryTool(client, agent_id="cook", subject_id="anna"),
        SkeinMemoryTool(client),
    ):
        assert (await do(other, "view", "/memories")).endswith("0B\t/memories")
    same = SkeinMemoryTool(client, agent_id="coder", subject_id="anna")
    assert NOTES in await do(same, "view", "/memories")


async def test_a_file_is_a_block_about_the_person(memory: SkeinMemoryTool, tenant: Tenant) -> None:
    await do(memory, "create", file_text=TEXT)

    listed = await tenant.blocks.ListBlocks(blocks_pb2.ListBlocksRequest())

    (block,) = listed.blocks
    assert (block.label, block.value, block.subject_id) == ("notes.md", TEXT, "anna")


async def test_a_change_by_somebody_else_is_not_overwritten(memory: SkeinMemoryTool, client: Client) -> None:
    await do(memory, "create", file_text=TEXT)
    (block,) = (await client.blocks.ListBlocks(blocks_pb2.ListBlocksRequest())).blocks
    change = blocks_pb2.Block(block_id=block.block_id, value="Theirs")
    mask = FieldMask(paths=["value"])

    class Racing(SkeinMemoryTool):
        async def _write(self, block: blocks_pb2.Block, value: str) -> None:
            await client.blocks.UpdateBlock(blocks_pb2.UpdateBlockRequest(block=change, update_mask=mask))
            await super()._write(block, value)

    with pytest.raises(MemoryToolError, match="changed meanwhile"):
        await do(Racing(client, agent_id="coder", subject_id="anna"), "str_replace", old_str="Tests", new_str="Mine")

    assert (await do(memory, "view")).endswith("     1\tTheirs")


async def test_every_form_of_a_person_s_name_is_the_same_directory(client: Client) -> None:
    decomposed = SkeinMemoryTool(client, agent_id="cafe\u0301", subject_id="Zu\u0308rich")
    composed = SkeinMemoryTool(client, agent_id="caf\u00e9", subject_id="Z\u00fcrich")

    await do(decomposed, "create", file_text=TEXT)

    assert "Tests come first." in await do(composed, "view")
    assert "notes.md" in await do(decomposed, "view", "/memories")
