"""When two URLs are one repository: as Argo CD's checkouts have it, whatever the spelling."""

from __future__ import annotations

import pytest

from services.agent.private_repositories.repository_identity import identity_of, repository_of
from services.common.addresses import AddressPolicy
from services.common.urls.repository_url import normalised, refusal
from tests.unit.agent.private_repositories.checkouts import KEYS


def test_urls_when_argo_cd_shares_their_checkout_then_they_are_one_repository_and_otherwise_not() -> None:
    assert [refusal(url, AddressPolicy(), with_credentials=False) for url in KEYS] == [""] * len(KEYS)
    for one, key in KEYS.items():
        for other, its in KEYS.items():
            assert (repository_of(one) == repository_of(other)) == (key == its), (one, other)


@pytest.mark.parametrize("url", KEYS)
def test_url_when_an_app_project_lists_it_then_it_is_still_that_repository(url: str) -> None:
    assert repository_of(normalised(url)) == repository_of(url)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("https://h.example/team/app", "https://H.EXAMPLE/team/app.git", True),
        ("git@h.example:team/app", "ssh://git@h.example/team/app.git", True),
        ("https://h.example/team/app", "https://h.example/Team/app", False),
        ("https://h.example/team/app", "https://h.example/team/app/", False),
    ],
)
def test_spelling_when_its_path_has_the_same_letters_then_it_is_the_same(one: str, other: str, alike: bool) -> None:
    assert (identity_of(one) == identity_of(other)) == alike
