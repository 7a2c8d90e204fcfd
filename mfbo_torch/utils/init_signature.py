"""The settings of a class, from the signature of its constructor."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any


def settings_of(kind: type) -> dict[str, Any]:
    """The settings of its constructor, with their defaults, those that it passes on to its bases included."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = list(signature(vars(base)["__init__"]).parameters.values())[1:]
        own = {p.name: p.default for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        found = own | found
        if not any(p.kind == Parameter.VAR_KEYWORD for p in parameters):
            break
    return found
