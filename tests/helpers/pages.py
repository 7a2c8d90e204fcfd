"""Runs to make pages of, and what is packed into a page."""

import base64
import gzip
import json
import math
import random
import re

import torch

from mfbo_torch.app.summary import Summary
from mfbo_torch.history import History, Query, Record
from mfbo_torch.problems import UserProblem
from mfbo_torch.strategies import RandomSearch

EVIL = "</script><img src=x onerror=\"document.title='owned'\"><a href='https://example.org'>&amp;"
LINK = "<b>k</b><a href='//e.org'>k</a>"
PARAMETERS = {
    "rate": {"lower": 1e-5, "upper": 1.0, "log": True},
    "layers": {"lower": 1, "upper": 6, "integer": True},
    EVIL: {"lower": -3.0, "upper": 250.0},
    LINK: {"lower": 0.0, "upper": 1.0},
}


def experiment(problem, strategy, history, capital=600.0):
    settings = {"problem": {"class_path": EVIL}, "capital": capital, "seed": 0, "out": "somewhere"}
    return Summary(settings, problem, strategy.bind(problem.space, capital), history)


def made(problem, count: int, seed: int = 0) -> History:
    """Random queries: one in ten fails, the last one is pending."""
    numbers, generator, space = random.Random(seed), torch.Generator().manual_seed(seed), problem.space
    X = space.from_unit(torch.rand(count, space.dim, generator=generator, dtype=torch.double)).tolist()
    records = []
    for i, x in enumerate(X):
        m = numbers.randrange(space.num_fidelities)
        times = {"decision_seconds": numbers.random(), "evaluation_seconds": numbers.random()}
        record = Record(i, Query(tuple(x), m), (1 + m) * numbers.random(), **times)
        if i == count - 1:
            records.append(record)
        elif numbers.random() < 0.1:
            records.append(record.failed(f"ValueError: step {numbers.randrange(40)} {EVIL}\n  in line 3"))
        else:
            records.append(record.done(problem.reward(x, m)))
    return History(records)


def bowl(parameters, m: int) -> float:
    return (math.log10(parameters["rate"]) + 3) ** 2 + parameters["layers"] + m * parameters[LINK]


def hostile(count: int = 120) -> Summary:
    """A minimised problem with measured costs, and with markup in every text of the user's."""
    problem = UserProblem(bowl, PARAMETERS, "measured", maximize=False, num_fidelities=2)
    return experiment(problem, RandomSearch(), made(problem, count))


def packed(page: str, name: str) -> str:
    (text,) = re.findall(rf'<script type="text/plain" id="{name}">([A-Za-z0-9+/=]*)</script>', page)
    return gzip.decompress(base64.b64decode(text)).decode()


def data(page: str):
    return json.loads(packed(page, "data"))
