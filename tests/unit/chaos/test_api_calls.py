"""What an API server says while it does not know custom resources yet."""

from __future__ import annotations

import pytest

from chaos.execution.api_calls import of_known_kind
from services.common.errors import Retry
from services.common.kubernetes import NotFound
from services.common.kubernetes.api_errors import Details
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT


async def answering(error: NotFound) -> None:
    raise error


async def test_object_when_it_is_not_there_then_that_is_the_answer() -> None:
    missing = NotFound("", Details(GITOPS_DEPLOYMENT.plural, "web"))
    with pytest.raises(NotFound):
        await of_known_kind(GITOPS_DEPLOYMENT, "web", answering(missing))


async def test_object_when_its_kind_is_not_known_yet_then_it_is_asked_for_again() -> None:
    with pytest.raises(Retry):
        await of_known_kind(GITOPS_DEPLOYMENT, "web", answering(NotFound("404 page not found")))
