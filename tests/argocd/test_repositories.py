"""Private repositories: what a GitOpsDeploymentRepositoryCredential opens, and for whom."""

from __future__ import annotations

import asyncssh
import pytest

from devstack.git.site import PRIVATE, USERNAME, GitSite
from devstack.harness.mirror import Mirror
from services.kinds.gitops_deployment.catalogue import REPOSITORY_NEEDS_LOGIN
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from tests.argocd.deployed import HEALTHY, Deployed
from tests.argocd.sources import Sources
from tests.e2e.api import Api, decoded
from tests.e2e.tenant import Tenant

SECRET_TYPE = "repository-credential"


async def test_private_repository_when_there_is_no_credential_then_the_status_says_so_until_there_is(
    tenant: Tenant, api: Api, source: Sources, site: GitSite, deployed: Deployed
) -> None:
    repository = source(visibility=PRIVATE)
    await tenant.create(source=repository.spec())
    assert "authentication required" in (await tenant.until_condition("ComparisonError", "True"))["message"]
    await api.secret("login", SECRET_TYPE, username=USERNAME, password=site.password)
    await api.credential(repository=repository.https)
    await api.until_credential("RepositoryCredentialUpToDate")
    await tenant.until_status("deployed", **HEALTHY)
    assert deployed.value(tenant.namespace) == "first"
    await tenant.until_condition("ComparisonError", "False")


async def test_credential_when_its_password_is_wrong_then_it_says_so_until_the_secret_is_corrected(
    tenant: Tenant, api: Api, source: Sources, site: GitSite
) -> None:
    repository = source(visibility=PRIVATE)
    await api.secret("login", SECRET_TYPE, username=USERNAME, password="wrong")
    await api.credential(repository=repository.https)
    await api.until_credential("InvalidCredentials")
    await tenant.create(source=repository.spec())
    await tenant.until_condition("ComparisonError", "True")
    await api.change_secret("login", password=site.password)
    await api.until_credential("RepositoryCredentialUpToDate")
    await tenant.until_status("deployed", **HEALTHY)


async def test_credential_when_deleted_then_it_is_used_no_longer(
    tenant: Tenant, api: Api, source: Sources, site: GitSite, engine_secrets: Mirror
) -> None:
    repository = source(visibility=PRIVATE)
    await api.secret("login", SECRET_TYPE, username=USERNAME, password=site.password)
    await api.credential(repository=repository.https)
    await tenant.create(source=repository.spec())
    await tenant.until_status("deployed", **HEALTHY)
    await api.delete(REPOSITORY_CREDENTIAL, "login")
    await engine_secrets.until(
        "Argo CD has it no longer",
        lambda objects: not any(decoded(item).get("url") == repository.https for item in objects.values()),
    )
    # Though Argo CD has it on its disk still.
    await tenant.create("later", source=repository.spec())
    for name in ("web", "later"):
        error = await tenant.until_condition("ComparisonError", "True", name)
        assert error["message"] == REPOSITORY_NEEDS_LOGIN.text()


async def test_repository_when_reached_by_ssh_then_it_is_deployed_with_the_key_of_the_credential(
    tenant: Tenant, api: Api, source: Sources, site: GitSite, deployed: Deployed
) -> None:
    repository = source(visibility=PRIVATE)
    await tenant.create(source=repository.spec(repoURL=repository.ssh))
    await tenant.until_condition("ComparisonError", "True")
    await api.secret("login", SECRET_TYPE, sshPrivateKey=site.client_key.read_text())
    await api.credential(repository=repository.ssh)
    await api.until_credential("RepositoryCredentialUpToDate")
    await tenant.until_status("deployed", **HEALTHY)
    assert deployed.value(tenant.namespace) == "first"


@pytest.mark.parametrize("way", ["https", "ssh"])
async def test_credential_when_it_opens_another_repository_only_then_it_does_not_help(
    tenant: Tenant, api: Api, source: Sources, site: GitSite, way: str
) -> None:
    mine, other = source(visibility=PRIVATE), source(visibility=PRIVATE)
    stranger = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    data = {"username": USERNAME, "password": "no"} if way == "https" else {"sshPrivateKey": stranger}
    await api.secret("login", SECRET_TYPE, **data)
    await api.credential(repository=getattr(other, way))
    await api.until_credential("InvalidCredentials")
    await tenant.create(source=mine.spec(repoURL=getattr(mine, way)))
    await tenant.until_condition("ComparisonError", "True")
