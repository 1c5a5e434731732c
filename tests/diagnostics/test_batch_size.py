"""A batch size by cost and noise: its closed form, its limits, what is refused."""

import math

import pytest

from invariance.diagnostics import weigh_batch_sizes
from invariance.errors import SettingError


def line(fixed, each, sizes=(32, 64, 128)):
    return {b: fixed + each * b for b in sizes}


@pytest.mark.parametrize("noise", [50.0, 800.0, 12800.0])
def test_it_is_the_root_of_noise_times_fixed_cost_over_cost_per_sample(noise):
    proposal = weigh_batch_sizes(line(0.02, 1e-3), noise_batch=noise)
    assert proposal.fixed_seconds == pytest.approx(0.02)
    assert proposal.seconds_per_sample == pytest.approx(1e-3)
    best = math.sqrt(noise * 0.02 / 1e-3)
    assert proposal.batch_size == 2 ** round(math.log2(best))

    def time(b):
        return (1 + noise / b) * (0.02 + 1e-3 * b)

    # no power of two does much better, whatever was tried
    assert time(proposal.batch_size) <= 1.07 * min(time(2**k) for k in range(1, 16))


def test_more_noise_and_dearer_steps_ask_for_more():
    sizes = [
        weigh_batch_sizes(line(fixed, 1e-3), noise_batch=noise).batch_size
        for fixed, noise in ((0.0, 1e3), (0.01, 1e3), (0.1, 1e3), (0.1, 1e5))
    ]
    assert sizes == sorted(sizes) and sizes[0] == 2
    assert weigh_batch_sizes(line(1.0, 1e-3), noise_batch=1e6, most=96).batch_size == 64
    hopeless = weigh_batch_sizes(line(1.0, 1e-3), noise_batch=math.inf, most=300)
    assert hopeless.batch_size == 256


def test_the_error_of_a_partition_is_that_of_its_ess():
    proposal = weigh_batch_sizes(line(0.02, 1e-3), noise_batch=800.0, ess=0.2)
    error = math.sqrt((1 / 0.2 - 1) / (proposal.batch_size - 1))
    assert proposal.partition_error == pytest.approx(error)
    assert f"known to within {100 * error:.0f} %" in proposal.sentence


@pytest.mark.parametrize(
    ("seconds", "noise", "message"),
    [
        ({64: 0.1}, 100.0, "two batch sizes or more"),
        ({64: 0.1, 128: 0.0}, 100.0, "seconds above 0"),
        ({64: 0.1, 128: 0.2}, 0.0, "noise_batch is above 0: got 0.0"),
    ],
)
def test_what_is_refused(seconds, noise, message):
    with pytest.raises(SettingError, match=message):
        weigh_batch_sizes(seconds, noise_batch=noise)
