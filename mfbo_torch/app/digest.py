"""A run in a few lines, from its files alone: no model, no tensor and none of the user's code is loaded."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from operator import le
from pathlib import Path
from typing import Any

from mfbo_torch.history import History, Record, Status
from mfbo_torch.utils.files import content

Known = Mapping[str, Any]
"""What :func:`~mfbo_torch.problems.problem_snapshot.shown_of` keeps of a problem."""
SPACE_KEYS = ("parameters", "levels", "named", "costs", "measured", "limits")
"""What is kept beside the journal of one who asks and tells."""
_KEYS = (*SPACE_KEYS, "name", "maximize", "strategy", "capital")
WRONG = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What reading a file of somebody else's making may raise."""
Rows = list[tuple[str, str]]


def read(path: Path, keys: Sequence[str] = _KEYS) -> Known | None:
    """What a file keeps of a problem; ``None`` where there is no such file, or something else has written it."""
    try:
        found = json.loads(content(path))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and {*keys} <= found.keys() else None


def fits(known: Known, history: History) -> bool:
    """Whether a history is one of this problem."""
    ends = [(p["lower"], p["upper"]) if not p["choices"] else (0, len(p["choices"]) - 1) for p in known["parameters"]]
    return all(
        len(r.query.x) == len(ends)
        and 0 <= r.query.fidelity < len(known["costs"])
        and all(low <= value <= high for value, (low, high) in zip(r.query.x, ends, strict=True))
        for r in history
    )


def named(known: Known, x: Sequence[float]) -> dict[str, Any]:
    """The parameters of a design by name, those whose condition is met."""
    labels = {p["name"]: _label(p, value) for p, value in zip(known["parameters"], x, strict=True)}
    conditions = {p["name"]: p["when"] for p in known["parameters"]}

    def there(name: str) -> bool:
        return all(labels[other] in values and there(other) for other, values in conditions[name])

    return {name: value for name, value in labels.items() if there(name)}


def values_of(known: Known, history: History, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The results of a run that has not ended, as :class:`~mfbo_torch.app.summary.Summary` has those of one that has,
    without what needs a model."""
    several = bool(known.get("objectives"))
    best = _knee(known, history) if several else history.best(len(known["costs"]) - 1)
    met = {name: [r.outcomes[name].met for r in history.done] for name, *_ in known["limits"]}
    return {
        "problem": known["name"],
        "strategy": settings["strategy"],
        "seed": settings["seed"],
        "capital": settings["capital"],
        "best_parameters": None if best is None else named(known, best.query.x),
        "best_value": None if several or best is None or best.value is None else signed(known, best.value),
        "constraints": {
            name: {
                "limit": f"{name} {'<=' if upper else '>='} {bound:g}",
                "kept": sum(met[name]),
                "of": len(met[name]),
                "at_best": None if best is None else best.outcomes[name].value,
            }
            for name, bound, upper in known["limits"]
        },
        "recommended": None,
        "decision_seconds": math.fsum(r.decision_seconds for r in history),
        "evaluation_seconds": math.fsum(r.evaluation_seconds for r in history),
    }


def class_name(entry: Any) -> str:
    """The name of the class that a setting names."""
    path = entry.get("class_path") if isinstance(entry, Mapping) else entry
    return str(path).rpartition(".")[2]


def signed(known: Known, value: float) -> float:
    """A stored value in the problem's own sign."""
    return value if known["maximize"] else 0.0 - value


def rows(known: Known, values: Mapping[str, Any], history: History, finished: bool) -> Rows:
    """A run as names and what they are; ``values`` are those of its summary, or of :func:`values_of`."""
    found = [("Problem", values["problem"]), ("Strategy", f"{values['strategy']}, seed {values['seed']}")]
    if objectives := known.get("objectives"):
        found += _front(objectives, known, values, history)
    else:
        found += [("Best value", _best(known, values, history)), ("at", point(values["best_parameters"]))]
    for name, kept in (values.get("constraints") or {}).items():
        there = "" if kept["at_best"] is None else f"{name} = {kept['at_best']:.5g} there; "
        found.append(("with", f"{there}{kept['limit']} in {kept['kept']} of {kept['of']}"))
    found += [] if objectives else _recommended(known, values, finished)
    unit = " seconds" if known["measured"] else ""
    found.append(("Spent", f"{history.spent:g} of {values['capital']:g}{unit}"))
    if values.get("stopped"):
        found.append(("Stopped", values["stopped"]))
    elif finished and (left := values["capital"] - history.spent) > 1e-9 * values["capital"]:
        found.append(("Left", f"{left:g}{unit}, less than the next evaluation costs"))
    if (coming := values.get("forecast")) is not None and not finished:
        from mfbo_torch.loop.eta import Forecast

        found.append(("To come", str(Forecast(**coming))))
    found += _levels(known, values, history)
    failed = history.select(Status.FAILED)
    found.append(("Failed", str(len(failed))))
    if pending := len(history.pending):
        found.append(("Pending", str(pending)))
    if failed:
        found.append(("  the last", failed[-1].reason.partition("\n")[0]))
    seconds = (values["decision_seconds"], values["evaluation_seconds"])
    return [*found, ("Time", f"{seconds[0]:.1f} s deciding, {seconds[1]:.1f} s evaluating")]


def rows_of_journal(history: History, space: Known | None) -> Rows:
    """What a journal says by itself: numbers as they were told, and names where the space is known."""
    fidelities = max((r.query.fidelity for r in history), default=0) + 1 if space is None else len(space["costs"])
    names = {m: name for name, start, stop in (space or {}).get("levels", ()) for m in range(start, stop)}
    best = history.best(fidelities - 1)
    found = [("Queries", str(len(history))), ("Spent", f"{history.spent:g}")]
    counts = zip(history.queries_per_fidelity(fidelities), history.spent_per_fidelity(fidelities), strict=True)
    spending = [f"{spent:g} for {_queries(count)}" for count, spent in counts]
    found += [(f"  {names.get(m, f'fidelity {m}')}", told) for m, told in enumerate(spending)]
    if space is not None and (objectives := space.get("objectives")):
        found += _front(objectives, space, {}, history)
    elif best is not None:
        there = f"fidelity {fidelities - 1}" if space is None else "the target"
        there = names[fidelities - 1] if space is not None and space["named"] else there
        found.append(("Best value", f"{best.value:.8g} as it was told, larger is better, at {there}"))
        numbers = ", ".join(f"{value:.6g}" for value in best.query.x)
        found.append(("at", numbers if space is None else point(named(space, best.query.x))))
    found.append(("Failed", str(len(history.select(Status.FAILED)))))
    return [*found, ("Pending", str(len(history.pending)))]


def point(parameters: Mapping[str, Any] | None) -> str:
    """Parameters in one line."""
    if parameters is None:
        return "-"
    return ", ".join(f"{name} = {_shown(value)}" for name, value in parameters.items())


def _front(objectives: list[tuple[str, bool]], known: Known, values: Mapping[str, Any], history: History) -> Rows:
    """How large the front is, and its named designs where a summary has them."""
    found = [
        ("Objectives", ", ".join(f"{'maximize' if largest else 'minimize'} {name}" for name, largest in objectives))
    ]
    front = values.get("front")
    if front is None:  # the run goes on
        front = front_of(known, history)
        if not front:
            return [*found, ("Front", f"none yet: nothing{' feasible' if known['limits'] else ''} at the target")]
    listed = ": mfbo best" if "front" in values else ""  # which reads the folder of a run that has ended
    found.append(("Front", f"{len(front)} designs{listed}" if front else _best(known, values, history)))
    for one in front:
        seen = ", ".join(f"{name} = {value:.5g}" for name, value in one["values"].items())
        found += [(label, seen) for label in one["labels"]]
    return found


def knee(front: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    """The values of the knee of a front; ``None`` of an empty one."""
    return next((one["values"] for one in front if "knee" in one["labels"]), None)


def front_of(known: Known, history: History) -> list[dict[str, Any]]:
    """The designs at the target that no other one dominates, with what each stands out by."""
    return [
        {
            "parameters": named(known, record.query.x),
            "values": {name: record.outcomes[name].value for name, _ in known["objectives"]},
            "deviations": {name: record.outcomes[name].standard_error for name, _ in known["objectives"]},
            "labels": labels,
        }
        for record, labels in _labelled(known, history)
    ]


def _knee(known: Known, history: History) -> Record | None:
    return next((record for record, labels in _labelled(known, history) if "knee" in labels), None)


def _labelled(known: Known, history: History) -> list[tuple[Record, list[str]]]:
    """The records on the front and what each stands out by; without torch, which a look at a run does not load."""
    objectives, target = known["objectives"], len(known["costs"]) - 1
    seen = dict[tuple[float, ...], Record]()
    for record in history.done:
        if record.query.fidelity == target and record.feasible:
            own = [(record.outcomes[name].value, largest) for name, largest in objectives]
            seen.setdefault(tuple(-value if largest else value for value, largest in own), record)
    front = dict[tuple[float, ...], Record]()
    for cost in sorted(seen):  # none is dominated by one behind it, and most by one of the last
        if not any(all(map(le, other, cost)) for other in reversed(front)):
            front[cost] = seen[cost]
    if not front:
        return []
    ends = [(min(column), max(column)) for column in zip(*front, strict=True)]

    def lost(cost: tuple[float, ...]) -> float:
        return sum(((c - low) / ((high - low) or 1.0)) ** 2 for c, (low, high) in zip(cost, ends, strict=True))

    knee = min(front, key=lost)
    found = list[tuple[Record, list[str]]]()
    for cost, record in sorted(front.items()):
        best = [f"best {name}" for (name, _), c, (low, _) in zip(objectives, cost, ends, strict=True) if c == low]
        found.append((record, [*best, "knee"] if cost == knee else best))
    return found


def _recommended(known: Known, values: Mapping[str, Any], finished: bool) -> Rows:
    advised = values["recommended"]
    if advised is None:
        best = values["best_parameters"]
        return [("Recommended", point(best))] if finished and best is not None else []
    chance = f", feasible with probability {advised['feasible']:.3g}" if "feasible" in advised else ""
    expected = f"{advised['mean']:.5g} ± {advised['deviation']:.2g} is expected{chance}"
    found = [("Recommended", f"{point(advised['parameters'])}, where {expected}")]
    names = {m: name for name, start, stop in known["levels"] for m in range(start, stop)}
    if noise := ", ".join(f"{n:.2g} at {names[m]}" for m, n in enumerate(advised["noise"]) if n is not None):
        found.append(("Noise", f"{noise} (standard deviations)"))
    return found


def _levels(known: Known, values: Mapping[str, Any], history: History) -> Rows:
    size = len(known["costs"])
    counts, costs = history.queries_per_fidelity(size), history.spent_per_fidelity(size)
    explained, found = values.get("explained"), []
    for name, start, stop in known["levels"]:
        last = stop - 1
        share = f", explains {explained[last]:.0%} of the target's variance" if explained else ""
        share = share if last < len(known["costs"]) - 1 else ""
        found.append((f"  {name}", f"{math.fsum(costs[start:stop]):g} for {_queries(sum(counts[start:stop]))}{share}"))
    return found


def _best(known: Known, values: Mapping[str, Any], history: History) -> str:
    """The best value, or why there is none."""
    value, target = values["best_value"], known["costs"][-1]
    if value is not None:
        return f"{value:.8g}{' at ' + known['levels'][-1][0] if known['named'] else ''}"
    none = "none that is feasible" if known["limits"] else "none"
    if known["measured"] or history.spent + target <= values["capital"]:
        return f"{none} at the target yet"
    return f"{none}: the target costs {target:g} a query, no longer paid"


def _queries(count: int) -> str:
    return f"{count} {'query' if count == 1 else 'queries'}"


def _label(parameter: Mapping[str, Any], value: float) -> Any:
    if parameter["choices"]:
        return parameter["choices"][round(value)]
    return round(value) if parameter["integer"] else value


def _shown(value: Any) -> str:
    if isinstance(value, bool | None) or not isinstance(value, int | float):
        return json.dumps(value) if isinstance(value, bool | None) else str(value)
    return f"{value:.6g}"
