"""Safe reading and writing of YAML: plain values in bounded memory, each key once, texts that can be shown and stored.
Numbers, ``true`` and ``false`` are those of YAML 1.2: ``1e-5`` is a number, ``010`` is ten, ``no`` and ``1:30`` are
texts. So is a date."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import yaml

MOST_VALUES, DEEPEST = 100_000, 50
"""Largest number of values of a document, an alias counted as what it stands for, and largest depth of nesting."""
_NO_NAMES = {"tag:yaml.org,2002:bool": "true or false", "tag:yaml.org,2002:null": "nothing"}
"""What a key may not be, as it is meant as a name."""
_FLOAT, _INT, _BOOL, _DATE = (f"tag:yaml.org,2002:{kind}" for kind in ("float", "int", "bool", "timestamp"))


def load(text: str) -> Any:
    """The values of a document; ``yaml.YAMLError`` where it is none, has a key twice or one such as ``true``, too many
    values, too deep a nesting, an alias within what it stands for, or a text with a zero character or half of a pair of
    surrogates."""
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    except RecursionError:
        raise yaml.YAMLError(f"nested deeper than {DEEPEST}") from None
    except (ValueError, OverflowError) as error:  # of a date or a number that is none
        raise yaml.YAMLError(str(error)) from None
    finally:
        loader.dispose()


def dump(value: Any) -> str:
    """A document with some values, which :func:`load` reads as they are: a text such as ``1e-5`` is quoted."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def unfit(value: Any) -> str | None:
    """The first text in a value that cannot be stored, if there is one."""
    if isinstance(value, str):
        return value if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value) else None
    parts = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return next((found for part in parts if (found := unfit(part)) is not None), None)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, with bounds."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        letter: [(tag, pattern) for tag, pattern in resolvers if tag not in (_FLOAT, _INT, _BOOL, _DATE)]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth, self._count = 0, 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        alias = self.check_event(yaml.AliasEvent)
        start, self._depth = self._count, self._depth + 1
        if self._depth > DEEPEST:
            raise yaml.YAMLError(f"nested deeper than {DEEPEST}")
        node = super().compose_node(parent, index)
        if alias:
            if id(node) not in self._sizes:
                raise yaml.YAMLError("an alias within what it stands for")
            self._count += self._sizes[id(node)]
        else:
            self._count += 1
            self._sizes[id(node)] = self._count - start
        self._depth -= 1
        if self._count > MOST_VALUES:
            raise yaml.YAMLError(f"more than {MOST_VALUES} values")
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        keys = [(key.tag, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        twice = [value for (_, value), times in Counter(keys).items() if times > 1]
        if twice:
            raise yaml.YAMLError(f"the key {twice[0]!r} is there twice, from line {node.start_mark.line + 1} on")
        for tag, value in keys:
            if tag in _NO_NAMES:
                at = f"line {node.start_mark.line + 1}"
                raise yaml.YAMLError(f"the key {value}, from {at} on, is read as {_NO_NAMES[tag]}: write '{value}'")
        return node

    def construct_scalar(self, node: Any) -> Any:
        value = super().construct_scalar(node)
        if isinstance(value, str) and not value.isascii():  # JSON writes what is beyond the first plane as two escapes
            value = value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        if unfit(value) is not None:
            raise yaml.YAMLError(f"a text without zero characters and lone surrogates, line {node.start_mark.line + 1}")
        return value


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper, which quotes what would be read as a number."""


_NUMBER = r"[-+]?(\d+\.\d*([eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.\d+([eE][-+]?\d+)?|\.(inf|Inf|INF))|\.(nan|NaN|NAN)"
for _each in (_Loader, _Dumper):
    _each.add_implicit_resolver(_FLOAT, re.compile(f"(?:{_NUMBER})$"), list("-+0123456789."))
    _each.add_implicit_resolver(_INT, re.compile(r"[-+]?\d[\d_]*$"), list("-+0123456789"))
    _each.add_implicit_resolver(_BOOL, re.compile("(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_constructor(_INT, lambda loader, node: int(str(loader.construct_scalar(node))))  # type: ignore[arg-type]
