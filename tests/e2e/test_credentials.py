"""GitOpsDeploymentRepositoryCredential: its conditions, and who may use what it opens."""

from __future__ import annotations

import pytest

from devstack.harness.mirror import Mirror
from services.common.kubernetes import SECRET, Rejected
from tests.e2e.api import Api
from tests.e2e.tenant import Tenant, find

NOWHERE = "https://127.0.0.1:9/private.git"
"""Nobody listens there."""


async def test_credential_when_its_secret_is_missing_then_all_three_conditions_say_so(api: Api) -> None:
    await api.credential(repository=NOWHERE)
    await api.until_credential("SecretNotFound")
    assert api.conditions(api.kinds.credentials, "login") == {
        "ErrorOccurred": ("True", "SecretNotFound"),
        "ValidRepositoryCredential": ("False", "SecretNotFound"),
        "ValidRepositoryURL": ("False", "SecretNotFound"),
    }


async def test_credential_when_its_secret_has_another_type_then_it_says_so_until_it_is_right(api: Api) -> None:
    await api.secret("login", "Opaque", username="u", password="p")
    await api.credential(repository=NOWHERE)
    await api.until_credential("SecretInvalidType")
    await api.delete(SECRET, "login")
    await api.secret("login", "repository-credential", username="u", password="p")
    await api.until_credential("InvalidCredentials")


async def test_credential_when_its_repository_cannot_be_reached_then_argocd_gets_nothing(
    api: Api, tenant: Tenant, projects: Mirror, engine_secrets: Mirror
) -> None:
    await api.secret("login", "repository-credential", username="u", password="p")
    await api.credential(repository=NOWHERE)
    await api.until_credential("InvalidCredentials")
    assert not any(
        item["metadata"]["name"].startswith("repo-cred-") and item.get("data", {}).get("url") == NOWHERE
        for item in engine_secrets.objects.values()
    )


async def test_project_when_there_is_a_credential_then_it_lists_its_repository(
    api: Api, tenant: Tenant, projects: Mirror
) -> None:
    application = await tenant.application_of(await tenant.create())
    await api.credential(repository=NOWHERE)
    name = application["spec"]["project"]
    await projects.until(
        "the project lists both",
        lambda objects: (
            (live := find(objects, name)) is not None
            and live["spec"]["sourceRepos"]
            == ["https://127.0.0.1:9/private", f"https://git.example.com/{tenant.namespace}/config"]
        ),
    )


@pytest.mark.parametrize(
    "repository",
    ["file:///etc", "http://git.example.com/a.git", "ext::sh -c id", "https://user:word@git.example.com/a.git"],
    ids=["file", "cleartext", "transport helper", "password in the URL"],
)
async def test_credential_when_its_repository_is_a_trick_then_the_api_server_refuses_it(
    api: Api, repository: str
) -> None:
    with pytest.raises(Rejected):
        await api.credential(repository=repository)


async def test_credential_when_it_names_an_internal_address_then_nothing_is_tried(api: Api) -> None:
    await api.secret("login", "repository-credential", username="u", password="p")
    await api.credential(repository="https://169.254.169.254/latest/meta-data.git")
    condition = await api.until_credential("InvalidRepositoryUrl")
    assert "link-local" in condition["message"]
