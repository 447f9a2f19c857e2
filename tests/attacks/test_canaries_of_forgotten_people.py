"""An attacker looks for what was said about a forgotten person, in everything that answers.

Attack: canaries, each a word of its own, in every field of every entity about a person. After Forget the attacker reads
    the live rows, index entries and saved answers, asks every search, goes on with exports that were begun before,
    reads the files of cold storage, and has the dead letters of a webhook delivered again.
May be seen: nothing. The certificate says until when dead rows, the log and backups hold them.
May be spent: one Forget, and the worker's round that follows it.

`tests/bench/canaries.py`, which `make soak` runs, plants a thousand, and also restores backups and reads the disk.
"""

from __future__ import annotations

from fix_canaries import PERSON, Canaries, DeadLetters, Exports, published_keys
from fix_cluster import Cluster, Tenant
from fix_forgetting import finish
from fix_marker import files_with, places_of

from skein.auth.v1 import certificates_pb2
from skein.gateway.v1 import gateway_pb2
from skein_cluster.certificates import proof
from skein_kit.erasure_certificates import document

COUNT = 120
# Deliveries to it fail.
PRIVATE = "https://127.0.0.1/hook"


async def test_no_canary_is_left_and_the_certificate_proves_it(tenant: Tenant, cluster: Cluster) -> None:
    canaries = Canaries.of_seed(25)
    letters = await DeadLetters.listening(cluster, tenant, PRIVATE)
    await canaries.plant_person(tenant)
    await canaries.plant_until(tenant, COUNT)
    exports = await Exports.begin(tenant)
    # So that caches know them.
    asked = canaries.planted[:5]
    for word in asked:
        assert canaries.prefix in "".join(await canaries.answers(tenant, word))
    async with cluster.superuser() as connection:
        dead = await letters.die(connection)
        assert await canaries.found(connection, cluster) == set(canaries.planted)
        assert files_with(cluster, canaries.prefix)
        assert exports.are_in_progress
        assert canaries.prefix in exports.first

        response = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id=PERSON))
        await finish(connection, tenant, cluster.addresses)

        assert await places_of(connection, canaries.prefix) == []
        assert files_with(cluster, canaries.prefix) == []
        for word in asked:
            assert canaries.prefix not in "".join(await canaries.answers(tenant, word)).replace(word, "")
        assert [page async for page in exports.rest() if canaries.prefix in page] == []
        seen = await letters.retry(connection)
        assert dead > canaries.rounds
        assert canaries.prefix not in "".join(seen)
        certificate_request = certificates_pb2.GetErasureCertificateRequest(certificate_id=response.certificate_id)
        file = (await tenant.auth.GetErasureCertificate(certificate_request)).certificate.document
        certificate = document.verify(file.encode(), await published_keys(tenant))
        proved = await proof.prove(connection, certificate, [("subject", PERSON)])
    assert proved.is_gone, proved
    assert canaries.prefix not in file
    # One memory was in cold storage.
    assert certificate.statement["deleted_counts"]["memory.memories"] == 2 * canaries.rounds
