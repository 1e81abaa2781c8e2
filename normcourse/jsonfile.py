"""Records are JSON files: read whole or refused in one line, written whole or not at all."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import UnionType

from normcourse import atomic

Kind = type | UnionType
OPTIONAL = type(None)  # a field that may be null: float | OPTIONAL


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
    """One field a line, and one line for each element of a list."""
    fields = [f" {_text(name)}: {_lines(value)}" for name, value in record.items()]
    atomic.write(path, "{\n" + ",\n".join(fields) + "\n}\n")


def damaged(path: Path, what: str) -> RecordError:
    return RecordError(f"{path.name} is damaged: {what}. Move {path.name} away to start anew.")


def expect(part: object, kinds: Mapping[str, Kind], where: str) -> Mapping:
    """The part itself; RecordError unless it is an object with these fields, each of its kind.

    A number that stands for float may be written as an integer; a bool is no number.
    """
    if not isinstance(part, Mapping):
        raise RecordError(f"{where} is no JSON object")
    if unlike := sorted(part.keys() ^ kinds.keys()):
        raise RecordError(f"{where} has fields that are missing or unknown: {', '.join(unlike)}")
    for name, kind in kinds.items():
        value = part[name]
        is_bool = isinstance(value, bool)
        fits = kind is bool if is_bool else isinstance(value, kind)
        if not fits:
            raise RecordError(f"{where} has {name} {_short(value)}, expected {_name(kind)}")
    return part


def _name(kind: object) -> str:
    return getattr(kind, "__name__", str(kind).replace("None", "null"))


def _short(value: object) -> str:
    text = _text(value)
    return text if len(text) <= 40 else text[:40] + "…"


def _lines(value: object) -> str:
    if not isinstance(value, list):
        return _text(value)
    return "[\n" + ",\n".join(f"  {_text(element)}" for element in value) + "\n ]"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")
