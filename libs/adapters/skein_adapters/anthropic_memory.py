"""Anthropic's memory tool on Skein: each file of /memories is a block, which every client reads and changes.

async with Client.from_environment() as skein:
    memory = SkeinMemoryTool(skein, agent_id="coder", subject_id="anna")
    response = await anthropic.beta.messages.create(..., tools=[memory.definition])
    for call in (block for block in response.content if block.type == "tool_use" and block.name == "memory"):
        results.append(await memory.result(call.id, call.input))

The module needs no package of Anthropic's. The commands and their answers are those of
platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import blocks_pb2
from skein_client import Client
from skein_client.errors import Aborted, AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from skein_client.exact_json import get_json, set_json
from skein_client.pagination import iterate_pages
from skein_client.plain_names import plain_name

ROOT = "/memories"
_MARK = "anthropic_memory"
_MAX_LABEL = 50
_MAX_PATH = 1000
_MAX_VALUE = 100_000
_PAGE = 1000
_DIGITS = 32
_LINE_NUMBER_WIDTH = 6
_DEPTH = 2
_CONTEXT_LINES = 2


class MemoryToolError(Exception):
    """A command cannot be done; the message is for the model."""


class SkeinMemoryTool:
    """The files of one memory directory.

    Equal `agent_id` and `subject_id` mean the same directory, on every machine. Changes at the same time are safe: a
    file that changed since it was read is left alone, and the model reads it again. Earlier contents stay as revisions
    of the block.
    """

    definition: Mapping[str, str] = {"type": "memory_20250818", "name": "memory"}

    def __init__(self, client: Client, *, agent_id: str = "", subject_id: str = "") -> None:
        """Keep the files by an open client.

        `subject_id` is the person whom they are about: erasing the person erases them. `agent_id` tells the
        directories of several agents apart; the agent's own blocks are others.
        """
        self._client = client
        # As the services store them: every form of Unicode of a name means the same directory.
        self._agent_id = plain_name(agent_id)
        self._subject_id = plain_name(subject_id)

    async def result(self, tool_use_id: str, command: Mapping[str, Any]) -> dict[str, Any]:
        """Return the `tool_result` block of a call; an error that the model can react to is one of its kind."""
        try:
            return {"type": "tool_result", "tool_use_id": tool_use_id, "content": await self.execute(command)}
        except MemoryToolError as error:
            return {"type": "tool_result", "tool_use_id": tool_use_id, "content": str(error), "is_error": True}

    async def execute(self, command: Mapping[str, Any]) -> str:
        """Do one command ("view", "create", "str_replace", "insert", "delete", "rename"), and return what it says.

        Raises MemoryToolError for what the model got wrong, and SkeinError when the cluster refuses or fails.
        """
        match command.get("command"):
            case "view":
                return await self._view(_path(command, "path"), command.get("view_range"))
            case "create":
                return await self._create(_path(command, "path"), _text(command, "file_text"))
            case "str_replace":
                return await self._replace(
                    _path(command, "path"), _text(command, "old_str"), command.get("new_str", "")
                )
            case "insert":
                text = _text(command, "insert_text")
                return await self._insert(_path(command, "path"), command.get("insert_line"), text)
            case "delete":
                return await self._delete(_path(command, "path"))
            case "rename":
                return await self._rename(_path(command, "old_path"), _path(command, "new_path"))
            case unknown:
                raise MemoryToolError(f"Unknown command: {unknown}")

    async def _view(self, path: str, view_range: object) -> str:
        block = None if path == ROOT else await self._find(path)
        if block is not None:
            return f"Here's the content of {path} with line numbers:\n{_numbered(block.value, view_range)}"
        files = await self._files(path)
        if not files and path != ROOT:
            raise MemoryToolError(f"The path {path} does not exist. Please provide a valid path.")
        sizes: dict[str, int] = {path: 0}
        for name, file in files.items():
            parts = name.removeprefix(f"{path}/").split("/")
            size = len(file.value.encode())
            sizes[path] += size
            for depth in range(1, min(len(parts), _DEPTH) + 1):
                entry = f"{path}/{'/'.join(parts[:depth])}{'/' if depth < len(parts) else ''}"
                sizes[entry] = sizes.get(entry, 0) + size
        header = f"Here're the files and directories up to {_DEPTH} levels deep in {path}, excluding hidden items:"
        shown = [name for name in sizes if "/." not in name]
        return "\n".join([header, *(f"{_size(sizes[name])}\t{name}" for name in sorted(shown))])

    async def _create(self, path: str, text: str) -> str:
        if path == ROOT or await self._files(path):
            raise MemoryToolError(f"The path {path} is a directory.")
        if len(text) > _MAX_VALUE:
            raise MemoryToolError(f"A file has at most {_MAX_VALUE} characters.")
        block = blocks_pb2.Block(
            block_id=self._block_id(path),
            label=path.rpartition("/")[2][:_MAX_LABEL].strip() or "file",
            value=text,
            limit=_MAX_VALUE,
            description=f"{path} of a memory directory",
            subject_id=self._subject_id,
        )
        set_json(block, "metadata", {_MARK: {"path": path, "agent_id": self._agent_id}})
        try:
            await self._client.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block))
        except AlreadyExists:
            if await self._find(path) is not None:
                raise MemoryToolError(f"File {path} already exists") from None
            await self._restore(block)
        return f"File created successfully at: {path}"

    async def _replace(self, path: str, old: str, new: object) -> str:
        block = await self._file(path)
        count = block.value.count(old) if old else 0
        if count == 0:
            raise MemoryToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
        if count > 1:
            lines = [str(number) for number, line in enumerate(block.value.split("\n"), 1) if old in line]
            places = f" in lines: {', '.join(lines)}" if lines else ""
            raise MemoryToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}`{places}. "
                "Please ensure it is unique"
            )
        position = block.value.index(old)
        value = block.value.replace(old, str(new))
        await self._write(block, value)
        changed = value[:position].count("\n") + 1
        first, last = max(changed - _CONTEXT_LINES, 1), changed + _CONTEXT_LINES
        header = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return f"{header}\n{_numbered(value, [first, last])}"

    async def _insert(self, path: str, line: object, text: str) -> str:
        block = await self._file(path)
        lines = block.value.splitlines()
        if not isinstance(line, int) or isinstance(line, bool) or not 0 <= line <= len(lines):
            raise MemoryToolError(
                f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}]."
            )
        lines.insert(line, text.rstrip("\n"))
        await self._write(block, "\n".join(lines) + "\n")
        return f"The file {path} has been edited."

    async def _delete(self, path: str) -> str:
        if path == ROOT:
            raise MemoryToolError(f"Cannot delete the {ROOT} directory itself")
        block = await self._find(path)
        blocks = [block] if block is not None else list((await self._files(path)).values())
        if not blocks:
            raise MemoryToolError(f"The path {path} does not exist")
        for file in blocks:
            await self._client.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id=file.block_id))
        return f"Successfully deleted {path}"

    async def _rename(self, old: str, new: str) -> str:
        if ROOT in {old, new} or new.startswith(f"{old}/"):
            raise MemoryToolError(f"Cannot rename {old} to {new}")
        if await self._find(new) is not None or await self._files(new):
            raise MemoryToolError(f"The destination {new} already exists")
        block = await self._find(old)
        files = {old: block} if block is not None else await self._files(old)
        if not files:
            raise MemoryToolError(f"The path {old} does not exist")
        for name, file in files.items():
            # The copy comes first, so that an interruption loses nothing.
            await self._create(new + name.removeprefix(old), file.value)
            await self._client.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id=file.block_id))
        return f"Successfully renamed {old} to {new}"

    async def _restore(self, block: blocks_pb2.Block) -> None:
        """Bring back the deleted block of a path, with another content."""
        await self._client.blocks.UndeleteBlock(blocks_pb2.UndeleteBlockRequest(block_id=block.block_id))
        mask = FieldMask(paths=["value", "metadata"])
        await self._client.blocks.UpdateBlock(blocks_pb2.UpdateBlockRequest(block=block, update_mask=mask))

    async def _write(self, block: blocks_pb2.Block, value: str) -> None:
        change = blocks_pb2.Block(block_id=block.block_id, value=value, revision=block.revision)
        request = blocks_pb2.UpdateBlockRequest(block=change, update_mask=FieldMask(paths=["value"]))
        try:
            await self._client.blocks.UpdateBlock(request)
        except Aborted:
            raise MemoryToolError("The file has changed meanwhile. View it again before changing it.") from None
        except InvalidArgument as error:
            if error.reason != "BLOCK_TOO_LONG":
                raise
            raise MemoryToolError(f"A file has at most {_MAX_VALUE} characters.") from None
        except FailedPrecondition as error:
            if error.reason != "BLOCK_READ_ONLY":
                raise
            raise MemoryToolError("The file is read-only.") from None

    async def _file(self, path: str) -> blocks_pb2.Block:
        block = await self._find(path)
        if block is not None:
            return block
        if path == ROOT or await self._files(path):
            raise MemoryToolError(f"The path {path} is not a file.")
        raise MemoryToolError(f"The path {path} does not exist. Please provide a valid path.")

    async def _find(self, path: str) -> blocks_pb2.Block | None:
        try:
            request = blocks_pb2.GetBlockRequest(block_id=self._block_id(path))
            return (await self._client.blocks.GetBlock(request)).block
        except NotFound:
            return None

    async def _files(self, directory: str) -> dict[str, blocks_pb2.Block]:
        """Return the files below a directory, by their paths."""
        request = blocks_pb2.ListBlocksRequest(subject_id=self._subject_id, page_size=_PAGE)
        files: dict[str, blocks_pb2.Block] = {}
        async for block in iterate_pages(self._client.blocks.ListBlocks, request, "blocks"):
            mark = (get_json(block, "metadata") or {}).get(_MARK)
            path = mark.get("path") if isinstance(mark, dict) and mark.get("agent_id") == self._agent_id else None
            is_own = isinstance(path, str) and path.startswith(f"{directory}/") and block.subject_id == self._subject_id
            if isinstance(path, str) and is_own:
                files[path] = block
        return dict(sorted(files.items()))

    def _block_id(self, path: str) -> str:
        whole = f"{self._agent_id}\0{self._subject_id}\0{path}"
        return f"{_MARK}-{hashlib.sha256(whole.encode('utf-8', 'replace')).hexdigest()[:_DIGITS]}"


def _path(command: Mapping[str, Any], name: str) -> str:
    """Return a path in its one form. Raises MemoryToolError for one outside of the directory."""
    path = _text(command, name)
    parts = path.strip().rstrip("/").split("/")
    if parts[:2] != ["", ROOT[1:]]:
        raise MemoryToolError(f"Path must start with {ROOT}, got: {path}")
    if any(part in {"", ".", ".."} or not part.isprintable() for part in parts[2:]) or len(path) > _MAX_PATH:
        raise MemoryToolError(f"Path {path} would escape {ROOT} directory")
    return "/".join(parts)


def _text(command: Mapping[str, Any], name: str) -> str:
    value = command.get(name)
    if not isinstance(value, str):
        raise MemoryToolError(f"The command needs the text `{name}`.")
    return value.encode("utf-8", "replace").decode().replace("\0", "")


def _numbered(value: str, view_range: object) -> str:
    """Return the lines from the first to the last of a range, with their numbers; -1 is the last line."""
    lines = value.split("\n")
    first, last = 1, len(lines)
    match view_range:
        case [int(start), int(end)]:
            first, last = max(start, 1), len(lines) if end == -1 else end
    return "\n".join(
        f"{number:>{_LINE_NUMBER_WIDTH}}\t{lines[number - 1]}" for number in range(first, min(last, len(lines)) + 1)
    )


def _size(count: int) -> str:
    """Return a size as `du -h` shows it."""
    size, unit = float(count), "B"
    for larger in ("K", "M", "G"):
        if size < 1024:  # noqa: PLR2004 - of a unit.
            break
        size, unit = size / 1024, larger
    return f"{size:.0f}{unit}" if size == int(size) else f"{size:.1f}{unit}"
