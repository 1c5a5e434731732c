"""The names that people use most have an example in their help that runs."""

import doctest

import pytest

import invariance as inv

OBJECTIVES = {objective.function for objective in inv.OBJECTIVES.values()}
SOURCES = {*inv.NEGATIVES.values(), inv.Prototypes}
RUNS = (inv.train, inv.load, inv.evaluate, inv.embed, inv.search)
FILES = (inv.export, inv.write_embeddings, inv.read_embeddings, inv.merge_embeddings)
PARTS = (
    inv.build,
    inv.estimate_mi,
    inv.explain,
    inv.gather_rows,
    inv.log_partition,
    inv.GradCache,
    inv.views.transform,
    inv.encoders.build_encoder,
    inv.data.load,
)
READINGS = (
    inv.alignment,
    inv.effective_rank,
    inv.effective_sample_size,
    inv.mutual_information_bound,
    inv.tolerance,
    inv.uniformity,
    inv.wasserstein_to_uniform,
)
NAMES = {*OBJECTIVES, *SOURCES, *RUNS, *FILES, *PARTS, *READINGS}


@pytest.mark.parametrize("thing", sorted(NAMES, key=lambda thing: thing.__name__))
def test_its_help_has_an_example(thing):
    examples = doctest.DocTestParser().get_examples(thing.__doc__ or "")
    assert any(example.want for example in examples)
    skipped = doctest.SKIP
    assert not any(skipped in example.options for example in examples)
