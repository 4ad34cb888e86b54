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
        """What a newer one takes the place of."""

    @property
    def digest(self) -> str:
        """Of what would go."""


ApprovableT = TypeVar("ApprovableT", bound=Approvable)


def name_of(known: Approvable) -> str:
    """It names what would go, too: of a newer one it is another."""
    return f"{known.place}@{known.digest[:DIGEST_SHOWN]}"


def named(known: Collection[ApprovableT], names: Collection[str], what: str, listing: str) -> list[ApprovableT]:
    """Those of these names. Raises InvalidConfiguration for one that there is not, or not any more.

    ``what`` they are, in the singular; ``listing``: the command that shows their names.
    """
    by_name = {name_of(each): each for each in known}
    places = {each.place: name_of(each) for each in known}
    for name in names:
        place = name.partition("@")[0]
        if name in by_name:
            continue
        if place in places:
            raise InvalidConfiguration(f"{name}: what would be removed is another by now: it is {places[place]}")
        raise InvalidConfiguration(f"there is no {what} {name}; 'gitopsctl {listing}' shows all")
    return [by_name[name] for name in dict.fromkeys(names)]
