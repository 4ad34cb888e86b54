"""How this stack starts a Java program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

# Ready in a third of the time, with a third of the threads; a broker of a laptop never gets hot enough for C2.
FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # Class files that come with checksums: to verify them is a tenth of a start.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
    "-XX:+ExitOnOutOfMemoryError",
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "-Djava.awt.headless=true",
)


def class_path(*folders: Path) -> str:
    """All jars of ``folders``, by name: with a wildcard their order would be the file system's."""
    return ":".join(str(jar) for folder in folders for jar in sorted(folder.glob("*.jar")))


def overlaid(base: Path, values: Mapping[str, object]) -> str:
    """The properties file ``base`` with some of its values replaced, and values it does not have added."""
    kept = [line for line in base.read_text().splitlines() if line.partition("=")[0].strip() not in values]
    return "\n".join([*kept, *(f"{name}={value}" for name, value in values.items()), ""])


def properties(file: Path) -> dict[str, str]:
    """Values by name of a properties file whose values take one line each."""
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def command(java: Path, heap: str, arguments: Iterable[str]) -> tuple[str, ...]:
    """The command line of a Java program with a heap of ``heap``, e.g. ``512m``."""
    return (str(java), *FLAGS, f"-Xmx{heap}", *arguments)
