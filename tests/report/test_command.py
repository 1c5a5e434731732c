"""``invariance report``, and the report at the end of training."""

from invariance.cli import main
from invariance.training import Train, train


def test_the_command_says_where_each_report_is(made, capsys):
    folders = [made(name=name) for name in ("a", "b")]
    assert main(["report", *map(str, folders)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told == [f"report: {folder / 'report.html'}" for folder in folders]
    assert "<mark>" in (folders[0] / "report.html").read_text()


def test_what_is_no_run_is_said_in_words(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "There is no run in" in capsys.readouterr().err
    assert main(["report"]) == 2
    assert "Name a run folder" in capsys.readouterr().err


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
