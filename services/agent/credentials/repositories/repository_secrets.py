"""Composes Argo CD's repository Secrets: opens the login and checks it on the repository."""

from __future__ import annotations

from dataclasses import dataclass

from services.agent.credentials.check_result import (
    INVALID_CREDENTIALS,
    INVALID_URL,
    UP_TO_DATE,
    USE_REFUSED,
    CheckFailed,
    CheckInconclusive,
    CheckResult,
    RepositoryAccess,
)
from services.agent.credentials.repositories.git_https import HttpsRepositories
from services.agent.credentials.repositories.git_ssh import SshRepositories
from services.agent.credentials.repositories.git_url import HttpsUrl, SshUrl, parse_repository
from services.agent.credentials.repositories.login import Login, login_of
from services.agent.credentials.secret_recipe import (
    RepositoryRecipe,
    SealedSecretUnreadable,
    SecretUseRefused,
    composed_secret,
    open_sealed_secret,
    repository_recipe,
    secret_metadata,
)
from services.common.addresses import AddressPolicy
from services.common.messages import EngineResource
from services.common.sealing import OpeningKeys


@dataclass(frozen=True, slots=True)
class RepositorySecrets:
    """Composes rows of kind RepositorySecret."""

    keys: OpeningKeys
    https: HttpsRepositories
    ssh: SshRepositories
    addresses: AddressPolicy

    async def compose_secret(self, row: EngineResource) -> CheckResult:
        """The row's Secret. Raises Permanent (not the planner's row), CheckFailed, Retry (our known hosts)."""
        recipe = repository_recipe(row)
        url = self._url(recipe)
        login = self._login(recipe)
        await self._try(url, login)
        name = recipe.secret.context.name
        message = f"Repository Credentials provided {name} for Repository {recipe.repository} are valid"
        composed = composed_secret(secret_metadata(row, "repository"), _data(recipe, login))
        return CheckResult(composed, UP_TO_DATE, message, access=await self._access(url))

    async def is_public_repository(self, repository: str) -> bool:
        """Whether the repository is known to open without a login. Raises Retry (our authorities)."""
        try:
            return await self._access(parse_repository(repository, self.addresses)) is RepositoryAccess.ANYBODY
        except ValueError:
            return False

    async def _access(self, url: HttpsUrl | SshUrl) -> RepositoryAccess:
        """Who can read a repository that opens with a login. ssh always needs a login."""
        if isinstance(url, SshUrl):
            return RepositoryAccess.LOGIN
        try:
            await self.https.check_login(url, None)
        except CheckInconclusive:
            return RepositoryAccess.UNCLEAR
        except CheckFailed:
            return RepositoryAccess.LOGIN
        return RepositoryAccess.ANYBODY

    def _url(self, recipe: RepositoryRecipe) -> HttpsUrl | SshUrl:
        try:
            return parse_repository(recipe.repository, self.addresses)
        except ValueError as error:
            why = str(error)
        raise CheckFailed(INVALID_URL, f"spec.repository {why}")

    def _login(self, recipe: RepositoryRecipe) -> Login:
        failure = CheckFailed
        try:
            return login_of(open_sealed_secret(self.keys, recipe.secret))
        except SealedSecretUnreadable as error:
            reason, why = INVALID_CREDENTIALS, str(error)
        except SecretUseRefused as error:
            reason, why = USE_REFUSED, str(error)
            failure = CheckInconclusive if error.may_pass else CheckFailed
        raise failure(reason, why)

    async def _try(self, url: HttpsUrl | SshUrl, login: Login) -> None:
        if isinstance(url, SshUrl):
            if not login.private_key:
                raise CheckFailed(INVALID_CREDENTIALS, "a repository reached by ssh needs the field sshPrivateKey")
            await self.ssh.check_login(url, login.private_key)
        else:
            if login.private_key:
                raise CheckFailed(INVALID_CREDENTIALS, "sshPrivateKey does not open an https URL; write an ssh one")
            await self.https.check_login(url, login)


def _data(recipe: RepositoryRecipe, login: Login) -> dict[str, str]:
    """The Secret's data. Argo CD prefers a password to a key, so only one of them is written."""
    fields = {
        "name": recipe.secret.context.name,
        "url": recipe.repository,
        "project": recipe.project,
        "username": login.username,
        "password": login.password,
        "sshPrivateKey": login.private_key,
    }
    return {name: value for name, value in fields.items() if value}
