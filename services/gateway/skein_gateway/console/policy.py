"""The policy page: every field of the tenant's policy, and a form that saves the changed ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from buf.validate import validate_pb2
from google.protobuf.descriptor import FieldDescriptor
from starlette.requests import Request
from starlette.responses import Response

from skein.tenancy.v1 import subjects_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.pages import form_page, revision_of
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.oauth.forms import Parameters
from skein_gateway.oauth.pages import see_other

# Fields of the policy by group: name, label and help text.
GROUPS: Sequence[tuple[str, Sequence[tuple[str, str, str]]]] = (
    (
        "Memories",
        (
            ("memory_types", "Accepted types", "One per line. Empty: every type."),
            ("retention_days", "Days until a memory is purged", ""),
            (
                "expiry_grace_hours",
                "Hours from expiry until a memory is purged",
                "Readers stop seeing it when it expires.",
            ),
            ("archive_days", "Days without a change until cold storage", "0: never."),
            ("decay_days", "Days without use until confidence falls", ""),
            ("importance_formula", "Formula of importance", ""),
            (
                "extraction",
                "Facts out of conversations",
                "Rules: patterns. Model: also the operator's model, which gets the messages.",
            ),
            ("extraction_roles", "Roles whose messages count", "One per line. Empty: user."),
            ("extraction_messages", "Messages until a conversation is read", "Or earlier, after the quiet."),
            ("extraction_quiet_seconds", "Seconds of quiet until a conversation is read", ""),
            ("extraction_instructions", "What the model should remember", "In your words; sent with each message."),
            ("extraction_types", "Types of facts", "One per line: fact, preference, decision, note. Empty: all."),
            ("extraction_url", "Endpoint of your own model", "Where the operator allows it. Empty: the operator's."),
            ("extraction_model", "Name of your own model", ""),
            ("extraction_key_id", "Memory of the vault with its key", "An id. Empty: it needs none."),
        ),
    ),
    (
        "Recall",
        (
            ("search_language", "Language of stemming", "Applies to new items only."),
            ("time_zone", "Time zone of the days in conditions", "A name such as Europe/Rome; empty: UTC."),
            ("recall_fusion", "Fusion of signals", "Scores: a weighted sum. Ranks: reciprocal ranks."),
            ("recall_weights", "Weights of the signals", "Empty: the default. 0 switches a signal off."),
            ("recall_min_relevance", "Lowest relevance of a hit", "From 0 to 1; 0 keeps every hit."),
            ("recall_min_best_relevance", "Lowest relevance of the best hit", "From 0 to 1; 0 is off."),
            ("recall_token_vectors", "Vectors of tokens", "Stored beside each vector, for a better order of hits."),
            ("embedding_model", "Embedding model", "One that the operator offers; empty: that of the cluster."),
            ("recall_receipts", "Answers with a receipt", "A receipt replays the answer. Sampled: one of a hundred."),
        ),
    ),
    (
        "Graph",
        (
            ("subgraph_default_radius", "Radius of a graph, in links", ""),
            ("path_max_hops", "Most links in a path", ""),
            ("max_inferred_edges", "Most shared-tag links in a graph", ""),
            ("min_link_suggestion_score", "Lowest score of a suggested link", "From 0 to 1."),
        ),
    ),
    (
        "Sessions, snapshots, webhooks",
        (
            ("session_idle_minutes", "Minutes without a message until a session ends", "0: never."),
            ("snapshot_retention", "Snapshots to keep", "The newest ones."),
            ("webhook_max_failures", "Failed deliveries until a webhook is disabled", "In a row."),
        ),
    ),
    (
        "Levels",
        (
            ("enforce_level_capacities", "Limit the size of levels", "Memories beyond it move one level down."),
            ("capacity_strategic", "Strategic memories", ""),
            ("capacity_tactical", "Tactical memories", ""),
            ("capacity_operational", "Operational memories", ""),
            ("capacity_contextual", "Contextual memories", ""),
        ),
    ),
    (
        "Privacy and audit",
        (
            ("private_mode", "Private mode", "Every read needs a credential of this tenant."),
            ("audit_strict", "Refuse calls that cannot be audited", "Otherwise they run unaudited."),
            ("audit_query_text", "Record the text of queries", "Otherwise a hash of it."),
            ("guard_secrets", "Secrets in texts", "Seal: a memory's secret moves to the vault."),
            ("guard_personal_data", "Personal data in texts", "Card and account numbers, addresses, phones."),
            ("guard_ignored_kinds", "Kinds to leave alone", "One per line, such as email_address."),
            ("approval", "Memories that wait for approval", "All: of everyone who may not approve."),
            ("approval_expiry_days", "Days until a waiting memory expires", "Then it is removed."),
        ),
    ),
)
_WEIGHT = "recall_weights-"
_FIELDS = subjects_pb2.Policy.DESCRIPTOR.fields_by_name
_WHOLE = (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64)


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """One input of the form."""

    name: str
    label: str
    help: str
    # "number", "text", "check", "choice", "lines" or "weights".
    kind: str
    minimum: str = ""
    maximum: str = ""
    step: str = "1"
    # Options as value and label; for weights, the names of the signals.
    choices: Sequence[tuple[str, str]] = ()


async def show(request: Request, context: PageContext, _parameters: Parameters) -> Response:
    """Show the policy."""
    response = await context.api.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())
    return _policy_page(request, context, values_of(response.policy), response.policy)


async def submit(request: Request, context: PageContext, _parameters: Parameters, form: Parameters) -> Response:
    """Save the changed fields. The revision in the form refuses a form that is older than the last change."""
    current = (await context.api.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())).policy
    new_policy, problems = policy_of(form)
    failure = PageError(title="", text=" ".join(problems), status=400) if problems else None
    changed = changed_fields(current, new_policy)
    if failure is None and not changed:
        return see_other(context.url("policy", done="unchanged"))
    if failure is None:
        new_policy.revision = revision_of(form)
        update_request = subjects_pb2.UpdatePolicyRequest(policy=new_policy)
        update_request.update_mask.paths.extend(changed)
        response = await or_page_error(context.api.tenancy.UpdatePolicy(update_request))
        if not isinstance(response, PageError):
            return see_other(context.url("policy", done="saved"))
        failure = response
    values = {name: form.get(name) for name in values_of(current)}
    current.revision = revision_of(form)
    return _policy_page(request, context, values, current, failure)


def _policy_page(
    request: Request,
    context: PageContext,
    values: dict[str, str],
    policy: subjects_pb2.Policy,
    failure: PageError | None = None,
) -> Response:
    return form_page(
        "policy",
        request,
        context,
        at="policy",
        title="Policy",
        failure=failure,
        groups=inputs(),
        values=values,
        policy=policy,
        weight=_WEIGHT,
        may_write=context.may("tenant.write"),
    )


@cache
def inputs() -> Sequence[tuple[str, Sequence[Input]]]:
    """Return the inputs by group."""
    return [(title, [_input(*field) for field in fields]) for title, fields in GROUPS]


def values_of(policy: subjects_pb2.Policy) -> dict[str, str]:
    """Return the form values of a policy."""
    values: dict[str, str] = {}
    for _, fields in inputs():
        for field in fields:
            value: Any = getattr(policy, field.name)
            if field.kind == "weights":
                values |= {_WEIGHT + name: f"{value[name]:g}" if name in value else "" for name, _ in field.choices}
            elif field.kind == "lines":
                values[field.name] = "\n".join(value)
            elif field.kind == "check":
                values[field.name] = "on" if value else ""
            else:
                values[field.name] = f"{value:g}" if isinstance(value, float) else str(value)
    return values


def policy_of(form: Parameters) -> tuple[subjects_pb2.Policy, list[str]]:
    """Return the policy in a form, and a message for each value that cannot be read."""
    policy, problems = subjects_pb2.Policy(), []
    for _, fields in inputs():
        for field in fields:
            try:
                _set_field(policy, field, form)
            except (ValueError, OverflowError):
                problems.append(f"“{field.label}” needs a number in its range.")
    return policy, problems


def changed_fields(current: subjects_pb2.Policy, new_policy: subjects_pb2.Policy) -> list[str]:
    """Return the names of the fields that differ."""
    names = [field.name for _, fields in inputs() for field in fields]
    return [name for name in names if getattr(current, name) != getattr(new_policy, name)]


def _set_field(policy: subjects_pb2.Policy, field: Input, form: Parameters) -> None:
    text = form.get(field.name).strip()
    if field.kind == "check":
        setattr(policy, field.name, text == "on")
    elif field.kind == "lines":
        getattr(policy, field.name).extend(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    elif field.kind == "weights":
        for name, _ in field.choices:
            text_value = form.get(_WEIGHT + name).strip()
            if text_value:
                policy.recall_weights[name] = _finite(text_value)
    elif _FIELDS[field.name].type == FieldDescriptor.TYPE_STRING:
        setattr(policy, field.name, text)
    elif _FIELDS[field.name].type == FieldDescriptor.TYPE_DOUBLE:
        setattr(policy, field.name, _finite(text or "0"))
    else:
        value = int(text or "0")
        if field.minimum and value < int(field.minimum):
            # 0 would select the default, which the user did not enter.
            raise ValueError(text)
        setattr(policy, field.name, value)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _input(name: str, label: str, help_text: str) -> Input:
    descriptor = _FIELDS[name]
    rules: Any = descriptor.GetOptions().Extensions[cast("Any", validate_pb2.field)]
    if descriptor.message_type is not None:
        signals = getattr(rules.map.keys.string, "in")
        return Input(
            name=name, label=label, help=help_text, kind="weights", choices=[(field, field) for field in signals]
        )
    if descriptor.is_repeated:
        return Input(name=name, label=label, help=help_text, kind="lines")
    if descriptor.type == FieldDescriptor.TYPE_BOOL:
        return Input(name=name, label=label, help=help_text, kind="check")
    if descriptor.enum_type is not None:
        prefix = "IMPORTANCE_FORMULA_"
        options = [
            (str(value.number), value.name.removeprefix(prefix).lower()) for value in descriptor.enum_type.values
        ]
        return Input(name=name, label=label, help=help_text, kind="choice", choices=options[1:])
    if descriptor.type == FieldDescriptor.TYPE_STRING:
        options = [(field, field) for field in getattr(rules.string, "in") if field]
        return Input(name=name, label=label, help=help_text, kind="choice" if options else "text", choices=options)
    is_whole = descriptor.type in _WHOLE
    bounds = rules.int32 if is_whole else rules.double
    return Input(
        name=name,
        label=label,
        help=help_text,
        kind="number",
        minimum=f"{bounds.gte:g}" if bounds.HasField("gte") else "",
        maximum=f"{bounds.lte:.15g}" if bounds.HasField("lte") else "",
        step="1" if is_whole else "any",
    )
