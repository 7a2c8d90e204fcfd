"""Why a query was made, what was expected of it and what came of it, in words."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mfbo_torch.history import History, Record, Status
from mfbo_torch.space import Space

FIXED = {
    "given": "was observed elsewhere and given to the run; it cost nothing",
    "enqueued": "was asked for by hand; no model proposed it",
    "initial": "belongs to the initial design, with which a run begins before its model decides",
    "random": "is a random design; no model proposed it",
    "halving": "is successive halving's: this training is among the best third of its stage, so it goes on",
    "last": "is the best design so far: the capital pays for it at the target, and for nothing else before that",
    "division": "divides the rectangle that may hold the best value for some slope (DIRECT); there is no model",
    "arm": "plays the arm that may still be the best, by the values of each arm so far and their number",
}
"""What is said of a query by its stage, after its number."""
MODELS = {
    "linked": "the model that links each fidelity to the one below, as fitted",
    "integrated": "the model of all fidelities that averages over how they may be linked",
    "alone": "the model of the target's values alone",
}
"""The models of MFGPUCB."""
BOUND, MEAN, IMPROVEMENT, INFORMATION = (
    "what is expected plus the room for more is largest",
    "what is expected is largest",
    "the improvement over the best value is expected to be largest",
    "a value tells most about the best one for its cost",
)
SEEKS = {
    "linked": BOUND,
    "integrated": IMPROVEMENT,
    "alone": IMPROVEMENT,
    "improvement": IMPROVEMENT,
    "beta": BOUND,
    "information": INFORMATION,
    "log_information_per_cost": INFORMATION,
    "node": f"{INFORMATION}, among the cells of an ever finer division",
    "uncertainty": "it is least sure; values count again once the batch is spread",
    "forecast": "for what it still costs, the improvement at its end is expected to be largest",
}
"""What a model looks for, by what its query notes."""
BECAUSE = {
    "resumed": "This training had begun already: for what it still costs, it may gain more than a new one.",
    "probe": "Evaluations may fail here, and the cheapest fidelity is tried first to see.",
    "outcome": "It is open whether a measured outcome keeps its limit, and here that is cheap to see.",
    "overdue": "It was the target's turn: since its last query those below have cost as much as one, or were many.",
    "rest": "Little capital is left: what the target's last query does not need is spent below it, before that query.",
    "dear": "Every cheaper fidelity costs 35 % of the target or more, which does not pay; only the target is asked.",
    "used up": "Nothing is left to query at the fidelity that was meant.",
}
"""Why another fidelity than the one that the cost speaks for."""
USUAL, RARE, MOST = 1.0, 3.0, 100.0
"""Standard deviations up to which a value is as expected, from which it is a surprise, and the most that are shown."""


@dataclass(frozen=True)
class Explanation:
    """The reasons of a query, read off what it notes and the records before it; the text is :func:`str` of it.

    Args:
        record: The query and its result.
        history: The run, at the time or later.
        space: Where it was made.
        signed: From a value to be maximised to the objective's own sign.
    """

    record: Record
    history: History
    space: Space
    signed: Callable[[float], float] = float

    def __str__(self) -> str:
        return f"Query {self.record.id}{self.why.removeprefix('It')} {self.outcome}"

    @property
    def why(self) -> str:
        """Who proposed it, what was expected, and why at its fidelity."""
        parts = [f"It {self._proposal}.", *self._expectation, *self._fidelity]
        if waiting := self._noted.get("in_flight"):
            others = "one other query" if waiting == 1 else f"{waiting} other queries"
            parts.append(f"The values of {others} were still to come.")
        return " ".join(parts)

    @property
    def outcome(self) -> str:
        """What came of it."""
        record = self.record
        if record.status == Status.PENDING:
            return "Its value is still to come."
        if record.status == Status.FAILED:
            return f"It failed: {record.reason.partition(chr(10))[0] or 'no reason given'}."
        if record.status == Status.STOPPED or record.value is None:
            return f"The training {record.reason or 'was stopped'}; it has a curve and no value."
        said = f"The value was {self._number(record.value)}"
        if self.space.objectives:
            seen = [f"{o.name} {record.outcomes[o.name].value:.5g}" for o in self.space.objectives]
            said = f"The values were {', '.join(seen)}"
        if self.surprise is not None:
            said += f", {_surprise(self.surprise)}"
        broken = [name for name, outcome in record.outcomes.items() if not outcome.met]
        if broken:
            return f"{said}. It does not keep the limit on {', '.join(broken)}."
        best, target = self._best_before, record.query.fidelity == self.space.target
        better = target and (best is None or record.value > (best.value or 0.0))
        what = self.space.objectives[0].name if self.space.objectives else "value"
        if not better:
            return f"{said}."
        now = self.history.best(self.space.target)
        if now is None or now.id == record.id:
            return f"{said}. It is the best {what} at {self._target} so far."
        return f"{said}. No query before it had a better {what} at {self._target}."

    @property
    def surprise(self) -> float | None:
        """By how many standard deviations the value is better than expected; ``None`` where nothing was expected."""
        value, mean = self.record.value, self._noted.get("mean")
        deviation = self._noted.get("spread", self._noted.get("deviation"))
        if value is None or mean is None or deviation is None or deviation < 0:
            return None
        if self.record.standard_error is not None:
            deviation = math.hypot(self._noted["deviation"], self.record.standard_error)
        return (value - mean) / deviation if deviation > 0 else math.copysign(math.inf, value - mean)

    @cached_property
    def _noted(self) -> dict[str, Any]:
        """What the query notes; a figure that is none, as in a journal of a stranger, is left out."""
        found = {name: part for name, part in self.record.query.meta.items() if _sound(name, part)}
        return found if {"mean", "deviation"} <= found.keys() else {k: v for k, v in found.items() if k != "mean"}

    @property
    def _proposal(self) -> str:
        noted = self._noted
        stage = noted.get("stage")
        if stage == "verify" and "explored" in noted:
            return f"repeats query {noted['explored']} at {self._target}: the best value below that was not seen there"
        if "check" in noted:
            return f"checks query {noted['check']}, whose value the model below did not expect, at that fidelity"
        if stage in FIXED:
            return FIXED[stage]
        if stage != "model":
            return "was chosen by the strategy, which notes no reason"
        keys = [noted.get("model"), noted.get("rule"), *noted]
        table = SEEKS | dict.fromkeys(("linked", "integrated", "beta"), MEAN) if noted.get("beta") == 0 else SEEKS
        seeks = next((f": there {table[key]}" for key in keys if key in table), "")
        if self.space.objectives:
            seeks = ": there the front of the objectives is expected to gain most"
        said = f"was proposed by {MODELS.get(noted.get('model', ''), 'the model')}{seeks}"
        share = noted.get("shares", {}).get(noted.get("model"))
        if share is not None:
            turns = f"{len(noted['shares'])} models take turns"
            said += f". {turns}; this one has {share:.0%} of the capital, for how well it predicted {self._target}"
        return said

    @property
    def _expectation(self) -> list[str]:
        noted, best = self._noted, self._best_before
        if "mean" not in noted:
            return []
        at = f" at {self._name(self.record.query.fidelity)}" if self.space.num_fidelities > 1 else ""
        said = f"It expected {self._number(noted['mean'])} ± {noted['deviation']:.2g}{at} (one standard deviation)"
        if best is not None and best.value is not None:
            said += f"; the best value at {self._target} was {self._number(best.value)} (query {best.id})"
        return [f"{said}."]

    @property
    def _fidelity(self) -> list[str]:
        """Why at this fidelity, and not at the next."""
        noted, m, space = self._noted, self.record.query.fidelity, self.space
        if (because := noted.get("because")) in BECAUSE:
            return [BECAUSE[because]]
        shares, enough = noted.get("explains", []), noted.get("enough", [])
        if not shares or len(shares) != len(enough) or m > len(shares):
            return []
        unknown, parts = f"of what is not known of {self._target} there", list[str]()
        if m < space.target:
            ratio, least = space.costs[m] / space.costs[-1], enough[m]
            fixed = not space.measured and not space.continues
            asks = f"for {_percent(ratio)} of its cost" if fixed else f"where its cost asks for {_percent(least)}"
            parts.append(f"it explains {_percent(shares[m])} {unknown}, {asks}")
            if fixed and least > 1.001 * ratio:
                parts.append(f"by now {_percent(least)} is asked for, as nothing above it was queried for long")
        if m:
            there = _percent(shares[m - 1]) if parts else f"{_percent(shares[m - 1])} {unknown}"
            asks = f"less than the {_percent(enough[m - 1])} its cost asks for"
            parts.append(f"{self._name(m - 1)} explains {there}, {asks}")
        return [f"Why at {self._name(m)}: {'; '.join(parts)}."]

    @cached_property
    def _best_before(self) -> Record | None:
        """The best value at the target among the queries before it."""
        target = self.space.target
        best = self.history.best(target)
        if best is None or best.id < self.record.id:
            return best
        earlier = (r for r in self.history.records[: self.record.id] if r.query.fidelity == target and r.feasible)
        done = [r for r in earlier if r.status == Status.DONE and r.value is not None]
        return max(done, key=lambda r: (r.value or 0.0, -r.id), default=None)

    @property
    def _target(self) -> str:
        return self._name(self.space.target)

    def _name(self, m: int) -> str:
        name = self.space.fidelity_name(m)
        return "the target" if name == "target" else name

    def _number(self, value: float) -> str:
        return f"{self.signed(value) + 0.0:.5g}"


def _sound(name: str, part: Any) -> bool:
    """Whether what a query notes under a name is of the kind that it should be."""
    if name in ("mean", "deviation", "spread"):
        return _finite(part)
    if name in ("explored", "check", "in_flight"):
        return type(part) is int
    if name in ("stage", "model", "rule", "because"):
        return isinstance(part, str)
    if name in ("explains", "enough"):
        return isinstance(part, list) and all(map(_finite, part))
    return name != "shares" or (isinstance(part, dict) and all(map(_finite, part.values())))


def _finite(part: Any) -> bool:
    return isinstance(part, int | float) and abs(part) <= sys.float_info.max


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 or not share else f"{share:.1g}".replace("e-0", "e-")


def _surprise(z: float) -> str:
    size = f"more than {MOST:g}" if abs(z) > MOST else f"{abs(z):.1f}"
    gap = f"{size} standard deviations {'better' if z > 0 else 'worse'} than expected"
    if abs(z) <= USUAL:
        return f"about as expected ({gap})"
    return gap if abs(z) < RARE else f"a surprise: {gap}"
