"""What is told of a namespace in which an installation cannot be made."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from services.agent.provisioning.installation import INSTANCE_LABEL, Renderings
from services.agent.provisioning.installer import Installer
from services.common.errors import Permanent
from services.common.kubernetes import KubeClient, Manifest
from tests.unit.agent.instances_of_fleet import instance_row
from tests.unit.agent.provisioning.renderings import bring_up, rendered, write

ONE = instance_row("one", namespace="argocd", wanted_version="3.2.11")
OTHERS = {
    "somebody's": (
        {},
        "namespace argocd is there already and was not made for instance one: delete it, or retire the instance and "
        "add one in another namespace",
    ),
    "another instance's": (
        {"labels": {INSTANCE_LABEL: "zero"}},
        "namespace argocd is there already and was made for instance zero: if that is retired, wait until "
        "'gitopsctl engines show zero' shows that its installation is Removed; else retire instance one and add one in "
        "another namespace",
    ),
}


@pytest.mark.parametrize(("labels", "told"), OTHERS.values(), ids=OTHERS)
async def test_namespace_when_it_was_not_made_for_the_instance_then_whose_it_is_and_what_to_do_is_told(
    tmp_path: Path, labels: Manifest, told: str
) -> None:
    async def get_object(*_: object) -> Manifest:
        return {"metadata": {"name": "argocd", "uid": "u", **labels}}

    write(tmp_path, "3.2.11", rendered("3.2.11"))
    cluster = cast("KubeClient", SimpleNamespace(get_object=get_object))
    with pytest.raises(Permanent) as refused:
        await bring_up(Installer(cluster, Renderings(tmp_path)), ONE)
    assert str(refused.value) == told
