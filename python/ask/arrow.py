# SPDX-License-Identifier: Apache-2.0
"""Arrow's C data interface for ask.tuples, without Arrow: arrays come in and go out as capsules (__arrow_c_array__)."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any, Optional

import numpy

from . import Code, Error, _usage


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
# A capsule that is being destroyed must not be counted again.
_pointer_of_dying = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_Destroy = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destroy)(
    ("PyCapsule_New", ctypes.pythonapi)
)

_SCHEMA, _ARRAY = b"arrow_schema", b"arrow_array"
#: Of strings and binaries: the type of their offsets in ask.h.
_STRINGS = {b"u": 1, b"z": 1, b"U": 2, b"Z": 2}
_INTEGERS = {
    b"c": numpy.int8, b"C": numpy.uint8, b"s": numpy.int16, b"S": numpy.uint16, b"i": numpy.int32, b"I": numpy.uint32,
    b"l": numpy.int64, b"L": numpy.uint64,
}  # fmt: skip


class _Imported:
    """An array of somebody's, which stays theirs: the capsules release it once they are gone."""

    def __init__(self, producer: Any) -> None:
        self._capsules = producer.__arrow_c_array__()
        schema, array = self._capsules
        try:
            self.schema = _Schema.from_address(_pointer_of(schema, _SCHEMA))
            self.array = _Array.from_address(_pointer_of(array, _ARRAY))
        except ValueError as error:
            raise _usage(f"__arrow_c_array__ of {type(producer).__name__} gives no Arrow capsules: {error}") from error
        if not self.schema.release or not self.array.release:
            raise _usage(f"the Arrow array of {type(producer).__name__} has been released")


def _memory(address: int, count: int, dtype: Any, owner: object) -> numpy.ndarray:
    memory = (ctypes.c_byte * (count * numpy.dtype(dtype).itemsize)).from_address(address)
    memory._owner = owner
    return numpy.frombuffer(memory, dtype, count)


def _check_whole(what: str, array: _Array, first: int, rows: int) -> None:
    """No row is null."""
    if array.null_count == 0 or rows == 0 or array.n_buffers < 1 or not array.buffers[0]:
        return
    bits = _memory(array.buffers[0], (first + rows + 7) // 8, numpy.uint8, None)
    there = numpy.unpackbits(bits, bitorder="little")[first : first + rows]
    if not there.all():
        raise Error(Code.INPUT, f"row {int(there.argmin())}: its {what} is null")


class Strings:
    """A column of them as ask_columns has it, where it lies; `keep` is whose memory it is."""

    def __init__(self, keep: _Imported, schema: _Schema, array: _Array, first: int, rows: int) -> None:
        self._keep = keep
        self.rows = rows
        self.offset_type = _STRINGS.get(schema.format, 0)
        if not self.offset_type or schema.dictionary:
            raise _usage(
                f"an Arrow array of format '{schema.format.decode()}'{' by dictionary' if schema.dictionary else ''} "
                "is none of keys: utf8, binary, large_utf8 or large_binary"
            )
        self.offsets: Optional[int] = None
        self.data: Optional[int] = None
        self.data_bytes = 0
        if rows == 0:
            return
        first += array.offset
        _check_whole("key", array, first, rows)
        width = 4 if self.offset_type == 1 else 8
        self.offsets = array.buffers[1] + first * width
        self.data = array.buffers[2]
        # Arrow does not say how much there is but by the last offset.
        last = _memory(self.offsets + rows * width, 1, numpy.int32 if width == 4 else numpy.int64, None)
        self.data_bytes = max(int(last[0]), 0)


def _numbers(keep: _Imported, schema: _Schema, array: _Array, first: int, rows: int) -> numpy.ndarray:
    dtype = _INTEGERS.get(schema.format)
    if dtype is None or schema.dictionary:
        raise _usage(f"an Arrow array of format '{schema.format.decode()}' is none of values: integers")
    if rows == 0:
        return numpy.empty(0, dtype)
    first += array.offset
    _check_whole("value", array, first, rows)
    return _memory(array.buffers[1], first + rows, dtype, keep)[first:]


def strings(producer: Any) -> tuple[Strings, Optional[numpy.ndarray]]:
    """Keys; and values, if it is a struct of both."""
    one = _Imported(producer)
    schema, array = one.schema, one.array
    if schema.format != b"+s":
        return Strings(one, schema, array, 0, array.length), None
    if schema.n_children != 2:
        raise _usage(f"an Arrow struct of {schema.n_children} fields: of two, a key and a value")
    _check_whole("tuple", array, array.offset, array.length)
    keys = Strings(one, schema.children[0].contents, array.children[0].contents, array.offset, array.length)
    return keys, _numbers(one, schema.children[1].contents, array.children[1].contents, array.offset, array.length)


def integers(producer: Any) -> numpy.ndarray:
    """Of any integer type, where they lie."""
    one = _Imported(producer)
    return _numbers(one, one.schema, one.array, 0, one.array.length)


# What consumers have not released yet, by their private_data. Each part of an array may go its own way.
_exported: dict[int, tuple] = {}
_numbers_of_exports = itertools.count(1)


def _keep(*what: object) -> int:
    number = next(_numbers_of_exports)
    _exported[number] = what
    return number


def _release(kind: type, address: int) -> None:
    part = kind.from_address(address)
    for i in range(part.n_children):
        child = part.children[i].contents
        if child.release:
            _Release(child.release)(ctypes.addressof(child))
    number = part.private_data
    part.release = None
    _exported.pop(number, None)


_release_schema = _Release(lambda address: _release(_Schema, address))
_release_array = _Release(lambda address: _release(_Array, address))
_RELEASE_SCHEMA = ctypes.cast(_release_schema, ctypes.c_void_p).value
_RELEASE_ARRAY = ctypes.cast(_release_array, ctypes.c_void_p).value


def _children(kind: type, parts: list) -> Any:
    return (ctypes.POINTER(kind) * len(parts))(*(ctypes.pointer(part) for part in parts))


def _schema(form: bytes, name: bytes, parts: list) -> _Schema:
    children = _children(_Schema, parts)
    made = _Schema(format=form, name=name, n_children=len(parts), release=_RELEASE_SCHEMA)
    if parts:
        made.children = children
    made.private_data = _keep(children, parts, form, name)
    return made


def _array(length: int, buffers: list, parts: list) -> _Array:
    children = _children(_Array, parts)
    # None: no bitmap, since nothing is null.
    addresses = (ctypes.c_void_p * len(buffers))(*(None if each is None else each.ctypes.data for each in buffers))
    made = _Array(length=length, n_buffers=len(buffers), n_children=len(parts), release=_RELEASE_ARRAY)
    made.buffers = addresses
    if parts:
        made.children = children
    made.private_data = _keep(children, parts, addresses, buffers)
    return made


def _capsule(part: Any, name: bytes) -> object:
    kind = type(part)
    number = 0

    def destroy(capsule: int) -> None:
        left = kind.from_address(_pointer_of_dying(capsule, name))
        if left.release:
            _Release(left.release)(ctypes.addressof(left))
        _exported.pop(number, None)

    destructor = _Destroy(destroy)
    number = _keep(part, destructor)
    return _new_capsule(ctypes.addressof(part), name, destructor)


def export(
    offsets: numpy.ndarray, data: numpy.ndarray, columns: dict[str, numpy.ndarray]
) -> tuple[object, object]:
    """Capsules of a struct of `key` and these columns of int64, whose memory is these arrays'."""
    rows = len(offsets) - 1
    fields = [_schema(b"Z", b"key", []), *(_schema(b"l", name.encode(), []) for name in columns)]
    parts = [_array(rows, [None, offsets, data], []), *(_array(rows, [None, each], []) for each in columns.values())]
    schema, array = _schema(b"+s", b"", fields), _array(rows, [None], parts)
    return _capsule(schema, _SCHEMA), _capsule(array, _ARRAY)
