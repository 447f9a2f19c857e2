"""The OpenAPI document of the HTTP API: every public unary RPC, generated from the contract and the access rules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import grpc
from google.protobuf.descriptor import Descriptor
from google.rpc import error_details_pb2

from skein.errors.v1 import errors_pb2
from skein_gateway import VERSION
from skein_gateway.connect import codec
from skein_gateway.json_schema.schemas import Schema, Schemas, comments, descriptor_of
from skein_gateway.public_methods import GATEWAY_SERVICE, PUBLIC_METHODS, PublicMethod
from skein_kit.calls.call import CLAIMED_AGENT_KEY, CLAIMED_SESSION_KEY, REQUEST_ID_KEY, SPACE_KEY, TENANT_KEY
from skein_kit.identity.permissions import ACCESS_RULES, PERMISSION_DESCRIPTIONS, AccessRule
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES

_SCHEMAS = "#/components/schemas/"
_ABOUT = f"""\
Skein is the memory of a fleet of agents. Every public unary RPC of the cluster answers here in the
[Connect protocol](https://connectrpc.com/docs/protocol): a POST with the request as JSON, or as protobuf bytes
(`application/proto`), and the response in the same form. Streaming methods exist in gRPC only.

Field names may be lowerCamelCase or as in the protos (`memory_id`); unknown fields are refused. A zero value equals an
absent field, and responses omit zero values. 64-bit integers are strings. A body has at most {MAX_MESSAGE_BYTES} bytes.

Writes take a `requestId`: repeated within 24 hours, it returns the first response and changes nothing. Errors are
always JSON: `code`, `message`, and `details`, one of which is a `google.rpc.ErrorInfo` with a stable `reason`."""
# Example requests of the methods that most callers start with.
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "/skein.gateway.v1.GatewayService/Remember": {
        "sessionId": "kitchen",
        "messages": [{"role": "MESSAGE_ROLE_USER", "content": "What do we have to drink?"}],
        "memories": [{"content": "Anna prefers tea to coffee", "tags": ["drinks"]}],
        "requestId": "3f1c2a",
    },
    "/skein.gateway.v1.GatewayService/Recall": {"query": "what does Anna drink?", "limit": 3},
    "/skein.gateway.v1.GatewayService/BuildContext": {
        "recall": {"query": "what does Anna drink?"},
        "tokenBudget": 500,
    },
    "/skein.memory.v1.MemoryService/CreateMemory": {
        "memory": {"type": "fact", "key": "anna.drink", "content": "Anna prefers tea", "importance": 0.8}
    },
    "/skein.memory.v1.MemoryService/GetMemory": {"memoryId": "anna-drinks-tea"},
    "/skein.memory.v1.MemoryService/ListMemories": {
        "filter": {"types": ["note", "fact"], "where": 'tags:any("drinks") AND importance >= 0.5'},
        "pageSize": 20,
    },
    "/skein.memory.v1.MemoryService/UpdateMemory": {
        "memory": {"memoryId": "anna-drinks-tea", "content": "Anna prefers green tea"},
        "updateMask": "content",
    },
    "/skein.memory.v1.LinkService/CreateLink": {
        "link": {"fromMemoryId": "anna-drinks-tea", "toMemoryId": "no-more-coffee", "relation": "supports"}
    },
    "/skein.session.v1.SessionService/AppendMessages": {
        "sessionId": "kitchen",
        "messages": [{"role": "MESSAGE_ROLE_ASSISTANT", "content": "Green tea, and some lemonade."}],
    },
    "/skein.session.v1.SessionService/ListMessages": {"sessionId": "kitchen", "pageSize": 50, "newestFirst": True},
}
# An entry below "Errors:" is "NOT_FOUND, MEMORY_NOT_FOUND: also for a deleted memory." or "as CreateMemory and Merge."
_ERROR = re.compile(r"([A-Z][A-Z_]+), (.+)")
_LIKE = re.compile(r"as ([A-Z]\w+(?:, [A-Z]\w+| and [A-Z]\w+)*)")
_METHOD_NAME = re.compile(r"[A-Z][a-z]\w+")
_SUMMARY_END = re.compile(r"[.:;](?:\s|$)")


def document(issuer: str = "") -> Schema:
    """Return the document; `issuer` is the token issuer, empty if unknown."""
    schemas = Schemas(refs=_SCHEMAS)
    unary = {path: method for path, method in PUBLIC_METHODS.items() if not method.streams}
    # The gateway's own service comes first: most agents need it.
    ordered = sorted(unary, key=lambda path: (not path.startswith(f"/{GATEWAY_SERVICE}/"), path))
    paths = {path: {"post": _operation(unary[path], schemas)} for path in ordered}
    document_part: Schema = {
        "openapi": "3.1.0",
        "info": {"title": "Skein", "version": VERSION, "description": _ABOUT, "license": _LICENSE},
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [{"url": "/"}],
        "tags": list(_tags(ordered)),
        "paths": paths,
    }
    error = _error(schemas)
    _close(schemas, [descriptor_of(method.response) for method in unary.values()])
    document_part["components"] = {
        "schemas": {**error, **dict(sorted(schemas.defs.items()))},
        "parameters": _PARAMETERS,
        "headers": _HEADERS,
        "responses": {name: _error_response(comment) for name, comment in _RESPONSES.items()},
        "securitySchemes": _security_schemes(issuer),
    }
    return document_part


def _close(schemas: Schemas, responses: Iterable[Descriptor]) -> None:
    """Close the schemas that only requests use, as the servers do; responses may get new fields."""
    used_names: set[str] = set()
    pending = [kind.full_name for kind in responses]
    while pending:
        name = pending.pop()
        if name not in used_names:
            used_names.add(name)
            pending.extend(_REFERENCE.findall(json.dumps(schemas.defs.get(name, {}))))
    for name, schema in schemas.defs.items():
        if name not in used_names and schema["type"] == "object":
            schema["additionalProperties"] = False


_REFERENCE = re.compile(rf'"\$ref": "{_SCHEMAS}([^"]+)"')
# Responses of any call, besides those in its comment.
_RESPONSES: Mapping[str, str] = {
    "Error": "The call failed.",
    "Malformed": "INVALID_ARGUMENT: the request violates its schema, or a header violates the protocol.",
    "Unauthenticated": "UNAUTHENTICATED: the credential is missing, damaged, unknown, revoked or expired.",
    "Forbidden": "PERMISSION_DENIED: the credential lacks what the call needs.",
    "Unknown": "NOT_FOUND, TENANT_NOT_FOUND: the caller is not in this tenant.",
    "Conflict": "ABORTED: a concurrent call changed the same data; repeat the call.",
    "Unread": "The body is neither JSON nor protobuf, or it has a content-encoding.",
    "TooMuch": "RESOURCE_EXHAUSTED: the request is too large, or a rate limit or quota is exhausted.",
    "Unavailable": "UNAVAILABLE: a service that the call needs is unavailable; retry later.",
    "Late": "DEADLINE_EXCEEDED: the caller's timeout or the cluster's own has passed.",
}
_LICENSE = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
_PARAMETERS: Mapping[str, Schema] = {
    "ConnectProtocolVersion": {
        "name": codec.VERSION_HEADER,
        "in": "header",
        "description": "The version of the Connect protocol; optional.",
        "schema": {"const": "1"},
    },
    "ConnectTimeoutMs": {
        "name": codec.TIMEOUT_HEADER,
        "in": "header",
        "description": "The caller's timeout in milliseconds; it ends the call in all services.",
        "schema": {"type": "string", "pattern": f"^{codec.TIMEOUT_PATTERN}$"},
        "example": "5000",
    },
    "RequestId": {
        "name": REQUEST_ID_KEY,
        "in": "header",
        "description": "Id of this call in the cluster's logs and traces; generated if absent.",
        "schema": {"type": "string"},
    },
    "AgentId": {
        "name": CLAIMED_AGENT_KEY,
        "in": "header",
        "description": "The agent that the caller claims to work for, for the access log. Ignored beyond 255 bytes.",
        "schema": {"type": "string"},
    },
    "SessionId": {
        "name": CLAIMED_SESSION_KEY,
        "in": "header",
        "description": "The session that the caller claims to work in, for the access log. Ignored beyond 255 bytes.",
        "schema": {"type": "string"},
    },
    "SpaceId": {
        "name": SPACE_KEY,
        "in": "header",
        "description": "The space in which the call acts; absent: reads reach all that the caller sees.",
        "schema": {"type": "string", "anyOf": [{"format": "uuid"}, {"const": ""}]},
    },
    "TenantId": {
        "name": TENANT_KEY,
        "in": "header",
        "description": "The tenant to act in, for accounts and operators. Keys of a tenant do not need it.",
        "schema": {"type": "string", "anyOf": [{"format": "uuid"}, {"const": ""}]},
    },
}
# Further parameters of calls in a tenant.
_OF_TENANT = ("TenantId", "AgentId", "SessionId", "SpaceId")
_HEADERS: Mapping[str, Schema] = {
    "RequestId": {"description": "Id of this call in the cluster's logs.", "schema": {"type": "string"}},
    "RetryAfter": {"description": "Seconds to wait before a retry.", "schema": {"type": "string"}},
    "Challenge": {"description": "Where to get tokens (RFC 6750, RFC 9728).", "schema": {"type": "string"}},
}


def _tags(paths: Iterable[str]) -> Iterator[Schema]:
    for service in dict.fromkeys(path.split("/")[1] for path in paths):
        yield {"name": service.rpartition(".")[2], "description": comments().get(service, "")}


def _operation(method: PublicMethod, schemas: Schemas) -> Schema:
    service, name = method.path.strip("/").split("/")
    comment = comments().get(f"{service}.{name}", "")
    rule = ACCESS_RULES[method.path]
    tag = service.rpartition(".")[2]
    content: Schema = {"schema": schemas.reference(descriptor_of(method.request))}
    if method.path in EXAMPLES:
        content["example"] = EXAMPLES[method.path]
    parameters = ["ConnectProtocolVersion", "ConnectTimeoutMs", "RequestId", *(_OF_TENANT if rule.needs_tenant else [])]
    response_content = {codec.JSON: {"schema": schemas.reference(descriptor_of(method.response))}, codec.PROTO: {}}
    headers = {REQUEST_ID_KEY: {"$ref": "#/components/headers/RequestId"}}
    return {
        "operationId": f"{tag}_{name}",
        "tags": [tag],
        "summary": _summary(name, comment),
        "description": "\n\n".join(part for part in (comment, _permission_note(rule)) if part),
        "security": _security(rule),
        "parameters": [{"$ref": f"#/components/parameters/{parameter}"} for parameter in parameters],
        "requestBody": {"required": True, "content": {codec.JSON: content, codec.PROTO: {}}},
        "responses": {
            "200": {
                "description": f"A {method.response.DESCRIPTOR.name}.",
                "headers": headers,
                "content": response_content,
            },
            **_responses(rule, _refusals(service, comment)),
            "default": {"$ref": "#/components/responses/Error"},
        },
    }


def _responses(rule: AccessRule, method_errors: Mapping[str, Sequence[str]]) -> Schema:
    """Return the error responses of a method by HTTP status: its own, and those of any call of its kind."""
    statuses = {"400": "Malformed", "409": "Conflict", "415": "Unread", "429": "TooMuch"}
    statuses |= {"503": "Unavailable", "504": "Late"}
    if not rule.is_public:
        statuses |= {"401": "Unauthenticated", "403": "Forbidden"}
    if rule.needs_tenant:
        statuses["404"] = "Unknown"
    document_part = {status: {"$ref": f"#/components/responses/{name}"} for status, name in statuses.items()}
    for status, lines in method_errors.items():
        general_lines = [f"- {_RESPONSES[statuses[status]]}"] if status in statuses else []
        document_part[status] = _error_response("\n".join([*general_lines, *lines]))
    return dict(sorted(document_part.items()))


def _summary(name: str, comment: str) -> str:
    """Return the first clause of a comment, or the method's name split into words."""
    text = " ".join(comment.split())
    end = _SUMMARY_END.search(text)
    document_part = text[: end.start()] if end else text
    return document_part or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)


def _permission_note(rule: AccessRule) -> str:
    if rule.is_public:
        return "Open to everyone."
    if rule.permission is None:
        return "Needs any credential."
    return f"Needs the permission `{rule.permission}`."


def _security(rule: AccessRule) -> list[Schema]:
    if rule.is_public:
        return []
    if rule.permission is None:
        return [{"bearer": []}, {"oauth": []}]
    # Permissions without a scope are for operators' keys and for accounts.
    return [{"bearer": []}, *([{"oauth": [rule.permission]}] if rule.permission in PERMISSION_DESCRIPTIONS else [])]


def _refusals(service: str, comment: str) -> dict[str, list[str]]:
    """Return the errors in a comment by HTTP status; "as Method" includes the errors of that method."""
    document_part: dict[str, list[str]] = {}
    for line in _errors(comment):
        error, reference = _ERROR.match(line), _LIKE.match(line)
        if error and error[1] in grpc.StatusCode.__members__:
            status = str(codec.http_status(grpc.StatusCode[error[1]]))
            document_part.setdefault(status, []).append(f"- {line}")
        elif reference:
            for name in _METHOD_NAME.findall(reference[1]):
                for status, lines in _refusals(service, _comment(service, name)).items():
                    status_lines = document_part.setdefault(status, [])
                    status_lines.extend(line for line in lines if line not in status_lines)
    return document_part


def _comment(service: str, name: str) -> str:
    """Return the comment of a method, preferably of the same service."""
    paths = [path for path in PUBLIC_METHODS if path.endswith(f"/{name}")]
    preferred_paths = sorted(paths, key=lambda path: not path.startswith(f"/{service}/"))[:1]
    return "".join(comments().get(path.strip("/").replace("/", "."), "") for path in preferred_paths)


def _errors(comment: str) -> Iterator[str]:
    """Yield the entries of the list below "Errors:", each as one line."""
    entries = comment.partition("Errors:\n")[2].partition("\n\n")[0]
    for entry in re.split(r"^- ", entries, flags=re.MULTILINE):
        if entry.strip():
            yield " ".join(entry.split())


def _error_response(description: str) -> Schema:
    headers = {
        REQUEST_ID_KEY: {"$ref": "#/components/headers/RequestId"},
        "retry-after": {"$ref": "#/components/headers/RetryAfter"},
        "www-authenticate": {"$ref": "#/components/headers/Challenge"},
    }
    content = {codec.JSON: {"schema": {"$ref": f"{_SCHEMAS}ConnectError"}}}
    return {"description": description, "headers": headers, "content": content}


def _error(schemas: Schemas) -> dict[str, Schema]:
    """Return the schemas of errors: the protocol's envelope, and the details that Skein sends."""
    values = errors_pb2.ErrorReason.DESCRIPTOR.values
    name, prefix = errors_pb2.ErrorReason.DESCRIPTOR.full_name, "ERROR_REASON_"
    reasons = {value.name.removeprefix(prefix): comments().get(f"{name}.{value.name}", "") for value in values[1:]}
    reason_list = "\n".join(f"- {reason}: {' '.join(comment.split())}" for reason, comment in reasons.items())
    return {
        "ConnectError": {
            "type": "object",
            "properties": {
                "code": {"type": "string", "enum": codec.error_codes()},
                "message": {"type": "string", "description": "For people: what is wrong, and what to do."},
                "details": {"type": "array", "items": {"$ref": f"{_SCHEMAS}ConnectErrorDetail"}},
            },
            "required": ["code"],
        },
        "ConnectErrorDetail": {
            "type": "object",
            "properties": {
                "type": {"type": "string", "description": "The full name of the detail's message type."},
                "value": {"type": "string", "description": "The message's bytes as base64, without padding."},
                "debug": {"description": "The message as JSON."},
            },
            "required": ["type", "value"],
            "oneOf": [
                _detail(error_details_pb2.ErrorInfo.DESCRIPTOR.full_name, {"$ref": f"{_SCHEMAS}ErrorInfo"}),
                *(
                    _detail(kind.DESCRIPTOR.full_name, schemas.reference(descriptor_of(kind)))
                    for kind in (error_details_pb2.BadRequest, error_details_pb2.RetryInfo)
                ),
            ],
        },
        "ErrorInfo": {
            "type": "object",
            "properties": {
                "reason": {"$ref": f"{_SCHEMAS}ErrorReason"},
                "domain": {"const": "skein"},
                "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": ["reason", "domain"],
        },
        "ErrorReason": {"type": "string", "enum": list(reasons), "description": reason_list},
    }


def _detail(name: str, debug: Schema) -> Schema:
    return {"properties": {"type": {"const": name}, "debug": debug}}


def _security_schemes(issuer: str) -> dict[str, Schema]:
    token = {"tokenUrl": f"{issuer}/token", "refreshUrl": f"{issuer}/token", "scopes": dict(PERMISSION_DESCRIPTIONS)}
    return {
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key, an access token, or the access token of a person who signed in.",
        },
        "oauth": {
            "type": "oauth2",
            "description": "OAuth 2.1 with PKCE; see /.well-known/oauth-authorization-server.",
            "flows": {
                "authorizationCode": {"authorizationUrl": f"{issuer}/authorize", **token},
                "clientCredentials": token,
            },
        },
    }
