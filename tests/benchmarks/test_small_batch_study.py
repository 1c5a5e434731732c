"""The study: what comes next given the rows there are, and what the rows then say."""

import dataclasses
import json

import pytest

import cifar10
import invariance as inv
import small_batch
import small_batch_report as report
from intervals import Difference
from small_batch import SEEDS, Job, Study


def row_of(job, linear, *, knn=None, curve=(), **more):
    """A finished run with this accuracy."""
    scores = {"linear": linear, "knn": linear if knn is None else knn}
    row = {"job": job.values, "held_out": scores, "curve": list(curve), "parallel": 2}
    if job.stage in ("final", "try"):
        row["test"] = scores
    seconds = {"training": 20.0, "curve": 0.0, "preparing": 1.0, "evaluation": 4.0}
    return row | {"seconds": seconds, "ess": 0.3, "images_per_second": 9e3} | more


def final(objective, batch, seed, linear, **more):
    job = Job("final", objective, "fixed", batch, 0.2, 0.2, 100, seed)
    return row_of(job, linear, **more)


def test_tuning_comes_first_and_finals_wait_for_it():
    jobs = Study([]).left()
    assert {job.stage for job in jobs[:20]} == {"knob", "rate"}
    ready = [job for job in jobs if job.ready]
    assert {job.stage for job in ready} == {"knob"}
    assert all(job.seed not in SEEDS for job in ready)  # chosen with another seed
    assert jobs[0].batch_size == 256 and len(jobs) == len(set(jobs))


def test_every_objective_gets_the_same_number_of_tuning_runs():
    counts = {}
    for job in Study([]).left():
        if job.stage in ("knob", "rate"):
            cell = job.objective, job.control, job.batch_size
            counts[cell] = counts.get(cell, 0) + 1
    assert set(counts.values()) == {5}
    assert ("KCL", "ess", 32) not in counts and ("DHEL", "ess", 256) in counts


def test_the_best_held_out_run_is_chosen_and_used():
    study, rows = Study([]), []
    for knob, score in zip(
        study.knob_jobs("DHEL", "fixed", 32), (50, 60, 55), strict=True
    ):
        rows.append(row_of(knob, score))
    rates = Study(rows).rate_jobs("DHEL", "fixed", 32)
    assert all(job.ready and job.knob == 0.2 for job in rates)
    rows += [row_of(rates[0], 58), {"job": rates[1].values, "failed": "diverged"}]
    assert not Study(rows[:-1]).choose("DHEL", "fixed", 32)[1]  # one is still to come
    best, ready = Study(rows).choose("DHEL", "fixed", 64)  # 64 takes the choice of 32
    assert ready and (best.knob, best.lr) == (0.2, 0.2)
    finals = Study(rows).finals(["DHEL"], "fixed", (32, 256))
    assert [job.ready for job in finals[:2]] == [True, False]
    assert len(Study(rows).left()) == len(Study([]).left()) - 5


def test_runs_of_flat_nce_stand_for_those_of_dcl():
    """Their gradients are equal: the runs would be, too."""
    jobs = Study([]).left()
    assert {job.objective for job in jobs} == {*small_batch.OBJECTIVES} - {"DCL"}
    runs = [final("FlatNCE", 32, seed, 70.0 + seed) for seed in SEEDS]
    filled = small_batch.fill_in(runs)
    finals = report.Finals(filled)
    assert finals.scores("DCL", 32) == finals.scores("FlatNCE", 32)
    job = Job("final", "DCL", "fixed", 32, 0.2, 0.2, 100, 0)
    assert small_batch.find_row(runs, job) == runs[0]
    assert small_batch.fill_in(filled) == filled
    assert not list(report.compare_twins(runs))
    trained = [*runs, final("DCL", 32, 0, 70.0), final("DCL", 32, 1, 70.5)]
    (sentence,) = report.compare_twins(trained)
    assert "of 2 pairs of runs that differ in nothing else, 1 have equal" in sentence


def test_a_study_goes_on_from_its_lines(tmp_path):
    job = Study([]).left()[0]
    lines = tmp_path / "rows.jsonl"
    for row in ({"job": job.values, "failed": "the process died"}, row_of(job, 50)):
        small_batch.add_line(lines, row)
    rows = small_batch.read_rows(lines, tmp_path / "missing.jsonl")
    assert rows == [json.loads(json.dumps(row_of(job, 50)))]
    assert job not in Study(rows).left()


def test_knobs_that_were_not_chosen_can_be_tried_first():
    study, rows = Study([]), []
    for knob, score in zip(study.knob_jobs("KCL", "fixed", 32), (5, 6, 4), strict=True):
        rows.append(row_of(knob, score))
    rows += [row_of(job, 7) for job in Study(rows).rate_jobs("KCL", "fixed", 32)]
    asked = [small_batch.read_try(["KCL", "64", "4"])]
    tried = Study(rows, tries=asked, n_phases=1, seeds=(0, 1)).left()
    assert [(job.stage, job.knob, job.lr, job.seed) for job in tried] == [
        ("try", 4.0, 0.1, 0),  # at the rate that was chosen
        ("try", 4.0, 0.1, 1),
    ]
    for words in (["KCL", "33", "4"], ["KCL", "32", "0"], ["KCL", "32", "hot"]):
        with pytest.raises(inv.errors.SettingError, match=f"got KCL {words[1]}"):
            small_batch.read_try(words)
    with pytest.raises(inv.errors.InvarianceError, match="Did you mean 'NT-Xent'"):
        small_batch.read_try(["NTXent", "32", "0.2"])


def test_tries_are_compared_with_the_chosen_knob_and_decide_nothing():
    runs = make_runs(flat_32=80.0, info_256=80.2, info_32=78.0, dhel_32=81.0)
    job = Job("try", "InfoNCE", "fixed", 32, 0.5, 0.2, 100, 0)
    more = [row_of(dataclasses.replace(job, seed=s), 90.0 + s / 10) for s in range(4)]
    assert words_of([*runs, *more]) == words_of(runs)
    assert report.make_table([*runs, *more]) == report.make_table(runs)
    line = report.make_tries([*runs, *more]).splitlines()[-1]
    assert "| InfoNCE | 32 | tau 0.5, rate 0.2 | 4 | 90.15 ± 0.13 | +12.05 [" in line
    assert not report.make_tries(runs)


def test_a_job_whose_process_died_is_still_to_be_done(tmp_path):
    job, other = Study([]).left()[:2]
    lines = tmp_path / "rows.jsonl"
    small_batch.add_line(lines, {"job": job.values, "failed": small_batch.DIED})
    small_batch.add_line(lines, {"job": other.values, "failed": "it diverged"})
    left = Study(small_batch.read_rows(lines)).left()
    assert job in left and other not in left
    died = {"job": job.values, "failed": small_batch.DIED}
    study = Study([died])  # in the same call it is not tried again, nor counted as bad
    assert job not in study.left() and study.score(job) is None


def test_a_worker_that_died_is_waited_for():
    class Dead:
        waited = False

        def recv(self):
            raise EOFError

        def join(self, seconds):
            self.waited = True

    worker = object.__new__(small_batch.Worker)
    worker.pipe = worker.process = Dead()
    worker.job = Study([]).left()[0]
    assert worker.finish()["failed"] == small_batch.DIED and worker.process.waited


def test_a_job_is_started_only_if_it_should_be_done_in_time(monkeypatch):
    monkeypatch.setattr(small_batch.time, "monotonic", lambda: 0.0)
    long = Job("final", "DCL", "fixed", 32, 0.2, 0.2, 100, 0)
    short = dataclasses.replace(long, epochs=10)
    rows = [row_of(short, 50)]  # 2 s per epoch and 5 s besides, two at a time
    assert small_batch.estimate(long, rows, 2) == (205.0, 102.5)
    expected = small_batch.estimate(long, [], 1)[0]
    assert expected == pytest.approx(100 * 4 * 0.9 + 12)
    assert small_batch.next_job([long, short], rows, 2, 204.0) == short
    assert small_batch.next_job([long, short], rows, 2, 206.0) == long
    assert small_batch.next_job([long], rows, 2, 204.0) is None


@pytest.mark.parametrize(
    "job", [job for job in Study([]).left() if job.seed != 1][::25]
)
def test_every_job_is_a_valid_setting(job):
    settings = cifar10.read_flags(job.flags())
    assert isinstance(settings, inv.Train)
    assert settings.batch_size == job.batch_size and settings.encoder == "resnet18"
    assert (settings.ess.target is None) == (job.control == "fixed")


def test_a_job_is_trained_and_only_finals_see_the_test_set(folder):
    parts = cifar10.load_parts(folder, test=True)
    words = ["--encoder", "tiny", "--hidden", "16"]
    job = Job("knob", "KCL", "fixed", 32, 4.0, 0.1, 1, 0)
    row = small_batch.do_job(job, parts, words)
    assert "test" not in row and row["held_out"]["n"] == 8
    assert row["settings"]["options.gamma"] == 4.0
    job = Job("final", "FlatNCE", "ess", 32, 0.3, 0.1, 1, 0)
    row = small_batch.do_job(job, parts, words)
    assert row["test"]["n"] == 20 and row["ess"] > 0 and len(row["curve"]) == 1
    row = small_batch.do_job(dataclasses.replace(job, stage="try"), parts, words)
    assert row["test"]["n"] == 20
    row = small_batch.do_job(dataclasses.replace(job, batch_size=500), parts, words)
    assert "fewer than one step of 500" in row["failed"]


def words_of(rows):
    return [verdict.word for verdict in report.judge(rows)]


def make_runs(flat_32, info_256, info_32, dhel_32):
    """Three seeds of each, a tenth of a point apart."""
    cells = {
        ("FlatNCE", 32): flat_32,
        ("InfoNCE", 256): info_256,
        ("InfoNCE", 32): info_32,
        ("NT-Xent", 32): info_32,
        ("DCL", 32): flat_32,
        ("DHEL", 32): dhel_32,
    }
    wiggle = {0: 0.0, 1: 0.1, 2: 0.05}
    return [
        final(name, batch, seed, mean + more + 0.01 * seed * (batch == 256))
        for (name, batch), mean in cells.items()
        for seed, more in wiggle.items()
    ]


def test_verdicts_follow_the_rows():
    assert words_of([]) == ["not decided"] * 4
    runs = make_runs(flat_32=80.0, info_256=80.2, info_32=78.0, dhel_32=81.0)
    assert words_of(runs)[:2] == ["holds", "holds"]
    runs = make_runs(flat_32=80.0, info_256=82.0, info_32=78.0, dhel_32=79.0)
    assert words_of(runs)[:2] == ["does not hold", "does not hold"]
    # nothing is gained where InfoNCE loses nothing either
    runs = make_runs(flat_32=80.0, info_256=80.2, info_32=80.5, dhel_32=81.0)
    assert words_of(runs)[0] == "does not hold"
    one_seed = [run for run in runs if run["job"]["seed"] == 0]
    assert words_of(one_seed)[:2] == ["not decided", "not decided"]


def test_the_verdict_on_moderate_ess():
    def sweep(scores):
        return [
            row_of(Job("sweep", "FlatNCE", "ess", 256, t, 0.2, 30, seed), score + more)
            for t, score in scores.items()
            for seed, more in enumerate((0.0, 0.1, 0.2))
        ]

    top = sweep({0.05: 70.0, 0.15: 72.0, 0.3: 74.0, 0.5: 73.0, 0.8: 65.0})
    assert words_of(top)[2] == "holds"
    rising = sweep({0.05: 70.0, 0.15: 72.0, 0.3: 74.0, 0.5: 75.0, 0.8: 76.0})
    assert words_of(rising)[2] == "does not hold"


def make_curves(true, batch, cells=6, seeds=2):
    """Runs of that many lines of the table, with readings by point, line and seed."""
    names = [(name, size) for size in (32, 256) for name in ("InfoNCE", "DHEL", "KCL")]
    return [
        final(
            name,
            size,
            seed,
            70.0,
            curve=[
                {
                    "knn": 50.0 + 5 * t + line + 0.1 * seed,
                    "sharp_nats": true(t, line),
                    "pool_nats": true(t, line),
                    "batch_nats": batch(t, line),
                }
                for t in range(5)
            ],
        )
        for line, (name, size) in enumerate(names[:cells])
        for seed in range(seeds)
    ]


def rises(t, line):
    return 1.0 + t + 0.2 * line


def wavers(t, line):
    return 3.0 + (-1) ** (t + line)


def test_the_verdict_on_information():
    assert words_of(make_curves(rises, wavers))[3] == "holds"
    assert words_of(make_curves(rises, rises))[3] == "does not hold"
    few = report.judge_information(make_curves(rises, rises, cells=5, seeds=9))
    assert few.word == "not decided" and "no interval" in few.because[0]


def test_a_link_that_is_not_evident_may_still_be_there():
    assert report.is_no_link(Difference(0.5, 0.1, 0.8)) == report.FAILS
    assert report.is_no_link(Difference(0.0, -0.2, 0.2)) == report.HOLDS
    assert report.is_no_link(Difference(0.4, -0.1, 0.8)) == report.OPEN


def test_more_seeds_of_one_line_do_not_narrow_a_correlation():
    def interval(seeds):
        runs = make_curves(rises, lambda t, line: rises(t, 5 * line), seeds=seeds)
        groups = [
            [run["curve"] for run in same] for _, _, _, same in report.cells(runs)
        ]
        return report.draw_correlations(groups, "batch_nats")

    one, many = interval(1), interval(8)
    assert many.high - many.low == pytest.approx(one.high - one.low, rel=0.1)


def test_words_at_the_bounds_themselves():
    equal = Difference(0.0, 0.0, 0.0)  # runs that are the same to the last digit
    assert report.is_better(equal) == report.FAILS
    assert report.is_better(Difference(0.1, 0.0, 0.2)) == report.OPEN
    assert report.is_better(Difference(-0.1, -0.2, 0.0)) == report.FAILS
    assert report.is_no_worse(Difference(0.0, -0.5, 0.5)) == report.HOLDS
    assert report.is_no_worse(Difference(-0.6, -0.7, -0.5)) == report.OPEN
    assert report.is_no_worse(Difference(-0.7, -0.8, -0.6)) == report.FAILS


def test_a_cell_has_one_setting_and_each_seed_once():
    """A choice that changed between two calls leaves runs of another setting."""
    old = [final("DHEL", 32, seed, 60.0) for seed in (0, 1)]
    chosen = Job("final", "DHEL", "fixed", 32, 0.1, 0.2, 100, 0)
    new = [row_of(dataclasses.replace(chosen, seed=s), 70.0 + s) for s in (0, 1, 2)]
    short = row_of(dataclasses.replace(chosen, epochs=10, seed=9), 50.0)
    for rows in ([*old, *new, short], [*new, short, *old]):
        finals = report.Finals(rows)
        assert finals.scores("DHEL", 32) == {0: 70.0, 1: 71.0, 2: 72.0}
        assert "| 71.00 ± 1.00 | 3, 100 |" in report.make_table(rows)
    assert report.Finals([*old, *new[:2]]).scores("DHEL", 32) == {0: 70.0, 1: 71.0}


def test_seeds_are_counted_as_they_are_compared():
    flat = [final("FlatNCE", 32, seed, 70.0 + seed) for seed in (0, 1, 2)]
    info = [final("InfoNCE", 32, seed, 70.0 - seed) for seed in (1, 2, 3, 4)]
    wide = [final("InfoNCE", 256, seed, 70.0 - seed) for seed in (0, 1)]
    finals = report.Finals([*flat, *info, *wide])
    assert finals.shared_seeds(("FlatNCE", 32), ("InfoNCE", 32)) == [1, 2]
    assert finals.compare(("FlatNCE", 32), ("InfoNCE", 32)).mean == 3.0
    because = report.judge_efficiency(finals).because
    assert "(3 and 2 seeds)" in because[0] and "(2 seeds)" in because[1]


def test_rows_of_another_network_are_not_taken_up():
    rows = [{"settings": {"encoder": "resnet18"}, "n_train": 45_000}, {"failed": "so"}]
    small_batch.refuse_other_runs(rows, "resnet18", 45_000)
    with pytest.raises(inv.errors.SettingError, match="resnet18 on 45,000 images"):
        small_batch.refuse_other_runs(rows, "tiny", 45_000)


def test_a_call_that_starts_nothing_says_why(monkeypatch, capsys):
    monkeypatch.setattr(small_batch.time, "monotonic", lambda: 0.0)
    job = Job("final", "DCL", "fixed", 32, 0.2, 0.2, 100, 0)
    small_batch.tell_what_is_left([job], [], 1, 100.0)
    assert "100 s left" in (told := capsys.readouterr().out) and "372 s" in told
    small_batch.tell_what_is_left([], [], 1, 100.0)
    assert not capsys.readouterr().out


def test_the_report_is_written_from_the_lines(tmp_path, capsys):
    curve = [
        {
            "epoch": e,
            "knn": 60.0 + e,
            "sharp_nats": 4.0 + e / 9,
            "pool_nats": 4.0,
            "batch_nats": 3.0,
        }
        for e in (1, 2)
    ]
    lines = tmp_path / "rows.jsonl"
    where = {"settings": {"encoder": "tiny"}, "n_train": 9000, "device": "cpu"}
    where |= {"versions": {"torch": "2.9"}, "date": "2026-11-18 17:00 UTC"}
    for run in make_runs(80.0, 80.2, 78.0, 81.0):
        small_batch.add_line(lines, run | {"curve": curve} | where)
    assert report.main(["--lines", str(lines)]) == 0
    text = (tmp_path / "rows.md").read_text()
    assert "| FlatNCE | 32 | 80.05 ± 0.05 | 80.05 ± 0.05 | 3, 100 |" in text
    assert text.startswith("# The small-batch study\n\ntiny, 9,000 CIFAR-10 images to")
    assert "cpu, torch 2.9, 2026-11-18.\n\n- **FlatNCE at batch 32 matches" in text
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert pictures == {"rows.png", "rows_information.png"}
    assert "## Short runs" not in text


def test_short_runs_are_compared_in_equal_settings(tmp_path, capsys):
    lines = tmp_path / "rows.jsonl"
    for name, scores in {"InfoNCE": (60, 62, 61), "FlatNCE": (62, 63.5, 62.5)}.items():
        jobs = Study([]).knob_jobs(name, "fixed", 32)
        for job, score in zip(jobs, scores, strict=True):
            run = row_of(job, score) | {"settings": {"encoder": "tiny"}, "n_train": 9}
            run |= {"versions": {"torch": "2.9"}, "date": "2026-11-18", "device": "cpu"}
            small_batch.add_line(lines, run)
    note = "On a busy machine."
    assert report.main(["--lines", str(lines), "--note", note]) == 0
    text = (tmp_path / "rows.md").read_text()
    assert "batch 32, in the 3 settings that both were tried with: +1.67 [" in text
    assert "| FlatNCE | 32 | tau 0.2, rate 0.2: 63.5 % | 0.1, 0.2: 62.0; " in text
    assert f"2026-11-18.\n\n{note}\n" in text and "| linear, % |" not in text
    assert not list(tmp_path.glob("*.png"))  # nothing final to draw
