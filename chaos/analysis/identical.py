"""Whether an arm came to what stock came to, bit by bit, and where it first did not. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaos.analysis.model import Run

DIGEST = "digest"
WHOLE = ("end", DIGEST)
"""Results of a whole run; all others are of an iteration."""
ABSENT = "nothing"


def identical(runs: Sequence[Run], stock: Sequence[Run]) -> bool | None:
    """Whether all that both say is the same; None when there is nothing that both say."""
    pairs = [pair for mine, theirs in _paired(runs, stock) for pair in _pairs(mine, theirs).values()]
    return all(mine == theirs for mine, theirs in pairs) if pairs else None


def why(runs: Sequence[Run], stock: Sequence[Run]) -> str:
    """For people: the first difference, or why nothing could be compared; empty when all is the same."""
    return next(_differences(runs, stock), "") or ("" if identical(runs, stock) else _nothing(runs, stock))


def _differences(runs: Sequence[Run], stock: Sequence[Run]) -> Iterator[str]:
    for mine, theirs in _paired(runs, stock):
        pairs = _pairs(mine, theirs)
        for key in sorted(pairs, key=_order):
            one, other = pairs[key]
            if one != other:
                yield f"run {mine.run}, {_named(key)}: {one}, in stock {other}"


def _paired(runs: Sequence[Run], stock: Sequence[Run]) -> Iterator[tuple[Run, Run]]:
    by_run = {run.run: run for run in stock}
    return ((run, by_run[run.run]) for run in runs if run.run in by_run)


def _pairs(mine: Run, theirs: Run) -> dict[str, tuple[str, str]]:
    """What both say. Where both completed, what one of them says of its whole run the other one must say, too."""
    keys = mine.results.keys() & theirs.results.keys()
    if keys and mine.completed and theirs.completed:
        either = mine.results.keys() | theirs.results.keys()
        keys |= {key for key in either if key.partition("/")[2] in WHOLE}
    return {key: (mine.results.get(key, ABSENT), theirs.results.get(key, ABSENT)) for key in keys}


def _order(key: str) -> tuple[int, int, int]:
    """Iterations first, each over all ranks."""
    rank, _, what = key.partition("/")
    return (1 + WHOLE.index(what), 0, int(rank)) if what in WHOLE else (0, int(what), int(rank))


def _named(key: str) -> str:
    rank, _, what = key.partition("/")
    if what in WHOLE:
        return f"{'result' if what == 'end' else 'digest'} of rank {rank}"
    return f"iteration {what} of rank {rank}"


def _nothing(runs: Sequence[Run], stock: Sequence[Run]) -> str:
    without = [f"stock, run {run.run}" for run in stock if not run.results]
    without += [f"this arm, run {run.run}" for run in runs if not run.results]
    return f"no result of {', '.join(without)}" if without else ""
