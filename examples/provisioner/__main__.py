"""``python -m examples.provisioner KUBECONFIG WORKSPACE``: serves the claims of the cluster that this opens."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import yaml

from examples.provisioner.provisioner import Provisioner
from examples.provisioner.topic import open_topic
from services.common.kubernetes import connect
from services.common.settings import KafkaSettings, load


async def serve(kubeconfig: Path, workspace: str, content: str) -> None:
    """For ever."""
    url = yaml.safe_load(content)["clusters"][0]["cluster"]["server"]
    with open_topic(load(KafkaSettings)) as topic:
        async with await connect(kubeconfig) as kube:
            await Provisioner(kube, workspace, url, content).run(topic)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    asyncio.run(serve(path, sys.argv[2], path.read_text()))
