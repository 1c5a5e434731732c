"""Keep pytest's search for doctests away from the kernels, which import Triton."""

collect_ignore_glob = ["src/invariance/partition/triton/*"]
pytest_plugins = ["tests.shape_checks", "tests.browser"]
