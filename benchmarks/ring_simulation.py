"""A ring of processes that pass their rows on, with stragglers, beside an all-gather.

    python benchmarks/ring_simulation.py          # the table and the figure of the page

P processes each hold a block of rows and need to meet everybody's. By **all-gather**
they first receive all P - 1 other blocks, and then compute P blocks without a word. In
a **ring** they compute on one block while the next arrives from the process before:
a block is passed on when a process begins to compute on it, and when the next one is
ready to take it, so that two blocks are held at any time.

Times are drawn per process and hop; the simulation follows who waits for whom:

    take[p, h]    = max(arrival[p, h], end of computing on hop h - 1)
    arrival[p, h] = max(take[p - 1, h - 1], take[p, h - 1]) + transfer

With equal times both are closed forms: c + (P - 1) max(c, t) for the ring and
(P - 1) t + P c for the all-gather, with c for a block's computing and t for its
transfer. ``ahead`` is the number of blocks that may be on their way (1 above).
"""

import argparse
from pathlib import Path

import numpy as np

FIGURE = Path(__file__).parents[1] / "docs" / "images" / "ring.png"
PROCESSES, TRIALS = 64, 100


def ring_seconds(
    computing: np.ndarray, transfer: float | np.ndarray, ahead: int = 1
) -> np.ndarray:
    """When the last process has met all blocks, for each trial.

    Args:
        computing: Seconds by trial, process and hop (..., P, P); the first hop is a
            process's own block.
        transfer: Seconds of a block on the link to each process, or one number.
        ahead: Blocks that a process may have on their way to it.
    """
    n_hops = computing.shape[-1]
    start = np.zeros(computing.shape[:-1])  # of everything
    take, arrival = [start], [start]  # by hop: computing begins, block is there
    for hop in range(1, n_hops):
        asked = take[max(hop - ahead, 0)]  # when there was room for this block
        has = np.maximum(arrival[-1], asked)  # when it could be passed on
        begin = np.maximum(np.roll(has, 1, axis=-1), asked)
        if hop > 1:  # a link carries one block at a time
            begin = np.maximum(begin, arrival[-1])
        arrival.append(begin + transfer)
        done = take[-1] + computing[..., hop - 1]
        take.append(np.maximum(arrival[-1], done))
    return (take[-1] + computing[..., -1]).max(-1)


def gather_seconds(computing: np.ndarray, transfer: float | np.ndarray) -> np.ndarray:
    """The same after an all-gather, itself a ring at the pace of its slowest link."""
    received = (computing.shape[-1] - 1) * np.max(transfer)
    return received + computing.sum(-1).max(-1)


def draw_computing(jitter: float, slow: float = 1.0) -> np.ndarray:
    """Times of mean 1 that vary by process and hop; the first process is slower."""
    rng, sigma = np.random.default_rng(0), np.sqrt(np.log1p(jitter**2))
    shape = (TRIALS if jitter else 1, PROCESSES, PROCESSES)
    times = rng.lognormal(-(sigma**2) / 2, sigma, shape)
    times[:, 0] *= slow
    return times


def compare(transfer: float, jitter: float, slow: float) -> dict[str, float]:
    """Mean seconds of the ways, in units of one process's P blocks of computing."""
    times = draw_computing(jitter, slow)
    seconds = {
        "ring": ring_seconds(times, transfer),
        "ring, 2 ahead": ring_seconds(times, transfer, ahead=2),
        "all-gather": gather_seconds(times, transfer),
    }
    return {name: value.mean() / PROCESSES for name, value in seconds.items()}


CASES = {
    "nothing varies, transfer half of computing": (0.5, 0.0, 1.0),
    "nothing varies, transfer as long as computing": (1.0, 0.0, 1.0),
    "nothing varies, transfer twice as long": (2.0, 0.0, 1.0),
    "every hop varies by 10 %": (0.5, 0.1, 1.0),
    "every hop varies by 30 %": (0.5, 0.3, 1.0),
    "one process 1.5 times slower": (0.5, 0.0, 1.5),
    "one process 1.5 times slower, hops vary by 30 %": (0.5, 0.3, 1.5),
}


def table() -> str:
    """Cases by ways; 1.00 is P blocks of computing and nothing else."""
    rows = [compare(*case) for case in CASES.values()]
    head = ["case", *rows[0]]
    lines = [f"| {' | '.join(head)} |", f"| :--- |{' ---: |' * len(rows[0])}"]
    for name, row in zip(CASES, rows, strict=True):
        lines.append(f"| {name} | {' | '.join(f'{v:.2f}' for v in row.values())} |")
    return "\n".join(lines)


def draw(path: Path) -> None:
    """Time against the transfer, and against how much hops vary."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    transfers, jitters = np.linspace(0, 2, 21), np.linspace(0, 0.6, 13)
    colors = {"all-gather": "#888888", "ring": "#0b6e99", "ring, 2 ahead": "#e07b39"}
    for name, color in colors.items():
        wire = [compare(t, 0.0, 1.0)[name] for t in transfers]
        noise = [compare(0.5, j, 1.0)[name] for j in jitters]
        dash = "--" if name == "ring, 2 ahead" else "-"
        left.plot(transfers, wire, dash, color=color, label=name)
        right.plot(100 * jitters, noise, dash, color=color, label=name)
    left.set_xlabel("transfer of a block / computing on it")
    right.set_xlabel("spread of a hop's computing, % (transfer 0.5)")
    left.set_ylabel(f"time / computing alone, {PROCESSES} processes")
    left.set_title("nothing varies")
    right.set_title("every process and hop varies")
    left.legend(frameon=False)
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    left.set_ylim(bottom=0.9)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=FIGURE)
    given = parser.parse_args()
    print(table())
    draw(given.out)


if __name__ == "__main__":
    main()
