"""What the large-batch learners cost, and when a small batch costs less.

Cost is devices x hours x price. Prices change: ``PRICES`` is an input, to be edited,
and the verdict follows from it.
"""

from collections.abc import Mapping
from typing import Any

from .._claim import Cell, Claim, Figure, Rows, Verdict

# Dollars per hour of one device, on demand: list prices of 2021.
PRICES = {"V100": 2.48, "T4": 0.35, "TPU-v3 core": 0.896}
# Table S1: device, how many, hours, printed dollars, and half of their last digit.
PRINTED = {
    "MoCo": ("V100", 64, 6 * 24, 23_000, 500),
    "SimCLR": ("TPU-v3 core", 128, 15, 1_720, 5),
    "CLIP": ("V100", 592, 18 * 24, 634_000, 500),
}
# Images per second of one run of ResNet-18 at 32 pixels on an H200, by batch size
# (benchmarks/results/epochs_cuda.md). Other devices are taken to be slower in
# proportion to their memory's bandwidth, in GB/s. That leaves small batches as slow,
# for large ones, as on an H200; a slow device may well be filled by 32 images, too.
SPEED = {32: 13_931, 256: 38_610}
BANDWIDTH = {"H200": 4_800, "V100": 900, "T4": 320}
IMAGES = 100 * 50_000  # 100 epochs of CIFAR-10


def measure(cell: Cell) -> Mapping[str, Any]:
    """Device-hours and dollars of one line."""
    if cell["hours"] is None:
        speed = SPEED[cell["batch"]] * BANDWIDTH[cell["device"]] / BANDWIDTH["H200"]
        hours = IMAGES / speed / 3600
    else:
        hours = float(cell["devices"] * cell["hours"])
    return {"device_hours": hours, "dollars": hours * cell["dollars_per_hour"]}


def judge(rows: Rows) -> Verdict:
    """The printed dollars within their rounding, then small against large batches."""
    off = []
    for name, (_, _, _, printed, half) in PRINTED.items():
        (dollars,) = rows.where(line=name)["dollars"]
        if abs(dollars - printed) > half:
            off.append(f"{name} {dollars:,.0f} instead of {printed:,}")
    right = len(PRINTED) - len(off)
    table = f"Hours and prices give {right} of the {len(PRINTED)} lines of table S1"
    if off:
        table += f" (not {', '.join(off)})"
    cost = {
        (row["device"], row["batch"]): row["dollars"]
        for row in rows
        if row["line"] not in PRINTED
    }
    large = cost["V100", 256]
    same, dear, cheap = (
        cost[line] / large for line in (("V100", 32), ("T4", 32), ("T4", 256))
    )
    because = (
        f"{table}. If 32 images leave as much of any device idle as of an H200, batch "
        f"32 costs {same:.2f} times as much as batch 256 on the same device, and "
        f"{dear:.2f} times as much on a T4 as batch 256 on a V100. If 32 images fill a "
        f"T4 as well as 256 do, batch 32 on a T4 costs {cheap:.2f} times as much as "
        "batch 256 on a V100."
    )
    if cheap >= 1:
        return Verdict("does not hold", because)
    if dear >= 1:
        return Verdict("not decided", because)
    return Verdict("holds within limits" if same > 1 or off else "holds", because)


def draw(rows: Rows, figure: Figure) -> None:
    """Dollars of the printed learners, and of small and large batches."""
    left, right = figure.subplots(1, 2)
    names = [row["line"] for row in rows if row["line"] in PRINTED]
    places = range(len(names))
    left.bar(places, [rows.where(line=n)["dollars"][0] for n in names], alpha=0.5)
    left.plot(places, [PRINTED[n][3] for n in names], "k_", markersize=30)
    left.set_xticks(list(places), names)
    left.set(yscale="log", ylabel="dollars", title="table S1 (lines: as printed)")
    lines = [row for row in rows if row["line"] not in PRINTED]
    right.barh([r["line"] for r in lines], [r["dollars"] for r in lines], alpha=0.5)
    right.invert_yaxis()
    right.set(xlabel="dollars for 100 epochs of CIFAR-10", title="one small training")


def cells() -> list[dict[str, Any]]:
    def line(name: str, device: str, batch: int | None, devices: int, hours: Any):
        return {
            "line": name,
            "device": device,
            "batch": batch,
            "devices": devices,
            "hours": hours,
            "dollars_per_hour": PRICES[device],
        }

    return [
        *(line(n, device, None, k, h) for n, (device, k, h, _, _) in PRINTED.items()),
        *(
            line(f"batch {batch}, {device}", device, batch, 1, None)
            for device in ("V100", "T4")
            for batch in (256, 32)
        ),
    ]


CLAIM = Claim(
    name="cost_table",
    paper="flatnce",
    where="table S1 of section A, section C",
    says="Large-batch contrastive learners cost $1,720 to $634,000 to train; learning "
    "with small batches makes them affordable.",
    run="Devices times hours times price for the three learners of the table, and for "
    "100 epochs of CIFAR-10 with a ResNet-18 at batch 32 and 256. Prices are inputs "
    f"({', '.join(f'{k} ${v:g}' for k, v in PRICES.items())} per hour); speeds were "
    "measured on an H200 and scaled by the bandwidth of the devices' memory. To be "
    "affordable is taken to mean that batch 32 on a cheap device costs less than batch "
    "256 on a dear one. Whether batch 32 learns as much is the claim small_batch.",
    refuted_if="A training at batch 32 on the cheap device costs as much as one at "
    "batch 256 on the dear one, even if 32 images fill the cheap device.",
    sizes={"tiny": cells(), "quick": cells(), "full": cells()},
    measure=measure,
    judge=judge,
    draw=draw,
    columns={
        "line": "line",
        "device": "device",
        "dollars per device and hour": "dollars_per_hour",
        "device-hours": "device_hours",
        "dollars": "dollars",
    },
)
