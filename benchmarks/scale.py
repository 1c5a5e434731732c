"""What a contrastive step of n pairs over P GPUs costs: the tables of docs/scale.md.

    python benchmarks/scale.py                                  # the page's tables
    python benchmarks/scale.py --write                          # put them into the page
    python benchmarks/scale.py --pairs 65536 --gpus 8 --link 20 --encoder resnet50

Times of the loss and of encoders are measured on one H200 and read from results/; what
travels is counted from the code (a test holds it against what processes exchange); the
links are stated, and options here. Everything else is arithmetic, and stands below.
"""

import argparse
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
INPUTS = json.loads((RESULTS / "scale_inputs.json").read_text())
PIECES, SHARES = INPUTS["pieces"], INPUTS["shares"]
GB = 1e9
FLOAT, ID = 4, 8  # bytes of a number, of a sample's id
SIZES = 24 + 8  # of how many rows there are, and whether they are all right


@dataclass(frozen=True)
class Objective:
    """How a loss of n pairs is made of rows, and what of them travels."""

    name: str
    width: int
    symmetric: bool
    """One matrix of 2n rows with itself, as NT-Xent; else n rows by n columns."""

    def rows(self, pairs: int) -> int:
        """Rows of the matrix."""
        return 2 * pairs if self.symmetric else pairs

    def flops(self, pairs: int) -> float:
        """As the benchmark of losses counts them, of both passes on one GPU."""
        return (6 if self.symmetric else 8) * self.rows(pairs) ** 2 * self.width

    @cached_property
    def measured(self) -> dict[int, dict[str, float]]:
        """Rows of the benchmark on one H200, by pairs."""
        name = "nt_xent" if self.symmetric else "info_nce"
        rows = json.loads((RESULTS / "loss_cuda_bfloat16.json").read_text())["rows"]
        return {
            row["pairs"]: row
            for row in rows
            if (row["objective"], row["who"], row["width"])
            == (name, "invariance", self.width)
            and "ms" in row
        }

    def seconds(self, pairs: int) -> float:
        """On one H200: the measured size that is next above, or grown with n^2."""
        sizes = sorted(self.measured)
        size = next((s for s in sizes if s >= pairs), sizes[-1])
        seconds = self.measured[size]["ms"] / 1e3
        return seconds if size >= pairs else seconds * (pairs / size) ** 2

    def rate(self, pairs: int) -> float:
        """FLOP/s, by its count."""
        return self.flops(pairs) / self.seconds(pairs)


NT_XENT = Objective("NT-Xent", 128, symmetric=True)
CLIP = Objective("CLIP", 512, symmetric=False)


def share_of_work(processes: int) -> float:
    """What a process computes, of what one alone would.

    Alone, every block of the matrix serves its rows and its columns at once. Shared
    out, a process computes the gradient of its own rows alone and leaves the other side
    of the block to its owner: up to a quarter more in all, and no gradients travel.

    >>> share_of_work(1), share_of_work(2)
    (1.0, 0.5625)
    """
    return 1.25 / processes - 0.25 / processes**2


def received_bytes(
    objective: Objective, pairs: int, processes: int, *, ring: bool
) -> dict[str, int]:
    """What a process receives in the passes; it sends as much.

    Rows travel with their ids. Gathered, they come once and are kept. In a ring a
    symmetric matrix needs half of the blocks forward, for each serves two processes,
    and all of them backward. A two-sided loss needs v forward and both u and v backward
    (gathered: v is kept). Sums of all rows are then added up over processes, receiving
    nearly everything twice.
    """
    own = objective.rows(pairs) // processes
    block = own * (objective.width * FLOAT + ID)
    others = processes - 1
    forward, backward = others, 0 if objective.symmetric else others
    if ring and objective.symmetric:
        forward, backward = processes // 2, others
    elif ring:
        backward = 2 * others
    vectors = 1 if objective.symmetric else 2
    sums = objective.rows(pairs) * FLOAT * vectors
    added = round(sums * 2 * others / processes)
    positives = pairs // processes * FLOAT * others
    return {
        "forward": forward * block + added + positives + SIZES * others,
        "backward": backward * block,
    }


def candidate_bytes(
    objective: Objective, pairs: int, processes: int, *, ring: bool
) -> int:
    """Rows of others that a process holds at a time."""
    own = objective.rows(pairs) // processes
    return (2 if ring else processes - 1) * own * (objective.width * FLOAT + ID)


@dataclass(frozen=True)
class Encoder:
    """A network as it was measured: a training step of so many views on one GPU."""

    name: str
    views: int
    seconds: float
    peak_bytes: float
    parameters: int
    source: str

    def step_seconds(self, views: int, *, pieces: bool) -> float:
        """Of more views, at once or in pieces that are encoded twice."""
        return views / self.views * self.seconds * (PIECES["time"] if pieces else 1)

    def step_bytes(self, views: int, *, pieces: bool) -> float:
        """Of a step that holds all activations, or those of a piece and some more."""
        if pieces:
            return PIECES["memory"] * self.peak_bytes
        fixed = 3 * FLOAT * self.parameters  # weights, gradients, momentum
        return fixed + (self.peak_bytes - fixed) * views / self.views


ENCODERS = {name: Encoder(**values) for name, values in INPUTS["encoders"].items()}


@dataclass(frozen=True)
class Setting:
    """A batch, the machine for it, and what is trained."""

    pairs: int = 1 << 20
    gpus: int = 64
    link: float = 40 * GB
    """Bytes per second that a GPU receives while it sends as many."""
    encoder: str = "resnet50"

    @property
    def network(self) -> Encoder:
        return ENCODERS[self.encoder]

    def loss_seconds(self, objective: Objective) -> float:
        """Computing of one process."""
        return objective.seconds(self.pairs) * share_of_work(self.gpus)

    def wire_seconds(self, n_bytes: float) -> float:
        return n_bytes / self.link

    def gradient_bytes(self) -> float:
        """Received while parameters' gradients are added up."""
        return 2 * (self.gpus - 1) / self.gpus * FLOAT * self.network.parameters


def table(head: list[str], rows: list[list[str]]) -> str:
    """Markdown, numbers to the right and words to the left."""
    wordy = [h in ("", "where from", "how", "on", "when") for h in head]
    rule = "|" + "".join(" :--- |" if left else " ---: |" for left in wordy)
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], rule, *lines[1:]])


def size(n_bytes: float) -> str:
    """Bytes for people, in powers of ten.

    >>> size(1_090_000_000), size(4.2e6), size(17.6e12)
    ('1.09 GB', '4.2 MB', '17.6 TB')
    """
    for unit, least in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= least:
            return f"{n_bytes / least:.3g} {unit}"
    return f"{n_bytes / 1e3:.3g} kB"


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(0.0265), duration(5.66), duration(7300.0), duration(0.00046)
    ('26 ms', '5.7 s', '2.0 h', '0.46 ms')
    """
    for unit, least in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= least:
            value = seconds / least
            return f"{value:,.{0 if value >= 20 else 1}f} {unit}"
    return f"{1e3 * seconds:.2g} ms"


def inputs_table(setting: Setting) -> str:
    """What is known by measurement, and what is stated."""
    rows = []
    for objective in (NT_XENT, CLIP):
        pairs = max(objective.measured)
        row = objective.measured[pairs]
        rate = objective.rate(pairs) / 1e12
        rows.append(
            [
                f"{objective.name}, {pairs:,} pairs of width {objective.width}",
                f"{duration(row['ms'] / 1e3)}, {size(row['mb'] * 2**20)}, "
                f"{rate:.0f} TFLOP/s",
                "measured: one H200, `benchmarks/results/loss_cuda_bfloat16.md`",
            ]
        )
    for encoder in ENCODERS.values():
        rows.append(
            [
                f"training step, {encoder.name}",
                f"{encoder.views / encoder.seconds:,.0f} views/s, "
                f"{size(encoder.peak_bytes)} at {encoder.views:,} views",
                encoder.source,
            ]
        )
    counted, measured = (
        ", ".join(f"{share:.2f}" for share in shares)
        for shares in (
            [share_of_work(int(p)) for p in SHARES["of_one"]],
            SHARES["of_one"].values(),
        )
    )
    rows += [
        [
            "a batch in pieces, against one piece's own step",
            f"{PIECES['time']} x the time per view, {PIECES['memory']} x the memory",
            PIECES["source"],
        ],
        [
            f"a share of {SHARES['pairs']:,} pairs, of one process's time",
            f"{measured} (counted below: {counted})",
            SHARES["source"],
        ],
        [
            "a link",
            f"{setting.link / GB:.0f} GB/s in and out per GPU",
            "stated: a network card of 400 Gbit/s per GPU, used to 80 %",
        ],
    ]
    return table(["", "value", "where from"], rows)


def loss_table(setting: Setting) -> str:
    """Computing and memory of the loss, against processes."""
    rows = []
    for objective in (NT_XENT, CLIP):
        n = objective.rows(setting.pairs)
        for gpus in sorted({1, 8, setting.gpus}):
            share = share_of_work(gpus)
            rows.append(
                [
                    f"{objective.name}, width {objective.width}",
                    f"{gpus}",
                    duration(objective.seconds(setting.pairs) * share),
                    size(FLOAT * n**2 / gpus),
                    size(
                        objective.measured[max(objective.measured)]["mb"] * 2**20
                        if gpus == 1
                        else candidate_bytes(objective, setting.pairs, gpus, ring=False)
                    ),
                ]
            )
    head = ["", "GPUs", "computing per GPU", "a matrix of scores", "held here"]
    return table(head, rows)


def traffic_table(setting: Setting) -> str:
    """Gathered rows beside a ring."""
    rows = []
    for objective in (NT_XENT, CLIP):
        for ring in (False, True):
            received = received_bytes(objective, setting.pairs, setting.gpus, ring=ring)
            held = candidate_bytes(objective, setting.pairs, setting.gpus, ring=ring)
            wire = setting.wire_seconds(sum(received.values()))
            rows.append(
                [
                    f"{objective.name}, {'ring' if ring else 'all-gather'}",
                    size(received["forward"]),
                    size(received["backward"]) if received["backward"] else "nothing",
                    size(held),
                    duration(wire),
                    "while it computes" if ring else "before it computes",
                ]
            )
    return table(["", "forward", "backward", "held", "on the wire", "when"], rows)


def hops_table(setting: Setting) -> str:
    """Whether a ring's transfer hides behind its computing."""
    rows = []
    for objective in (NT_XENT, CLIP):
        own = objective.rows(setting.pairs) // setting.gpus
        rate = objective.rate(setting.pairs)
        product = 2 * own**2 * objective.width / rate
        transfer = setting.wire_seconds(own * (objective.width * FLOAT + ID))
        enough = rate * FLOAT / (2 * setting.link)
        rows.append(
            [
                objective.name,
                f"{own:,}",
                duration(product),
                duration(2 * product),
                duration(transfer),
                f"{enough:,.0f}",
            ]
        )
    head = ["", "own rows", "forward", "backward", "transfer", "rows to hide it"]
    return table(head, rows)


def encoder_table(setting: Setting) -> str:
    """All activations at once, and in pieces."""
    views = 2 * setting.pairs // setting.gpus
    rows = [
        [
            encoder.name,
            f"pieces of {encoder.views:,} views" if pieces else "all at once",
            duration(encoder.step_seconds(views, pieces=pieces)),
            size(encoder.step_bytes(views, pieces=pieces)),
        ]
        for encoder in ENCODERS.values()
        for pieces in (False, True)
    ]
    return table(["", "how", "computing", "memory"], rows)


def step_parts(setting: Setting) -> dict[str, float]:
    """Seconds of the parts of a step, one after another."""
    received = received_bytes(NT_XENT, setting.pairs, setting.gpus, ring=False)
    views = 2 * setting.pairs // setting.gpus
    return {
        "encoder, in pieces": setting.network.step_seconds(views, pieces=True),
        "NT-Xent, own rows by all": setting.loss_seconds(NT_XENT),
        "rows gathered": setting.wire_seconds(sum(received.values())),
        "gradients added up": setting.wire_seconds(setting.gradient_bytes()),
    }


def step_table(setting: Setting) -> str:
    """A whole step, with either network."""
    settings = [
        Setting(setting.pairs, setting.gpus, setting.link, encoder=name)
        for name in ENCODERS
    ]
    parts = [step_parts(s) for s in settings]
    rows = []
    for name in parts[0]:
        row = [name]
        for part in parts:
            share = part[name] / sum(part.values())
            row.append(f"{duration(part[name])} ({100 * share:.1f} %)")
        rows.append(row)
    rows.append(["a step", *(duration(sum(part.values())) for part in parts)])
    return table(["", *(s.network.name for s in settings)], rows)


@dataclass(frozen=True)
class Published:
    """A run of Table S1 of the FlatNCE paper, and what its own paper says of it."""

    name: str
    negatives: int
    devices: int
    kind: str
    hours: float
    dollars: int
    samples: float
    batch: int
    width: int

    @property
    def steps(self) -> float:
        return self.samples / self.batch

    def loss_seconds(self) -> float:
        """Of one step of its size, on one H200 with the kernels here."""
        if self.name == "CLIP":  # measured at width 512
            return CLIP.seconds(self.batch) * self.width / CLIP.width
        if self.name == "MoCo":  # rows by a queue, of which no gradient is needed
            arithmetic = 6 * self.batch * self.negatives * self.width
            least = NT_XENT.seconds(2048)  # the time of launches
            return max(arithmetic / NT_XENT.rate(32768), least)
        return NT_XENT.seconds(self.batch)


PUBLISHED = (
    Published("MoCo", 65_536, 64, "V100", 6 * 24, 23_000, 1.25e6 * 1024, 1024, 128),
    Published(
        "SimCLR", 4_096, 128, "TPU-v3 core", 15, 1_720, 1000 * 1281167, 4096, 128
    ),
    Published("CLIP", 32_768, 592, "V100", 18 * 24, 634_000, 32 * 400e6, 32_768, 1024),
)


def published_table(setting: Setting) -> str:
    """Their cost, and how little of it a loss has to be."""
    rows = [
        [
            run.name,
            f"{run.negatives:,}",
            f"{run.devices} x {run.kind}, {duration(3600.0 * run.hours)}",
            f"{run.devices * run.hours:,.0f}",
            f"{run.dollars:,} $",
            f"{run.steps:,.0f} of {run.batch:,}",
            duration(run.loss_seconds() * run.steps),
        ]
        for run in PUBLISHED
    ]
    head = ["", "negatives", "on", "device hours", "cost", "steps", "all losses here"]
    return table(head, rows)


def same_samples_table(setting: Setting) -> str:
    """As many samples, a million pairs at a time."""
    rows = []
    for run in PUBLISHED:
        steps = run.samples / setting.pairs
        objective = CLIP if run.name == "CLIP" else NT_XENT
        received = received_bytes(objective, setting.pairs, setting.gpus, ring=False)
        exchange = sum(received.values()) + setting.gradient_bytes()
        views = 2 * setting.pairs // setting.gpus
        encoder = setting.network.step_seconds(views, pieces=True) * steps
        loss = setting.loss_seconds(objective) * steps
        wire = setting.wire_seconds(exchange) * steps
        known = run.name != "CLIP"  # its networks were others
        rows.append(
            [
                run.name,
                f"{steps:,.0f}",
                duration(encoder) if known else "not reckoned",
                duration(loss),
                duration(wire),
                f"{setting.gpus * (encoder + loss + wire) / 3600:,.0f}"
                if known
                else f"{setting.gpus * (loss + wire) / 3600:,.0f} and the encoder's",
            ]
        )
    return table(["", "steps", "encoder", "loss", "exchange", "GPU hours"], rows)


def make_tables(setting: Setting) -> dict[str, str]:
    """Every table of the page, by name."""
    from ring_simulation import table as simulation_table

    return {
        "inputs": inputs_table(setting),
        "loss": loss_table(setting),
        "traffic": traffic_table(setting),
        "hops": hops_table(setting),
        "simulation": simulation_table(),
        "encoder": encoder_table(setting),
        "step": step_table(setting),
        "published": published_table(setting),
        "same samples": same_samples_table(setting),
    }


def fill(page: str, tables: dict[str, str]) -> str:
    """The page with these tables, each between two marks with its name."""
    for name, text in tables.items():
        mark = rf"(<!-- {name} -->\n)((?!<!--).)*(<!-- end -->)"
        page, n = re.subn(mark, rf"\g<1>\n{text}\n\n\g<3>", page, flags=re.DOTALL)
        if n != 1:
            raise SystemExit(f"The page has {n} places for the table {name!r}.")
    return page


def main() -> None:
    usual = Setting()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=usual.pairs)
    parser.add_argument("--gpus", type=int, default=usual.gpus)
    parser.add_argument("--link", type=float, default=usual.link / GB, help="GB/s")
    parser.add_argument("--encoder", choices=ENCODERS, default=usual.encoder)
    parser.add_argument("--write", action="store_true", help="into docs/scale.md")
    given = parser.parse_args()
    setting = Setting(given.pairs, given.gpus, given.link * GB, given.encoder)
    tables = make_tables(setting)
    if given.write:
        PAGE.write_text(fill(PAGE.read_text(), tables))
        return
    for name, text in tables.items():
        print(f"{name}\n\n{text}\n")


if __name__ == "__main__":
    main()
