"""``invariance report``, and the report at the end of training."""

from invariance.cli import main
from invariance.training import Train, train


def test_the_command_says_where_each_report_is(made, capsys):
    folders = [made(name=name) for name in ("a", "b")]
    assert main(["report", *map(str, folders)]) == 0
    *told, last = capsys.readouterr().out.splitlines()
    assert told == [f"report: {folder / 'report.html'}" for folder in folders]
    assert last == f"comparison: {folders[0].parent / 'a-vs-b.html'}"
    assert (folders[0].parent / "a-vs-b.html").is_file()
    assert "<mark>" in (folders[0] / "report.html").read_text()


def test_the_comparison_goes_where_it_is_asked_to(made, capsys, tmp_path):
    folders = [str(made(name=name)) for name in ("a", "b")]
    place = tmp_path / "both.html"
    assert main(["report", *folders, "--out", str(place)]) == 0
    assert f"comparison: {place}" in capsys.readouterr().out and place.is_file()
    assert main(["report", folders[0], "--out", str(place)]) == 2
    assert "--out is for the comparison" in capsys.readouterr().err


def test_the_same_run_twice_is_one(made, capsys):
    folder = str(made())
    assert main(["report", folder, folder]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_what_is_no_run_is_said_in_words(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "There is no run in" in capsys.readouterr().err
    assert main(["report"]) == 2
    assert "Name a run folder" in capsys.readouterr().err


def test_whatever_else_lies_among_the_runs_is_passed_over(made, capsys, tmp_path):
    for name in ("a", "b"):
        made(name=name)
    (tmp_path / "notes").mkdir()
    for _ in range(2):  # the second time, the first page of both lies there as well
        assert main(["report", *map(str, sorted(tmp_path.iterdir()))]) == 0
    said = capsys.readouterr()
    assert said.out.count("comparison: ") == 2
    assert f"left out: {tmp_path / 'a-vs-b.html'} is not a run." in said.err


def test_a_mistake_is_said_before_anything_is_written(made, capsys):
    good = made(name="good")
    later = made(name="later", env={"format": 99, "invariance": "7.0"})
    for wrong, message in ((later, "update invariance"), ("gone", "no folder 'gone'")):
        assert main(["report", str(good), str(wrong)]) == 2
        assert message in capsys.readouterr().err
    assert not (good / "report.html").exists()


def test_training_ends_with_a_report(tmp_path, capsys):
    run = train(
        Train(
            limit=32,
            batch_size=16,
            epochs=1,
            evaluate=False,
            hidden=16,
            width=8,
            quiet=True,
            out=str(tmp_path),
        )
    )
    text = (run.folder / "report.html").read_text()
    assert f"report:     {run.folder / 'report.html'}" in capsys.readouterr().out
    assert "Unfinished" not in text and "evaluation was switched off" in text
