"""The settings of a class, from the signature of its constructor."""

from __future__ import annotations

from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def parameters_of(kind: type) -> dict[str, Parameter]:
    """The parameters of its constructor, those passed on to its bases included. Annotations are resolved; one that
    cannot be, such as a name imported for type checkers alone, is ``Any``."""
    found: dict[str, Parameter] = {}
    for base in kind.__mro__:
        if "__init__" not in vars(base):
            continue
        constructor = vars(base)["__init__"]
        parameters = list(signature(constructor).parameters.values())[1:]
        try:
            hints = get_type_hints(constructor)
        except (NameError, AttributeError, TypeError):
            hints = {}
        own = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        found = {p.name: p.replace(annotation=hints.get(p.name, Any)) for p in own} | found
        if not any(p.kind == Parameter.VAR_KEYWORD for p in parameters):
            break
    return found


def settings_of(kind: type) -> dict[str, Any]:
    """The settings of its constructor with their defaults, those passed on to its bases included."""
    return {name: parameter.default for name, parameter in parameters_of(kind).items()}


class ShownSignature:
    """The signature of a class as ``help`` and notebooks show it: all settings, in the place of ``**settings``."""

    def __get__(self, instance: object, kind: type) -> Signature:
        own = list(signature(kind.__init__).parameters.values())[1:]  # type: ignore[misc]
        if any(p.kind == Parameter.VAR_KEYWORD for p in own):
            own = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in parameters_of(kind).values()]
        return Signature(own)
