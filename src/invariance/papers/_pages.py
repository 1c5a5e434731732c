"""Results as Markdown and figures: one section per claim, one page per paper."""

import inspect
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import DataError, SettingError
from ..folder import write_whole
from ..words import count, show_duration
from ._all_claims import CLAIMS, PAPERS, Paper
from ._results import ADVICE, Result, read_result, require_whole

TOY = (
    "Marked *toy size*: {} from trainings far smaller than the papers' (generated "
    "data, small networks, minutes on a processor). Such a verdict says what happens "
    "at that size, and neither confirms nor refutes what was seen on ImageNet or CIFAR."
)
CHANCE = (
    "*Beyond chance* means that an interval of 95 %, from Student's law over seeds, "
    "excludes zero, or a margin where one is named. Each interval stands by itself: "
    "they are not corrected for how many are looked at, within a claim or over all of "
    "them. So of twenty differences that do not exist about one is seen, and a verdict "
    "that rests on one interval that barely excludes zero is a hint. A claim that says "
    "several things holds within limits if some of them are shown, and does not hold "
    "if none is and some are refuted."
)
FINGERPRINT = "Drawn-From"  # the text in a figure that names its rows and its code


def write_pages(out: str | Path, pages: str | Path) -> list[Path]:
    """Pages of every claim that has a result in ``out``.

    index.md has the verdicts, errata.md the corrections; the others are
    one per paper. Figures are drawn anew, beside the rows.

    Args:
        out: Folder of results.
        pages: Folder of the pages; ``out`` should be inside it or beside it.
    """
    out, pages = Path(out), Path(pages)
    results = [
        read_result(claim, out)
        for claim in CLAIMS.values()
        if (out / f"{claim.name}.jsonl").exists()
    ]
    if not results:
        raise DataError(
            f"There are no results in {str(out)!r}: 'invariance reproduce all' makes "
            "them."
        )
    for result in results:
        require_whole(result)
        draw_figure(result, out)
        write_section(result, out)
    pages.mkdir(parents=True, exist_ok=True)
    texts = {"index.md": make_index(results), "errata.md": make_errata(results)}
    for name, paper in PAPERS.items():
        of_paper = [r for r in results if r.claim.paper == name]
        if of_paper:
            texts[f"{name}.md"] = make_page(paper, of_paper, _link(out, pages))
    for name, text in texts.items():
        write_whole(pages / name, text.encode(), advice=ADVICE)
    return [pages / name for name in texts]


def _link(out: Path, pages: Path) -> str:
    try:
        return out.resolve().relative_to(pages.resolve()).as_posix()
    except ValueError:
        raise SettingError(
            f"Pages show the figures of their results, so the folder of results "
            f"({str(out)!r}) must be inside that of the pages ({str(pages)!r})."
        ) from None


def make_index(results: Sequence[Result]) -> str:
    """All verdicts, in a table per paper."""
    outcomes = _tally(result.verdict.outcome for result in results)
    sizes = _tally(result.size for result in results)
    toys = sum(result.is_toy for result in results)
    lines = [
        "# The papers, checked",
        "",
        f"{count(len(results), 'claim')} of {count(len(PAPERS), 'text')}. Each was run "
        "again, and its verdict is computed from the numbers: "
        f"{outcomes}. Sizes: {sizes}. `invariance reproduce NAME` runs one of them. "
        "Numbers are means ± standard deviations over seeds.",
        "",
        CHANCE,
        "",
        *([TOY.format(count(toys, "verdict"))] if toys else []),
    ]
    for name, paper in PAPERS.items():
        of_paper = [result for result in results if result.claim.paper == name]
        if of_paper:
            lines += ["", f"## {paper.short}", ""]
            lines += ["| claim | verdict | because |", "|---|---|---|"]
        for result in of_paper:
            claim, verdict = result.claim, result.verdict
            lines.append(
                f"| [{claim.name}]({name}.md#{claim.name}), {claim.where} | "
                f"**{result.outcome}** | {verdict.because} |"
            )
    return "\n".join([*lines, ""])


def _tally(words: Iterable[str]) -> str:
    return ", ".join(f"{word} ({n})" for word, n in Counter(words).items())


def make_page(paper: Paper, results: Sequence[Result], link: str) -> str:
    """The claims of one paper."""
    lines = [f"# {paper.short}", "", paper.citation, ""]
    for result in results:
        lines += [*make_section(result, link), ""]
    return "\n".join(lines)


def make_errata(results: Iterable[Result]) -> str:
    """The corrections, by paper."""
    lines = [
        "# Errata",
        "",
        "Where the texts are wrong or incomplete: what is right, and why.",
    ]
    for name, paper in PAPERS.items():
        wrong = [
            r.claim for r in results if r.claim.paper == name and r.claim.correction
        ]
        if wrong:
            lines += ["", f"## {paper.short}"]
        for claim in wrong:
            lines += [
                "",
                f"### {claim.name}, {claim.where}",
                "",
                inspect.cleandoc(claim.correction),
            ]
    return "\n".join([*lines, ""])


def make_section(result: Result, link: str = ".") -> list[str]:
    """One claim: what is claimed, what was run, the verdict, figure and table."""
    claim, verdict = result.claim, result.verdict
    flag = "" if result.size == "quick" else f" --{result.size}"
    correction = inspect.cleandoc(claim.correction)
    headings, *lines = result.table()
    return [
        f"## {claim.name}",
        "",
        f"**Claim** ({claim.where}): {claim.says}",
        "",
        f"**Verdict: {result.outcome}.** {verdict.because}",
        "",
        f"![{claim.says}]({link}/{claim.name}.png)",
        "",
        f"*What is run:* {claim.run}",
        "",
        f"*What would refute it:* {claim.refuted_if}",
        "",
        *(["*Correction:*", "", correction, ""] if correction else []),
        f"| {' | '.join(headings)} |",
        "|" + "---|" * len(headings),
        *(f"| {' | '.join(line)} |" for line in lines),
        "",
        f"Mean ± standard deviation over seeds. {_describe_run(result)}",
        "",
        f"    invariance reproduce {claim.name}{flag}",
    ]


def _describe_run(result: Result) -> str:
    about = result.environment
    seeds = len({row.settings.get("seed", 0) for row in result.rows})
    torch = about.get("packages", {}).get("torch")
    return (
        f"{count(seeds, 'seed')}, {result.size} size, "
        f"{show_duration(result.seconds)} on a machine of "
        f"{count(about.get('cores') or 1, 'core')}, "
        f"torch {torch}, {str(about.get('started', ''))[:10]}."
    )


def write_section(result: Result, out: Path) -> None:
    """Verdict and table beside the rows."""
    text = "\n".join([*make_section(result), ""])
    path = out / f"{result.claim.name}.md"
    write_whole(path, text.encode(), advice=ADVICE)


def draw_figure(result: Result, out: Path) -> Path:
    """The figure beside the rows; one that is up to date is left as it is."""
    path = out / f"{result.claim.name}.png"
    if read_fingerprint(path) == result.fingerprint:
        return path
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise DataError(
            f"The figure of {result.claim.name!r} needs matplotlib: pip install "
            "matplotlib, then run the same command again. Its verdict and table are in "
            f"{out / (result.claim.name + '.md')}."
        ) from None
    figure = Figure(figsize=(7, 4), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    result.claim.draw(result.rows, figure)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={FINGERPRINT: result.fingerprint})
    write_whole(path, content.getvalue(), advice=ADVICE)
    return path


def read_fingerprint(path: Path) -> str | None:
    """Of what a figure was drawn from; None where there is no figure."""
    if not path.is_file():
        return None
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            return image.info.get(FINGERPRINT)
    except (UnidentifiedImageError, OSError):
        return None
