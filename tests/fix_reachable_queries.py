"""Which named queries the methods of a service can reach, read from the syntax of its code: rather more than what runs.

A name is followed to what it is imported or defined as, and an attribute to the class of its object where the code
names that one. Any other attribute is followed to every method of its name in a class that runs queries.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

_QUERIES = "QUERIES"
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
# What the construction of an object, or a statement that uses it, calls without naming it.
_UNNAMED = ("__init__", "__post_init__", "__aenter__", "__aexit__", "__enter__", "__exit__", "__call__", "__iter__")

# A module with a definition, or a class of it with a method: ("skein_memory.facts.rpc", "FactHandlers.RetractFacts").
Place = tuple[str, str]


@dataclass(slots=True)
class _Module:
    """The definitions of a module by their names, methods by "Class.name"; what it imports; its classes' attributes."""

    definitions: dict[str, list[ast.AST]] = field(default_factory=lambda: defaultdict(list))
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    # The types of attributes that __init__ assigns from annotated arguments, by "Class.attribute".
    attributes: dict[str, str] = field(default_factory=dict)
    runs_queries: bool = False


class QueryReach:
    """The code of some packages."""

    def __init__(self, packages: Iterable[str], query_names: Collection[str]) -> None:
        self._query_names = frozenset(query_names)
        self._modules: dict[str, _Module] = {}
        for package in packages:
            folder = Path(str(resources.files(package)))
            for file in folder.rglob("*.py"):
                parts = [package, *file.relative_to(folder).with_suffix("").parts]
                name = ".".join(parts).removesuffix(".__init__")
                self._modules[name] = _read(ast.parse(file.read_text("utf-8")))
        self._methods: dict[str, list[Place]] = defaultdict(list)
        for name, module in self._modules.items():
            for definition in module.definitions:
                if module.runs_queries and "." in definition:
                    self._methods[definition.partition(".")[2]].append((name, definition))

    def queries_of(self, starts: Iterable[Place]) -> dict[str, list[Place]]:
        """Return the queries that some methods reach, each with a chain of calls that leads to it."""
        before: dict[Place, Place | None] = dict.fromkeys(starts)
        waiting, found = list(before), dict[str, list[Place]]()
        while waiting:
            place = waiting.pop()
            for node in self._modules[place[0]].definitions[place[1]]:
                for name in self._named_queries(node):
                    found.setdefault(name, list(_chain(place, before)))
                for other in self._uses(place, node):
                    if other not in before:
                        before[other] = place
                        waiting.append(other)
        return found

    def _named_queries(self, node: ast.AST) -> Iterator[str]:
        for each in ast.walk(node):
            if isinstance(each, ast.Constant) and each.value in self._query_names:
                yield str(each.value)

    def _uses(self, place: Place, node: ast.AST) -> Iterator[Place]:
        """Yield the definitions that one names."""
        module_name, definition = place
        class_name = definition.partition(".")[0] if "." in definition else ""
        types = _argument_types(node)
        local = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        local |= {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id not in local:
                yield from self._of_name(module_name, each.id)
            elif isinstance(each, ast.Attribute):
                yield from self._of_attribute(module_name, class_name, types, each)

    def _of_name(self, module_name: str, name: str) -> Iterator[Place]:
        module = self._modules.get(module_name)
        if module is None or name == _QUERIES:
            return
        if name in module.imports:
            origin, original = module.imports[name]
            yield from self._of_name(origin, original)
        elif name in module.definitions:
            yield module_name, name
            for method in _UNNAMED:
                if f"{name}.{method}" in module.definitions:
                    yield module_name, f"{name}.{method}"

    def _of_attribute(
        self, module_name: str, class_name: str, types: Mapping[str, str], node: ast.Attribute
    ) -> Iterator[Place]:
        module, value = self._modules[module_name], node.value
        if isinstance(value, ast.Name) and value.id in {"self", "cls"} and class_name:
            if f"{class_name}.{node.attr}" in module.definitions:
                yield module_name, f"{class_name}.{node.attr}"
            return
        if isinstance(value, ast.Name) and value.id in module.imports and value.id not in types:
            origin, original = module.imports[value.id]
            imported = f"{origin}.{original}"
            if imported in self._modules:
                yield from self._of_name(imported, node.attr)
                return
        known = None
        if isinstance(value, ast.Name):
            known = types.get(value.id)
        elif isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "self":
            known = module.attributes.get(f"{class_name}.{value.attr}")
        owner = None if known is None else self._class_of(module_name, known)
        if owner is not None and f"{owner[1]}.{node.attr}" in self._modules[owner[0]].definitions:
            yield owner[0], f"{owner[1]}.{node.attr}"
            return
        yield from self._methods.get(node.attr, ())

    def _class_of(self, module_name: str, name: str) -> Place | None:
        module = self._modules.get(module_name)
        if module is None:
            return None
        if name in module.imports:
            return self._class_of(*module.imports[name])
        return (module_name, name) if name in module.definitions else None


def _read(tree: ast.Module) -> _Module:
    module = _Module()
    for each in ast.walk(tree):
        if isinstance(each, ast.ImportFrom) and each.module:
            module.imports |= {alias.asname or alias.name: (each.module, alias.name) for alias in each.names}
        module.runs_queries |= isinstance(each, ast.Name) and each.id.endswith(_QUERIES)
    for statement in _statements(tree.body):
        _define(module, statement, "")
    return module


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, _DEFINITIONS):
            yield statement
        elif isinstance(statement, ast.If | ast.Try | ast.With):
            yield from _statements([each for each in ast.walk(statement) if isinstance(each, _DEFINITIONS)])


def _define(module: _Module, statement: ast.stmt, owner: str) -> None:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        module.definitions[f"{owner}{statement.name}"].append(statement)
        if statement.name == "__init__":
            module.attributes |= {f"{owner}{name}": type_ for name, type_ in _attribute_types(statement)}
    elif isinstance(statement, ast.ClassDef):
        module.definitions[statement.name].extend(statement.decorator_list)
        for each in _statements(statement.body):
            _define(module, each, f"{statement.name}.")
    else:
        for name in ast.walk(statement):
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                module.definitions[f"{owner}{name.id}"].append(statement)


def _argument_types(node: ast.AST) -> dict[str, str]:
    """Return the classes that annotations of arguments name, by the arguments."""
    types: dict[str, str] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.arg) and isinstance(each.annotation, ast.Name):
            types[each.arg] = each.annotation.id
    return types


def _attribute_types(constructor: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the attributes that a constructor assigns from its annotated arguments, with their classes."""
    types = _argument_types(constructor)
    for each in ast.walk(constructor):
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Name) and each.value.id in types:
            yield from (
                (target.attr, types[each.value.id]) for target in each.targets if isinstance(target, ast.Attribute)
            )


def _chain(place: Place, before: Mapping[Place, Place | None]) -> Iterator[Place]:
    at: Place | None = place
    while at is not None:
        yield at
        at = before[at]
