"""A file with a JWK set that is read again when it changes, so that keys rotate without a restart.

:class:`SealingKeys` and :class:`OpeningKeys` are such files, of public and of private keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

import structlog
from joserfc.jwk import ECKey

from services.common.errors import InvalidConfiguration
from services.common.sealing.jwk_sets import parse_keys

log = structlog.get_logger(__name__)


class KeyFile:
    """A JWK set in a file, read again when the file changes. An unusable change is logged and ignored."""

    VARIABLE: ClassVar[str]
    IS_PRIVATE: ClassVar[bool]

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = self._stat()
        self._keys = self._read()

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the JWK set. Raises InvalidConfiguration naming the variable."""
        return cls(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._keys)})"

    def current(self) -> dict[str, ECKey]:
        """Keys by id, in the order of the file."""
        version = self._stat()
        if version != self._version:
            self._version = version
            try:
                self._keys = self._read()
                log.info("sealing keys read again", keys=list(self._keys))
            except InvalidConfiguration as error:
                log.warning("sealing keys changed but are unusable; the former ones stay", error=str(error))
        return self._keys

    def _check(self, keys: Mapping[str, ECKey]) -> None:
        """Raises ValueError if the keys must not be used here."""

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None  # reading says why
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _read(self) -> dict[str, ECKey]:
        try:
            keys = parse_keys(self._path.read_bytes(), private=self.IS_PRIVATE)
            self._check(keys)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
        else:
            return keys
        raise InvalidConfiguration(f"{self.VARIABLE}: {self._path}: {reason}")
