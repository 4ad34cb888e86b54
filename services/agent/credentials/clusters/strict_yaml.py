"""A strict subset of YAML for untrusted documents: text, booleans, lists and mappings, bounded in size and depth.

The parser's events are checked one by one, so that a document that expands (anchors, aliases) or nests without end is
refused before it is built. Errors name a line and never quote the document.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

MAX_BYTES = 256 * 1024
MAX_NODES = 10_000
MAX_DEPTH = 16

_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}


class Unreadable(ValueError):
    """The text is not accepted; its message says why and where."""


class _Open:
    """A list or mapping that is still being read."""

    __slots__ = ("content", "key")

    def __init__(self, content: dict[str, Any] | list[Any]) -> None:
        self.content = content
        self.key: str | None = None

    def add(self, value: Any, line: int) -> None:
        """Add the next value. In a mapping, keys and values alternate."""
        if isinstance(self.content, list):
            self.content.append(value)
        elif self.key is not None:
            self.content[self.key] = value
            self.key = None
        else:
            self.key = _key(value, self.content, line)


def parse(text: bytes) -> Any:
    """The document's content. Raises Unreadable."""
    if len(text) > MAX_BYTES:
        raise Unreadable(f"larger than {MAX_BYTES // 1024} KiB")
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        decoded = None
    if decoded is None:
        raise Unreadable("not UTF-8 text")
    return _build(_events(decoded))


def _events(text: str) -> Iterator[yaml.Event]:
    """The parser's events. Of a parser's error only the problem is passed on: a fixed text, as kubectl words it."""
    problem = ""
    try:
        yield from yaml.parse(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        problem = (f"line {line + 1}: " if line else "") + (error.problem or "unknown problem parsing YAML content")
    except yaml.YAMLError:
        problem = "control characters are not allowed"
    if problem:
        raise Unreadable(f"yaml: {problem}")


def _build(events: Iterator[yaml.Event]) -> Any:
    root = _Open([])
    stack, documents = [root], 0
    for count, event in enumerate(events):
        line = event.start_mark.line + 1 if event.start_mark else 1
        documents += isinstance(event, yaml.DocumentStartEvent)
        _check(event, line, count, documents, len(stack))
        if isinstance(event, yaml.ScalarEvent):
            stack[-1].add(_scalar(event), line)
        elif isinstance(event, yaml.CollectionStartEvent):
            content: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
            stack[-1].add(content, line)
            stack.append(_Open(content))
        elif isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
    return root.content[0] if isinstance(root.content, list) and root.content else None


def _check(event: yaml.Event, line: int, count: int, documents: int, depth: int) -> None:
    """Refuse events that can grow, nest or mean more than they show."""
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
        raise Unreadable(f"line {line}: anchors and aliases are not accepted")
    if getattr(event, "tag", None) is not None:
        raise Unreadable(f"line {line}: tags are not accepted")
    if documents > 1:
        raise Unreadable(f"line {line}: more than one document")
    if count > MAX_NODES:
        raise Unreadable(f"line {line}: more than {MAX_NODES} values")
    if depth > MAX_DEPTH:
        raise Unreadable(f"line {line}: nested deeper than {MAX_DEPTH}")


def _scalar(event: yaml.ScalarEvent) -> str | bool | None:
    plain = bool(event.implicit[0])
    value: str = event.value
    return _WORDS[value.lower()] if plain and value.lower() in _WORDS else value


def _key(value: Any, content: dict[str, Any], line: int) -> str:
    if not isinstance(value, str):
        raise Unreadable(f"line {line}: a key is not text")
    if value == "<<":
        raise Unreadable(f"line {line}: merge keys are not accepted")
    if value in content:
        raise Unreadable(f"line {line}: a key is given twice")
    return value
