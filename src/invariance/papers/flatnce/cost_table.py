"""What the large-batch learners cost, and when a small batch costs less.

Cost is devices x hours x price. The paper prints dollars, devices and hours, but no
prices: what it reckoned with is read off its lines, and where two lines have the same
device they have to agree. Whether a small batch is cheaper depends on one price against
another (``PRICES``, to be edited) and on how fast a device is with few images.
"""

from .._claim import About, Cell, Cells, Figure, Rows, Values, Verdict

# Table S1: device, how many, hours, printed dollars, and half of their last digit.
PRINTED = {
    "MoCo": ("V100", 64, 6 * 24, 23_000, 500),
    "SimCLR": ("TPU-v3 core", 128, 15, 1_720, 5),
    "CLIP": ("V100", 592, 18 * 24, 634_000, 500),
}
# Assumed dollars per hour of one device: a V100 as in the line of CLIP, a T4 as Google
# Cloud listed it in 2021.
PRICES = {"V100": 2.48, "T4": 0.35}
# Images per second of one run of ResNet-18 at 32 pixels on an H200, by batch size
# (benchmarks/results/epochs_cuda.md). Other devices are assumed to be slower in
# proportion to their memory's bandwidth, in GB/s. That leaves small batches as slow,
# for large ones, as on an H200; a slow device may well be filled by 32 images, too.
SPEED = {32: 13_931, 256: 38_610}
BANDWIDTH = {"H200": 4_800, "V100": 900, "T4": 320}
IMAGES = 100 * 50_000  # 100 epochs of CIFAR-10


def measure(cell: Cell) -> Values:
    """Device-hours of one line, its dollars, and between what its price must lie."""
    if cell["line"] in PRINTED:
        _, devices, hours, printed, half = PRINTED[cell["line"]]
        dollars, total = float(printed), float(devices * hours)
        prices = ((dollars - half) / total, (dollars + half) / total)
    else:
        speed = SPEED[cell["batch"]] * BANDWIDTH[cell["device"]] / BANDWIDTH["H200"]
        total = IMAGES / speed / 3600
        prices = (PRICES[cell["device"]],) * 2
        dollars = total * prices[0]
    return {
        "device_hours": total,
        "dollars": dollars,
        "lowest_price": prices[0],
        "highest_price": prices[1],
    }


def judge(rows: Rows) -> Verdict:
    """Whether the table contradicts itself, and which prices make a small batch pay."""
    printed = [row for row in rows if row["line"] in PRINTED]
    shown = ", ".join(
        f"{row['line']} ${row['lowest_price']:.3f} to {row['highest_price']:.3f} per "
        f"{row['device']} and hour"
        for row in printed
    )
    table = f"The dollars of table S1 over its device-hours are: {shown}"
    apart = [
        device
        for device in dict.fromkeys(row["device"] for row in printed)
        if max(r["lowest_price"] for r in printed if r["device"] == device)
        > min(r["highest_price"] for r in printed if r["device"] == device)
    ]
    if apart:
        return Verdict(
            "does not hold", f"{table}. No one price fits both lines of {apart[0]}."
        )
    small = {
        (row["device"], row["batch"]): row for row in rows if row["line"] not in PRINTED
    }
    large = small["V100", 256]
    idle, filled = (
        large["device_hours"] / small["T4", batch]["device_hours"]
        for batch in (32, 256)
    )
    price = small["T4", 32]["lowest_price"] / large["lowest_price"]
    because = (
        f"{table}. Both lines of the V100 agree, and nothing checks the other. Batch "
        f"32 on a T4 is cheaper than batch 256 on a V100 if an hour of a T4 costs "
        f"less than {idle:.2f} of that of a V100, should 32 images leave as much of "
        f"any device idle as of an H200, and less than {filled:.2f}, should they fill "
        f"a T4 as well as 256 do. At the prices assumed it costs {price:.2f}."
    )
    if price >= filled:
        return Verdict("does not hold", because)
    return Verdict("not decided" if price >= idle else "holds", because)


def draw(rows: Rows, figure: Figure) -> None:
    """Dollars of the printed learners, and of small and large batches."""
    left, right = figure.subplots(1, 2)
    printed = [row for row in rows if row["line"] in PRINTED]
    left.bar([row["line"] for row in printed], [row["dollars"] for row in printed])
    for place, row in enumerate(printed):
        price = f"${row['lowest_price']:.2f} to {row['highest_price']:.2f}"
        left.annotate(price, (place, row["dollars"]), ha="center", va="bottom")
    left.set(yscale="log", ylabel="dollars", ylim=(500, 3e6))
    left.set(title="table S1, and the price implied")
    lines = [row for row in rows if row["line"] not in PRINTED]
    right.barh([r["line"] for r in lines], [r["dollars"] for r in lines], alpha=0.5)
    right.invert_yaxis()
    right.set(xlabel="dollars for 100 epochs of CIFAR-10", title="one small training")


def cells() -> Cells:
    return [
        *(
            {"line": name, "device": device, "batch": None}
            for name, (device, *_) in PRINTED.items()
        ),
        *(
            {"line": f"batch {batch}, {device}", "device": device, "batch": batch}
            for device in PRICES
            for batch in SPEED
        ),
    ]


ABOUT = About(
    where="table S1 of section A, section C",
    says="Large-batch contrastive learners cost $1,720 to $634,000 to train; learning "
    "with small batches makes them affordable.",
    run="What each line of the table says of the price of its device, which the paper "
    "does not print; and devices times hours times price for 100 epochs of CIFAR-10 "
    "with a ResNet-18 at batch 32 and 256. Inputs, not results: a T4 at "
    f"${PRICES['T4']:g} per hour (a list price of 2021); a V100 at "
    f"${PRICES['V100']:g}, which is taken from the line of CLIP, so that the table "
    "agrees with it is no finding; speeds measured on an H200 and scaled by the "
    "bandwidth of the devices' memory. To be affordable is taken to mean that batch 32 "
    "on a cheap device costs less than batch 256 on a dear one. Whether batch 32 "
    "learns as much is the claim small_batch.",
    refuted_if="Lines of one device that no one price fits, or a training at batch 32 "
    "on the cheap device that costs as much as one at batch 256 on the dear one, even "
    "if 32 images fill the cheap device.",
    sizes={"tiny": cells(), "quick": cells(), "full": cells()},
    columns={
        "line": "line",
        "device": "device",
        "device-hours": "device_hours",
        "dollars": "dollars",
        "dollars per device and hour, from": "lowest_price",
        "to": "highest_price",
    },
)
