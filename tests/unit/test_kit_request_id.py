from __future__ import annotations

import uuid

from fix_catalogue import over

from skein_kit.calls.call import REQUEST_ID_KEY, Call


def call(request_id: str) -> Call:
    return Call(path="/skein.x.v1.X/Y", metadata={REQUEST_ID_KEY: request_id}, deadline=None, peer="")


def test_a_caller_s_own_request_id_is_kept_up_to_its_limit() -> None:
    assert call("order-17").request_id == "order-17"
    assert call("x" * 200).request_id == "x" * 128


@over("request_id", ["", "é", "a\nb", "a\tb", "\x7f"])
def test_one_that_could_not_travel_on_is_replaced(request_id: str) -> None:
    """An API other than gRPC's accepts such characters; no call that carried one would leave this process."""
    assert uuid.UUID(call(request_id).request_id)
