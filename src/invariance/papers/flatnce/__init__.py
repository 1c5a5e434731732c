"""Claims of the FlatNCE paper."""

from . import (
    cost_table,
    ess_range,
    ess_schedule_sign,
    flat_is_dcl,
    flo_formula,
    gradient_variance,
    holder_family,
    leave_one_out,
    proposition_s1_sign,
    saturation_precision,
    term_dropping_unstable,
    zero_variance,
)

CLAIMS = (
    saturation_precision.CLAIM,
    gradient_variance.CLAIM,
    flat_is_dcl.CLAIM,
    zero_variance.CLAIM,
    term_dropping_unstable.CLAIM,
    ess_range.CLAIM,
    cost_table.CLAIM,
    proposition_s1_sign.CLAIM,
    flo_formula.CLAIM,
    leave_one_out.CLAIM,
    holder_family.CLAIM,
    ess_schedule_sign.CLAIM,
)
