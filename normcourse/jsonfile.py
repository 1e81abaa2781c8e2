"""Records are JSON files: read whole or refused in one line, written whole or not at all."""

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from types import GenericAlias, UnionType
from typing import TypeVar, get_args, get_origin, get_type_hints

from normcourse import atomic

OPTIONAL = type(None)  # a field that may be null: float | OPTIONAL
Kind = type | GenericAlias | UnionType
Parsed = TypeVar("Parsed")


class RecordError(Exception):
    """A record that cannot be used; the text says what is wrong with it and what to do."""


def read(path: Path, make: str) -> dict:
    """The object in the file. make: the command that makes such a file.

    Raises: RecordError for a file that is not there, cannot be read, or holds no JSON object.
    """
    try:
        record = json.loads(path.read_text("utf-8"), parse_constant=_no_number)
    except FileNotFoundError as error:
        raise RecordError(f"{path.name} is not there. Make it with `{make}`.") from error
    except OSError as error:
        raise RecordError(f"{path.name} cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"no JSON ({error})") from error
    if not isinstance(record, dict):
        raise damaged(path, "it holds no object")
    return record


def write(path: Path, record: Mapping) -> None:
    """One field a line, and one line for each element of a list; dataclasses as objects."""
    fields = [f" {_text(name)}: {_lines(value)}" for name, value in record.items()]
    atomic.write(path, "{\n" + ",\n".join(fields) + "\n}\n")


def damaged(path: Path, what: str) -> RecordError:
    return RecordError(f"{path.name} is damaged: {what}. Move {path.name} away to start anew.")


def parse(kind: type[Parsed], part: object, where: str) -> Parsed:
    """The JSON object as this dataclass; RecordError unless it has its fields, each of its kind.

    A field whose default is None may be absent, and `write` leaves it out.
    """
    kinds = get_type_hints(kind)
    if isinstance(part, dict):
        part = {name: None for name in kinds if getattr(kind, name, kind) is None} | part
    return kind(**expect(part, kinds, where))


def expect(part: object, kinds: Mapping[str, Kind], where: str) -> dict:
    """The fields of `part`, parsed; RecordError unless it has just these, each of its kind.

    A number that stands for float may be written as an integer; a bool is no number.

    Args:
        kinds: types, or unions of them; dataclasses; list[…] and dict[str, …] of these.
    """
    if not isinstance(part, dict):
        raise RecordError(f"{where} is {_short(part)}, expected a JSON object")
    if unlike := sorted(part.keys() ^ kinds.keys()):
        raise RecordError(f"{where} has fields that are missing or unknown: {', '.join(unlike)}")
    return {name: _typed(kind, part[name], where, name) for name, kind in kinds.items()}


def _typed(kind: Kind, value: object, where: str, name: str) -> object:
    if is_dataclass(kind):
        return parse(kind, value, f"its {name}")
    plain = get_origin(kind) if isinstance(kind, GenericAlias) else kind
    no_bool = bool not in (kind, *get_args(kind))
    if not isinstance(value, plain) or (isinstance(value, bool) and no_bool):
        raise RecordError(f"{where} has {name} {_short(value)}, expected {_name(plain)}")
    if plain is kind:
        return value
    *_, of = get_args(kind)
    if isinstance(value, dict):
        return {key: _typed(of, one, where, f"{name}[{key}]") for key, one in value.items()}
    if isinstance(value, list):
        return [_typed(of, one, where, f"{name}[{place}]") for place, one in enumerate(value)]
    return value


def _name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("None", "null")


def _short(value: object) -> str:
    text = _text(value)
    return text if len(text) <= 40 else text[:40] + "…"


def _lines(value: object) -> str:
    if not isinstance(value, list):
        return _text(value)
    return "[\n" + ",\n".join(f"  {_text(element)}" for element in value) + "\n ]"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_stored)


def _stored(part: object) -> dict:
    """A dataclass's fields without those that have their defaults, which its class holds."""
    kind = type(part)
    return {name: one for name, one in vars(part).items() if one is not getattr(kind, name, part)}


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")
