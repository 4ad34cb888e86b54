"""CEL rules about parts of a spec that stay as they were created."""

from __future__ import annotations

from services.kinds.shared.api_model import Rule, rule


def unchanged(field: str, kind: str) -> Rule:
    """For a field that is required: it stays what it was. The first words are those of the webhooks before."""
    return rule("self == oldSelf", f"{field} field cannot be updated to another value; create another {kind}")


def unchanged_list(field: str, kind: str) -> Rule:
    """For the object around an optional list: a rule of an optional field is not asked when it comes or goes."""
    before, now = (f"(has({each}.{field}) ? {each}.{field} : [])" for each in ("oldSelf", "self"))
    return rule(f"{now} == {before}", f"{field} cannot be updated to other ones; create another {kind}")
