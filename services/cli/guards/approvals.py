"""What waits for an approval has a name that says what would go: an operator approves exactly what was shown."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, TypeVar

from services.common.errors import InvalidConfiguration

DIGEST_SHOWN = 12
"""Characters of the digest in a name."""


class Approvable(Protocol):
    """Something that was refused until it is approved."""

    @property
    def place(self) -> str:
        """Where it was refused: a newer refusal there replaces this one."""

    @property
    def digest(self) -> str:
        """A digest of what would go."""


ApprovableT = TypeVar("ApprovableT", bound=Approvable)


def name_of(refused: Approvable) -> str:
    """The place, and a digest of what would go: if something else would go, the name is another."""
    return f"{refused.place}@{refused.digest[:DIGEST_SHOWN]}"


def named(refused: Collection[ApprovableT], names: Collection[str], what: str, listing: str) -> list[ApprovableT]:
    """The ones with these names. Raises InvalidConfiguration for a name that none has, or none has any more.

    ``what``: a word for one of them; ``listing``: the command that shows their names.
    """
    by_name = {name_of(each): each for each in refused}
    places = {each.place: name_of(each) for each in refused}
    for name in names:
        place = name.partition("@")[0]
        if name in by_name:
            continue
        if place in places:
            raise InvalidConfiguration(f"{name}: what would be removed is another by now: it is {places[place]}")
        raise InvalidConfiguration(f"there is no {what} {name}; 'gitopsctl {listing}' shows all")
    return [by_name[name] for name in dict.fromkeys(names)]
