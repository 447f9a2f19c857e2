"""What methods, services and fields declare in the proto, by skein.options.v1. Each is read once."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message

from skein.options.v1 import options_pb2 as pb

# The type of an extension in the generated stubs is not that which its use needs.
_RULE, _SERVICE, _TEXT = cast("tuple[Any, Any, Any]", (pb.rule, pb.service, pb.text))
_PACKAGES = ("auth", "tenancy", "session", "memory", "recall", "gateway")
# The paths of the gateway's own methods, whose calls other services record.
GATEWAY = "/skein.gateway."
# Endings of the names of ids, which need no mark.
_ID_ENDINGS = ("_id", "_ids", "_token")
_IDS = frozenset({"id", "ids", "token"})
# Their texts are content, however deep.
_FREE_FORM = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})


@functools.cache
def method_rule(path: str) -> pb.MethodRule:
    """Return what a method declares. Raises LookupError where it does not say who may call."""
    rule: pb.MethodRule = _method(path).GetOptions().Extensions[_RULE]
    if rule.WhichOneof("caller") is None:
        message = f"{path} does not declare who may call it: add (skein.options.v1.rule) to its proto."
        raise LookupError(message)
    return rule


@functools.cache
def is_recorded(path: str) -> bool:
    """Return whether calls of a method leave rows in the access log."""
    service: pb.ServiceRule = _method(path).containing_service.GetOptions().Extensions[_SERVICE]
    return service.recorded and not method_rule(path).unrecorded


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditRule:
    """The audit event of a method."""

    event: str
    # The path of what it is about, in the request or the response; empty for none.
    target: str
    # The method records it.
    is_by_method: bool


@functools.cache
def audit_rule(path: str) -> AuditRule | None:
    """Return the audit event that a method leaves; None without one.

    Raises LookupError for a write that would leave neither an event nor a row in the access log, and for a target that
    neither the request nor the response has.
    """
    rule, method = method_rule(path), _method(path)
    if rule.audit_event:
        if rule.audit_target and not any(
            _has_field(message, rule.audit_target) for message in (method.input_type, method.output_type)
        ):
            message = f"{path} declares the audit target {rule.audit_target}, which its request and response lack."
            raise LookupError(message)
        return AuditRule(event=rule.audit_event, target=rule.audit_target, is_by_method=rule.audited_by_method)
    is_write = _is_write(method, rule)
    is_internal = "InternalService/" in path or path.startswith(GATEWAY) or bool(rule.only_service)
    is_in_access_log = is_recorded(path) and not rule.without_tenant
    if is_write and not (is_internal or is_in_access_log or rule.unrecorded):
        message = f"{path} writes and declares no audit_event: add it to its (skein.options.v1.rule)."
        raise LookupError(message)
    return None


@functools.cache
def memory_operation(path: str) -> pb.MemoryOperation | None:
    """Return the operation on memories that a method is; None for none.

    Raises LookupError for a field that its request or response lacks.
    """
    rule, method = method_rule(path), _method(path)
    if not rule.HasField("memory_operation"):
        return None
    operation = rule.memory_operation
    request, response = method.input_type, method.output_type
    named = ((request, operation.subject), (request, operation.query), (response, operation.records))
    if missing := [field for message, field in named if field and not _has_field(message, field)]:
        message = f"{path} declares the memories {', '.join(missing)}, which its request or response lacks."
        raise LookupError(message)
    return operation


def is_write(path: str) -> bool:
    """Return whether a method changes something: it has a request_id, and more than a permission to read is needed."""
    return _is_write(_method(path), method_rule(path))


def _is_write(method: MethodDescriptor, rule: pb.MethodRule) -> bool:
    return "request_id" in method.input_type.fields_by_name and not rule.permission.endswith(".read")


def _has_field(kind: Descriptor, path: str) -> bool:
    name, _, rest = path.partition(".")
    field = kind.fields_by_name.get(name)
    if field is None:
        return False
    return not rest or (field.message_type is not None and _has_field(field.message_type, rest))


@functools.cache
def screening(path: str) -> pb.ScreeningRule:
    """Return who screens the texts of a method's requests.

    Raises LookupError for a method that stores texts and does not declare it, and for one with a text whose kind the
    proto does not say.
    """
    rule = method_rule(path)
    if rule.permission.endswith(".read") or rule.only_service or "InternalService/" in path:
        return pb.SCREENING_RULE_NONE
    fields = _texts(_method(path).input_type, ())
    if unmarked := [name for name, kind in fields.items() if kind == pb.TEXT_KIND_UNSPECIFIED]:
        message = f"{path} has texts without a kind: add (skein.options.v1.text) to {', '.join(unmarked)}."
        raise LookupError(message)
    content = [name for name, kind in fields.items() if kind == pb.TEXT_KIND_CONTENT]
    if content and rule.screening == pb.SCREENING_RULE_UNSPECIFIED:
        message = f"{path} does not declare who screens {', '.join(content)}: add it to its (skein.options.v1.rule)."
        raise LookupError(message)
    return rule.screening


@functools.cache
def text_kind(field: FieldDescriptor) -> pb.TextKind:
    """Return what a text of a message is; what is named like an id is a name unless it is marked."""
    kind: pb.TextKind = field.GetOptions().Extensions[_TEXT]
    is_id = field.name in _IDS or field.name.endswith(_ID_ENDINGS)
    return pb.TEXT_KIND_NAME if kind == pb.TEXT_KIND_UNSPECIFIED and is_id else kind


def request_class(path: str) -> type[Message]:
    """Return the type of a method's request."""
    return message_factory.GetMessageClass(_method(path).input_type)


def response_class(path: str) -> type[Message]:
    """Return the type of a method's response."""
    return message_factory.GetMessageClass(_method(path).output_type)


def paths() -> Iterator[str]:
    """Yield the path of every method of the contract: "/skein.memory.v1.MemoryService/GetMemory"."""
    for name in _PACKAGES:
        for service in _services(f"skein.{name}.v1"):
            yield from (f"/{service.full_name}/{method.name}" for method in service.methods)


def _texts(kind: Descriptor, outer: tuple[str, ...]) -> dict[str, pb.TextKind]:
    """Return the texts of a message, and of the messages in it, by the fields' full names."""
    if kind.full_name in outer or kind.full_name.startswith("google."):
        return {}
    results: dict[str, pb.TextKind] = {}
    for field in kind.fields:
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            inner = inner.fields_by_name["value"].message_type
        if inner is not None and inner.full_name in _FREE_FORM:
            results[field.full_name] = pb.TEXT_KIND_CONTENT
        elif inner is not None:
            results |= _texts(inner, (*outer, kind.full_name))
        elif _is_text(field):
            results[field.full_name] = text_kind(field)
    return results


def _is_text(field: FieldDescriptor) -> bool:
    if field.message_type is not None:
        # A map of values.
        return field.message_type.fields_by_name["value"].type == FieldDescriptor.TYPE_STRING
    return field.type == FieldDescriptor.TYPE_STRING


def _method(path: str) -> MethodDescriptor:
    service, _, name = path.removeprefix("/").partition("/")
    _services(service.rpartition(".")[0])
    try:
        return descriptor_pool.Default().FindMethodByName(f"{service}.{name}")
    except KeyError:
        message = f"{path} is no method of the contract."
        raise LookupError(message) from None


@functools.cache
def _services(package: str) -> tuple[ServiceDescriptor, ...]:
    """Import the generated modules of a package; return its services."""
    if not package.startswith("skein."):
        return ()
    try:
        folder = importlib.import_module(package)
    except ModuleNotFoundError:
        return ()
    modules = [
        importlib.import_module(f"{package}.{module.name}")
        for module in pkgutil.iter_modules(folder.__path__)
        if module.name.endswith("_pb2")
    ]
    return tuple(service for module in modules for service in module.DESCRIPTOR.services_by_name.values())
