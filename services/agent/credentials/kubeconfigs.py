"""Kubeconfigs of tenants, opened and read once for all environments that name them, and again at no check.

Reading one costs what its owner makes it cost, up to the bounds of ``strict_yaml``: some hundredths of a second. So it
is done in a thread, where the event loop gets its turn between two values. What remains for a tenant to waste is that
much for each change of a Secret, and for each check once it has more Secrets than are remembered, one or two at once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict

from services.agent.credentials.kubeconfig import Kubeconfig, read_kubeconfig
from services.agent.credentials.recipe import Sealed
from services.agent.credentials.secret import Unopened, opened
from services.agent.credentials.verdict import CheckFailed, failed
from services.common.api.catalogue import environment
from services.common.sealing import OpeningKeys, SecretContext

MAX_KEPT = 64
"""Secrets; the one that was not asked for the longest goes first."""

_Key = tuple[bytes, SecretContext]


class Kubeconfigs:
    """Reads sealed kubeconfigs and remembers what they say, also if that is nothing of use."""

    def __init__(self, keys: OpeningKeys) -> None:
        self._keys = keys
        self._read: OrderedDict[_Key, Kubeconfig | CheckFailed] = OrderedDict()

    async def of(self, sealed: Sealed) -> Kubeconfig:
        """What is in ``sealed``. Raises CheckFailed."""
        key = (hashlib.blake2b(sealed.text.encode(), digest_size=32).digest(), sealed.context)
        if key not in self._read:
            self._read[key] = await asyncio.to_thread(self._outcome, sealed)
        self._read.move_to_end(key)
        outcome = self._read[key]
        while len(self._read) > MAX_KEPT:
            self._read.popitem(last=False)
        if isinstance(outcome, CheckFailed):
            raise CheckFailed(outcome.reason, outcome.message)  # one that is raised twice would hold both traces
        return outcome

    def _outcome(self, sealed: Sealed) -> Kubeconfig | CheckFailed:
        """In a thread."""
        try:
            return read_kubeconfig(opened(self._keys, sealed))
        except Unopened as error:
            return failed(environment.UNPARSABLE_KUBECONFIG, str(error))
        except CheckFailed as error:
            return CheckFailed(error.reason, error.message)
