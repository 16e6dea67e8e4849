"""The arms side by side: rows of cells that HTML, Markdown and the terminal all print alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from chaos.analysis.model import Arm, Check, FaultFigures
from harness.units import over
from reports.words import names, served
from reports.words.cells import Cell, Row, counted, ran, void, whole
from reports.words.units import NONE, limit, memory, ms


def side_by_side(arms: Sequence[Arm]) -> list[Row]:
    """The table of the issue: expectation, verdict, correctness, then every time with its bound."""
    rows = [
        Row("Expected", "what the experiment says this arm should do", [Cell(_expect(a)) for a in arms]),
        Row("Verdict", "what it did", [_verdict(a) for a in arms]),
        Row("Iterations completed", "by every rank, over all repeats", [_completed(a) for a in arms]),
        Row("Wrong elements", "of the results, every element compared with the exact sum", [_wrong(a) for a in arms]),
        Row("Healthy iteration", "median without a fault; 99th percentile in brackets", [_healthy(a) for a in arms]),
    ]
    for ident in _fault_ids(arms):
        rows += _fault_rows(arms, ident)
    return rows + served.rows(arms)


def checks(arms: Sequence[Arm]) -> list[Row]:
    """Every check by name, the worst outcome of all repeats of an arm."""
    found = dict.fromkeys(c.name for a in arms for c in _checks_of(a))
    return [Row(*_titled(arms, name), [_check_cell(a, name) for a in arms]) for name in found]


def _titled(arms: Sequence[Arm], name: str) -> tuple[str, str]:
    """A check's name and explanation. A time of a fault is one of several repeats: which one is said."""
    title, text = names.check(name)
    each = max(sum(c.name == name for r in counted(a) for c in r.checks) for a in arms)
    whole = [c for a in arms for c in a.checks if c.name == name]
    of_faults = "(" in name and all(c.unit == "ms" for a in arms for c in _checks_of(a) if c.name == name)
    if not of_faults or max(len(counted(a)) for a in arms) < 2:
        return title, text
    which = "worst or median" if whole and each else "median" if whole else f"worst of {each}"
    return f"{title}, {which}", text


def _expect(arm: Arm) -> str:
    return {"holds": "holds", "deviates": "deviates", "any": "anything"}.get(arm.expect, arm.expect)


def _verdict(arm: Arm) -> Cell:
    state = {True: "good", False: "bad"}.get(arm.as_expected, "void")  # type: ignore[arg-type]
    note = {"good": "as expected", "bad": "not as expected", "void": "not judged"}[state]
    return Cell(names.verdict(arm.verdict).lower(), note, "" if state == "void" else state)


def _completed(arm: Arm) -> Cell:
    runs = whole(arm)
    done = sum(r.iterations for r in runs)
    finished = sum(bool(r.completed) for r in runs)
    note = "" if finished == len(runs) else f"{len(runs) - finished} of {len(runs)} runs did not finish"
    return Cell(str(done), note, "bad" if note else "")


def _wrong(arm: Arm) -> Cell:
    """Of all runs: also where one was cut short, what is wrong is wrong."""
    wrong = sum(r.wrong_elements for r in arm.runs)
    if not wrong and not ran(arm.runs):
        return Cell(NONE)
    if not wrong and any(r.checked is False for r in arm.runs):
        return Cell(NONE, "not compared")
    return Cell(str(wrong), "", "bad" if wrong else "good")


def _healthy(arm: Arm) -> Cell:
    medians = [r.healthy_ms.median for r in counted(arm) if r.healthy_ms.median is not None]
    tails = [r.healthy_ms.p99 for r in counted(arm) if r.healthy_ms.p99 is not None]
    if not medians:
        return Cell(NONE)
    return Cell(ms(sorted(medians)[len(medians) // 2]), f"p99 {ms(max(tails))}" if tails else "", void(arm))


def _fault_ids(arms: Sequence[Arm]) -> list[str]:
    return list(dict.fromkeys(f.id for a in arms for r in counted(a) for f in r.faults))


def _fault_rows(arms: Sequence[Arm], ident: str) -> list[Row]:
    faults = [[f for r in counted(a) for f in r.faults if f.id == ident] for a in arms]
    first = next(f for per_arm in faults for f in per_arm)
    where = f"{names.fault(first.kind)} on {first.host} {first.nic}"
    repeats = max(len(per_arm) for per_arm in faults)
    several = f" ({ident})" if len(_fault_ids(arms)) > 1 else ""
    worst = f", worst of {repeats}" if repeats > 1 else ""

    def row(name: str, text: str, cell: Callable[[Arm, Sequence[FaultFigures]], Cell]) -> Row:
        return Row(f"{name}{several}{worst}", text, [cell(a, f) for a, f in zip(arms, faults, strict=True)])

    return [
        row("Stall", f"longest time without new data: {where}", _stall),
        row(
            "Failover iteration",
            "the iteration that the fault hit",
            lambda a, f: _against(a, f, "iteration_ms", "iteration_bound_ms"),
        ),
        row(
            "Longest iteration",
            "from the onset until the fault was over, and a second more",
            lambda a, f: _time(a, _worst(f, "longest_ms")),
        ),
        row(
            "While degraded",
            "median of whole iterations during the fault",
            lambda a, f: _against(a, f, "degraded_ms", "degraded_bound_ms"),
        ),
        row(
            "After the fault",
            "median after the revert",
            lambda a, f: _time(a, _worst(f, "after_ms")),
        ),
        row(
            "Time to return",
            "from the revert to full bandwidth",
            lambda a, f: _time(a, _worst(f, "return_ms")),
        ),
    ]


def _stall(arm: Arm, faults: Sequence[FaultFigures]) -> Cell:
    value = _worst(faults, "stall_ms")
    mine = {f"stall_ms({fault.id})" for fault in faults}
    bounds = [c.bound for c in _checks_of(arm) if c.name in mine and c.bound is not None]
    bound = bounds[0] if bounds else None
    note = f"limit {limit(bound)}" if bound is not None else ""
    if value is None or void(arm) or bound is None:
        return Cell(ms(value), note, void(arm) if value is not None else "")
    return Cell(beyond(value, bound, "ms"), note, "good" if value <= bound else "bad")


def _against(arm: Arm, faults: Sequence[FaultFigures], value_key: str, bound_key: str) -> Cell:
    pairs = [(float(getattr(f, value_key)), getattr(f, bound_key)) for f in faults if getattr(f, value_key) is not None]
    if not pairs:
        return Cell(NONE)
    value, bound = max(pairs, key=lambda pair: pair[0] / float(pair[1]) if pair[1] else pair[0])
    note = f"{value / float(bound):.2f} × bound {ms(float(bound))}" if bound else ""
    return Cell(ms(value), note, void(arm))


def _worst(faults: Sequence[FaultFigures], key: str) -> float | None:
    return max((float(getattr(f, key)) for f in faults if getattr(f, key) is not None), default=None)


def _time(arm: Arm, value: float | None) -> Cell:
    return Cell(ms(value), "", "" if value is None else void(arm))


def _checks_of(arm: Arm) -> list[Check]:
    """Exactness of every run, everything else of those that count."""
    exact = [c for r in arm.runs for c in r.checks if c.name == "exact" and (c.outcome != "holds" or ran([r]))]
    return exact + [c for r in counted(arm) for c in r.checks if c.name != "exact"] + [*arm.checks]


def _badness(check: Check) -> tuple[int, float]:
    """The worst outcome first, and of one outcome the largest value: the table of arms shows that one, too."""
    order = {"deviated": 0, "void": 1, "holds": 2}
    value = check.value
    return order.get(check.outcome, 3), math.inf if value is None else -float(value)


def _check_cell(arm: Arm, name: str) -> Cell:
    found = sorted((c for c in _checks_of(arm) if c.name == name), key=_badness)
    if not found:
        return Cell(NONE)
    state = {"deviated": "bad", "void": "void", "holds": "good"}.get(found[0].outcome, "")
    value, bound, unit = found[0].value, found[0].bound, found[0].unit
    if value is None:
        return Cell("not measured", "", state)
    text = with_unit(value, unit) if bound is None else beyond(value, bound, unit)
    return Cell(text, _limit(bound, unit), state)


def _limit(bound: float | bool | None, unit: str) -> str:
    if bound is None or isinstance(bound, bool):
        return ""
    return f"limit {with_unit(round(bound, 1), unit) if unit == 'ms' else with_unit(bound, unit)}"


def beyond(value: float, bound: float, unit: str) -> str:
    """A figure with enough digits to see that it is over its limit, when it is by little."""
    told = [ms(each) if unit == "ms" else with_unit(each, unit) for each in (value, bound)]
    if value <= bound or told[0] != told[1]:
        return told[0]
    if unit == "bytes":
        return f"{value:.0f} bytes"
    if unit == "ms":
        return over(value, bound, lambda each, digits: f"{each:.{digits}f} ms", 3)
    return over(value, bound, lambda each, digits: f"{each:.{digits}g} {unit if unit != 'ratio' else ''}".strip(), 4)


def with_unit(value: float | bool | None, unit: str) -> str:
    """A figure with its unit, in the scale people read it."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit == "ms":
        return limit(value) if value == round(value) else ms(value)
    if unit == "bytes":
        return memory(value)
    return f"{value:.4g} {unit}".strip() if unit != "ratio" else f"{value:.3f}"
