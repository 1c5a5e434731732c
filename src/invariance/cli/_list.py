"""``invariance list``: what there is, by name."""

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from tyro import conf

from ..errors import SettingError
from ..words import align, count


@dataclass(frozen=True)
class List:
    """List methods, objectives, estimators, data sets, runs, ..."""

    what: Annotated[
        Literal[
            "methods",
            "objectives",
            "encoders",
            "estimators",
            "data",
            "views",
            "presets",
            "runs",
        ],
        conf.Positional,
        conf.arg(metavar="[WHAT]"),
    ] = "methods"
    """What to list: methods, objectives, encoders, estimators, data, views, presets or
    runs."""
    where: Annotated[str | None, conf.Positional, conf.arg(metavar="[WHICH]")] = None
    """For methods and views, the name of one, to see its options; for runs, a
    condition: "optim.lr < 0.1 and knn > 0.8"."""
    out: str = "runs"
    """Folder of run folders."""
    sort: str | None = None
    """Sort runs by this setting or score, such as knn, linear, loss or optim.lr: the
    largest number first. Default: by name."""
    json: Annotated[bool, conf.FlagCreatePairsOff] = False
    """Print every run as a line of JSON, with all its settings: knn and linear are
    scores on the test part, training_knn was read among training images."""

    def run(self) -> int:
        """Print one line per entry."""
        if self.json and self.what != "runs":
            raise SettingError(f"Only runs are printed as JSON: got {self.what}.")
        if self.json:
            for run in find_runs(self):
                values = {"folder": str(run.folder), **run.values}
                values |= {"broken": run.broken} if run.broken else {}
                print(json.dumps(values, ensure_ascii=False))
            return 0
        if self.sort is not None and self.what != "runs":
            raise SettingError(f"Only runs are sorted: got {self.what}.")
        if self.what == "runs":
            return list_runs(self)
        if self.where is not None and self.what in DETAILS:
            for line in DETAILS[self.what](self.where):
                print(line)
            return 0
        if self.where is not None:
            raise SettingError(
                "Methods and views can be chosen by name, and runs by an expression: "
                f"got {self.where!r} for {self.what}."
            )
        rows = list(entries(self))
        first = max((len(name) for name, _ in rows), default=0) + 2
        columns = max(shutil.get_terminal_size().columns, first + 20)
        for name, about in rows:
            lines = textwrap.wrap(
                about,
                columns - first,
                break_long_words=False,
                break_on_hyphens=False,
            )
            for k, line in enumerate(lines or [""]):
                print(f"{'' if k else name:<{first}}{line}".rstrip())
        return 0


def entries(command: List) -> Iterator[tuple[str, str]]:
    """Names, each with a line about it."""
    if command.what == "methods":
        from ..methods import METHODS

        for name, method in METHODS.items():
            yield name, method.use
    elif command.what == "objectives":
        from ..objectives import OBJECTIVES

        for name, objective in OBJECTIVES.items():
            module = __import__(objective.__module__, fromlist=["__doc__"])
            yield name, (module.__doc__ or "").strip().splitlines()[0]
    elif command.what == "encoders":
        from ..encoders import ENCODERS, OTHERS

        for name, network in ENCODERS.items():
            yield name, (network.__doc__ or "").strip().splitlines()[0]
        for kind, names in OTHERS.items():
            yield from ((name, f"for samples of the kind {kind}") for name in names)
        yield "NAME", "any network of timm, such as resnet18 or vit_tiny_patch16_224"
        yield "torchvision/NAME", "any classification network of torchvision"
        yield "transformers/NAME", "any model of transformers, for sentences"
        yield "geometric/NAME", "a network of torch-geometric, such as GCN, for graphs"
    elif command.what == "estimators":
        from ..estimators import ESTIMATORS

        for name, estimator in ESTIMATORS.items():
            yield name, estimator.about
    elif command.what == "data":
        from ..data import DATA_SETS, GENERATED

        for name in DATA_SETS:
            made = GENERATED.get(name)
            yield name, "torchvision" if made is None else f"generated: {made}"
        yield "PATH", "a folder of images, an .npy or .npz file, or .tar shards"
        yield "", "sentences (.txt, .csv, .jsonl), a table (.csv, .tsv, .parquet)"
        yield "", "graphs (.jsonl, .parquet, a TU folder), audio and series (.wav, ...)"
    elif command.what == "views":
        from ..views import RECIPES

        for name, recipe in RECIPES.items():
            yield name, (recipe.__doc__ or "").strip().splitlines()[0]
    else:
        from ..evaluation import PRESETS

        for name, preset in PRESETS.items():
            yield name, f"{', '.join(preset.protocols)}: {preset.source}"


def find_runs(command: List) -> list[Any]:
    """The runs for which the expression holds, in the order asked for."""
    from ..folder import overviews, sort_overviews
    from ..training import complete_settings

    runs = list(overviews(command.out, command.where, complete=complete_settings))
    return runs if command.sort is None else sort_overviews(runs, command.sort)


def list_runs(command: List) -> int:
    """A table of the runs, as wide as the terminal lets it be."""
    from ..folder import name_data

    runs = find_runs(command)
    if not runs:
        has = f"no run in {command.out} has {command.where}"
        none = f"no runs in {command.out}: 'invariance train' makes one, --out names"
        none += " another folder"
        print(none if command.where is None else has, file=sys.stderr)
        return 0
    rows = [
        {"run": str(run.folder), "broken": run.broken}
        if run.broken
        else describe_run(run, data)
        for run, data in zip(runs, name_data(runs), strict=True)
    ]
    whole = [row for row in rows if "broken" not in row]
    columns = list(RUN_COLUMNS)
    room = shutil.get_terminal_size().columns
    while max(map(len, make_table(columns, whole))) > room:
        lightest = next((name for name in LIGHT if name in columns), None)
        if lightest is None:
            break
        columns.remove(lightest)
    print("\n".join(make_table(columns, rows)))
    if any(row["kNN"].startswith("(") for row in whole):
        print("(in brackets: among training samples, while it trained)")
    return 0


def describe_run(run: Any, data: str) -> dict[str, str]:
    """What the table shows of a run, by column."""
    v = run.values
    epochs = f"{v['epoch'] or 0:.4g}/{v['epochs']}"
    rate, knn, linear = v["optim.lr"], v["knn"], v["linear"]
    percents = [
        "" if score is None else f"{100 * score:.1f}" for score in (knn, linear)
    ]
    if knn is None and v["training_knn"] is not None:
        percents[0] = f"({100 * v['training_knn']:.1f})"
    return {
        "run": str(run.folder),
        "state": "ended early" if v["finished"] and v["ended"] else v["state"],
        "method": str(v["method"]),
        "data": data,
        "batch": str(v["batch_size"] or ""),
        "epochs": epochs,
        "rate": "" if rate is None else f"{rate:g}",
        "kNN": percents[0],
        "linear": percents[1],
    }


def make_table(columns: list[str], rows: list[dict[str, str]]) -> list[str]:
    """Lines with a title for each column, numbers to the right.

    >>> make_table(["run", "kNN"], [{"run": "a", "kNN": "9.5"}, {"run": "bcd"}])
    ['run  kNN', 'a    9.5', 'bcd']
    """
    words = [k for k, name in enumerate(columns) if name in WORDS]
    cells = [columns, *([row.get(name, "") for name in columns] for row in rows)]
    width = max(len(run) for run, *_ in cells)
    head, *lines = align(cells, words)
    return [
        head,
        *(
            f"{row['run']:<{width}}  {row['broken']}" if "broken" in row else line
            for row, line in zip(rows, lines, strict=True)
        ),
    ]


RUN_COLUMNS = (
    *("run", "method", "data", "batch", "epochs", "rate", "kNN", "linear", "state"),
)
WORDS = ("run", "method", "data", "state")  # the others are numbers
LIGHT = ("rate", "batch", "data", "method", "linear")  # go first where there is no room


def describe_method(name: str) -> Iterator[str]:
    """A method's choices and options."""
    from ..errors import choose
    from ..methods import METHODS, list_options, options_of
    from ..training import BATCH, complete_settings

    method = choose(METHODS, name, "method")
    yield f"{name}: {method.use}"
    yield f"source: {method.source}"
    yield f"released: {method.released}"
    usual = complete_settings({"optim.decay": "auto"})
    name, lr, decay, what = (
        usual[f"optim.{k}"] for k in ("name", "lr", "weight_decay", "decay")
    )
    yield (
        f"here, as for every method: {name} at {lr:g} for 256 samples, decay {decay:g} "
        f"of {what}, batch {BATCH}; these suit small machines, and flags change them"
    )
    yield (
        f"views: {method.n_views} x encoder: {method.encoder} x negatives: "
        f"{method.negatives} x objective: {method.objective}"
    )
    options = options_of(method)
    yield from ["", "--options (name, default, allowed values, meaning):"]
    yield from list_options(options) or ["none"]
    if "temperature" in options:
        yield "The temperature may also be given by itself: --temperature 0.2"
    views = "simclr" if method.views == "auto" else method.views
    yield f"The views have their own options: invariance list views {views}"


def describe_views(name: str) -> Iterator[str]:
    """What each view of a recipe is made of, and the recipe's options."""
    from ..errors import choose
    from ..methods import list_options, recipe_options
    from ..views import KINDS_OF, RECIPES, name_operation

    recipe = choose(RECIPES, name, "views")
    yield f"{name}: {(recipe.__doc__ or '').strip().splitlines()[0]}"
    if name in KINDS_OF:
        yield f"for samples of the kind {' or '.join(KINDS_OF[name])}"
    for size in () if name in KINDS_OF else (32, 224):
        views = [[name_operation(op) for op in view] for view in recipe(size)]
        for words in dict.fromkeys(map(tuple, views)):
            made_of = ", ".join(dict.fromkeys(filter(None, words))) or "nothing random"
            same = sum(tuple(view) == words for view in views)
            n_views = count(same, "view")
            yield f"at {size} pixels, {n_views} by default: {made_of}"
    yield "Leave operations out with --views.drop, weaken them with --views.strength."
    if "image" in KINDS_OF.get(name, ("image",)):
        yield "Attack them with --views.adversarial first, all or added."
    yield from ["", "--options (name, default, allowed values, meaning):"]
    yield from list_options(recipe_options(name)) or ["none"]


DETAILS: dict[str, Callable[[str], Iterator[str]]] = {
    "methods": describe_method,
    "views": describe_views,
}
