"""README.md of a shared encoder: what it is, how good, made of what, and its limits.

Everything is taken from the files of the run. What nobody measured is not claimed, and
what was measured is said with the baselines beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from ..data import Image
from ..encoders import Encoder, has_known_name
from ..folder import (
    MAY_DIFFER,
    TRAINED,
    Record,
    Row,
    Scores,
    explain_scores,
    flatten,
    make_score_table,
    read_verdict,
    show_value,
    tabulate_by_data,
)
from ..methods import METHODS
from ..words import count, show_duration
from ._private_paths import cut_paths, last_name

TASKS = {"image": "image-classification", "text": "text-classification"}
PIPELINES = {"image": "image-feature-extraction", "text": "feature-extraction"}
UNTOLD = MAY_DIFFER - {"seed"} | {"data"}  # of the machine, or told elsewhere


@dataclass(frozen=True)
class Card:
    """What a model card is made of.

    Attributes:
        name: Of the repository, as user/name.
        record: The files of the run.
        encoder: What is shared.
        defaults: Settings when nobody sets them, nested as in config.yaml.
        license: As the hub spells it; None where none was chosen.
        timm: Whether timm can build it from the hub, too.
    """

    name: str
    record: Record
    encoder: Encoder
    defaults: Mapping[str, Any]
    license: str | None
    timm: bool

    def __str__(self) -> str:
        about = yaml.safe_dump(self.front_matter(), sort_keys=False, allow_unicode=True)
        parts = [
            f"# {self.name.partition('/')[2]}",
            self.summary(),
            self.verdict(),
            f"## Use it\n\n{self.usage()}",
            f"## Scores\n\n{self.scores()}",
            f"## Data\n\n{self.data()}",
            f"## Training\n\n{self.training()}",
            f"## Intended use and limits\n\n{self.limits()}",
        ]
        return f"---\n{about}---\n\n" + "\n\n".join(filter(None, parts)) + "\n"

    @property
    def data_name(self) -> str:
        """What the training data are called; never where they are."""
        given = self.record.images.get("name") or self.record.config.get("data")
        return last_name(given or "unknown data")

    @property
    def method(self) -> str:
        """What it learned by; one of somebody's own goes by its objective."""
        given = self.record.env.get("method") or self.record.config.get("method")
        return str(given or "an unknown method")

    @property
    def labeled(self) -> bool:
        """Whether labels taught it anything; older runs do not say it."""
        known = METHODS.get(self.method)
        return bool(self.record.env.get("labeled", known is not None and known.labeled))

    @property
    def kind(self) -> str:
        """Of its samples."""
        return "" if self.encoder.kind is None else str(self.encoder.kind.name)

    def tables(self) -> list[tuple[Scores, list[Row]]]:
        """A table of scores for each data set, named without the folders around it."""
        rows = [
            {key: value for key, value in row.items() if key != "parent"}
            | {"data": last_name(row.get("data"))}
            for row in self.record.current_rows
        ]
        return tabulate_by_data(rows)

    def front_matter(self) -> dict[str, Any]:
        """What the hub reads."""
        learning = "supervised" if self.labeled else "self-supervised"
        tags = ["invariance", "contrastive-learning", f"{learning}-learning"]
        tags += [self.method, *(["timm"] if self.timm else [])]
        about: dict[str, Any] = {"library_name": "invariance", "tags": tags}
        if self.kind in PIPELINES:
            about["pipeline_tag"] = PIPELINES[self.kind]
        if self.license is not None:
            about["license"] = self.license
        results = [r for scores, _ in self.tables() for r in self.results(scores)]
        if results:
            name = self.name.partition("/")[2]
            about["model-index"] = [{"name": name, "results": results}]
        return about

    def results(self, scores: Scores) -> list[dict[str, Any]]:
        """The scores of the trained encoder on one data set, as the hub lists them."""
        metrics = [
            {
                "type": line.metric,
                "value": round(line.cells[TRAINED].mean, 4),
                "name": ", ".join(filter(None, [line.name, line.detail])),
            }
            for line in scores.lines
            if TRAINED in line.cells
        ]
        if not metrics:
            return []
        task = {"type": TASKS.get(self.kind, "other")}
        data = {"name": scores.data, "type": scores.data}
        return [{"task": task, "dataset": data, "metrics": metrics}]

    def summary(self) -> str:
        """One sentence, and what it began with."""
        encoder, how = self.encoder, "with" if self.labeled else "without"
        word = "sample" if encoder.kind is None else encoder.kind.word
        n = self.record.images.get("n_train")
        of = f" ({count(n, word)})" if isinstance(n, int) else ""
        begin = ""
        if self.record.config.get("pretrained"):
            begin = (
                " It started from timm's weights, which may have been trained with "
                "labels."
            )
        elif start := self.record.config.get("start_from"):
            begin = f" It started from the encoder of {last_name(start)}."
        return (
            f"An encoder of {word}s: {encoder.name}, {encoder.width:,} features. It "
            f"was trained {how} labels, by {self.method} on {self.data_name}{of}, "
            f"with invariance.{begin}"
        )

    def verdict(self) -> str:
        """What the run says of itself; the first decides."""
        findings = read_verdict(self.record)
        return "\n\n".join(f"**{one.title}.** {one.text}" for one in findings)

    def usage(self) -> str:
        """Code that loads it."""
        encoder = self.encoder
        known = has_known_name(encoder)
        module = "" if known else ", network=module"
        shape = "x".join(map(str, encoder.input_shape))
        if isinstance(encoder.kind, Image):
            use = f"features = encoder(images)  # of {shape}, floats in [0, 1]"
        else:
            use = f"features = encoder(samples)  # each of {shape}"
        lines = [
            "```python",
            "import invariance as inv",
            "",
            f'encoder = inv.from_pretrained("{self.name}"{module})',
            use,
            "```",
        ]
        if not known:
            lines += [
                "",
                f"`module` is a network built like the original `{encoder.name}`.",
            ]
        if self.timm:
            lines += [
                "",
                "With timm alone (mean and std are in `model.pretrained_cfg`):",
                "",
                "```python",
                "import timm",
                "",
                f'model = timm.create_model("hf_hub:{self.name}", pretrained=True)',
                "```",
            ]
        return "\n".join(lines)

    def scores(self) -> str:
        """Beside what costs nothing and beside the encoder before training."""
        parts = []
        for scores, rows in self.tables():
            head, *body = make_score_table(scores)
            parts.append(draw_table(head, body))
            parts += explain_scores(scores, rows)
        return "\n\n".join(parts) or "It was not scored."

    def data(self) -> str:
        """What it was trained on, as far as others may know."""
        images, word = self.record.images, self.record.word
        facts = [f"- Name: {self.data_name}"]
        for key, title in (("n_train", "Trained on"), ("n_held_out", "Held out")):
            if isinstance(images.get(key), int):
                facts.append(f"- {title}: {count(images[key], word)}")
        if images.get("fingerprint"):
            facts.append(f"- Fingerprint: `{images['fingerprint']}`")
        if self.labeled:
            facts.append("- Labels: trained on")
        elif self.record.labeled:
            facts.append("- Labels: never trained on, used only to score it")
        else:
            facts.append("- Labels: never trained on")
        return "\n".join(facts)

    def training(self) -> str:
        """How long it took, and the settings that are not the usual ones."""
        record, parts = self.record, []
        facts = []
        if record.readings:
            epoch, step = record.readings[-1]["epoch"], record.last("step")
            facts += [f"{epoch:.4g} epochs"]
            facts += [] if step is None else [f"{step:,.0f} steps"]
        if record.seconds is not None:
            facts.append(show_duration(record.seconds))
        device, version = record.env.get("device"), record.env.get("invariance")
        facts += [f"on {device}"] if device else []
        facts += [f"by invariance {version}"] if version else []
        if facts:
            parts.append(f"{', '.join(facts)}.")
        settings, usual = flatten(cut_paths(record.config)), flatten(self.defaults)
        rows = [
            [f"`{key}`", show_value(value), show_value(usual.get(key))]
            for key, value in settings.items()
            if key not in UNTOLD and value != usual.get(key) and value != {}
        ]
        if rows:
            parts.append(draw_table(["setting", "value", "default"], rows))
        else:
            parts.append("All settings are the defaults.")
        return "\n\n".join(parts)

    def limits(self) -> str:
        """What it is for, and what nobody knows of it, by the facts of the run."""
        word, encoder = self.record.word, self.encoder
        lines = [
            f"Its features are meant for {word}s like those of {self.data_name}: for "
            "search by example, for grouping, or to train a classifier with few "
            "labels."
        ]
        if not self.labeled:
            lines.append(
                "It was never shown classes: it tells apart whatever its views left "
                "in place, which may not be what you need."
            )
        if isinstance(encoder.kind, Image):
            size = encoder.input_shape[-1]
            lines.append(
                f"It was trained on images of {size} pixels per side: resize yours."
            )
        tables = self.tables()
        if tables:
            names = ", ".join(scores.data for scores, _ in tables)
            lines.append(f"It was scored on {names} and on nothing else.")
        else:
            lines.append("It was not scored on anything.")
        lines.append(
            "It comes from one run with one seed; another may score differently. How "
            "it treats people, or anything that its data do not show, was not "
            "examined."
        )
        if self.license is None:
            lines.append("No license was chosen: ask before you use it.")
        return "\n".join(f"- {line}" for line in lines)


def draw_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""A table of Markdown; a bar inside a cell would end it.

    >>> print(draw_table(["a", "b"], [["x|y", "1"]]))
    | a | b |
    | --- | --- |
    | x\|y | 1 |
    """
    lines = [head, ["---"] * len(head), *rows]
    cells = ([" ".join(cell.replace("|", "\\|").split()) for cell in x] for x in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
