"""Cuts, slows and mends the links of a running stack, by the API of its Toxiproxy."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from devstack.stack.links import API, Link
from devstack.stack.state_folder import State
from devstack.supervisor.health_checks import HOST
from services.common.errors import InvalidConfiguration, Unavailable

LINKS = "links"
"""What the state folder remembers the ports of the proxies by."""
ANSWER_SECONDS = 5.0
WAYS = {"upstream": "there", "downstream": "back"}


@dataclass(frozen=True)
class FaultyLinks:
    """The proxies of one stack."""

    port: int

    @classmethod
    def of(cls, state: State) -> FaultyLinks:
        """Those of the stack in this folder. Raises InvalidConfiguration if it has none."""
        if not (ports := state.recall(LINKS)):
            raise InvalidConfiguration("this stack has no links; start it with 'gitopsctl dev up --links'")
        return cls(ports[API])

    def cut(self, link: Link) -> None:
        """Nothing gets through any more, either way, and nobody is told: connections stay, and hang."""
        self.mend(link)
        for stream in WAYS:
            self._add_toxic(link, "timeout", stream, {"timeout": 0})

    def slow(self, link: Link, *, latency_ms: int = 0, kilobytes_per_second: int = 0) -> None:
        """Each answer comes so much later; no more than so much gets through in a second, each way. 0: as it is."""
        self.mend(link)
        if latency_ms:
            self._add_toxic(link, "latency", "downstream", {"latency": latency_ms})
        for stream in WAYS if kilobytes_per_second else ():
            self._add_toxic(link, "bandwidth", stream, {"rate": kilobytes_per_second})

    def break_often(self, link: Link, *, kilobytes: int) -> None:
        """Each connection ends when so much was answered on it."""
        self.mend(link)
        self._add_toxic(link, "limit_data", "downstream", {"bytes": kilobytes * 1024})

    @contextmanager
    def led_elsewhere(self, links: Iterable[Link], port: int) -> Iterator[None]:
        """Links end at another port of this machine for as long as the block runs; connections are closed."""
        proxies = self._ask("GET", "/proxies")
        ends = {link.name: proxies[link.name]["upstream"] for link in links}
        for name in ends:
            self._ask("POST", f"/proxies/{name}", {"upstream": f"{HOST}:{port}"})
        try:
            yield
        finally:
            for name, end in ends.items():
                self._ask("POST", f"/proxies/{name}", {"upstream": end})

    def mend(self, link: Link) -> None:
        """As it was; connections that were cut are closed."""
        for toxic in self._ask("GET", f"/proxies/{link.name}/toxics"):
            self._ask("DELETE", f"/proxies/{link.name}/toxics/{toxic['name']}")

    def mend_all(self) -> None:
        """Every link as it was."""
        self._ask("POST", "/reset")

    def faults(self) -> Mapping[str, list[str]]:
        """What is wrong with each link, by its name; an empty list if nothing is."""
        proxies = self._ask("GET", "/proxies")
        return {name: [_described(toxic) for toxic in proxies[name]["toxics"]] for name in sorted(proxies)}

    def _add_toxic(self, link: Link, kind: str, stream: str, attributes: dict[str, int]) -> None:
        toxic = {"name": f"{kind}-{stream}", "type": kind, "stream": stream, "attributes": attributes}
        self._ask("POST", f"/proxies/{link.name}/toxics", toxic)

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{HOST}:{self.port}{path}", data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310 - HOST
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise InvalidConfiguration(f"{path}: {error.read().decode(errors='replace')}") from error
        except OSError as error:
            raise Unavailable(f"the proxies do not answer: {error}") from error


def _described(toxic: dict[str, Any]) -> str:
    values = ", ".join(f"{name} {value}" for name, value in toxic["attributes"].items() if name != "jitter")
    return f"{toxic['type']} {WAYS[toxic['stream']]} ({values})"
