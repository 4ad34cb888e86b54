"""The last step before a child process becomes its program; run by its path, so it imports no package of ours.

Usage: trampoline.py PARENT_PID DEATH_SIGNAL DROP PROGRAM [ARGUMENT …]

It asks the kernel to end the child with its parent, however that ends, and gives up root where DROP says so:
``keep`` (do not), ``namespace`` or ``setuid``. PostgreSQL refuses to run as root; both ways leave it able to read
this clone below root's closed home folder, which is where PostgreSQL itself lies.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2
CAP_DAC_OVERRIDE = 1
CAPABILITY_VERSION_3 = 0x20080522

UNPRIVILEGED = 65534
"""User and group id of ``nobody``."""

SPAWN_FAILED = 127

libc = ctypes.CDLL(None, use_errno=True)


def enter_namespace() -> None:
    """Become ``nobody`` in a user namespace of our own; outside it we stay root, without root's capabilities."""
    user, group = os.geteuid(), os.getegid()
    _check(libc.unshare(CLONE_NEWUSER))
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{UNPRIVILEGED} {user} 1")
    _write("/proc/self/gid_map", f"{UNPRIVILEGED} {group} 1")


def become_nobody() -> None:
    """Become ``nobody`` for good, keeping only the capability to pass closed folders."""
    _check(libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups([])
    os.setresgid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
    os.setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
    _keep_only(CAP_DAC_OVERRIDE)
    _check(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0))


def die_with(parent: int, death_signal: int) -> None:
    """Have the kernel send ``death_signal`` when ``parent`` ends. Last of all: a change of user id undoes it."""
    _check(libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0))
    if os.getppid() != parent:  # it ended before the kernel was asked
        os.kill(os.getpid(), signal.SIGKILL)


DROPS = {"keep": lambda: None, "namespace": enter_namespace, "setuid": become_nobody}


def _keep_only(capability: int) -> None:
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    # Two words (capabilities 0-31 and 32-63) of effective, permitted and inheritable.
    mask = 1 << capability
    data = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)
    _check(libc.capset(header, data))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def main() -> None:
    """Prepare this process and replace it by the program."""
    parent, death_signal, drop, *argv = sys.argv[1:]
    try:
        DROPS[drop]()
        die_with(int(parent), int(death_signal))
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"cannot start {argv[0]}: {error}\n")
        sys.exit(SPAWN_FAILED)


if __name__ == "__main__":
    main()
