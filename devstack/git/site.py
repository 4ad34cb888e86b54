"""Where the local git servers are, what they serve, and what it takes to get in."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    SSHPrivateKeyTypes,
    load_ssh_private_key,
)

from devstack.git.repository import Repository
from devstack.stack.pki import Pki
from devstack.stack.state_folder import write_private
from devstack.supervisor.health_checks import HOST

USERNAME = "git"
PUBLIC, PRIVATE = "public", "private"
HEARTBEAT = "heartbeat"
"""Repository by which it is seen that Argo CD does its work."""


@dataclass(frozen=True)
class GitSite:
    """Both servers serve the same repositories: of ``public`` to everybody over https, of ``private`` with credentials.

    Over ssh every repository takes a key: the one key of ``git``, and its own of every user whose name begins with that
    and a hyphen.
    """

    folder: Path
    https_port: int
    ssh_port: int
    password: str
    """Of the users, over https: ``git``, and whoever's name begins with that and a hyphen."""
    host: str = HOST
    """By which clients call both servers."""

    @property
    def repositories(self) -> Path:
        """Root of what is served: ``public`` and ``private``, with bare repositories in each."""
        return self.folder / "repositories"

    @property
    def pki(self) -> Pki:
        """Certificates of the https server."""
        return Pki(self.folder / "https")

    @property
    def host_key(self) -> Path:
        """By which the ssh server proves who it is."""
        return self.folder / "ssh_host_key"

    @property
    def client_key(self) -> Path:
        """The private key that the ssh server lets in."""
        return self.folder / "ssh_client_key"

    @property
    def authorized_keys(self) -> Path:
        """Its public half, as the server reads it."""
        return self.folder / "authorized_keys"

    @property
    def known_hosts(self) -> Path:
        """The ssh server's public key, as clients read it."""
        return self.folder / "known_hosts"

    @property
    def https_url(self) -> str:
        """Prefix of every https address: ``<prefix>/public/NAME.git``."""
        return f"https://{self.host}:{self.https_port}"

    @property
    def heartbeat_url(self) -> str:
        """Address of the repository of the heartbeat Application, which anybody can read."""
        return f"{self.https_url}/{PUBLIC}/{HEARTBEAT}.git"

    @property
    def ssh_url(self) -> str:
        """Prefix of every ssh address."""
        return self.ssh_url_of(USERNAME)

    def ssh_url_of(self, username: str) -> str:
        """Prefix of the ssh addresses by which this user calls the server."""
        return f"ssh://{username}@{self.host}:{self.ssh_port}"

    def environment(self) -> dict[str, str]:
        """What a person or a test needs to use the servers."""
        return {
            "GIT_SITE": str(self.folder),
            "GIT_HTTPS_URL": self.https_url,
            "GIT_SSH_URL": self.ssh_url,
            "GIT_USERNAME": USERNAME,
            "GIT_PASSWORD": self.password,
            "GIT_SSH_KEY": str(self.client_key),
            "GIT_AUTHORITIES": str(self.pki.authority),
            "SSH_KNOWN_HOSTS": str(self.known_hosts),
        }

    def prepare(self) -> None:
        """Make certificates, keys and the folders of the repositories, unless they are there."""
        for visibility in (PUBLIC, PRIVATE):
            (self.repositories / visibility).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.pki.ensure(self.host)
        host = _key_pair(self.host_key)
        client = _key_pair(self.client_key)
        write_private(self.authorized_keys, client)
        if not (self.repositories / PUBLIC / f"{HEARTBEAT}.git").exists():
            self.create(HEARTBEAT).commit({"README.md": "Nothing is deployed from here.\n"})
        # The port may be another one at every start.
        write_private(self.known_hosts, f"[{self.host}]:{self.ssh_port} {host}")

    def admits(self, username: str, password: str) -> bool:
        """Whether a login opens private repositories."""
        is_user = username == USERNAME or _is_one_of_many(username)
        return is_user and hmac.compare_digest(password.encode(), self.password.encode())

    def key_of(self, username: str) -> str:
        """The private key of one of the many users over ssh; it follows from the name and the password."""
        return _text_of_seed(self._seed_of(username))

    def admits_key(self, username: str, public: str) -> bool:
        """Whether this public key, as OpenSSH writes it, is that of one of the many users."""
        return _is_one_of_many(username) and public.split()[:2] == _public_text_of(self._key_of(username)).split()[:2]

    def _key_of(self, username: str) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self._seed_of(username))

    def _seed_of(self, username: str) -> bytes:
        return hmac.digest(self.password.encode(), username.encode(), "sha256")

    def create(self, name: str, visibility: str = PUBLIC) -> Repository:
        """A new, empty repository, served from now on as ``<visibility>/<name>.git``."""
        return Repository.create(self.repositories / visibility / f"{name}.git")


def site_of(environment: dict[str, str]) -> GitSite:
    """The site of a stack that runs with ``--argocd``, from what ``dev env`` says of it."""
    https, ssh = (int(environment[name].rpartition(":")[2]) for name in ("GIT_HTTPS_URL", "GIT_SSH_URL"))
    return GitSite(Path(environment["GIT_SITE"]), https, ssh, environment["GIT_PASSWORD"])


def _is_one_of_many(username: str) -> bool:
    return username.startswith(f"{USERNAME}-")


def _key_pair(path: Path) -> str:
    """The public key to the private one at ``path``, which is made if it is not there."""
    if not path.exists():
        write_private(path, _text_of(Ed25519PrivateKey.generate()))
    return _public_text_of(load_ssh_private_key(path.read_bytes(), password=None)) + "\n"


@cache
def _text_of_seed(seed: bytes) -> str:
    """The same text for the same key: each that OpenSSH's format is asked for has another random number in it."""
    return _text_of(Ed25519PrivateKey.from_private_bytes(seed))


def _text_of(key: Ed25519PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def _public_text_of(key: SSHPrivateKeyTypes) -> str:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
