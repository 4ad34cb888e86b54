"""The API server as curl would see it: a client of ours neither sends what is no JSON of ours nor shows warnings."""

from __future__ import annotations

import ssl
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import yaml


@contextmanager
def plain_client(kubeconfig: Path) -> Iterator[httpx2.Client]:
    """A client with the credentials of ``kubeconfig``."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
    headers = {"Authorization": f"Bearer {user['token']}"}
    with httpx2.Client(base_url=cluster["server"], headers=headers, verify=authority, timeout=30) as client:
        yield client
