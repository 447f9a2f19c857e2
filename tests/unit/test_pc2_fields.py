"""Numbers of free JSON as pc2 writes them."""

from __future__ import annotations

import json
import math

import pytest
from fix_catalogue import over
from google.protobuf.struct_pb2 import Struct

from skein_kit.json_values.exact import InvalidJson
from skein_pc2.protocol import fields


def write_number(number: float) -> str:
    values = Struct()
    values["number"] = number
    return json.dumps(fields.to_json(values)["number"])


@over(
    ("number", "text"),
    [
        (3.0, "3"),
        (-0.5, "-0.5"),
        (float(2**53), "9007199254740992"),
        (1.2345678901234568e20, "123456789012345680000"),
        (-1.2345678901234568e20, "-123456789012345680000"),
        (1e21, "1e+21"),
    ],
)
def test_a_whole_number_is_written_with_the_digits_of_its_double(number: float, text: str) -> None:
    assert write_number(number) == text


@over("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_rejected(number: float) -> None:
    with pytest.raises(InvalidJson):
        write_number(number)
