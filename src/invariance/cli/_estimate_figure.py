"""The figure of ``invariance estimate``: curves, ceilings and what came out."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..estimators import Estimate


def draw(results: "list[Estimate]", path: Path, *, title: str) -> Path:
    """Validation curves (training dashed), ceilings dotted, held-out values right."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from ..errors import DataError

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9, 4), width_ratios=[3, 2], sharey=True, layout="constrained"
    )
    for k, e in enumerate(results):
        color = f"C{k % 10}"
        if e.history:
            steps = [c.step for c in e.history]
            left.plot(steps, [c.validation for c in e.history], color=color)
            left.plot(steps, [c.train for c in e.history], color=color, ls="--", lw=0.8)
            if e.history[0].ceiling is not None:
                left.axhline(e.history[0].ceiling, color=color, ls=":", lw=1)
        if not math.isfinite(e.nats):
            continue
        top = e.interval[1] if math.isfinite(e.interval[1]) else e.nats
        below, above = e.nats - e.interval[0], top - e.nats
        bars = [[max(0.0, below)], [max(0.0, above)]]
        mark = "^" if e.lower_bound else "o"
        right.errorbar([k], [e.nats], yerr=bars, fmt=mark, color=color, capsize=3)
        if e.ceiling is not None:
            right.plot([k - 0.3, k + 0.3], [e.ceiling] * 2, color=color, ls=":", lw=1)
    left.set(xlabel="step", ylabel="nats", title="training (solid: validation rows)")
    if not any(e.history for e in results):
        left.text(
            0.5, 0.5, "nothing was trained", ha="center", transform=left.transAxes
        )
    right.set_title("held out (▲ lower bound, ● estimate)")
    right.set_xticks(
        range(len(results)), [e.estimator for e in results], rotation=40, ha="right"
    )
    tallest = [v for e in results for v in (e.nats, e.interval[1]) if math.isfinite(v)]
    tallest += [e.ceiling for e in results if e.ceiling is not None]
    tallest += [
        c.train for e in results for c in e.history[1:] if math.isfinite(c.train)
    ][-3:]
    left.set_ylim(
        min([0.0, *(e.nats - 0.1 for e in results if math.isfinite(e.nats))]),
        1.08 * max([0.1, *tallest]),
    )
    for axes in (left, right):
        axes.grid(alpha=0.25)
    figure.suptitle(f"{title}; dotted: the most that can be shown", fontsize=10)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise DataError(
            f"The figure cannot be written to {str(path)!r}: {error.strerror or error}."
        ) from None
    finally:
        plt.close(figure)
    return path
