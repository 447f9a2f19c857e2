"""Statements as Postgres understands them: the parse tree of each, with every name, operator and cast resolved."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

# A brace, a parenthesis, or a word, in which backslashes quote.
_TOKEN = re.compile(r"[{}()]|(?:\\.|[^\s{}()\\])+", re.DOTALL)
_UTILITY = "{QUERY :commandType 6 "


@dataclass(slots=True)
class Node:
    """A node of a parse tree: its type, as Postgres prints it, and its fields, each a list of values."""

    type: str
    fields: dict[str, list[Any]] = field(default_factory=dict)

    def number(self, name: str) -> int:
        """Return the number in a field, 0 when there is none."""
        value = self.fields.get(name, ["0"])[0]
        return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else 0

    def below(self, name: str) -> Iterator[Node]:
        """Yield every node in a field, at any depth."""
        yield from _nodes(self.fields.get(name, []))

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        yield self
        for values in self.fields.values():
            yield from _nodes(values)


def _nodes(values: list[Any]) -> Iterator[Node]:
    for value in values:
        if isinstance(value, Node):
            yield from value.walk()
        elif isinstance(value, list):
            yield from _nodes(value)


def parse_tree(text: str) -> Node:
    """Parse what debug_print_parse prints."""
    (tree,) = _values(iter(_TOKEN.findall(text)), end="")
    assert isinstance(tree, Node)
    return tree


def _values(tokens: Iterator[str], end: str) -> list[Any]:
    values: list[Any] = []
    for token in tokens:
        if token == end:
            break
        if token == "{":
            values.append(_node(_values(tokens, "}")))
        elif token == "(":
            values.append(_values(tokens, ")"))
        else:
            values.append(token)
    return values


def _node(values: list[Any]) -> Node:
    node = Node(values[0])
    name = ""
    for value in values[1:]:
        if isinstance(value, str) and value.startswith(":"):
            name = value[1:]
            node.fields[name] = []
        else:
            node.fields[name].append(value)
    return node


@asynccontextmanager
async def printed_trees(connection: Connection) -> AsyncIterator[list[Node]]:
    """Collect the trees of the statements that the connection prepares or runs, those within functions included."""
    trees: list[Node] = []

    def listen(_connection: object, message: Any) -> None:
        # The settings are printed as well.
        if message.message == "parse tree:" and _UTILITY not in message.detail:
            trees.append(parse_tree(message.detail))

    await connection.execute("SET client_min_messages = log; SET debug_pretty_print = off; SET debug_print_parse = on")
    connection.add_log_listener(listen)
    try:
        yield trees
        # The answer is read after all messages, whose listeners are called in their order.
        await connection.execute("RESET debug_print_parse; RESET debug_pretty_print; RESET client_min_messages")
    finally:
        connection.remove_log_listener(listen)


async def analyze(connection: Connection, text: str) -> Node:
    """Return the tree of a statement. Raises what Postgres raises for one that it cannot prepare."""
    async with printed_trees(connection) as trees:
        await connection.prepare(text)
    return trees[0]
