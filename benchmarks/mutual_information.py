"""All estimators on the 20-dimensional Gaussian and its cubic image, 2 to 10 nats.

    python benchmarks/mutual_information.py                 # all of it, resumes
    python benchmarks/mutual_information.py --only flo      # pieces with the word
    python benchmarks/mutual_information.py --list          # the names of the pieces
    python benchmarks/mutual_information.py --steps 50 --seeds 2 --name trial

The published set-up: every step draws a fresh batch, the information goes up from 2 to
10 nats in steps, the critic is kept, and the value of each batch (before it is learned
from) is the estimate. What differs: fewer steps a level, which the learning rate makes
up for, and ten seeds, which are trained at once as stacked critics. Estimators that
train a critic in the same way share it (JSD and SMILE; FlatNCE, FDV and leave-one-out),
and all see the same batches. Batch 256 takes half as many steps. FLO and FlatNCE have
their authors' critic, a cosine with a learned temperature, as unbounded ones run away
under their gradients; the others have an inner product of two networks. Cubes are
divided by their standard deviation. Numbers are of the last quarter of each level: bias
is the mean over seeds and steps less the truth, variance that of single batches within
a seed, MSE the mean square of their errors.

KSG and the Gaussian estimate have no batches; they get 2,000 samples a seed and level.
Barber-Agakov is given the entropy of y, which is known here and seldom elsewhere.
"""

import argparse
import json
import math
import multiprocessing
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from invariance.critics import mlp
from invariance.estimators import (
    BOUNDS,
    SCHEDULE,
    CriticModel,
    Training,
    canonical_correlations,
    donsker_varadhan,
    gaussian_information,
    info_nce,
    ksg,
    leave_one_out,
    nwj_of_log_ratio,
    rho_of,
    smile,
)

RESULTS = Path(__file__).parent / "results"
DIM = 20
DATA = ("gaussian", "cubic")
BATCHES = (64, 256)
READ = 0.25  # the part of each level that numbers are taken from
POINTS = 20  # of a curve, a level
CLASSICAL_ROWS = 2000
LEARNING_RATE = 1e-3
EULER = 0.5772156649015329

Reader = Callable[[Tensor, Tensor], Tensor]
# which values are read off the critic of each training
READERS: dict[str, dict[str, Reader]] = {
    name: {name: BOUNDS[name].value}
    for name in (
        *("info_nce", "nwj", "tuba", "mine", "binary_nce"),
        *("interpolated", "flo", "vince"),
    )
}
READERS["flat_nce"] = {
    "flat_nce": lambda s, _: info_nce(s),
    "fdv": lambda s, _: info_nce(s),
    "leave-one-out": lambda s, _: leave_one_out(s),
}
READERS["jsd"] = {
    "jsd": lambda s, _: nwj_of_log_ratio(s),
    "smile (c=1)": lambda s, _: smile(s, 1.0),
    "smile (c=5)": lambda s, _: smile(s, 5.0),
    "smile (c=inf)": lambda s, _: donsker_varadhan(s),
}
TRAINERS = (*READERS, "barber_agakov")
ORDER = (
    *("barber_agakov", "leave-one-out", "tuba", "nwj", "mine", "jsd", "smile (c=1)"),
    *("smile (c=5)", "smile (c=inf)", "binary_nce", "info_nce", "interpolated"),
    *("flat_nce", "fdv", "flo", "vince", "gaussian", "ksg"),
)
BOUNDED = {"flo", "flat_nce"}
CEILED = {"info_nce", "flat_nce", "fdv", "vince", "interpolated"}


@dataclass(frozen=True)
class Piece:
    """One training: what is learned from what."""

    data: str
    batch: int
    trainer: str
    steps: int
    seeds: int

    @property
    def key(self) -> str:
        return f"{self.data}/{self.batch}/{self.trainer}"


def draw(piece: Piece, nats: float, dice: torch.Generator) -> tuple[Tensor, Tensor]:
    """Fresh batches of all seeds."""
    rho = rho_of(nats, DIM)
    shape = (2, piece.seeds, piece.batch, DIM)
    x, e = torch.randn(shape, generator=dice)
    y = rho * x + math.sqrt(1 - rho**2) * e
    # cubes divided by their standard deviation, which is no more than a unit
    return x, y**3 / math.sqrt(15) if piece.data == "cubic" else y


class PartsOf(nn.Module):
    """A model whose call is the critic matrix and the helper's numbers."""

    def __init__(self, model: CriticModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.model.parts(x, y)


class Conditional(nn.Module):
    """q(y|x), normal around a network; called, it gives log q of each row."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(DIM, 2 * DIM, width=128, depth=2)
        self.straight = nn.Linear(DIM, DIM)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        bend, log_spread = self.net(x).chunk(2, -1)
        log_spread = 5 * torch.tanh(log_spread / 5)
        error = (y - bend - self.straight(x)) * (-log_spread).exp()
        each = -error.square() / 2 - log_spread - math.log(2 * math.pi) / 2
        return each.sum(-1)


def entropy(data: str) -> float:
    """Of y, in nats: 20 normals, or cubes (E log 3 y^2 / sqrt 15 more for each)."""
    cubed = math.log(3 / math.sqrt(15)) - (EULER + math.log(2))
    more = cubed if data == "cubic" else 0.0
    return DIM * (math.log(2 * math.pi * math.e) / 2 + more)


def train(piece: Piece) -> dict[str, object]:
    """Train one critic a seed, all at once, through the schedule."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    x, y = draw(piece, 2.0, torch.Generator().manual_seed(0))
    ba = piece.trainer == "barber_agakov"
    models: list[nn.Module] = []
    for seed in range(piece.seeds):
        torch.manual_seed(seed)
        if ba:
            models.append(Conditional())
        else:
            options = Training(base="none", width=128, depth=2, embed=32)
            bound = BOUNDS[piece.trainer]
            critic = "cosine" if piece.trainer in BOUNDED else "separable"
            models.append(PartsOf(CriticModel(bound, critic, x[0], y[0], options)))
    stacked, buffers = stack_module_state(models)
    learned = list(stacked.values())

    def one(parameters, buffer, a, b):
        return functional_call(models[0], (parameters, buffer), (a, b))

    call = torch.vmap(one)
    optimiser = torch.optim.Adam(learned, lr=LEARNING_RATE, fused=True)
    memory: dict[str, Tensor] = {}
    dice = torch.Generator().manual_seed(
        1000 + piece.batch
    )  # the same for all trainers
    values: dict[str, list[Tensor]] = {}
    for nats in SCHEDULE:
        for _ in range(piece.steps):
            x, y = draw(piece, nats, dice)
            if ba:
                log_q = call(stacked, buffers, x, y).mean(-1)
                loss, read = -log_q, {"barber_agakov": entropy(piece.data) + log_q}
            else:
                scores, helper = call(stacked, buffers, x, y)
                loss = BOUNDS[piece.trainer].loss(scores, helper, memory)
                with torch.no_grad():
                    read = {
                        name: reader(scores, helper)
                        for name, reader in READERS[piece.trainer].items()
                    }
            for name, value in read.items():
                values.setdefault(name, []).append(value.detach())
            optimiser.zero_grad(set_to_none=True)
            loss.sum().backward()
            clip(learned)
            optimiser.step()
    return {
        "seconds": time.perf_counter() - start,
        "values": {n: summary(torch.stack(v, 1), piece) for n, v in values.items()},
    }


def clip(parameters: list[Tensor], longest: float = 10.0) -> None:
    """Each seed's gradient shortened on its own, and left out where not finite."""
    grads = [p.grad for p in parameters if p.grad is not None]
    length = sum(g.reshape(len(g), -1).square().sum(1) for g in grads)
    assert isinstance(length, Tensor)
    scale = (longest / length.sqrt().clamp(min=1e-12)).clamp(max=1.0)
    fine = torch.isfinite(length)
    for g in grads:
        shape = (-1, *[1] * (g.ndim - 1))
        g.mul_(torch.where(fine, scale, 0.0).view(shape))
        g[~fine] = 0.0


def summary(values: Tensor, piece: Piece) -> dict[str, object]:
    """Numbers of each level, and a curve; values are (seeds, steps of all levels)."""
    levels, curve = [], []
    for nats, part in zip(SCHEDULE, values.double().split(piece.steps, 1), strict=True):
        last = part[:, -max(1, round(READ * piece.steps)) :]
        levels.append(
            {
                "nats": nats,
                "mean": last.mean().item(),
                "median": last.median().item(),
                "bias": last.mean().item() - nats,
                "variance": last.var(1, correction=0).mean().item(),
                "mse": (last - nats).square().mean().item(),
                "seed_spread": last.mean(1).std().item() if len(last) > 1 else 0.0,
            }
        )
        size = max(1, piece.steps // POINTS)
        whole = part[:, : size * (piece.steps // size)].unflatten(1, (-1, size))
        curve += whole.mean(2).mean(0).tolist()
    return {"levels": levels, "curve": curve}


def classical(piece: Piece) -> dict[str, object]:
    """KSG and the Gaussian estimate of raw columns; batches mean nothing to them."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    found: dict[str, list[list[float]]] = {"gaussian": [], "ksg": []}
    rows = replace(piece, batch=CLASSICAL_ROWS)
    dice = torch.Generator().manual_seed(7)
    for nats in SCHEDULE:
        x, y = draw(rows, nats, dice)
        y = y / y.std()
        both = zip(x.double(), y.double(), strict=True)
        here: dict[str, list[float]] = {"gaussian": [], "ksg": []}
        for a, b in both:
            rho = canonical_correlations(a, b)
            gauss = gaussian_information(rho, CLASSICAL_ROWS, (DIM, DIM))
            here["gaussian"].append(gauss[0])
            here["ksg"].append(ksg(a, b)[0])
        for name, seeds in here.items():
            found[name].append(seeds)
    one = replace(piece, steps=1)
    values = {}
    for name, levels in found.items():
        told = summary(torch.tensor(levels).T.contiguous(), one)
        for level, seeds in zip(told["levels"], levels, strict=True):  # type: ignore[call-overload]
            level["variance"] = torch.tensor(seeds).var(correction=0).item()
        told["curve"] = [v for v in told["curve"] for _ in range(POINTS)]  # type: ignore[attr-defined]
        values[name] = told
    return {"seconds": time.perf_counter() - start, "values": values}


def work(piece: Piece) -> tuple[Piece, dict[str, object]]:
    return piece, classical(piece) if piece.trainer == "classical" else train(piece)


def pieces(steps: int, seeds: int) -> list[Piece]:
    """All of them, the longest first."""
    trained = [
        Piece(data, batch, trainer, steps if batch == 64 else steps // 2, seeds)
        for batch in reversed(BATCHES)
        for data in DATA
        for trainer in TRAINERS
    ]
    return [Piece(d, 0, "classical", steps, seeds) for d in DATA] + trained


# ---------------------------------------------------------------- what is shown


def rows_of(store: dict, data: str, batch: int) -> dict[str, dict]:
    """Every estimator's summary for one set and batch."""
    rows: dict[str, dict] = {}
    for key, result in store["pieces"].items():
        of, size, _ = key.split("/")
        if of == data and int(size) in (batch, 0):
            rows |= result["values"]
    return {name: rows[name] for name in ORDER if name in rows}


def page(store: dict, facts: dict[str, object]) -> str:
    lines = ["# Estimators of mutual information, 20 dimensions", "", *verdicts(store)]
    for data in DATA:
        for batch in BATCHES:
            rows = rows_of(store, data, batch)
            if not rows:
                continue
            lines += [
                "",
                f"{data.capitalize()}, batch {batch} (log {batch} = "
                f"{math.log(batch):.2f}): bias / variance / MSE at each true value",
                "",
                "| estimator | " + " | ".join(f"{n:g} nats" for n in SCHEDULE) + " |",
                "| --- |" + " ---: |" * len(SCHEDULE),
            ]
            for name, row in rows.items():
                cells = [
                    f"{number(v['bias'])} / {number(v['variance'])} / "
                    f"{number(v['mse'])}"
                    for v in row["levels"]
                ]
                lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", *(f"- {key}: {value}" for key, value in facts.items())]
    return "\n".join(lines) + "\n"


def number(v: float | None) -> str:
    if v is None or not math.isfinite(v):
        return "overflow"
    return f"{v:.2f}" if abs(v) < 100 else f"{v:.0e}"


def verdicts(store: dict) -> list[str]:
    """Whether InfoNCE saturates and FLO and SMILE do not, in words."""
    said = []
    for data in DATA:
        for batch in BATCHES:
            rows = rows_of(store, data, batch)
            if not {"info_nce", "flo", "smile (c=5)"} <= set(rows):
                continue
            at = len(SCHEDULE) - 1
            mean = {n: r["levels"][at]["mean"] for n, r in rows.items()}
            mean = {n: -math.inf if v is None else v for n, v in mean.items()}
            above = [
                n for n in ("flo", "smile (c=5)") if mean[n] > math.log(batch) + 0.1
            ]
            said.append(
                f"- {data}, batch {batch}, 10 nats: InfoNCE shows "
                f"{mean['info_nce']:.2f} of at most {math.log(batch):.2f}; FLO "
                f"{mean['flo']:.2f}, SMILE (c=5) {mean['smile (c=5)']:.2f} "
                f"(beyond the ceiling: {', '.join(above) or 'neither'})."
            )
    return said


def draw_figure(store: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    wide = 6
    names = [
        n
        for n in ORDER
        if any(n in rows_of(store, d, b) for d in DATA for b in BATCHES)
    ]
    high = math.ceil(len(names) / wide)
    figure, axes = plt.subplots(
        2 * high,
        wide,
        figsize=(2.6 * wide, 2.0 * 2 * high),
        sharex=True,
        sharey=True,
        layout="constrained",
        squeeze=False,
    )
    for ax in axes.flat:
        ax.set_visible(False)
    for part, data in enumerate(DATA):
        for k, name in enumerate(names):
            ax = axes[part * high + k // wide][k % wide]
            ax.set_visible(True)
            for batch, colour in zip(BATCHES, ("C1", "C0"), strict=True):
                row = rows_of(store, data, batch).get(name)
                if row is None:
                    continue
                curve = [v if v is not None else math.nan for v in row["curve"]]
                at = [(i + 0.5) * len(SCHEDULE) / len(curve) for i in range(len(curve))]
                ax.plot(at, curve, color=colour, lw=1.2, label=f"batch {batch}")
                if name in CEILED:
                    ax.axhline(math.log(batch), color=colour, ls=":", lw=0.8)
            ax.step(
                range(len(SCHEDULE) + 1),
                [*SCHEDULE, SCHEDULE[-1]],
                where="post",
                color="black",
                lw=0.8,
            )
            ax.set(title=f"{name}, {data}", ylim=(-0.5, 13), xticks=[])
            ax.title.set_fontsize(8)
            ax.tick_params(labelsize=7)
    axes[0][0].legend(fontsize=7, loc="upper left")
    figure.supylabel("nats (black: exact; dotted: log batch)", fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def clean(value: object) -> object:
    if isinstance(value, dict):
        return {k: clean(v) for k, v in value.items()}
    if isinstance(value, list):
        return [clean(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a word in the piece's name")
    parser.add_argument("--list", action="store_true", help="the pieces, and no work")
    parser.add_argument(
        "--steps", type=int, default=400, help="steps a level (half at 256)"
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--name", default="mutual_information", help="of the results")
    chosen = parser.parse_args()
    kept = RESULTS / f"{chosen.name}.json"
    settings = {"steps": chosen.steps, "seeds": chosen.seeds}
    store = {"settings": settings, "pieces": {}, "wall_seconds": 0.0}
    if kept.exists():
        store = json.loads(kept.read_text())
        if store["settings"] != settings:
            sys.exit(f"{kept} was made with {store['settings']}: delete it, or --name.")
    todo = [
        p
        for p in pieces(**settings)
        if chosen.only in p.key and p.key not in store["pieces"]
    ]
    if chosen.list:
        print("\n".join(p.key for p in pieces(**settings) if chosen.only in p.key))
        return
    start, before = time.perf_counter(), store["wall_seconds"]
    context = multiprocessing.get_context("spawn")
    with context.Pool(max(1, min(chosen.workers, len(todo) or 1))) as pool:
        for number_, (piece, result) in enumerate(pool.imap_unordered(work, todo)):
            store["pieces"][piece.key] = clean(result)
            store["wall_seconds"] = before + time.perf_counter() - start
            kept.write_text(json.dumps(store))
            print(
                f"{number_ + 1}/{len(todo)} {piece.key}: {result['seconds']:.0f} s",
                flush=True,
            )
    facts = {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "command": shlex.join(["python", "benchmarks/mutual_information.py"])
        + (" " + shlex.join(sys.argv[1:]) if sys.argv[1:] else ""),
        "steps a level": chosen.steps,
        "seeds": chosen.seeds,
        "critic": "separable (flo, flat_nce, fdv: cosine), 2 x 128 ReLU, 32 numbers; "
        f"Adam {LEARNING_RATE:g}",
        "chosen on this task": "FLO's critic and dual, the best of eight variants "
        "tried on the Gaussian with batches of 64 (with the separable critic it reads "
        "far below the truth at 10 nats); FlatNCE and FDV took the same critic after "
        "diverging with the separable one; MINE's moving average is held back, "
        "since without that it diverged here",
        "seconds by the wall clock": round(store["wall_seconds"]),
        "seconds of work": round(sum(p["seconds"] for p in store["pieces"].values())),
        "workers": chosen.workers,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {p: version(p) for p in ("torch", "numpy", "scipy", "matplotlib")},
        "figure": f"{chosen.name}.png",
    }
    (RESULTS / f"{chosen.name}.md").write_text(page(store, facts))
    draw_figure(store, RESULTS / f"{chosen.name}.png")
    print("\n".join(verdicts(store)))
    print(f"table: benchmarks/results/{chosen.name}.md")
    print(f"figure: benchmarks/results/{chosen.name}.png")


if __name__ == "__main__":
    main()
