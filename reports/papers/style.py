"""How all figures look, and how they become files."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError, extra_hint
from reports.reading.trace import Trace
from reports.words import names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 3.35
"""Of a column of two on a page."""
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
"""Of Okabe and Ito (2008), for all kinds of colour vision; the last of theirs mark faults."""
BASE, FAULT = "#555555", "#D55E00"
DASHES = ("-", "--", "-.", ":", (0, (3, 1, 1, 1, 1, 1)))
"""Nothing is told apart by colour alone."""
MARKERS = ("o", "s", "^", "D", "v")
LOOKS: Any = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.0,
    "pdf.fonttype": 42,  # TrueType, whole: what journals ask for
    "savefig.dpi": 300,
}


def by_arm(arms: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A colour and a marker for each arm: grey for what we compare with."""
    ours = [arm for arm in arms if arm not in names.BASELINES]
    colours = {arm: COLOURS[place % len(COLOURS)] for place, arm in enumerate(ours)}
    return {arm: (colours.get(arm, BASE), MARKERS[place % len(MARKERS)]) for place, arm in enumerate(arms)}


def check() -> None:
    """UsageError where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError("figures for papers need matplotlib, which is not installed", extra_hint("figures")) from error


def drawn(draw: Callable[[Figure], None], height_in: float, form: str) -> bytes:
    """A figure as `pdf` or `png`. The same run gives the same bytes, with one version of matplotlib."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(LOOKS):
        figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
        draw(figure)
        out = io.BytesIO()
        figure.savefig(out, format=form, metadata={"CreationDate": None} if form == "pdf" else None)
    return out.getvalue()


def shade(axes: Axes, traces: Sequence[Trace]) -> None:
    """When faults were on, of the first run given."""
    trace = traces[0]
    end_ns = trace.end_ns()
    for window in trace.windows():
        span = [(moment - trace.origin_ns()) / 1e9 for moment in (window.start_ns, window.end_ns or end_ns)]
        axes.axvspan(*span, color=FAULT, alpha=0.15, linewidth=0)
