"""What a class is made with."""

from __future__ import annotations

from inspect import Parameter, signature


def settings_of(kind: type) -> list[str]:
    """The names of its constructor's settings, those that it passes on to its bases included."""
    names: list[str] = []
    for base in kind.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = list(signature(vars(base)["__init__"]).parameters.values())[1:]
        names += [p.name for p in parameters if p.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)]
        if not any(p.kind == Parameter.VAR_KEYWORD for p in parameters):
            break
    return list(dict.fromkeys(names))
