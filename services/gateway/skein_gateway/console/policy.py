"""The tenant's policy: every field of it, in words, and a form that changes those that were changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from buf.validate import validate_pb2
from google.protobuf.descriptor import FieldDescriptor

from skein.tenancy.v1 import subjects_pb2
from skein_gateway.console.pages import page
from skein_gateway.console.problems import PageError, refusal_of
from skein_gateway.oauth.pages import see_other

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from skein_gateway.console.page_handler import PageHandler
    from skein_gateway.console.visitors import PageContext
    from skein_gateway.oauth.forms import Parameters

# Every field of the policy: its name, what it is called, and what it does.
GROUPS: Sequence[tuple[str, Sequence[tuple[str, str, str]]]] = (
    (
        "Remembering",
        (
            ("memory_types", "Types that are accepted", "One a line. None: every type is accepted."),
            ("retention_days", "Days until a memory is removed", ""),
            ("expiry_grace_hours", "Hours until an expired memory is erased", "No reader sees it from its expiry on."),
            ("archive_days", "Days without a change until cold storage", "0: never."),
            ("decay_days", "Days without use until confidence falls", ""),
            ("importance_formula", "How importance is reckoned", ""),
        ),
    ),
    (
        "Recall",
        (
            ("search_language", "Language that words are stemmed by", "Holds for what is stored from now on."),
            ("recall_fusion", "How signals become one order", "Scores: a weighted sum. Ranks: reciprocal ranks."),
            ("recall_weights", "Weights of the signals", "Empty: the default. 0 switches a signal off."),
        ),
    ),
    (
        "Graph",
        (
            ("subgraph_default_radius", "Links around the middle of a graph", ""),
            ("path_max_hops", "Links that a path has at most", ""),
            ("max_inferred_edges", "Shared tags that a graph shows at most", ""),
            ("min_link_suggestion_score", "Least score of a suggested link", "From 0 to 1."),
        ),
    ),
    (
        "Sessions, snapshots, watches",
        (
            ("session_idle_minutes", "Minutes without a message until a session ends", "0: never."),
            ("snapshot_retention", "Snapshots that are kept", "The newest."),
            ("watch_max_failures", "Failed deliveries until a watch is switched off", "In a row."),
        ),
    ),
    (
        "Levels",
        (
            ("levels_capped", "Levels have a capacity", "What is over it moves one level down."),
            ("capacity_strategic", "Strategic memories", ""),
            ("capacity_tactical", "Tactical memories", ""),
            ("capacity_operational", "Operational memories", ""),
            ("capacity_contextual", "Contextual memories", ""),
        ),
    ),
    (
        "Privacy and audit",
        (
            ("private_mode", "Private", "Nothing is shown without a credential of this tenant."),
            ("audit_strict", "Refuse what cannot be recorded", "Else it goes unrecorded."),
            ("audit_query_text", "Record the words of searches", "Else a hash of them."),
        ),
    ),
)
_WEIGHT = "recall_weights-"
_FIELDS = subjects_pb2.Policy.DESCRIPTOR.fields_by_name
_WHOLE = (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64)


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """How a field is entered."""

    name: str
    label: str
    help: str
    # "number", "check", "choice", "lines" or "weights".
    kind: str
    least: str = ""
    most: str = ""
    step: str = "1"
    # What can be chosen: the value and what it is called; of weights the names of the signals.
    choices: Sequence[tuple[str, str]] = ()


class PolicyPage:
    """The handlers."""

    def routes(self, desk: PageHandler) -> list[Route]:
        """Return the routes."""
        return desk.routes("policy", self.show, self.act)

    async def show(self, request: Request, visit: PageContext, _asked: Parameters) -> Response:
        """Show the policy."""
        answer = await visit.api.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())
        return self._shown(request, visit, values_of(answer.policy), answer.policy)

    async def act(self, request: Request, visit: PageContext, _asked: Parameters, form: Parameters) -> Response:
        """Save what differs from what is in force; a form that was opened before somebody else's change is refused."""
        current = (await visit.api.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())).policy
        revision = form.get("revision")
        wanted, wrong = policy_of(form)
        trouble = PageError(title="", text=" ".join(wrong), status=400) if wrong else None
        changed = changed_fields(current, wanted)
        if trouble is None and not changed:
            return see_other(visit.url("policy", done="unchanged"))
        if trouble is None:
            wanted.revision = int(revision) if revision.isdecimal() and len(revision) < 18 else 0  # noqa: PLR2004 - digits of an int64.
            asked = subjects_pb2.UpdatePolicyRequest(policy=wanted)
            asked.update_mask.paths.extend(changed)
            try:
                await visit.api.tenancy.UpdatePolicy(asked)
            except Exception as error:
                trouble = refusal_of(error)
                if trouble is None:
                    raise
            else:
                return see_other(visit.url("policy", done="saved"))
        kept = {name: form.get(name) for name in values_of(current)}
        current.revision = int(revision) if revision.isdecimal() and len(revision) < 18 else 0  # noqa: PLR2004 - as above.
        return self._shown(request, visit, kept, current, trouble)

    @staticmethod
    def _shown(
        request: Request,
        visit: PageContext,
        values: dict[str, str],
        policy: subjects_pb2.Policy,
        trouble: PageError | None = None,
    ) -> Response:
        return page(
            "policy",
            request,
            visit,
            status=200 if trouble is None else trouble.status,
            at="policy",
            title="Policy",
            problem="" if trouble is None else trouble.text,
            groups=inputs(),
            values=values,
            policy=policy,
            weight=_WEIGHT,
            form_token=visit.visitor.form_token(request.url.path),
            may_write=visit.may("tenant.write"),
        )


@cache
def inputs() -> Sequence[tuple[str, Sequence[Input]]]:
    """Return how each field is entered, by group."""
    return [(title, [_input(*one) for one in fields]) for title, fields in GROUPS]


def values_of(policy: subjects_pb2.Policy) -> dict[str, str]:
    """Return a policy as its form says it."""
    values: dict[str, str] = {}
    for _, fields in inputs():
        for one in fields:
            value: Any = getattr(policy, one.name)
            if one.kind == "weights":
                values |= {_WEIGHT + name: f"{value[name]:g}" if name in value else "" for name, _ in one.choices}
            elif one.kind == "lines":
                values[one.name] = "\n".join(value)
            elif one.kind == "check":
                values[one.name] = "on" if value else ""
            else:
                values[one.name] = f"{value:g}" if isinstance(value, float) else str(value)
    return values


def policy_of(form: Parameters) -> tuple[subjects_pb2.Policy, list[str]]:
    """Return the policy that a form says, and what in it cannot be read."""
    policy, wrong = subjects_pb2.Policy(), []
    for _, fields in inputs():
        for one in fields:
            try:
                _read(policy, one, form)
            except (ValueError, OverflowError):
                wrong.append(f"“{one.label}” is not a number that it can be.")
    return policy, wrong


def changed_fields(current: subjects_pb2.Policy, wanted: subjects_pb2.Policy) -> list[str]:
    """Return the names of the fields that differ."""
    names = [one.name for _, fields in inputs() for one in fields]
    return [name for name in names if getattr(current, name) != getattr(wanted, name)]


def _read(policy: subjects_pb2.Policy, one: Input, form: Parameters) -> None:
    text = form.get(one.name).strip()
    if one.kind == "check":
        setattr(policy, one.name, text == "on")
    elif one.kind == "lines":
        getattr(policy, one.name).extend(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    elif one.kind == "weights":
        for name, _ in one.choices:
            given = form.get(_WEIGHT + name).strip()
            if given:
                policy.recall_weights[name] = _finite(given)
    elif one.kind == "choice" and _FIELDS[one.name].type == FieldDescriptor.TYPE_STRING:
        setattr(policy, one.name, text)
    elif _FIELDS[one.name].type == FieldDescriptor.TYPE_DOUBLE:
        setattr(policy, one.name, _finite(text or "0"))
    else:
        value = int(text or "0")
        if one.least and value < int(one.least):
            # 0 would stand for the default, which is not what was entered.
            raise ValueError(text)
        setattr(policy, one.name, value)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _input(name: str, label: str, said: str) -> Input:
    described = _FIELDS[name]
    rules: Any = described.GetOptions().Extensions[cast("Any", validate_pb2.field)]
    if described.message_type is not None:
        signals = getattr(rules.map.keys.string, "in")
        return Input(name=name, label=label, help=said, kind="weights", choices=[(one, one) for one in signals])
    if described.is_repeated:
        return Input(name=name, label=label, help=said, kind="lines")
    if described.type == FieldDescriptor.TYPE_BOOL:
        return Input(name=name, label=label, help=said, kind="check")
    if described.enum_type is not None:
        prefix = "IMPORTANCE_FORMULA_"
        named = [(str(value.number), value.name.removeprefix(prefix).lower()) for value in described.enum_type.values]
        return Input(name=name, label=label, help=said, kind="choice", choices=named[1:])
    if described.type == FieldDescriptor.TYPE_STRING:
        known = [(one, one) for one in getattr(rules.string, "in") if one]
        return Input(name=name, label=label, help=said, kind="choice", choices=known)
    is_whole = described.type in _WHOLE
    bounds = rules.int32 if is_whole else rules.double
    return Input(
        name=name,
        label=label,
        help=said,
        kind="number",
        least=f"{bounds.gte:g}" if bounds.HasField("gte") else "",
        most=f"{bounds.lte:.15g}" if bounds.HasField("lte") else "",
        step="1" if is_whole else "any",
    )
