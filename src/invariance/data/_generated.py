"""The parts of generated sets: how many samples each has, and from which seed."""

from ._load_request import Request


def count_parts(
    request: Request, train: int, test: int, *, one_in: int
) -> tuple[int, int]:
    """How many samples are of the training part, and how many of the test part.

    Args:
        request: Which part, and how many samples, if that is said.
        train: Samples of the training part otherwise.
        test: Samples of the test part.
        one_in: Of the samples of both, one in so many is of the test part.

    >>> count_parts(Request("all", n=10), 6000, 1000, one_in=5)
    (8, 2)
    """
    n = request.n or {"train": train, "test": test, "all": train + test}[request.split]
    n_test = {"train": 0, "test": n, "all": n // one_in}[request.split]
    return n - n_test, n_test


def draw_parts(
    request: Request, train: int, test: int, *, one_in: int
) -> list[tuple[int, int]]:
    """The same with a seed each, where the test part has draws of its own.

    >>> draw_parts(Request("all", n=10, seed=3), 6000, 1000, one_in=5)
    [(8, 6), (2, 7)]
    """
    counts = count_parts(request, train, test, one_in=one_in)
    return [(n, 2 * request.seed + part) for part, n in enumerate(counts) if n]
