"""The sentence that a number deserves."""

import pytest
from tests.made_runs import EPOCHS, N_READINGS, gallery, reading, score, scores

from invariance.folder import judge, read_record, read_verdict, write_verdict


@pytest.fixture
def words(made):
    """What is found about a made-up run: (mood, word) pairs and all the text."""

    def find(**changes):
        found = judge(read_record(made(**changes)))
        text = " ".join(f"{f.text} {f.command}" for f in found)
        return [(f.mood, f.title) for f in found], text

    return find


def ending(**changes):
    """Metrics of a run whose last reading is another."""
    rows = [reading(k) for k in range(1, N_READINGS + 1)]
    return [*rows[:-1], rows[-1] | changes]


def shared(nats, **changes):
    """Metrics of a run whose last epoch has these nats on average, not at its end."""
    rows = [reading(k) for k in range(1, N_READINGS + 1)]
    last = N_READINGS // EPOCHS
    late = [row | changes | {"mi_nats": nats + 0.01} for row in rows[-last:]]
    late[-1]["mi_nats"] = nats - 0.01 * (last - 1)
    return [*rows[:-last], *late]


def test_it_learned(words):
    found, text = words()
    assert found == [("good", "It learned")]
    assert "rose by 30.0 points, from 30.0 % untrained to 60.0 %" in text


@pytest.mark.parametrize(
    ("trained", "word", "text"),
    [
        (0.34, "It may have learned", "within the margin"),
        (0.30, "It did not learn what the labels ask for", "probe stayed at 30.0 %."),
        (0.3001, "It did not learn what the labels ask for", "stayed at 30.0 %."),
        (0.2999, "It did not learn what the labels ask for", "stayed at 30.0 %."),
        (0.25, "It did not learn what the labels ask for", "fell by 5.0 points"),
    ],
)
def test_scores_that_prove_little(words, trained, word, text):
    found, said = words(evaluation=scores(trained=trained))
    assert found[0][1] == word and text in said


def test_a_test_part_that_was_right_before_proves_nothing(words):
    found, text = words(evaluation=scores(untrained=1.0, trained=1.0))
    assert found == [("unsure", "Not known")] and "before training" in text


def test_raw_pixels_ahead(words):
    found, text = words(evaluation=scores(pixels=0.7))
    assert found == [("good", "It learned"), ("unsure", "Raw pixels are ahead")]
    assert "kNN 70.0 % against 60.0 %, linear probe 70.0 % against 60.0 %" in text


@pytest.mark.parametrize(("best", "said"), [(0.62, False), (0.9, True)])
def test_a_best_epoch_that_is_clearly_ahead(words, best, said):
    found, text = words(evaluation=[*scores(), score("best epoch", best)])
    assert (("unsure", "An earlier epoch was better") in found) == said
    assert ("90.0 %, the last one 60.0 %" in text) == said


PAIRS = {"positives": "pairs"}
OWN_SCORES = {
    "zero_shot": (PAIRS, "accuracy", "to find partners", "Zero-shot accuracy rose by"),
    "pairs": (PAIRS, "image to caption recall@1", "to find partners", "by 60.0 points"),
    "rank_correlation": ({}, "spearman", "which pairs are alike", "by 0.60, from 0.10"),
    "steps_ahead": (
        {"positives": "future"},
        "nats",
        "to predict what comes next",
        "by 0.60 nats, from 0.10 nats untrained to 0.70 nats",
    ),
}


@pytest.mark.parametrize("protocol", OWN_SCORES)
def test_a_run_is_judged_by_what_its_method_is_about(words, protocol):
    """Whatever a probe of labels says, which is worse here than before."""
    env, metric, goal, text = OWN_SCORES[protocol]
    names = {"raw pixels": 0.05, "untrained encoder": 0.1, "trained encoder": 0.7}
    more = {"ahead": 1, "ceiling": 6.9} if protocol == "steps_ahead" else {}
    own = [
        score(name, value, protocol, metric=metric, settings=more)
        for name, value in names.items()
    ]
    rest = scores(pixels=0.9, untrained=0.8, trained=0.1)
    found, said = words(evaluation=[*rest, *own], env=env)
    assert found == [("good", f"It learned {goal}")] and text in said
    for row in own[2:]:
        row |= {"value": 0.02, "interval": [0.0, 0.04]}
    found, said = words(name="worse", evaluation=[*rest, *own], env=env)
    assert found[0] == ("bad", f"It did not learn {goal}") and "Train longer" in said
    assert found[1][1] == "Raw pixels are ahead" and "kNN" not in said


def test_steps_ahead_are_not_what_other_methods_are_about(words):
    names = {"untrained encoder": 0.0, "trained encoder": 0.9}
    own = [
        score(n, v, "steps_ahead", metric="nats", settings={"ahead": 1, "ceiling": 6.9})
        for n, v in names.items()
    ]
    found, text = words(evaluation=[*scores(), *own])
    assert found == [("good", "It learned")] and "linear probe" in text


@pytest.mark.parametrize(
    ("env", "goal"),
    [
        ({"positives": "future"}, "to predict what comes next"),
        ({"positives": "tokens"}, "to name hidden tokens"),
        (PAIRS, "to find partners"),
    ],
)
def test_readings_say_what_the_method_is_about(words, env, goal):
    found, _ = words(evaluation=[], gallery=gallery(labels=False), env=env)
    assert found == [("good", f"It learned {goal}")]


@pytest.mark.parametrize("sick", [{"spread": 0.02}, {"effective_rank": 1.1}])
def test_collapse_comes_first(words, sick):
    found, text = words(metrics=ending(**sick))
    assert found[0] == ("bad", "Collapsed") and "nearly the same" in text


def test_a_collapsed_run_has_learned_nothing(words):
    found, _ = words(metrics=ending(spread=0.02), evaluation=[])
    assert found == [("bad", "Collapsed")]


def test_the_first_epoch_is_too_early_for_collapse(words):
    found, _ = words(metrics=[reading(1, spread=0.01)], finished=False)
    assert ("bad", "Collapsed") not in found


def test_saturation(words):
    found, text = words(metrics=shared(4.1))
    assert found[-1] == ("unsure", "Saturated") and "log n = 4.16" in text
    assert "4.10 nats" in text


@pytest.mark.parametrize("stored", [{}, {"mi_reachable": 1.93}])
def test_saturation_is_judged_by_what_the_temperature_allows(words, stored):
    """64 candidates show log 64 = 4.16, but 1.93 at most at temperature 0.5."""
    near = {"temperature": 0.5, **stored}
    found, text = words(metrics=shared(1.8, **near))
    assert found[-1] == ("unsure", "Saturated")
    assert "1.80 nats" in text and "log n is 4.16" in text
    assert "1.93 at temperature 0.5" in text and "a lower temperature" in text
    found, _ = words(name="half", metrics=shared(1.4, **near))
    assert ("unsure", "Saturated") not in found


def test_divergence(words):
    found, _ = words(metrics=ending(loss=float("nan")))
    assert found[0] == ("bad", "Diverged")


def test_an_unfinished_run_says_how_to_go_on(words):
    metrics = [reading(k) for k in range(1, 8)]
    found, text = words(name="my run", metrics=metrics, evaluation=None, finished=False)
    assert found == [
        ("unsure", "Unfinished"),
        ("good", "It is learning to tell images apart"),
    ]
    assert "epoch 1.4 of 4." in text and "my run'" in text


def test_without_labels_the_readings_decide(words):
    found, text = words(evaluation=[], gallery=gallery(labels=False))
    assert found == [("good", "It learned to tell images apart")]
    assert "no labels" in text and "chance is 1.6 %" in text


def test_readings_that_stay_where_they_were(words):
    flat = [reading(k, mi_nats=0.05) for k in range(1, 21)]
    found, _ = words(evaluation=None, metrics=flat)
    assert found == [("bad", "It did not learn to tell images apart")]


def test_a_bound_that_rises_below_zero_proves_nothing(words):
    rising = [reading(k, mi_nats=-0.7 + k / 40) for k in range(1, 21)]
    found, _ = words(evaluation=None, metrics=rising)
    assert found == [("bad", "It did not learn to tell images apart")]


def test_nothing_to_go_by(words):
    found, _ = words(evaluation=None, metrics=None)
    assert found == [("unsure", "Not known yet")]


def test_what_is_stored_is_what_is_shown(made):
    folder = made()
    stored = write_verdict(folder)
    assert [f.title for f in stored] == ["It learned"]
    assert read_verdict(read_record(folder)) == stored
    path = folder / "verdict.json"
    path.write_text(path.read_text().replace("It learned", "As stored"))
    assert read_verdict(read_record(folder))[0].title == "As stored"


@pytest.mark.parametrize("text", ["", "[]", "{}", '[{"kind": 1}]', "[3]", '[{"mood'])
def test_a_broken_verdict_is_judged_anew(made, text):
    folder = made()
    (folder / "verdict.json").write_text(text)
    assert read_verdict(read_record(folder))[0].title == "It learned"
