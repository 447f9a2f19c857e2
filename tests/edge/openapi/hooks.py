"""What schemathesis knows beyond /openapi.json; it reads this file itself, in an environment of its own.

SKEIN_THINGS is JSON: by the name of a field, the name of a thing of that kind that the caller's tenant has.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

import schemathesis  # type: ignore[import-not-found]  # Lies in .edge/schemathesis.

THINGS: dict[str, str] = json.loads(os.environ.get("SKEIN_THINGS", "{}"))
TIMEOUT = "connect-timeout-ms"
LONG_TIMEOUT = "60000"
# What protobuf's JSON mapping reads although no schema says so: null for a field that is left out.
LENIENT = re.compile(r"became null")


@schemathesis.hook  # type: ignore[untyped-decorator]  # It is not installed where types are checked.
def map_case(_context: Any, case: Any) -> Any:
    """Let calls have time enough, and let half of the valid ones name what there is."""
    headers = case.headers or {}
    # A call whose own time limit is over ends with 504.
    if str(headers.get(TIMEOUT, "")).isdecimal() and 0 < int(headers[TIMEOUT]) < int(LONG_TIMEOUT):
        headers[TIMEOUT] = LONG_TIMEOUT
    if case.meta is not None and case.meta.generation.mode.is_positive and isinstance(case.body, dict):
        case.body = _named(case.body, "")
    return case


def _named(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _named(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_named(each, name.removesuffix("s")) for each in value]
    # Whether it is replaced follows from the value, so that a seed makes the same calls again.
    return THINGS.get(name, value) if isinstance(value, str) and len(value) % 2 == 0 else value


@schemathesis.hook  # type: ignore[untyped-decorator]  # As above.
def filter_failure(_context: Any, failure: Any, _case: Any, _response: Any) -> bool:
    """Keep a failure unless it is about a form that protobuf's JSON mapping reads as well."""
    return LENIENT.search(str(failure.message)) is None


@schemathesis.check  # type: ignore[untyped-decorator]  # As above.
def documented_status(_context: Any, response: Any, case: Any) -> None:
    """Fail for a status that the method's own entry lacks: its default response documents none."""
    documented = case.operation.definition.raw["responses"]
    assert str(response.status_code) in documented, f"{response.status_code} is not documented"


@schemathesis.check  # type: ignore[untyped-decorator]  # As above.
def documented_reason(_context: Any, response: Any, _case: Any) -> None:
    """Fail for a refusal without a reason that programs can rely on; a body in another form is read by no method."""
    if response.status_code < 400 or response.status_code == 415:
        return
    details = response.json().get("details", [])
    reasons = [each["debug"]["reason"] for each in details if each["type"] == "google.rpc.ErrorInfo"]
    assert len(reasons) == 1, f"{response.status_code} without a reason"
