"""Every option of every method: it is described, it does something, or it is refused.

The walk goes over what the methods say they accept, so that a new setting of an
objective or a source is tried as soon as it is there.
"""

import copy
from itertools import starmap

import pytest
import torch
from tests.image_methods import IMAGE_METHODS

from invariance.encoders import build_encoder
from invariance.errors import SettingError
from invariance.methods import build, customize, options_of, recipe_options
from invariance.views import KINDS_OF, RECIPES, ViewSet

IMAGE_RECIPES = [name for name in RECIPES if name not in KINDS_OF]

N_SAMPLES = 40
SMALL = {  # memories that fit a data set of 40 and a batch of 8
    "n_prototypes": 6,
    "size": 20,
    "n_draws": 10,
    "n_clusters": 4,
    "n_proposals": 16,
}
# What a range says, as values inside and outside of it. A range in a docstring is one
# of these, or a list of words.
RANGES = {
    "above 0": ([0.3, 2.7], [0, -1]),
    "above 0, or learned": ([0.3, 2.7, "learned"], [0, -1, "warm"]),
    "0 or more": ([2, 1], [-1]),
    "1 or more": ([5, 4], [0, -1]),
    "2 or more": ([5, 3], [1, -1]),
    "0 to 1": ([0.4, 0.75], [-0.5, 1.5]),
    "0 to below 1": ([0.4, 0.75], [-0.5, 1]),
    "above 0 to 1": ([0.4, 0.75], [0, 1.5]),
    "-1 or less": ([-1, -3], [0, 1]),
    "-1 to 1": ([0.1, -0.2], [-1.5, 1.5]),
    "0.05 to 1": ([0.4, 0.75], [0, 1.5]),
    "0 to 2.5": ([0.4, 2], [-1, 3]),
    "any number": ([2.7, -1.5], ["x"]),
    "not 0": ([2.5, -0.5], [0]),
    "true or false": ([True, False], [2, "maybe"]),
}
TRIALS = {  # values that make a difference for so few samples and steps
    "size": [12, 30],
    "k": [9, 30],
    "inner": [1],
    "inner_share": [0.05],
    "outer": [9, 30],
    "outer_start": [20],
    "warmup": [0.0, 0.5, 0.75],
}
# Options that mean something only beside others
BESIDE = {("kcl", "s"): {"kernel": "riesz"}}
# What a learned temperature is told is tried in test_learned_temperature
EVERY = [
    (name, option)
    for name in IMAGE_METHODS
    for option in options_of(name).values()
    if option.part != "temperature"
]
IDS = [f"{name}-{option.name}" for name, option in EVERY]


def values_of(option):
    """Values inside and outside of an option's range."""
    plain = option.range.removesuffix(", or none")
    inside, outside = RANGES.get(plain) or (plain.split(", "), ["nonsense"])
    inside = TRIALS.get(option.name, inside)
    if option.range != plain:
        inside = [*inside, None]
    return [value for value in inside if value != option.default], outside


def make(name, **options):
    torch.manual_seed(0)
    encoder = build_encoder("tiny", image_size=16)
    accepted = options_of(name)
    small = {k: v for k, v in SMALL.items() if k in accepted} | options
    method = customize(name, hidden=32, width=16)
    return build(method, encoder, n_samples=N_SAMPLES, **small)


def learn(learner, n_views):
    """Loss and state of each of four steps over the data, one step at a time."""
    generator = torch.Generator().manual_seed(1)
    parameters = [p for p in learner.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    for done in range(4):
        learner.before_epoch(done / 4)
        images = torch.rand(8, 3, 16, 16, generator=generator)
        noise = torch.rand(n_views, 8, 3, 16, 16, generator=generator)
        ids = (torch.arange(8) + 8 * done) % N_SAMPLES
        step = learner(list((images + 0.2 * noise) / 1.2), torch.arange(8) % 3, ids)
        optimizer.zero_grad()
        step.loss.backward()
        optimizer.step()
        learner.after_step((done + 1) / 4)
        yield [step.loss.detach(), *copy.deepcopy(learner.state_dict()).values()]


def differ(one, other):
    return len(one) != len(other) or any(
        not torch.equal(a, b) for a, b in zip(one, other, strict=True)
    )


def a_step_differs(one, other):
    """Of two runs; the steps after the first that does are not taken."""
    return any(starmap(differ, zip(one, other, strict=True)))


@pytest.fixture(scope="module")
def usual():
    """What a method learns with its defaults, once per method and its company."""
    known = {}

    def look(name, beside):
        key = name, *beside
        if key not in known:
            known[key] = [*learn(make(name, **beside), IMAGE_METHODS[name].n_views)]
        return known[key]

    return look


@pytest.mark.parametrize("name, option", EVERY, ids=IDS)
def test_it_changes_the_loss_or_the_state(name, option, usual):
    beside = BESIDE.get((name, option.name), {})
    inside, _ = values_of(option)
    assert inside
    small = SMALL.get(option.name)
    for value in inside:
        if value != small:
            learner = make(name, **beside | {option.name: value})
            changed = learn(learner, IMAGE_METHODS[name].n_views)
            assert a_step_differs(changed, usual(name, beside)), (option, value)


@pytest.mark.parametrize("name, option", EVERY, ids=IDS)
def test_it_is_described_and_kept_within_its_range(name, option):
    assert option.meaning and option.range
    _, outside = values_of(option)
    for value in outside:
        with pytest.raises(SettingError, match="Accepted options:\n") as raised:
            make(name, **{option.name: value})
        assert f"\n  {option.name} " in str(raised.value)
        assert option.meaning in str(raised.value)


@pytest.mark.parametrize("name", IMAGE_METHODS)
def test_what_is_learned_with_defaults_repeats(name, usual):
    """Or the walk would find differences that no option made."""
    again = learn(make(name), IMAGE_METHODS[name].n_views)
    assert not a_step_differs(again, usual(name, {}))


@pytest.mark.parametrize("name", IMAGE_METHODS)
def test_no_name_means_two_things(name):
    for recipe in RECIPES:
        assert not set(options_of(name)) & set(recipe_options(recipe))
        both = {**options_of(name), **recipe_options(recipe)}
        assert options_of(name, recipe) == both


@pytest.mark.parametrize(
    "recipe, option",
    [(recipe, option) for recipe in IMAGE_RECIPES for option in recipe_options(recipe)],
)
def test_an_option_of_the_views_changes_them(recipe, option):
    option = recipe_options(recipe)[option]
    assert option.meaning
    inside, outside = values_of(option)
    images = torch.rand(32, 3, 72, 72, generator=torch.Generator().manual_seed(0))
    keys = {"samples": torch.arange(32), "seed": 0, "epoch": 0}

    def look(**options):
        return ViewSet(RECIPES[recipe](72, **options))(images, **keys)

    plain = look()
    for value in inside:
        assert differ(look(**{option.name: option.read(value)}), plain)
    for value in outside:
        with pytest.raises(SettingError):
            look(**{option.name: option.read(value)})


@pytest.mark.parametrize(
    "options, message",
    [
        ({"s": 2.0}, r"s has no effect in KCL\(kernel='gaussian'"),
        ({"kernel": "log", "s": 2.0}, r"s has no effect in KCL\(kernel='log'"),
        ({"kernel": "riesz", "t": 2.0}, r"t has no effect in KCL\(kernel='riesz'"),
    ],
)
def test_what_a_kernel_has_not_is_refused(options, message):
    with pytest.raises(SettingError, match=message):
        make("kcl", **options)


@pytest.mark.parametrize(
    "name, idle", [("moco", ()), ("ir", ("symmetric",)), ("byol", ("symmetric",))]
)
def test_symmetry_is_the_learner_s_where_a_twin_answers(name, idle):
    accepted = options_of(name)
    assert not set(idle) & set(accepted)
    if not idle:
        assert accepted["symmetric"].part == "learner"


@pytest.mark.parametrize(
    "given, read",
    [(True, True), (0, False), (1.0, True), ("true", True), ("no", False)],
)
def test_truth_values_as_people_write_them(given, read):
    assert make("moco", symmetric=given).symmetric is read


def test_numbers_and_words_that_are_no_value_of_an_option():
    options = options_of("pcl")
    assert options["n_clusters"].read("none") is None
    assert options["temperature"].read("learned") == "learned"
    wrong = [("size", True), ("size", None), ("size", float("inf")), ("size", 1.5)]
    for name, value in [*wrong, ("momentum", "much")]:
        with pytest.raises(SettingError, match=f"{name} is .*: got "):
            options[name].read(value)
