"""The run on disk, without torch: who writes or reads a run folder does it here.

    runs/<name>/config.yaml         settings as asked for, reloadable
                env.json            versions, machine, command, what was chosen
                metrics.jsonl       one reading per line; "time/..." is wall-clock
                train.log           what was said
                checkpoints/        step-00000123.pt, the newest two
                kept/               epoch-00005.pt, ...: with --keep-every, for good
                kept.jsonl          readings of those, one line per epoch
                encoder.safetensors the result, with what is needed to rebuild it
                encoder-best.safetensors    the epoch of highest kNN while training
                evaluation.jsonl    one score per line; 'invariance evaluate' adds more
                diagnostics.json    readings of the embeddings, each with a sentence
                verdict.json        what to make of it all, in words
                gallery/            pictures, map and neighbors for the report
                report.html         all of this as one page

A name is never used twice. Files appear under their names only when they are whole.
"""

from ._config import (
    check_settings,
    differing_settings,
    flatten,
    read_yaml,
    settings_from,
    show_value,
    to_dict,
    to_yaml,
)
from ._environment import (
    check_format,
    describe_environment,
    find_data,
    read_environment,
    read_images,
    read_settings,
    remember_images,
)
from ._files import (
    BEST_ENCODER,
    CHECKPOINTS,
    CONFIG,
    DIAGNOSTICS,
    ENCODER,
    ENVIRONMENT,
    GALLERY,
    HUB,
    KEPT,
    KEPT_READINGS,
    LOG,
    METRICS,
    OTHER_ENCODER,
    PAIR_HEADS,
    REPORT,
    SCORES,
    disk_failure,
    finite_number,
    is_on_hub,
    list_kept,
    new_folder,
    read_tail,
    refuse_file,
    require_encoder,
    require_place,
    require_run,
    resume_command,
    write_json,
    write_lines,
    write_whole,
)
from ._gallery import Gallery
from ._lock import hold_run
from ._metrics import Metrics, read_metrics
from ._overview import (
    Overview,
    find_state,
    name_data,
    overviews,
    sort_overviews,
)
from ._record import Record, is_run, read_record
from ._score_text import explain_scores, make_score_table, tabulate_by_data
from ._scores import (
    CHANCE,
    TRAINED,
    UNTRAINED,
    Row,
    keep_rows,
    read_rows,
    split_by_data,
)
from ._seeds import (
    MAY_DIFFER,
    OPEN,
    describe_settings,
    group_seeds,
    note_same_seeds,
    resolve_settings,
)
from ._tabulate import (
    METRIC_NAMES,
    NOT_SHARES,
    PROTOCOL_NAMES,
    Cell,
    Line,
    Scores,
    tabulate,
)
from ._verdict import (
    MEASURES,
    Finding,
    describe_limit,
    find_collapse,
    find_reachable,
    find_saturation,
    judge,
    list_measures,
    read_verdict,
    write_verdict,
)

__all__ = [
    "BEST_ENCODER",
    "CHANCE",
    "CHECKPOINTS",
    "CONFIG",
    "DIAGNOSTICS",
    "ENCODER",
    "ENVIRONMENT",
    "GALLERY",
    "HUB",
    "KEPT",
    "KEPT_READINGS",
    "LOG",
    "MAY_DIFFER",
    "MEASURES",
    "METRICS",
    "METRIC_NAMES",
    "NOT_SHARES",
    "OPEN",
    "OTHER_ENCODER",
    "PAIR_HEADS",
    "PROTOCOL_NAMES",
    "REPORT",
    "SCORES",
    "TRAINED",
    "UNTRAINED",
    "Cell",
    "Finding",
    "Gallery",
    "Line",
    "Metrics",
    "Overview",
    "Record",
    "Row",
    "Scores",
    "check_format",
    "check_settings",
    "describe_environment",
    "describe_limit",
    "describe_settings",
    "differing_settings",
    "disk_failure",
    "explain_scores",
    "find_collapse",
    "find_data",
    "find_reachable",
    "find_saturation",
    "find_state",
    "finite_number",
    "flatten",
    "group_seeds",
    "hold_run",
    "is_on_hub",
    "is_run",
    "judge",
    "keep_rows",
    "list_kept",
    "list_measures",
    "make_score_table",
    "name_data",
    "new_folder",
    "note_same_seeds",
    "overviews",
    "read_environment",
    "read_images",
    "read_metrics",
    "read_record",
    "read_rows",
    "read_settings",
    "read_tail",
    "read_verdict",
    "read_yaml",
    "refuse_file",
    "remember_images",
    "require_encoder",
    "require_place",
    "require_run",
    "resolve_settings",
    "resume_command",
    "settings_from",
    "show_value",
    "sort_overviews",
    "split_by_data",
    "tabulate",
    "tabulate_by_data",
    "to_dict",
    "to_yaml",
    "write_json",
    "write_lines",
    "write_verdict",
    "write_whole",
]
