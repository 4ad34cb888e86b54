"""What users do, as calls to an API server."""

from __future__ import annotations

from typing import Any, cast

import pytest

from chaos.execution.surroundings import Surroundings
from chaos.execution.users import Users
from chaos.plan.operations import PutRefused
from chaos.record import Record
from services.common.errors import Permanent
from services.common.kubernetes import Manifest, Rejected
from tests.unit.chaos.scene import deployment

AROUND = Surroundings("chaos", "https://127.0.0.1:6443", "QQ==", (), (), (), ("git", "right"), str)


class Calls:
    """To an API server that has ``found``, and refuses a spec with this status; 0: it takes each."""

    def __init__(self, found: Manifest | None, status: int) -> None:
        self.found, self.status = found, status

    async def find(self, *_: object) -> Manifest | None:
        return self.found

    async def create(self, _: object, manifest: Manifest) -> Manifest:
        return self._stored(manifest)

    async def replace(self, _: object, found: Manifest, part: str, value: object) -> Manifest:
        return self._stored(found | {part: value})

    def _stored(self, manifest: Manifest) -> Manifest:
        if self.status:
            raise Rejected("no", self.status)
        return manifest


@pytest.mark.parametrize("found", [None, deployment("d0", "u-d0")], ids=["new", "known"])
async def test_spec_when_its_crd_refuses_it_then_nothing_is_recorded_and_when_it_is_taken_the_run_breaks_off(
    found: Manifest | None,
) -> None:
    record = Record()
    await Users(cast("Any", Calls(found, 422)), AROUND, record).carry_out(PutRefused(0, "deployment", "d0"))
    assert (record.present, record.names) == ({}, {})
    for status, error in ((0, Permanent), (403, Rejected)):
        users = Users(cast("Any", Calls(found, status)), AROUND, record)
        with pytest.raises(error):
            await users.carry_out(PutRefused(0, "deployment", "d0"))
