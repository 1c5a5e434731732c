r"""Which functions keep the simplex the only optimum: convex, increasing ones.

$$L = \frac1n\sum_i \phi\Big(\sum_{j\ne i}\psi(u_i\cdot v_j - u_i\cdot v_i)\Big)$$
"""

from collections.abc import Callable

import torch
from torch import Tensor

from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from ._embedding_descent import descend, distance_to_simplex, make_simplex

N, WIDTH = 6, 8
NEAR, SLACK = 0.02, 1e-4  # differences of a cosine and of a loss that count as none
Function = Callable[[Tensor], Tensor]

GOOD, WHOLE = "phi and psi convex, increasing", "phi concave, loss convex"
FLAT, BAD = "not strictly convex", "not convex or not increasing"
# phi, psi, and what is known of them
FAMILY: dict[str, tuple[Function, Function, str]] = {
    "sum exp 3x": (lambda s: s, lambda x: (3 * x).exp(), GOOD),
    "sum softplus 3x": (
        lambda s: s,
        lambda x: torch.nn.functional.softplus(3 * x),
        GOOD,
    ),
    "(sum exp 3x)²": (torch.square, lambda x: (3 * x).exp(), GOOD),
    "log(1 + sum exp 3x)": (torch.log1p, lambda x: (3 * x).exp(), WHOLE),
    "sqrt(sum exp 3x)": (torch.sqrt, lambda x: (3 * x).exp(), WHOLE),
    "sum x": (lambda s: s, lambda x: x, FLAT),
    "sum sigmoid 6(x + 1)": (lambda s: s, lambda x: torch.sigmoid(6 * x + 6), BAD),
    "sum -exp(-3x)": (lambda s: s, lambda x: -(-3 * x).exp(), BAD),
    "sum (x + 1)²": (lambda s: s, lambda x: (x + 1) ** 2, BAD),
}


def find_loss(member: str, u: Tensor, v: Tensor) -> Tensor:
    """Of one member of the family."""
    phi, psi, _ = FAMILY[member]
    scores = u @ v.mT
    differences = psi(scores - scores.diagonal()[:, None])
    others = differences.masked_fill(torch.eye(len(u), dtype=torch.bool), 0.0)
    return phi(others.sum(1)).mean()


def measure(cell: Cell) -> Values:
    """Where the best of several starts ends, and its loss beside the simplex's."""
    generator, member = cell.generator(), cell["member"]
    ends = []
    for _ in range(cell["starts"]):
        u, v = descend(
            lambda u, v: find_loss(member, u, v),
            N,
            WIDTH,
            generator=generator,
            steps=cell["steps"],
        )
        ends.append((find_loss(member, u, v).item(), distance_to_simplex(u)))
    lowest, distance = min(ends)
    corners = make_simplex(N, WIDTH)
    reference = find_loss(member, corners, corners).item()
    return {"distance": distance, "gain": (reference - lowest) / abs(reference)}


def describe(rows: Rows) -> dict[str, str]:
    """Where each member has its optimum, or that no start came as low."""
    words = {}
    for member in dict.fromkeys(rows["member"]):
        some = rows.where(member=member)
        if max(some["gain"]) > SLACK:
            words[member] = "elsewhere"
        elif max(some["distance"]) < NEAR:
            words[member] = "simplex"
        elif min(some["gain"]) < -SLACK:
            words[member] = "not reached"
        else:
            words[member] = "not only there"
    return words


def judge(rows: Rows) -> Verdict:
    """Convex and increasing members must end at the simplex."""
    where = describe(rows)
    kinds = {
        kind: [name for name in where if FAMILY[name][2] == kind]
        for kind in (GOOD, WHOLE, FLAT, BAD)
    }
    for name in kinds[GOOD]:
        if where[name] != "simplex":
            arrived = where[name] != "not reached"
            return Verdict(
                "does not hold" if arrived else "not decided",
                f"'{name}' is convex and increasing, and the lowest loss found is "
                f"{max(rows.where(member=name)['distance']):.2f} from the simplex in a "
                "cosine.",
            )
    moved = [name for name in kinds[BAD] if where[name] == "elsewhere"]
    whole = [name for name in kinds[WHOLE] if where[name] == "simplex"]
    many = [name for name in kinds[FLAT] if where[name] == "not only there"]
    numbers = (
        f"All {len(kinds[GOOD])} choices with convex, increasing phi and psi end at "
        f"the simplex; {len(moved)} of the {len(kinds[BAD])} that are not convex or "
        "not increasing have their optimum elsewhere."
    )
    if not (whole or many):
        return Verdict("holds", numbers)
    limits = []
    if many:
        limits.append(f"convexity must be strict ({_list(many)} also has other optima)")
    if whole:
        limits.append(
            f"phi itself need not be convex ({_list(whole)} keep the simplex, because "
            "the loss as a whole is convex in the scores)"
        )
    return Verdict("holds within limits", f"{numbers} The limits: {'; '.join(limits)}.")


def _list(names: list[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)


def draw(rows: Rows, figure: Figure) -> None:
    """How far each member's optimum is from the simplex."""
    axes = figure.subplots()
    colors = {GOOD: "C0", WHOLE: "C2", FLAT: "C1", BAD: "C3"}
    members = list(dict.fromkeys(rows["member"]))
    for kind, color in colors.items():
        places = [k for k, name in enumerate(members) if FAMILY[name][2] == kind]
        spreads = rows.spreads("member", "distance")
        means = [spreads[members[k]].mean for k in places]
        axes.barh(places, means, color=color, alpha=0.5, label=kind)
    seeds = [members.index(name) for name in rows["member"]]
    axes.plot(rows["distance"], seeds, "k.", markersize=4)
    axes.set_yticks(range(len(members)), members)
    axes.invert_yaxis()
    axes.set_xlabel("farthest cosine from the simplex, at the lowest loss found")
    axes.legend(frameon=False)


ABOUT = About(
    where="section 4 (mechanism 1, break condition; next check 2)",
    says="If the functions phi and psi of the loss are convex and increasing, the "
    "simplex is the only optimum; otherwise the optimum may move.",
    run=f"Gradient descent on {N} samples in {WIDTH} dimensions for nine choices of "
    "the two functions; the lowest loss of several starts is compared with that of the "
    "simplex.",
    refuted_if="A convex and increasing choice whose optimum is elsewhere.",
    sizes=plan(
        member=FAMILY,
        tiny={"starts": 1, "steps": 10, "seeds": 1},
        quick={"starts": 5, "steps": 300, "seeds": 5},
        full={"starts": 10, "steps": 1000, "seeds": 10},
    ),
    columns={
        "loss of an anchor": "member",
        "farthest cosine from the simplex": "distance",
        "loss below the simplex's, relative": "gain",
    },
)
