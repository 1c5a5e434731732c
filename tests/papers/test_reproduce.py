"""Running claims: results on disk, going on after a stop, pages, bad requests."""

import json
import sys
from pathlib import Path

import pytest

from invariance.cli import main
from invariance.errors import InvarianceError
from invariance.papers import (
    CLAIMS,
    PAPERS,
    read_result,
    reproduce,
    require_whole,
    write_pages,
)

NAME = "any_critic"  # quick, and all numbers
PAGES = Path(__file__).parents[2] / "docs" / "papers"


class Killed(BaseException):
    """What no code in between catches."""


def kill_after(monkeypatch, n: int) -> None:
    """Let the n-th measurement from now on be the last."""
    claim, count = CLAIMS[NAME], iter(range(n))

    def measure(cell):
        if next(count, None) is None:
            raise Killed
        return claim.measure(cell)

    monkeypatch.setitem(
        CLAIMS, NAME, claim.__class__(**{**vars(claim), "measure": measure})
    )


def lines_without_times(path: Path) -> list[dict]:
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]


def test_a_stopped_run_goes_on_and_gives_the_same_numbers(tmp_path, monkeypatch):
    reproduce(NAME, size="tiny", out=tmp_path / "whole")
    with monkeypatch.context() as patch:
        kill_after(patch, 7)
        with pytest.raises(Killed):
            reproduce(NAME, size="tiny", out=tmp_path / "parts")
    path = tmp_path / "parts" / f"{NAME}.jsonl"
    with path.open("a") as file:
        file.write('{"settings": {"critic"')  # killed while it wrote
    with pytest.raises(InvarianceError, match="half finished: 7 of 20 measurements"):
        require_whole(read_result(CLAIMS[NAME], tmp_path / "parts"))
    with monkeypatch.context() as patch:
        kill_after(patch, 13)  # what was done is not done again
        reproduce(NAME, size="tiny", out=tmp_path / "parts")
    whole = tmp_path / "whole" / f"{NAME}.jsonl"
    assert lines_without_times(path) == lines_without_times(whole)


def test_several_processes_give_the_numbers_of_one(tmp_path):
    reproduce(NAME, size="tiny", out=tmp_path / "one")
    told = []
    reproduce(
        ["gradient_sign", NAME],
        size="tiny",
        out=tmp_path / "two",
        jobs=2,
        tell=lambda result: told.append(result.claim.name),
    )
    one, two = (
        list(read_result(CLAIMS[NAME], tmp_path / jobs).rows) for jobs in ("one", "two")
    )
    assert one == two
    assert sorted(told) == sorted([NAME, "gradient_sign"])


def test_rows_are_read_in_the_order_of_the_cells(tmp_path):
    reproduce(NAME, size="tiny", out=tmp_path)
    expected = list(read_result(CLAIMS[NAME], tmp_path).rows)
    about, *rows = (tmp_path / f"{NAME}.jsonl").read_text().splitlines()
    (tmp_path / f"{NAME}.jsonl").write_text("\n".join([about, *reversed(rows)]) + "\n")
    assert list(read_result(CLAIMS[NAME], tmp_path).rows) == expected


def test_what_is_finished_is_not_measured_again_unless_asked(tmp_path, monkeypatch):
    reproduce(NAME, size="tiny", out=tmp_path)
    kill_after(monkeypatch, 0)
    reproduce(NAME, size="tiny", out=tmp_path)
    with pytest.raises(Killed):
        reproduce(NAME, size="tiny", out=tmp_path, again=True)


def test_a_measurement_leaves_the_random_numbers_of_others_alone(tmp_path):
    import torch

    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    reproduce(NAME, size="tiny", out=tmp_path)
    assert torch.equal(torch.rand(2), expected)


def test_another_size_needs_another_folder(tmp_path):
    reproduce(NAME, size="tiny", out=tmp_path)
    with pytest.raises(InvarianceError, match="holds a tiny result: choose another"):
        reproduce(NAME, size="quick", out=tmp_path)


def test_runs_are_kept_on_request(tmp_path, monkeypatch):
    claim = CLAIMS[NAME]
    few = {**claim.sizes, "tiny": claim.sizes["tiny"][:1]}

    def measure(cell):
        (cell.folder / "run").mkdir()
        return claim.measure(cell)

    changed = claim.__class__(**{**vars(claim), "measure": measure, "sizes": few})
    monkeypatch.setitem(CLAIMS, NAME, changed)
    reproduce(NAME, size="tiny", out=tmp_path / "out", keep_runs=tmp_path / "kept")
    assert len(list((tmp_path / "kept" / NAME).glob("*/run"))) == 1


def test_a_paper_is_all_its_claims(tmp_path, capsys):
    assert main(["reproduce", "--list", "--json", "--out", str(tmp_path)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["name"]: line["paper"] for line in lines} == {
        name: claim.paper for name, claim in CLAIMS.items()
    }
    assert set(PAPERS) >= {line["paper"] for line in lines}


def test_the_list_shows_verdicts_that_are_there(tmp_path, capsys):
    reproduce(NAME, size="tiny", out=tmp_path)
    assert main(["reproduce", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    outcome = read_result(CLAIMS[NAME], tmp_path).verdict.outcome
    assert f"[{outcome}]" in " ".join(out.split())


def test_the_command_prints_verdict_and_places(tmp_path, capsys):
    assert main(["reproduce", NAME, "--tiny", "--out", str(tmp_path), "--quiet"]) == 0
    out = capsys.readouterr().out
    assert f"{NAME}: " in out
    assert str(tmp_path / f"{NAME}.png") in out
    text = (tmp_path / f"{NAME}.md").read_text()
    assert "**Verdict:" in text
    assert f"invariance reproduce {NAME} --tiny" in text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["any_critc"], "Unknown claim 'any_critc'. Did you mean 'any_critic'?"),
        ([NAME, "--tiny", "--full"], "Choose one size: got --tiny and --full."),
        (["--pages", "pages"], "There are no results in 'reproduced'"),
    ],
)
def test_a_wrong_request_is_answered_in_a_sentence(
    words, sentence, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_without_matplotlib_verdict_and_table_are_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["reproduce", NAME, "--tiny", "--out", str(tmp_path), "--quiet"]) == 2
    assert "needs matplotlib" in capsys.readouterr().err
    assert "**Verdict:" in (tmp_path / f"{NAME}.md").read_text()


def test_a_file_that_is_no_result_is_named(tmp_path):
    (tmp_path / f"{NAME}.jsonl").write_text("hello\n")
    with pytest.raises(InvarianceError, match="is no result of 'invariance reproduce'"):
        reproduce(NAME, size="tiny", out=tmp_path)


def test_pages_have_a_table_of_verdicts_and_a_page_per_paper(tmp_path):
    results = tmp_path / "results"
    (result,) = reproduce(NAME, size="tiny", out=results)
    paths = write_pages(results, tmp_path)
    assert {path.name for path in paths} == {"index.md", "errata.md", "exposition.md"}
    index = (tmp_path / "index.md").read_text()
    assert f"[{NAME}](exposition.md#{NAME})" in index
    assert result.verdict.because in index
    assert "(results/any_critic.png)" in (tmp_path / "exposition.md").read_text()
    assert "Nothing was asked of g" in (tmp_path / "errata.md").read_text()


def test_pages_mark_verdicts_of_trainings_far_below_the_papers(tmp_path, monkeypatch):
    claim = CLAIMS[NAME]
    toy = claim.__class__(**{**vars(claim), "toy": ("tiny",)})
    monkeypatch.setitem(CLAIMS, NAME, toy)
    (result,) = reproduce(NAME, size="tiny", out=tmp_path / "results")
    write_pages(tmp_path / "results", tmp_path)
    outcome = result.verdict.outcome
    index = (tmp_path / "index.md").read_text()
    assert f"| **{outcome} (toy size)** |" in index
    assert "Marked *toy size*: 1 verdict from trainings far smaller" in index
    page = (tmp_path / "exposition.md").read_text()
    assert f"**Verdict: {outcome} (toy size).**" in page


def test_pages_of_a_half_finished_result_are_refused(tmp_path, monkeypatch):
    kill_after(monkeypatch, 2)
    with pytest.raises(Killed):
        reproduce(NAME, size="tiny", out=tmp_path / "results")
    with pytest.raises(InvarianceError, match="half finished"):
        write_pages(tmp_path / "results", tmp_path)


def test_pages_elsewhere_than_their_figures_are_refused(tmp_path):
    reproduce(NAME, size="tiny", out=tmp_path / "results")
    with pytest.raises(InvarianceError, match="must be inside that of the pages"):
        write_pages(tmp_path / "results", tmp_path / "pages")
