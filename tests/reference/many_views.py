"""More than two views of each image: four things that go by one name."""

from itertools import combinations, permutations

from ._scalars import dot, log_sum_exp, mean, rows
from .softmax_family import info_nce


def multi_view(z, *, temperature=0.1, aggregate="pairs", normalize=True):
    """z[l, i] is view l of image i."""
    if aggregate == "pairs":
        return mean(
            [
                info_nce(z[a], z[b], temperature=temperature, normalize=normalize)
                for a, b in combinations(range(len(z)), 2)
            ]
        )
    views, n = len(z), z.shape[1]
    z = [rows(view, normalize) for view in z]
    per_image = {
        "poly": poly,
        "mv_info_nce": mv_info_nce,
        "mv_dhel": mv_dhel,
    }[aggregate]
    return mean([per_image(z, i, views, n, temperature) for i in range(n)])


def poly(z, i, views, n, temperature):
    """For every ordered pair (a, b): z_ia picks z_ib among other images' views."""
    losses = []
    for a, b in permutations(range(views), 2):
        positive = dot(z[a][i], z[b][i]) / temperature
        negatives = [
            dot(z[a][i], z[m][j]) / temperature
            for j in range(n)
            if j != i
            for m in range(views)
        ]
        losses.append(log_sum_exp([positive, *negatives]) - positive)
    return mean(losses)


def mv_info_nce(z, i, views, n, temperature):
    """-log sum_{l != l'} e^{z_il z_il'} / sum_l sum_{(j,m) != (i,l)} e^{z_il z_jm}."""
    positives = [
        dot(z[a][i], z[b][i]) / temperature for a, b in permutations(range(views), 2)
    ]
    candidates = [
        dot(z[a][i], z[m][j]) / temperature
        for a in range(views)
        for j in range(n)
        for m in range(views)
        if (j, m) != (i, a)
    ]
    return log_sum_exp(candidates) - log_sum_exp(positives)


def mv_dhel(z, i, views, n, temperature):
    """-log sum_{l < l'} e^{z_il z_il'} / prod_l sum_{j != i} e^{z_il z_jl}."""
    positives = [
        dot(z[a][i], z[b][i]) / temperature for a, b in combinations(range(views), 2)
    ]
    spread = [
        log_sum_exp([dot(z[a][i], z[a][j]) / temperature for j in range(n) if j != i])
        for a in range(views)
    ]
    return sum(spread) - log_sum_exp(positives)
