"""``invariance list``: what there is, by name."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro import conf


@dataclass(frozen=True)
class List:
    """Show what there is: methods, objectives, estimators, data sets, runs, ..."""

    what: Annotated[
        Literal[
            "methods", "objectives", "encoders", "estimators", "data", "views", "runs"
        ],
        conf.Positional,
    ] = "methods"
    """What to show."""
    out: str = "runs"
    """Folder of run folders."""

    def run(self) -> int:
        """Print one line an entry."""
        rows = list(entries(self))
        width = max((len(name) for name, _ in rows), default=0)
        for name, about in rows:
            print(f"{name:<{width}}  {about}".rstrip())
        return 0


def entries(command: List) -> Iterator[tuple[str, str]]:
    """Names, each with a line about it."""
    if command.what == "methods":
        from ..methods import METHODS

        for name, method in METHODS.items():
            yield name, f"{method.objective}: {method.source}"
    elif command.what == "objectives":
        from ..objectives import OBJECTIVES

        for name, objective in OBJECTIVES.items():
            module = __import__(objective.__module__, fromlist=["__doc__"])
            yield name, (module.__doc__ or "").strip().splitlines()[0]
    elif command.what == "encoders":
        from ..encoders import ENCODERS

        for name, network in ENCODERS.items():
            yield name, (network.__doc__ or "").strip().splitlines()[0]
        yield "NAME", "any network of timm, such as resnet18 or vit_tiny_patch16_224"
        yield "torchvision/NAME", "any classification network of torchvision"
    elif command.what == "estimators":
        from ..estimators import ESTIMATORS

        for name, estimator in ESTIMATORS.items():
            yield name, estimator.about
    elif command.what == "data":
        from ..data import DATA_SETS

        for name in DATA_SETS:
            yield name, "generated" if name == "shapes" else "torchvision"
        yield "PATH", "a folder of images, or an .npy or .npz file of arrays"
    elif command.what == "views":
        from ..views import RECIPES

        for name, recipe in RECIPES.items():
            yield name, (recipe.__doc__ or "").strip().splitlines()[0]
    else:
        yield from runs(Path(command.out))


def runs(folder: Path) -> Iterator[tuple[str, str]]:
    """Run folders, with how far each has got."""
    from ..training._run_folder import read_metrics

    for run in sorted(path.parent for path in folder.glob("*/config.yaml")):
        metrics = read_metrics(run / "metrics.jsonl")
        finished = (run / "encoder.safetensors").exists()
        state = "finished" if finished else "unfinished"
        last = metrics[-1] if metrics else {}
        epoch = f"epoch {last['epoch']:.1f}" if last else "no reading yet"
        knn = next((f", kNN {m['knn']:.1%}" for m in metrics[::-1] if "knn" in m), "")
        yield str(run), f"{state}, {epoch}{knn}"
