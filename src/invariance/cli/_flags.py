"""Flags of a command: how its settings are read from words, and what can be given.

A command is a dataclass and a flag is one of its fields: ``--optim.lr`` is the field
``lr`` of the field ``optim``. tyro reads them, by the rules here.
"""

import dataclasses
import functools
import operator
import types
import typing
from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from tyro import conf
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructTypeInfo,
    UnsupportedTypeAnnotationError,
)

FLAGS = ConstructorRegistry()
ASKED: list[Any] = []  # dataclasses whose flags are being made
UNSET = ("unset", "None")
SAID = conf.arg(help_behavior_hint="")


@dataclass(frozen=True)
class Flag:
    """One thing that a command can be told."""

    setting: str
    """Its dotted name in Python, such as "optim.lr"."""
    names: tuple[str, ...]
    """As they are typed; none where its place says what it is."""
    value: str
    """What kind of value it takes; empty for a switch."""
    choices: tuple[str, ...]
    """All the values there are; empty where there is no end of them."""
    default: str
    """As it would be typed; empty where the help says what happens without it."""
    help: str


def list_flags(command: Any, before: str = "") -> list[Flag]:
    """All that a command can be told, in the order of its settings.

    Args:
        command: A dataclass.
        before: Of every name: where the dataclass is a field of another, its name.
    """
    flags: list[Flag] = []
    with FLAGS:
        info = StructTypeInfo.make(command, tyro.MISSING_NONPROP, False)
        spec = ConstructorRegistry.get_struct_spec(info)
        assert isinstance(spec, StructConstructorSpec)
        for field in spec.fields:
            kind, marks = split_marks(field.type)
            overrides = {k: v for mark in marks for k, v in vars(mark).items() if v}
            name = before + str(overrides.get("name", field.name))
            if dataclasses.is_dataclass(kind):
                flags += list_flags(kind, f"{name}.")
                continue
            primitive = PrimitiveTypeInfo.make(kind, set())
            reader = ConstructorRegistry.get_primitive_spec(primitive)
            assert isinstance(reader, PrimitiveConstructorSpec), name
            typed, switch = f"--{name.replace('_', '-')}", kind is bool
            names = [*overrides.get("aliases", ()), typed]
            group, dot, last = typed[2:].rpartition(".")
            if switch and conf.FlagCreatePairsOff not in marks:
                names.append(f"--{group}{dot}no-{last}")
            known = field.default not in (None, (), {}, tyro.MISSING_NONPROP)
            words = reader.str_from_instance(field.default) if known else []
            choices = [c for c in reader.choices or () if c not in UNSET and not switch]
            flag = Flag(
                setting=name,
                names=() if conf.Positional in marks else tuple(names),
                value="" if switch else str(overrides.get("metavar", reader.metavar)),
                choices=tuple(choices),
                default=" ".join(words),
                help=str(field.helptext() if callable(field.helptext) else ""),
            )
            flags.append(flag)
    return flags


def split_marks(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type, and what is annotated to it."""
    if typing.get_origin(annotation) is not Annotated:
        return annotation, ()
    kind, *marks = typing.get_args(annotation)
    return kind, tuple(marks)


@FLAGS.struct_rule
def join_help(
    kind: StructTypeInfo,
) -> StructConstructorSpec | None:
    """Help without the line ends of the source, which would break its lines twice."""
    if not dataclasses.is_dataclass(kind.type) or kind.type in ASKED:
        return None
    ASKED.append(kind.type)  # the next time, tyro's own rule answers
    try:
        spec = ConstructorRegistry.get_struct_spec(kind)
    finally:
        ASKED.remove(kind.type)
    if not isinstance(spec, StructConstructorSpec):
        return None

    def join(text: Any) -> str:
        return " ".join(((text() if callable(text) else text) or "").split())

    fields = []
    for field in spec.fields:
        text = join(field.helptext)
        silent = field.default is None and "Default: " in text  # "unset" says no more
        kept: Any = Annotated[field.type, SAID] if silent else field.type
        helptext = functools.partial(str, text)
        fields.append(dataclasses.replace(field, helptext=helptext, type=kept))
    return dataclasses.replace(spec, fields=tuple(fields))


@FLAGS.primitive_rule
def parse_switch(
    kind: PrimitiveTypeInfo,
) -> PrimitiveConstructorSpec[Any] | None:
    """On, off or left to us: true, false or auto, however they are written."""
    if typing.get_args(kind.type) != (bool, typing.Literal["auto"]):
        return None
    words: dict[str, bool | str] = {"auto": "auto", "true": True, "false": False}

    def read(given: list[str]) -> Any:
        if given[0].lower() not in words:
            raise ValueError(f"expected one of {', '.join(words)}: got {given[0]!r}")
        return words[given[0].lower()]

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="{" + ",".join(words) + "}",
        instance_from_str=read,
        is_instance=lambda value: value in words.values(),
        str_from_instance=lambda value: [str(value).lower()],
    )


@FLAGS.primitive_rule
def parse_optional(
    kind: PrimitiveTypeInfo,
) -> PrimitiveConstructorSpec[Any] | None:
    """``X | None`` is shown as X alone; the word "unset" gives None."""
    options = typing.get_args(kind.type)
    if kind.type_origin not in (typing.Union, types.UnionType):
        return None
    if type(None) not in options:
        return None
    rest: Any = functools.reduce(
        operator.or_, (o for o in options if o is not type(None))
    )
    inner = ConstructorRegistry.get_primitive_spec(
        PrimitiveTypeInfo.make(rest, kind.markers)
    )
    if isinstance(inner, UnsupportedTypeAnnotationError):
        return None
    spec = inner

    def read(words: list[str]) -> Any:
        return None if words[0] in UNSET else spec.instance_from_str(words)

    def show(value: Any) -> list[str]:
        return [UNSET[0]] if value is None else spec.str_from_instance(value)

    return dataclasses.replace(
        spec,
        instance_from_str=read,
        str_from_instance=show,
        is_instance=lambda value: value is None or spec.is_instance(value),
        choices=None if spec.choices is None else (*spec.choices, *UNSET),
    )
