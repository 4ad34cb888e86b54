"""An S3-compatible store in this process: as much of its protocol as a client needs that writes and reads objects.

Authorization is not verified, only that somebody has signed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

RANGE = re.compile(r"bytes=(\d+)-(\d+)")
LISTED = (
    "<Contents><Key>{}</Key><LastModified>2026-01-01T00:00:00Z</LastModified><ETag>1</ETag><Size>{}</Size></Contents>"
)


@dataclass
class Bucket:
    """What was written, by key."""

    url: str
    objects: dict[str, bytes] = field(default_factory=dict)
    parts: dict[int, bytes] = field(default_factory=dict)
    """Of the upload that is not complete."""
    refuses: bool = False


class _Handler(BaseHTTPRequestHandler):
    bucket: Bucket
    name: str

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.bucket.refuses or "Authorization" not in self.headers:
            return self._answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        if "partNumber" in self._query:
            self.bucket.parts[int(self._query["partNumber"][0])] = content
        else:
            self.bucket.objects[self._key] = content
        return self._answer(200, etag=content)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "uploads" in self._query:
            self.bucket.parts.clear()
            return self._answer(
                200,
                b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>",
            )
        self.bucket.objects[self._key] = b"".join(content for _, content in sorted(self.bucket.parts.items()))
        return self._answer(200, b"<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>")

    def do_GET(self) -> None:
        if "list-type" in self._query:
            prefix = self._query.get("prefix", [""])[0]
            found = [
                (key, len(content)) for key, content in sorted(self.bucket.objects.items()) if key.startswith(prefix)
            ]
            listed = "".join(LISTED.format(key, size) for key, size in found)
            text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>"
            return self._answer(200, text.encode())
        content = self.bucket.objects.get(self._key)
        if content is None:
            return self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        wanted = RANGE.match(self.headers.get("Range", ""))
        if wanted is None:
            return self._answer(200, content, etag=content)
        first, last = int(wanted[1]), min(int(wanted[2]), len(content) - 1)
        part = content[first : last + 1]
        return self._answer(206, part, etag=content, extent=f"bytes {first}-{last}/{len(content)}")

    do_HEAD = do_GET  # noqa: N815 - the name is http.server's

    @property
    def _query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.path).query, keep_blank_values=True)

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{self.name}/")

    def _answer(self, status: int, body: bytes = b"", etag: bytes = b"", extent: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", formatdate(0, usegmt=True))
        self.send_header("ETag", f'"{md5(etag).hexdigest()}"')  # noqa: S324 - as S3 has it
        if extent:
            self.send_header("Content-Range", extent)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(name: str, host: str = "127.0.0.1") -> Iterator[Bucket]:
    """A store with one bucket, at an address of this machine."""
    bucket = Bucket("")
    handler = type("Handler", (_Handler,), {"bucket": bucket, "name": name})
    server = ThreadingHTTPServer((host, 0), handler)
    bucket.url = f"http://{host}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield bucket
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
