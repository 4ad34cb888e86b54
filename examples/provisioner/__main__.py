"""``python -m examples.provisioner KUBECONFIG``: serves the claims of the cluster that this opens."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import yaml

from examples.provisioner.provisioner import Provisioner
from services.common.kubernetes import connect


async def serve(kubeconfig: Path, content: str) -> None:
    """For ever."""
    url = yaml.safe_load(content)["clusters"][0]["cluster"]["server"]
    async with await connect(kubeconfig) as kube:
        await Provisioner(kube, url, content).run()


if __name__ == "__main__":
    path = Path(sys.argv[1])
    asyncio.run(serve(path, path.read_text()))
