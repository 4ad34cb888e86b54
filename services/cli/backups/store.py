"""Where backups are kept: a folder, or a bucket of an S3-compatible store, by the library obstore.

An archive is streamed and is under its name only once all of it was written; what was begun and not finished is no
object of the store.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, ObjectStore, S3Store

from services.common.errors import InvalidConfiguration, Unavailable

PREFIX, SUFFIX = "gitops-", ".zip"
BUFFER_BYTES = 1024 * 1024
S3 = "s3://"


@dataclass(frozen=True, slots=True)
class ArchiveStore:
    """Archives by name; the names sort by time."""

    objects: ObjectStore
    place: str
    """As an operator has named it."""

    def list_archives(self) -> list[str]:
        """Their names, oldest first."""
        with self._answered():
            found = [item["path"] for batch in obstore.list(self.objects) for item in batch]
        return sorted(name for name in found if name.startswith(PREFIX) and name.endswith(SUFFIX))

    def size_of(self, name: str) -> int:
        """The size of the archive in bytes."""
        with self._answered():
            return obstore.head(self.objects, name)["size"]

    @contextmanager
    def written(self, name: str) -> Iterator[BinaryIO]:
        """A file that becomes the archive ``name`` when the block ends; if the block raises, there is no archive."""
        with self._answered():
            writer = obstore.open_writer(self.objects, name)
            yield cast("BinaryIO", writer)
            writer.close()

    @contextmanager
    def read(self, name: str) -> Iterator[BinaryIO]:
        """The archive ``name``."""
        with self._answered():
            reader = obstore.open_reader(self.objects, name, buffer_size=BUFFER_BYTES)
            with io.BufferedReader(_Readable(reader), BUFFER_BYTES) as buffered:
                yield cast("BinaryIO", buffered)

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """Raises Unavailable with the store's reason."""
        try:
            yield
        except (BaseError, OSError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise Unavailable(f"{self.place}: {reason}") from error


class _Readable(io.RawIOBase):
    """An object of a store as Python's own readers take it: into a buffer of theirs."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self._reader.tell())

    def readinto(self, buffer: Any) -> int:
        content = memoryview(self._reader.read(len(buffer)))
        buffer[: len(content)] = content
        return len(content)


def open_store(place: str) -> ArchiveStore:
    """The store at ``place``: a folder, which is made, or s3://BUCKET/PREFIX.

    Of S3 everything else is said by AWS_… in the environment: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY; or by the role of the pod. Raises InvalidConfiguration.
    """
    try:
        if place.startswith(S3):
            return ArchiveStore(S3Store.from_url(place), place)
        return ArchiveStore(LocalStore(Path(place), mkdir=True), place)
    except (BaseError, OSError, ValueError) as error:
        raise InvalidConfiguration(f"{place}: {error}") from error


def archive_name(taken_at: datetime) -> str:
    """The name of the archive of a backup of that time."""
    return f"{PREFIX}{taken_at.astimezone(UTC):%Y%m%dT%H%M%SZ}{SUFFIX}"
