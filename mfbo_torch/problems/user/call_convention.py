"""The calling convention of an objective: parameters by keyword or as one mapping, as its signature has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from inspect import Parameter, Signature, signature
from typing import Any, NamedTuple

from mfbo_torch.utils.errors import SettingError

MAPPING, FIDELITY, TRIAL = "parameters", "fidelity", "trial"
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class Convention(NamedTuple):
    """What an objective is given, by the names of :func:`convention`: some in order, the others as keywords, of which
    some are ``demanded``."""

    positional: tuple[str, ...]
    keywords: tuple[str, ...]
    demanded: tuple[str, ...] = ()

    @property
    def trial(self) -> bool:
        """Whether the objective takes a ``trial``."""
        return TRIAL in (*self.positional, *self.keywords)

    def call(self, function: Callable[..., Any], parameters: Mapping[str, Any], **others: Any) -> Any:
        """What the objective returns for the parameters of a design by name and, as ``others``, ``fidelity``, the
        fidelity's own name and value where it has one, and ``trial``. A parameter that is not there is left out, and
        ``None`` where the objective has no default."""
        given = {MAPPING: parameters, **parameters, **others}
        keywords = {name: given.get(name) for name in self.keywords if name in given or name in self.demanded}
        return function(*(given.get(name) for name in self.positional), **keywords)


def convention(
    function: Callable[..., Any], parameters: Sequence[str], named: str | None = None, num_fidelities: int = 1
) -> Convention:
    """The calling convention of an objective, from its signature.

    ``f(rate, width, fidelity)`` takes each parameter by its name, ``f(parameters, fidelity)`` all of them as one
    mapping: the latter where an argument is called ``parameters``, or the first one is like no name that is known.
    Either way ``fidelity`` is the number ``0 ... M - 1``, an argument with the fidelity's own name (``epochs``) its
    value, and ``trial`` may be an argument too; ``**others`` takes what is left, and what has a default may be
    anything. With one fidelity it may be left out. A ``SettingError`` where a name is missing, or one is demanded that
    nobody knows.
    """
    try:
        given = signature(function)
    except (TypeError, ValueError):  # some builtins do not tell
        return Convention((MAPPING, FIDELITY), ())
    return _Reading(function, given, tuple(parameters), named, num_fidelities).convention


class _Reading:
    """A signature, and what is known."""

    def __init__(
        self, function: Any, given: Signature, parameters: tuple[str, ...], named: str | None, num_fidelities: int
    ) -> None:
        self.kinds = {p.kind for p in given.parameters.values()}
        self.arguments = [p for p in given.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        self.function, self.given = function, given
        self.parameters, self.named = parameters, named
        self.own = named or FIDELITY
        self.several = num_fidelities > 1
        self.extra = {FIDELITY, self.own, TRIAL}
        self.known = {*parameters, *self.extra}

    @property
    def convention(self) -> Convention:
        names = [p.name for p in self.arguments]
        mapped = MAPPING in names and MAPPING not in self.parameters
        first = next((p for p in self.arguments if p.kind in _POSITIONAL), None)
        strange = first is not None and first.default is first.empty and not self._like(first.name)
        strange = strange and not {*names} & {*self.parameters}
        if mapped or strange or (not names and Parameter.VAR_POSITIONAL in self.kinds):
            return self._as_mapping()
        return self._by_keyword()

    def _as_mapping(self) -> Convention:
        positional: list[str] = []
        keywords: list[str] = []
        for i, argument in enumerate(self.arguments):
            name = argument.name
            if i == 0 and name != MAPPING and MAPPING not in (p.name for p in self.arguments):
                name = MAPPING
            elif i == 1 and argument.kind in _POSITIONAL and argument.default is argument.empty:
                name = name if self._like(name) or name == MAPPING else FIDELITY
            if name == MAPPING or name in self.extra:
                in_order = argument.kind in _POSITIONAL and len(positional) == i
                (positional if in_order else keywords).append(name)
            elif argument.default is argument.empty:
                raise self._wrong([], [argument.name])
        if not self.arguments:
            positional.append(MAPPING)
        return self._complete(positional, keywords)

    def _by_keyword(self) -> Convention:
        positional = [p.name for p in self.arguments if p.kind is p.POSITIONAL_ONLY]
        names = [p.name for p in self.arguments]
        rest = [name for name in names if name not in positional and name in self.known]
        strange = [p.name for p in self.arguments if p.default is p.empty and p.name not in self.known]
        missing = [name for name in self.parameters if name not in names]
        if strange or (missing and Parameter.VAR_KEYWORD not in self.kinds):
            raise self._wrong(missing, strange)
        if both := sorted({FIDELITY, TRIAL, self.own} & {*self.parameters}):
            raise SettingError("parameters", both[0], f"another name, or the objective f(parameters, {FIDELITY})")
        return self._complete(positional, [*rest, *missing])

    def _complete(self, positional: list[str], keywords: list[str]) -> Convention:
        """The convention, with the fidelity added where it is missing."""
        taken = {*positional, *keywords}
        if not taken & {FIDELITY, self.own}:
            if Parameter.VAR_KEYWORD in self.kinds:
                keywords.append(self.own)
            elif Parameter.VAR_POSITIONAL in self.kinds and not keywords:
                positional.append(self.own)
            elif self.several:
                raise self._wrong([self.own], [])
        demanded = tuple(p.name for p in self.arguments if p.default is p.empty and p.name in keywords)
        return Convention(tuple(positional), tuple(keywords), demanded)

    def _like(self, name: str) -> bool:
        """Whether a name is known, or what somebody may have meant by one that is."""
        return name in self.known or bool(get_close_matches(name, self.known, 1, 0.75))

    def _wrong(self, missing: list[str], strange: list[str]) -> SettingError:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        text = f"{name}({', '.join(self.given.parameters)})"
        named = "" if self.own in self.parameters else f"f({', '.join((*self.parameters, self.own))}) or "
        forms = f"{named}f({MAPPING}, {self.own})"
        spare = [p.name for p in self.arguments if p.name not in self.known]
        close = [(name, get_close_matches(name, missing or self.known, 1, 0.5)) for name in spare]
        meant = "".join(f"; did you mean {found[0]} by {name}?" for name, found in close if found)
        if missing:
            return SettingError("objective", text, f"one that takes {', '.join(missing)}, as {forms}{meant}")
        return SettingError("objective", text, f"one without the argument {', '.join(strange)}, as {forms}{meant}")
