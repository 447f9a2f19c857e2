"""What profiles and preferences are found by."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fix_catalogue import over
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct, Value
from hypothesis import given
from hypothesis import strategies as st

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_kit.filters.json_properties import MAX_PROPERTIES, parse_matches
from skein_kit.rpc import well_known_types
from skein_tenancy.subjects.model import properties_of

SCALARS = st.text(max_size=400) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.integers()


def stored(value: Any) -> frozenset[tuple[str, str]]:
    """Return the properties of a profile, as a service that reads it from the network sees them."""
    subject = pb.Subject(profile=json_format.ParseDict(value, Struct()))
    return properties_of({"profile": well_known_types.json_text(subject, "profile")})


def property_key(path: str, value: Any) -> tuple[str, str]:
    return parse_matches([pb.PropertyMatch(path=path, value=json_format.ParseDict(value, Value()))])[0]


def test_each_scalar_has_its_path() -> None:
    result = properties_of({"profile": '{"a":{"b":1,"c":[true,"x",{"d":2.5}]},"n":null}', "preferences": '{"a":"y"}'})

    assert result == {
        ("profile.a.b", "1"),
        ("profile.a.c", "true"),
        ("profile.a.c", '"x"'),
        ("profile.a.c.d", "2.5"),
        ("preferences.a", '"y"'),
    }


@over(("one", "another"), [("1", "1.0"), ("100", "1e2"), ("0", "-0.0"), ("1e22", "1" + "0" * 22)])
def test_equal_numbers_have_one_text(one: str, another: str) -> None:
    assert properties_of({"profile": f'{{"a":{one}}}'}) == properties_of({"profile": f'{{"a":{another}}}'})


def test_values_of_different_types_differ() -> None:
    texts = [properties_of({"profile": json.dumps({"a": value})}) for value in (1, "1", True, "true", 0, False, "")]

    assert len(set(texts)) == len(texts)


def test_long_values_and_paths_are_hashed() -> None:
    ((path, value),) = properties_of({"profile": json.dumps({"漢" * 400: "x" * 300})})

    assert path.startswith("sha256:")
    assert value.startswith("sha256:")
    assert len(value) == len("sha256:") + 64


def test_properties_that_cannot_be_named_are_left_out() -> None:
    assert properties_of({"profile": json.dumps({"a.b": 1, "": 2, "x" * 600: 3, "c": {}, "d": []})}) == frozenset()


def test_nothing_has_no_properties() -> None:
    assert properties_of({"profile": None, "preferences": "{}"}) == frozenset()


def test_too_many_are_refused() -> None:
    properties_of({"profile": json.dumps(dict.fromkeys(map(str, range(MAX_PROPERTIES)), 1))})

    with pytest.raises(FieldInvalid):
        properties_of({"profile": json.dumps(dict.fromkeys(map(str, range(MAX_PROPERTIES + 1)), 1))})


@given(SCALARS)
def test_whatever_is_stored_is_found(value: Any) -> None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < 2**1000 else 0.0

    assert property_key("profile.a", value) in stored({"a": [value, "other"]})
