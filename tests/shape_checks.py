"""Shape checks of the tests, at half of what jaxtyping's own wrapper takes.

The import hook of jaxtyping decorates every function and data class of the package with
``jaxtyping.jaxtyped``. That wrapper binds all arguments and checks them twice; it took
more time than the package itself. ``check`` stands in its place: one pass of beartype,
in a scope of its own for the sizes of axes where the function names arrays. An inner
function that names none is left to mypy, since it would be decorated anew at each call
of the outer one. A function that has been checked often is checked now and then only.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_args

import jaxtyping
from beartype import BeartypeConf

OFTEN = 200  # calls that are all checked; later ones mostly repeat them
SELDOM = 20
AS_USUAL = BeartypeConf(violation_type=jaxtyping.TypeCheckError)
keep_sizes = jaxtyping.jaxtyped("context")
check_as_usual = jaxtyping.jaxtyped


def parts(annotation: Any) -> list[Any]:
    """The annotation and all that stands in its brackets."""
    return [annotation, *(y for x in get_args(annotation) for y in parts(x))]


def is_array(annotation: Any) -> bool:
    """Whether it is an array type of jaxtyping."""
    return inspect.isclass(annotation) and issubclass(
        annotation, jaxtyping.AbstractArray
    )


def check(function: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """What the import hook calls for every function and class."""
    if function is None:
        return functools.partial(check, typechecker=typechecker)
    hints = getattr(function, "__annotations__", {}).values()
    named = [part for hint in hints for part in parts(hint)]
    arrays = [x for x in named if is_array(x)]
    asks_more = any(isinstance(x, str) for x in named)  # a name still to be looked up
    asks_more |= any("{" in x.dim_str for x in arrays)  # the value of an argument
    asks_more |= inspect.isgeneratorfunction(function)  # its body starts later
    if not inspect.isfunction(function):
        return check_as_usual(function, typechecker=typechecker)
    if not arrays and (not named or "<locals>" in function.__qualname__):
        return function
    if asks_more:
        checked = check_as_usual(function, typechecker=typechecker)
    else:
        checked = typechecker(function, conf=AS_USUAL)
    n_calls = 0

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        nonlocal n_calls
        n_calls += 1
        often = n_calls > OFTEN and n_calls % SELDOM
        if often or jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        if asks_more or not arrays:
            return checked(*args, **kwargs)
        with keep_sizes:
            return checked(*args, **kwargs)

    return call


jaxtyping.jaxtyped = check
