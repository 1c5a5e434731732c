"""Which path a call really takes: recorded at the backends' own doors."""

from contextlib import contextmanager

import pytest
import torch

# private: what is asked is which of the files behind the public names is reached
from invariance.partition import _dense, _tiled
from invariance.partition._plan import why_not_fused


@contextmanager
def recorded_paths():
    """A list of (operation, backend, whether scores are kept) that fills by itself."""
    paths = []
    doors = {
        (_dense, "log_partitions"): ("log_partition", "dense"),
        (_dense, "row_sums"): ("row_sums", "dense"),
        (_tiled, "log_partitions"): ("log_partition", "blockwise"),
        (_tiled, "row_sums"): ("row_sums", "blockwise"),
    }
    if fused_can_run():
        from invariance.partition import triton

        for name, operation in {
            "log_partitions": "log_partition",
            "row_sums": "row_sums",
            "pair_loss": "pair_loss",
            "class_pull": "class_pull",
            "unit_rows": "unit_rows",
        }.items():
            doors[triton, name] = (operation, "triton")
    with pytest.MonkeyPatch.context() as patch:
        for (module, name), path in doors.items():
            watch(patch, module, name, lambda path=path: paths.append((*path, False)))
        watch(
            patch,
            _tiled,
            "_whole_log_partitions",
            lambda: paths.append((*paths.pop()[:2], True)),
        )
        yield paths


def watch(patch, module, name, note):
    original = getattr(module, name)

    def watched(*args, **kwargs):
        note()
        return original(*args, **kwargs)

    patch.setattr(module, name, watched)


def fused_can_run():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return not why_not_fused(torch.device(device), torch.float32)


def explained_paths(plans):
    """The same triples as ``explain`` gives them; two sides are one log-partition."""
    return [
        (plan.operation.removeprefix("two_sided_"), plan.backend, plan.keeps_scores)
        for plan in plans
    ]


def assert_explained(call, *args, **settings):
    """Compare what is explained with what runs, forward and backward."""
    from invariance.partition import explain

    plans = explain(call, *args, **settings)
    with recorded_paths() as paths:
        out = call(*args, **settings)
    out = out if isinstance(out, torch.Tensor) else torch.cat([*out])
    assert explained_paths(plans) == paths
    assert paths, "nothing ran"
    return plans
