"""Every public RPC that reads is probed by the canary, or it is said why not."""

from __future__ import annotations

import re

from google.protobuf import descriptor_pool

import skein_gateway.public_methods  # noqa: F401 - loads the whole public contract.
from skein_kit.canary import CANARY_A, CANARY_B
from skein_kit.identity.permissions import ACCESS_RULES, PUBLIC_SERVICES
from skein_worker.canary.probes import EXEMPT, PROBES
from skein_worker.canary.synthetic_data import SyntheticData

GATEWAY = "skein.gateway.v1.GatewayService"
# What begins so changes something. A new verb is a reading one until it is written here.
WRITES = re.compile(
    "Accept|Activate|Add|Adopt|Advance|Append|Approve|Archive|Attach|BatchCreate|Cancel|Change|Complete|Confirm|Consolidate|Create|Deactivate|"
    "Decay|Delete|Demote|Detach|Disable|End|Forget|Grant|Hide|Import|Insert|Leave|Limit|Link(?!s)|Merge|Move|Offer|Pause|Promote|Purge|Put|Refresh|Refuse|"
    "Register|Reinforce|Remember|Remove|Reopen|Replace|Request|Reset|Resolve|Restore|Resume|Retry|Revert|Revoke|Rotate|Set|"
    "Sign|Start|Store|Summarize|Test|Transfer|Unarchive|Undelete|Unhide|Unlink|Update|Upsert|Verify"
)
PUBLIC = {
    f"/{service}/{method.name}": method
    for service in (*PUBLIC_SERVICES, GATEWAY)
    for method in descriptor_pool.Default().FindServiceByName(service).methods
}
READS = {path for path in PUBLIC if not WRITES.match(path.rpartition("/")[2])}


def things_of(canary: object) -> SyntheticData:
    things = SyntheticData(canary=canary, api_key="a key")  # type: ignore[arg-type]  # One of the two.

    class Named(dict[str, str]):
        def __missing__(self, name: str) -> str:
            return f"{name}-of-{things.canary.slug}"

    things.ids = Named()
    return things


def test_every_reading_rpc_has_a_probe_or_a_reason_why_not() -> None:
    probed = {probe.path for probe in PROBES}

    assert probed | set(EXEMPT) == READS
    assert probed & set(EXEMPT) == set()
    assert len(probed) == len(PROBES)


def test_an_rpc_with_a_read_permission_is_a_reading_rpc() -> None:
    assert {path for path in PUBLIC if str(ACCESS_RULES[path].permission).endswith(".read")} - READS == set()


def test_only_what_tells_of_no_tenant_or_lets_no_key_in_goes_without_a_probe() -> None:
    with_tenant = {path for path in EXEMPT if str(ACCESS_RULES[path].permission).endswith(".read")}

    # The canary's answers have no receipts: tests/service/test_recall_receipts.py asks for those of another tenant.
    receipts = {"GetRecallReceipt", "ListRecallReceipts", "ReplayRecall", "DiffRecall", "ReplayContext"}
    assert {path.rpartition("/")[2] for path in with_tenant} == {"EmbedText", "ListEmbeddingModels"} | receipts


def test_a_request_for_the_other_s_data_never_holds_the_word_that_would_show_a_leak() -> None:
    mine, theirs = things_of(CANARY_A), things_of(CANARY_B)

    for probe in PROBES:
        request = None
        if probe.request_for is not None:
            request = probe.request_for(theirs)
        elif probe.request_for_both is not None:
            request = probe.request_for_both(mine, theirs)
        assert request is not None, probe.path
        assert type(request).DESCRIPTOR is PUBLIC[probe.path].input_type, probe.path
        assert theirs.canary.secret.encode() not in request.SerializeToString(), probe.path


def test_the_words_of_the_two_differ_and_are_words() -> None:
    words = [word for canary in (CANARY_A, CANARY_B) for word in (canary.word, canary.secret)]

    assert len(set(words)) == 4
    assert all(word.isascii() and word.isalpha() and word.islower() for word in words)
