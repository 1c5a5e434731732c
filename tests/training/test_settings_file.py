"""Settings to YAML and back; every mistake is named."""

import math

import pytest

from invariance.errors import SettingError
from invariance.folder import (
    differing_settings,
    read_yaml,
    settings_from,
    to_dict,
    to_yaml,
)
from invariance.training import Attack, Ess, Machine, Optim, Train, peak_rate, rate_at

CHANGED = Train(
    data="my photos/ünïcode",
    method="dcl",
    temperature=1e-05,
    options={"weight_sigma": 0.5},
    head="mlp3",
    views_drop=("blur", "gray"),
    views_strength={"crop": 0.5},
    views_adversarial="added",
    attack=Attack(epsilon=0.1, norm="l2"),
    limit=12,
    optim=Optim(name="lars", lr=0.1, accumulate=4),
    ess=Ess(target=0.3, end=0.2),
    machine=Machine(device="cpu", precision="32"),
)


def test_a_whole_number_among_options_stays_one(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(Train(options={"k": 1, "outer": 1.0, "size": 64})))
    kinds = {name: type(v) for name, v in read_yaml(Train, path).options.items()}
    assert kinds == {"k": int, "outer": float, "size": int}


def test_options_are_numbers_words_and_truth_values(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("options: {kernel: log, symmetric: true, t: 1e-1, weight_sigma: }")
    options = {"kernel": "log", "symmetric": True, "t": 0.1, "weight_sigma": None}
    assert read_yaml(Train, path).options == options
    path.write_text(to_yaml(Train(options=options)))
    assert read_yaml(Train, path).options == options
    flags = {"symmetric": "true", "learnable": "false", "size": "64"}
    read = settings_from(Train, {"options": flags}).options
    assert read == {"symmetric": True, "learnable": False, "size": 64}


@pytest.mark.parametrize("settings", [Train(), CHANGED], ids=["defaults", "changed"])
def test_round_trip(settings, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(settings), encoding="utf-8")
    assert read_yaml(Train, path) == settings
    assert settings_from(Train, to_dict(settings)) == settings


@pytest.mark.parametrize(
    "text, value",
    [
        ("optim: {lr: 1e-3}", 0.001),  # a word to YAML, a number to everybody else
        ("optim: {lr: 1}", 1.0),
        ("optim: {lr: null}", None),
    ],
)
def test_numbers_as_people_write_them(text, value, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert read_yaml(Train, path).optim.lr == value


def test_a_precision_may_be_written_as_a_number():
    assert (
        settings_from(Train, {"machine": {"precision": 32}}).machine.precision == "32"
    )


MISTAKES = {
    "unknown": (
        {"epoch": 3},
        "Unknown setting 'epoch' in here. Did you mean 'epochs'?",
    ),
    "unknown inside": (
        {"optim": {"warm_up": 1}},
        "Unknown setting 'warm_up' in here.optim. Did you mean 'warmup'?",
    ),
    "text for a number": ({"epochs": "many"}, "here.epochs must be int: got 'many'."),
    "part of an epoch": ({"epochs": 2.5}, "here.epochs must be int: got 2.5."),
    "yes for a number": ({"epochs": True}, "here.epochs must be int: got True."),
    "word for a float": (
        {"optim": {"lr": "fast"}},
        "here.optim.lr must be float: got 'fast'.",
    ),
    "yes for a float": (
        {"temperature": True},
        "here.temperature must be float: got True.",
    ),
    "number for a name": ({"method": 3}, "here.method must be str: got 3."),
    "none where needed": ({"epochs": None}, "here.epochs must be int: got None."),
    "not a choice": (
        {"optim": {"name": "adam"}},
        "here.optim.name: Unknown value 'adam'. Did you mean 'adamw'?",
    ),
    "choice or none": ({"head": "mlp4"}, "here.head: Unknown value 'mlp4'."),
    "no group": ({"optim": 3}, "here.optim must be names with values: got 3."),
    "no options": (
        {"options": [1]},
        "here.options must be names with values: got [1].",
    ),
    "list as an option": (
        {"options": {"prior": [1]}},
        "here.options.prior must be a number, a word, or true or false: got [1].",
    ),
    "word as a strength": (
        {"views_strength": {"crop": "half"}},
        "here.views_strength.crop must be float: got 'half'.",
    ),
}


@pytest.mark.parametrize("values, message", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named(values, message):
    with pytest.raises(SettingError) as error:
        settings_from(Train, values, "here")
    assert message in str(error.value)


def test_files_that_are_no_settings(tmp_path):
    with pytest.raises(SettingError, match="There is no settings file"):
        read_yaml(Train, tmp_path / "none.yaml")
    with pytest.raises(SettingError, match="cannot be read"):
        read_yaml(Train, tmp_path)
    path = tmp_path / "broken.yaml"
    path.write_text("epochs: [")
    with pytest.raises(SettingError, match="not readable as YAML") as raised:
        read_yaml(Train, path)
    assert "\n" not in str(raised.value)
    path.write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(SettingError, match="not readable as YAML"):
        read_yaml(Train, path)
    path.write_text("- epochs\n")
    with pytest.raises(SettingError, match="must be names with values"):
        read_yaml(Train, path)
    path.write_text("")
    assert read_yaml(Train, path) == Train()


def test_differences_have_dotted_names():
    found = differing_settings(Train(epochs=3, optim=Optim(lr=0.1)), Train())
    assert found == {"epochs": (3, 20), "optim.lr": (0.1, None)}


def test_the_rate_rises_then_follows_a_cosine():
    n, peak = 100, 0.7
    for step in range(n):
        if step < 20:
            expected = peak * (step + 1) / 20
        else:
            expected = peak * math.cos(math.pi / 2 * (step - 20) / 80) ** 2
        assert rate_at(step, n, peak, 0.2) == pytest.approx(expected)
    assert rate_at(0, 10, peak, 0.0) == peak
    assert max(rate_at(s, 10, peak, 0.3) for s in range(10)) == peak


@pytest.mark.parametrize(
    "scaling, factor", [("linear", 4.0), ("sqrt", 2.0), ("none", 1.0)]
)
def test_the_peak_grows_with_the_samples_of_a_step(scaling, factor):
    optim = Optim(lr=0.1, lr_scaling=scaling)
    assert peak_rate(optim, 1024) == pytest.approx(0.1 * factor)


def test_a_temperature_may_be_a_number_or_learned(tmp_path):
    path = tmp_path / "config.yaml"
    for temperature in (0.3, "learned", None):
        path.write_text(to_yaml(Train(temperature=temperature)))
        assert read_yaml(Train, path).temperature == temperature
    path.write_text("temperature: warm")
    with pytest.raises(SettingError, match="temperature must be float: got 'warm'"):
        read_yaml(Train, path)
