r"""Beetles: a generated table of numbers, categories and missing values, six species.

A beetle of species k and age a has body measures that follow both, traits that are
usual for its species, and circumstances of the catch that say nothing:

$$x_j = \mu_{kj} + \tfrac15 a + \varepsilon_j,\qquad
P(\text{trait}_t = c) = \tfrac35\,[c = c_{kt}] + \tfrac25\cdot\tfrac1{C_t}$$

No column tells the species; all of them together do. Masses are missing by chance,
horns of the young more often. The species is a column of its own, the target.
"""

import numpy as np
import torch

from ._load_request import Request
from ._row import Row
from ._sources import Read, Stored
from ._split import draw_parts
from ._table_rows import Cells, fit_row, read_values

SPECIES = ("dung", "ground", "jewel", "rove", "stag", "tiger")
TRAITS = {
    "color": ("black", "blue", "bronze", "green", "red"),
    "habitat": ("forest", "meadow", "sand", "water"),
    "food": ("carrion", "leaves", "prey", "sap", "wood"),
    "pattern": ("dotted", "plain", "striped"),
    "active": ("day", "dusk", "night"),
}
USUAL = 0.6  # chance that a trait is the usual one, and not any
AGED = 0.2  # how much a measure follows the age
# in what unit each is measured: the typical beetle, and how much beetles differ
MEASURES = {
    "length_mm": (18.0, 3.0),
    "width_mm": (8.0, 1.5),
    "mass_mg": (420.0, 120.0),
    "leg_mm": (6.0, 1.2),
    "antenna_mm": (4.5, 1.0),
    "horn_mm": (1.5, 0.4),
}
CIRCUMSTANCES = {
    "altitude_m": (600.0, 250.0),
    "slope": (0.2, 0.05),
    "temperature_c": (16.0, 6.0),
    "humidity": (0.6, 0.15),
    "pressure_hpa": (1013.0, 9.0),
    "wind_kmh": (9.0, 4.0),
    "light_klx": (20.0, 8.0),
    "rain_mm": (12.0, 4.0),
    "soil_ph": (6.5, 0.7),
    "hour": (14.0, 3.0),
    "moon": (0.5, 0.2),
    "days_out": (5.0, 2.0),
    "trap_depth_cm": (12.0, 3.0),
    "trap_width_cm": (9.0, 2.0),
    "distance_m": (40.0, 15.0),
}
FINDERS = ("Ada", "Bo", "Cy", "Dee")


def beetles(n: int, *, seed: int = 0) -> dict[str, list[object]]:
    """A table by columns; "species" has the classes.

    >>> table = beetles(100)
    >>> table["species"][:3], table["color"][:3]
    (['tiger', 'rove', 'rove'], ['black', 'green', 'green'])
    >>> table["mass_mg"].count(None), table["horn_mm"].count(None)
    (20, 28)
    """
    plan, dice = np.random.default_rng(123), np.random.default_rng((seed, n))
    n_species = len(SPECIES)
    means = plan.normal(size=(n_species, len(MEASURES)))
    usual = {
        trait: plan.permutation(n_species) % len(values)
        for trait, values in TRAITS.items()
    }
    species = dice.integers(n_species, size=n)
    age = dice.normal(size=n)
    bodies = means[species] + AGED * age[:, None] + dice.normal(size=(n, len(MEASURES)))
    table: dict[str, list[object]] = {}
    for (name, (middle, unit)), body in zip(MEASURES.items(), bodies.T, strict=True):
        table[name] = [round(middle + unit * x, 3) for x in body.tolist()]
    for trait, values in TRAITS.items():
        chance = dice.integers(len(values), size=n)
        is_usual = dice.random(n) < USUAL
        chosen = np.where(is_usual, usual[trait][species], chance)
        table[trait] = [values[k] for k in chosen.tolist()]
    for name, (middle, unit) in CIRCUMSTANCES.items():
        table[name] = [
            round(middle + unit * x, 3) for x in dice.normal(size=n).tolist()
        ]
    table["finder"] = [FINDERS[k] for k in dice.integers(len(FINDERS), size=n)]
    young = dice.random(n) < 0.4 * (age < 0) + 0.05
    lost = {"mass_mg": dice.random(n) < 0.15, "horn_mm": young}
    for name, where in lost.items():
        cells = zip(table[name], where.tolist(), strict=True)
        table[name] = [None if gone else cell for cell, gone in cells]
    table["species"] = [SPECIES[k] for k in species.tolist()]
    return table


def read_beetles(request: Request) -> Read:
    """The beetles of one part; "all" is four fifths train, then a fifth test."""
    parts = draw_parts(request, 3000, 1000, one_in=5)
    drawn = [beetles(n, seed=seed) for n, seed in parts]
    table = {name: [x for part in drawn for x in part[name]] for name in drawn[0]}
    classes = [SPECIES.index(str(name)) for name in table.pop("species")]
    kind = request.known_kind
    if not isinstance(kind, Row):  # one for all parts and sizes
        usual = Cells("beetles", beetles(1000), [])
        kind, _ = fit_row(usual, [*table], range(1000), "species")
    values, _ = read_values(Cells("beetles", table, []), kind, range(len(classes)))
    items = Stored(values, kind)
    items.labels, items.class_names = torch.tensor(classes), SPECIES
    return Read("beetles", items, parallel=False)
