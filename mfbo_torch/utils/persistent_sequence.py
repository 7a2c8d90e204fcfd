"""An immutable sequence that shares its unchanged pieces with the one it was made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")
CHUNK = 256
"""Number of items in a piece."""


class PersistentSequence(Sequence[T], Generic[T]):
    """A tuple in pieces of :data:`CHUNK` items: adding or replacing an item copies one piece and not the whole. It
    compares with tuples and is sliced into them."""

    __slots__ = ("_chunks",)
    _chunks: tuple[tuple[T, ...], ...]

    def __init__(self, items: Iterable[T] = ()) -> None:
        if isinstance(items, PersistentSequence):
            self._chunks = items._chunks
        else:
            found = tuple(items)
            self._chunks = tuple(found[i : i + CHUNK] for i in range(0, len(found), CHUNK))

    @classmethod
    def _of(cls, chunks: tuple[tuple[T, ...], ...]) -> Self:
        made = cls()
        made._chunks = chunks
        return made

    def appended(self, item: T) -> Self:
        """With one more item at the end."""
        if not self._chunks or len(self._chunks[-1]) == CHUNK:
            return self._of((*self._chunks, (item,)))
        return self._of((*self._chunks[:-1], (*self._chunks[-1], item)))

    def replaced(self, place: int, item: T) -> Self:
        """With another item at a place, counted from 0; ``IndexError`` where there is none."""
        at, within = divmod(range(len(self))[place], CHUNK)
        chunk = self._chunks[at]
        chunk = (*chunk[:within], item, *chunk[within + 1 :])
        return self._of((*self._chunks[:at], chunk, *self._chunks[at + 1 :]))

    def changed(self, former: PersistentSequence[T]) -> list[int]:
        """The places, ascending, whose items are not those of a former sequence, the ones beyond its end among them.
        Pieces that both share are not looked into."""
        found: list[int] = []
        for at, chunk in enumerate(self._chunks):
            before = former._chunks[at] if at < len(former._chunks) else ()
            if chunk is before:
                continue
            same = [one is other or one == other for one, other in zip(chunk, before, strict=False)]
            found.extend(at * CHUNK + i for i in range(len(chunk)) if i >= len(same) or not same[i])
        return found

    def __len__(self) -> int:
        return (len(self._chunks) - 1) * CHUNK + len(self._chunks[-1]) if self._chunks else 0

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        if not isinstance(place, slice):
            at = place if place >= 0 else range(len(self))[place]
            return self._chunks[at // CHUNK][at % CHUNK]
        places = range(len(self))[place]
        if not places or places.step != 1:
            return tuple(self[i] for i in places)
        first = places.start // CHUNK
        some = chain.from_iterable(self._chunks[first : places[-1] // CHUNK + 1])
        return tuple(some)[places.start - first * CHUNK : places.stop - first * CHUNK]

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._chunks)

    def __add__(self, other: Iterable[T]) -> tuple[T, ...]:
        return (*self, *other)

    def __radd__(self, other: Iterable[T]) -> tuple[T, ...]:
        return (*other, *self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PersistentSequence):
            return self._chunks == other._chunks
        return len(self) == len(other) and tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)
