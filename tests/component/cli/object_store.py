"""An S3-compatible store in this process: moto's, with one bucket and one user, whose signature it verifies.

Of an upload in parts it makes what the completing request lists, and refuses it if a part is not as it was sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

import boto3
from moto.server import ThreadedMotoServer

REGION = "us-east-1"
USER = "backup"
EVERY_RIGHT = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
NOBODY_IS_ASKED, EVERYBODY_IS_ASKED = b"inf", b"0"


@dataclass(frozen=True)
class Bucket:
    """What was written, by key."""

    name: str
    url: str
    login: tuple[str, str]
    """The access key's id and its secret."""

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs to know."""
        access_key, secret = self.login
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": access_key,
            "AWS_SECRET_ACCESS_KEY": secret,
        }

    def keys(self) -> list[str]:
        """Of the objects that are complete."""
        return [item["Key"] for item in self._s3.list_objects_v2(Bucket=self.name).get("Contents", [])]

    def content_of(self, key: str) -> bytes:
        """One object."""
        return bytes(self._s3.get_object(Bucket=self.name, Key=key)["Body"].read())

    def parts_of(self, key: str) -> int:
        """Of how many parts it was put together; S3 says so at the end of the ETag."""
        tag: str = self._s3.head_object(Bucket=self.name, Key=key)["ETag"]
        return int(tag.strip('"').partition("-")[2] or 1)

    @property
    def _s3(self) -> Any:
        return _client("s3", self.url, self.login)


def _client(service: str, url: str, login: tuple[str, str]) -> Any:
    access_key, secret = login
    return boto3.client(
        service,
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret,
    )


@contextmanager
def serving(name: str, host: str = "127.0.0.1") -> Iterator[Bucket]:
    """A store with one empty bucket, at an address of this machine."""
    server = ThreadedMotoServer(ip_address=host, port=0, verbose=False)
    server.start()
    try:
        url = "http://{}:{}".format(*server.get_host_and_port())
        yield _bucket(name, url)
    finally:
        server.stop()


def _bucket(name: str, url: str) -> Bucket:
    _order(url, "reset-auth", NOBODY_IS_ASKED)
    _order(url, "reset")
    nobody = ("nobody", "nothing")
    iam = _client("iam", url, nobody)
    iam.create_user(UserName=USER)
    iam.put_user_policy(UserName=USER, PolicyName="all", PolicyDocument=json.dumps(EVERY_RIGHT))
    key = iam.create_access_key(UserName=USER)["AccessKey"]
    _client("s3", url, nobody).create_bucket(Bucket=name)
    _order(url, "reset-auth", EVERYBODY_IS_ASKED)
    return Bucket(name, url, (key["AccessKeyId"], key["SecretAccessKey"]))


def _order(url: str, what: str, content: bytes = b"") -> None:
    request = Request(f"{url}/moto-api/{what}", content, {"Content-Type": "text/plain"})  # noqa: S310 - of this process
    with urlopen(request):  # noqa: S310 - likewise
        pass
