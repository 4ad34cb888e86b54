"""Git repositories of the local stack, and who may read them."""

from __future__ import annotations

import base64
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest
from aiohttp.test_utils import TestClient, TestServer
from cryptography.x509 import DNSName, SubjectAlternativeName, load_pem_x509_certificate

from devstack.git import example_server
from devstack.git.https_server import application
from devstack.git.repository import Repository
from devstack.git.site import PRIVATE, GitSite, site_of
from devstack.git.ssh_server import requested, serve
from services.common.errors import Unavailable

REFS = "info/refs?service=git-upload-pack"


@pytest.fixture
def site(tmp_path: Path) -> GitSite:
    """A site with a public and a private repository, each with a commit."""
    made = GitSite(tmp_path, 20_001, 20_002, "pass-1")
    made.prepare()
    made.create("open").commit({"a.yaml": "a: 1"})
    made.create("closed", PRIVATE).commit({"a.yaml": "a: 1"})
    return made


def test_commit_when_files_change_and_go_then_the_tree_is_so(site: GitSite) -> None:
    repository = site.create("tree")
    first = repository.commit({"a.yaml": "a: 1\n", "deep/b.yaml": "b: ü\n"}, "First")
    second = repository.commit({"a.yaml": None, "deep/b.yaml": "b: 2\n"}, "Second")
    assert repository.head() == second != first
    assert repository.show(first, "deep/b.yaml") == "b: ü\n"
    assert repository.show(second, "deep/b.yaml") == "b: 2\n"
    with pytest.raises(Unavailable, match=r"path 'a\.yaml' does not exist"):
        repository.show(second, "a.yaml")


def test_commit_when_on_another_branch_then_the_first_one_stays(site: GitSite) -> None:
    repository = site.create("branches")
    main = repository.commit({"a.yaml": "a: 1"})
    assert repository.commit({"a.yaml": "a: 2"}, branch="next") != main
    assert repository.head() == main


def test_site_when_prepared_again_at_other_ports_then_keys_stay_and_known_hosts_follow(site: GitSite) -> None:
    keys = site.host_key.read_text(), site.client_key.read_text()
    moved = GitSite(site.folder, 20_041, 20_042, "pass-1")
    moved.prepare()
    assert (moved.host_key.read_text(), moved.client_key.read_text()) == keys
    assert moved.known_hosts.read_text().startswith("[127.0.0.1]:20042 ssh-ed25519 ")


def test_site_when_clients_call_its_host_by_a_name_then_its_addresses_and_keys_are_of_that_name(tmp_path: Path) -> None:
    named = GitSite(tmp_path, 20_001, 20_002, "pass-1", "git.example.test")
    named.prepare()
    assert named.https_url == "https://git.example.test:20001"
    assert named.ssh_url == "ssh://git@git.example.test:20002"
    assert named.known_hosts.read_text().startswith("[git.example.test]:20002 ")
    certificate = load_pem_x509_certificate(named.pki.server_certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    assert "git.example.test" in names.get_values_for_type(DNSName)


def test_example_when_its_server_starts_again_then_it_has_what_was_pushed_and_the_same_authority(
    tmp_path: Path,
) -> None:
    named = GitSite(tmp_path / "site", 20_001, 0, "pass-1", "git.example.test")
    example_server.prepare(named, tmp_path / "ca.crt")
    repository = Repository(named.repositories / "public" / "example.git")
    authority, pushed = (tmp_path / "ca.crt").read_bytes(), repository.commit({"app/more.yaml": "a: 1"})
    example_server.prepare(named, tmp_path / "ca.crt")
    assert (tmp_path / "ca.crt").read_bytes() == authority == named.pki.authority.read_bytes()
    assert repository.head() == pushed
    assert "kind: ConfigMap" in repository.show(pushed, "app/settings.yaml")


def test_site_when_found_again_by_its_environment_then_it_is_the_same(site: GitSite) -> None:
    assert site_of(site.environment()) == site


@pytest.mark.parametrize(
    ("path", "login", "status"),
    [
        ("public/open.git", "", 200),
        ("private/closed.git", "git:pass-1", 200),
        ("private/closed.git", "git-a-tenants:pass-1", 200),
        ("private/closed.git", "gitlab:pass-1", 401),
        ("private/closed.git", "", 401),
        ("private/closed.git", "git:wrong", 401),
        ("public/absent.git", "", 404),
        ("public/..%2fprivate/closed.git", "", 404),
        ("secrets/closed.git", "", 404),
    ],
)
async def test_https_when_a_repository_is_asked_for_then_only_those_with_a_right_get_it(
    site: GitSite, path: str, login: str, status: int
) -> None:
    headers = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} if login else {}
    async with TestClient(TestServer(application(site))) as client:
        answer = await client.get(f"/{path}/{REFS}", headers=headers)
        assert answer.status == status


async def test_https_when_pushed_to_then_it_is_refused(site: GitSite) -> None:
    async with TestClient(TestServer(application(site))) as client:
        answer = await client.get("/public/open.git/info/refs?service=git-receive-pack")
        assert answer.status == 403


def test_ssh_when_a_repository_is_asked_for_then_it_is_found_below_the_root(site: GitSite) -> None:
    found = requested("git-upload-pack '/private/closed.git'", site.repositories)
    assert Repository(found).head()


@pytest.mark.parametrize(
    "command",
    [
        "git-receive-pack '/private/closed.git'",
        "git-upload-pack '/private/closed.git' extra",
        "git-upload-pack '/../ssh_host_key'",
        "git-upload-pack '/../../..'",
        "git-upload-pack '/private/absent.git'",
        "git-upload-pack 'unbalanced",
        "",
    ],
)
def test_ssh_when_anything_else_is_asked_for_then_it_is_refused(site: GitSite, command: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        requested(command, site.repositories)


@pytest.mark.parametrize(
    ("username", "key_of", "is_admitted"),
    [
        pytest.param("git-team-a", "git-team-a", True, id="its own"),
        pytest.param("git-team-a", "git-team-b", False, id="another's"),
        pytest.param("somebody", "somebody", False, id="of nobody who is known"),
    ],
)
async def test_ssh_when_a_user_comes_with_a_key_then_it_has_to_be_its_own(
    site: GitSite, username: str, key_of: str, *, is_admitted: bool
) -> None:
    server = await serve(replace(site, ssh_port=0))
    key = asyncssh.import_private_key(site.key_of(key_of))
    refused = nullcontext() if is_admitted else pytest.raises(asyncssh.PermissionDenied)
    options = {"username": username, "client_keys": [key], "known_hosts": None, "config": None}
    async with server:
        with refused:
            (await asyncssh.connect(site.host, server.get_port(), **options)).close()


def test_key_of_a_user_when_asked_for_again_then_its_text_is_the_same(site: GitSite) -> None:
    assert site.key_of("git-ada") == site.key_of("git-ada") != site.key_of("git-bob")
