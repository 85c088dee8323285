# SPDX-License-Identifier: Apache-2.0
"""Collectives and key-value tasks through the network: libask for numpy.

    import ask, numpy
    with ask.Group("train", rank=0, size=4, root="h1") as group:
        gradients = group.empty((1000, 10), numpy.float32)  # shared with the agent: not copied
        gradients[:] = 1
        group.allreduce(gradients)                          # in place: 4 everywhere

Members begin the same operations in the same order, with the same count, type, operator and root; who does not
fails the group at all of them, by name. ask.h has the rules of threads, forks and buffers; docs/values.md is the
long form. ask.torch is for PyTorch (docs/torch.md).

    ask.send("words", ["fig", "plum"], [1, 2], to="h4")     # on hosts with tuples
    ask.receive("words", senders=2).to_dict()               # on h4: every key once, with the sum of its values

Those are tasks, of keys instead of places in a vector: docs/tuples.md, help(ask.send), help(ask.receive).

Needs numpy, and no compiler. The library is what the environment's ASK_LIBRARY names, else libask.so.0 where the
dynamic linker looks (LD_LIBRARY_PATH, ldconfig).
"""

from __future__ import annotations

import collections
import ctypes
import enum
import os
import weakref
from typing import Optional, Sequence, Union

import numpy

__all__ = [
    "BFLOAT16", "Code", "Error", "Group", "Keys", "Op", "Receiver", "Request", "Result", "Sender", "Stats", "receive",
    "receive_async", "send", "send_async", "version",
]  # fmt: skip


class Code(enum.IntEnum):
    """What a call failed with; the numbers are ask.h's, and the exit codes of the commands."""

    INTERNAL = 1
    USAGE = 2
    INPUT = 3
    UNKNOWN = 4
    EXISTS = 5
    UNAVAILABLE = 6
    DENIED = 7
    UNSUPPORTED = 8
    LIMIT = 9
    DEADLINE = 10
    ABORTED = 11
    OVERFLOW = 12
    SWITCH_LOST = 13
    NOT_TAKEN = 14
    RUN_AGAIN = 15


class Op(enum.IntEnum):
    """Element by element. BAND, BOR and BXOR are for integers; SUM_32 and SUM_16 are sums of floats of up to 32 bits
    that take so many bits a value on the way, and are less exact: ask.h and docs/values.md say by how much. COUNT and
    MEAN are of tuples, which else have SUM, MIN and MAX."""

    SUM = 1
    PROD = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    SUM_32 = 8
    SUM_16 = 9
    COUNT = 10
    MEAN = 11


class Error(RuntimeError):
    """A call that failed: `code` is a Code, `text` says who or what."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = Code(code)
        self.text = text


#: For `dtype=`: arrays of uint16 hold the upper halves of float32, since numpy has no such type.
BFLOAT16 = 5

_DTYPES = {
    "int32": 1, "int64": 2, "float32": 3, "float64": 4, "float16": 6, "int8": 7, "uint8": 8, "int16": 9,
    "uint16": 10, "uint32": 11, "uint64": 12,
}  # fmt: skip


class _Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("group", ctypes.c_char_p),
        ("root", ctypes.c_char_p),
        ("rank", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("deadline_ms", ctypes.c_uint32),
        ("cancel_fd", ctypes.c_int),
        ("agent", ctypes.c_char_p),
        ("token", ctypes.c_char_p),
        ("arena_bytes", ctypes.c_uint64),
    ]


def _load() -> ctypes.CDLL:
    named = os.environ.get("ASK_LIBRARY")
    try:
        library = ctypes.CDLL(named or "libask.so.0")
    except OSError as error:
        hint = "$ASK_LIBRARY names it" if named else "install it and run ldconfig, or name its file in $ASK_LIBRARY"
        raise ImportError(f"no libask: {error}: {hint}") from error
    pointer, size, number, word = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint32
    request = ctypes.POINTER(pointer)
    for name, result, arguments in (
        ("ask_version", word, []),
        ("ask_error", ctypes.c_char_p, []),
        ("ask_group_open", number, [ctypes.POINTER(_Options), request]),
        ("ask_group_close", None, [pointer]),
        ("ask_group_error", number, [pointer, pointer]),
        ("ask_group_shrink", number, [pointer, request]),
        ("ask_group_grow", number, [pointer, word, request]),
        ("ask_group_rank", word, [pointer]),
        ("ask_group_size", word, [pointer]),
        ("ask_alloc", pointer, [pointer, size]),
        ("ask_free", number, [pointer, pointer]),
        ("ask_iallreduce", number, [pointer, pointer, pointer, size, number, number, request]),
        ("ask_ireduce", number, [pointer, pointer, pointer, size, number, number, word, request]),
        ("ask_ibcast", number, [pointer, pointer, size, number, word, request]),
        ("ask_ibarrier", number, [pointer, request]),
        ("ask_wait", number, [pointer]),
        ("ask_test", number, [pointer, ctypes.POINTER(number)]),
        ("ask_wait_for", number, [pointer, ctypes.c_uint64, ctypes.POINTER(number)]),
    ):
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


_library = _load()


def version() -> tuple[int, int, int]:
    """The library's: major, minor, patch."""
    word = _library.ask_version()
    return word >> 16, word >> 8 & 255, word & 255


def _check(code: int) -> None:
    if code != 0:
        raise Error(code, _library.ask_error().decode(errors="replace"))


def _usage(text: str) -> Error:
    return Error(Code.USAGE, text)


def _type_of(array: numpy.ndarray, dtype: Optional[int]) -> int:
    """Its number in ask.h, of an array that libask can use as it lies."""
    if not isinstance(array, numpy.ndarray) or not array.flags.c_contiguous or not array.dtype.isnative:
        raise _usage("not a numpy array that is contiguous (C order) and in this host's byte order")
    number = _DTYPES.get(array.dtype.name)
    if dtype == BFLOAT16 and array.dtype.name == "uint16":
        return BFLOAT16
    if dtype is not None or number is None:
        raise _usage(f"an array of {array.dtype.name} cannot be reduced" + (" as bf16" if dtype == BFLOAT16 else ""))
    return number


class Request:
    """An operation under way. Its arrays are kept until it has ended."""

    def __init__(self, group: Group, handle: ctypes.c_void_p, arrays: tuple, result: Optional[numpy.ndarray]) -> None:
        self._group, self._handle, self._arrays, self._result = group, handle, arrays, result

    def _end(self) -> None:
        self._handle, self._arrays = None, ()
        self._group._requests.discard(self)

    def _refused(self, code: int) -> bool:
        # While another thread is in a call with the group nothing has happened.
        return code == Code.USAGE and not _library.ask_group_error(self._group._handle, None)

    def wait(self) -> Optional[numpy.ndarray]:
        """The result, once it is whole; Error if the operation failed. Again: the same array at once."""
        if self._handle is not None:
            self._group._open()
            code = _library.ask_wait(self._handle)
            if not self._refused(code):
                self._end()
            _check(code)
        return self._result

    def test(self) -> bool:
        """Whether it has ended, without waiting; Error if it failed."""
        return self.wait_for(0)

    def wait_for(self, seconds: float) -> bool:
        """The same, once it has ended or after so many seconds."""
        if self._handle is None:
            return True
        self._group._open()
        done = ctypes.c_int(0)
        limit = round(1e6 * seconds)
        ended = ctypes.byref(done)
        code = _library.ask_wait_for(self._handle, limit, ended) if limit > 0 else _library.ask_test(self._handle, ended)
        if done.value:
            self._end()
        _check(code)
        return bool(done.value)


class Group:
    """A member of a group of `size` processes, this one the `rank`th of 0 to size - 1 (at most 64).

    name        1 to 63 of A-Z a-z 0-9 _ -, the same at all members
    root        host whose agent collects (name or address), the same at all members
    deadline    seconds for all to join, and for an operation to move on
    arena_bytes memory shared with the agent, that arrays of empty() and copies of all others come out of
    agent       its socket: $ASK_AGENT, else /run/ask/agent.sock
    token       what all members show, where root's agent wants one
    cancel_fd   once it is readable every wait fails with Code.ABORTED

    Returns once all members have joined, else raises Error: DEADLINE names who did not come, EXISTS is a rank that
    is taken, UNAVAILABLE an agent that cannot be reached. One thread at a time may use a group.
    """

    _handle: Optional[ctypes.c_void_p] = None

    def __init__(
        self,
        name: str,
        rank: int,
        size: int,
        root: str,
        *,
        deadline: float = 30.0,
        arena_bytes: int = 64 << 20,
        agent: Optional[str] = None,
        token: Optional[str] = None,
        cancel_fd: int = -1,
    ) -> None:
        self._begin_empty()
        if not (0 <= rank < 1 << 32 and 0 <= size < 1 << 32 and 0.001 <= deadline <= 86400 and arena_bytes > 0):
            raise _usage("rank, size, deadline or arena_bytes is out of range")
        self.rank, self.size, self.name = rank, size, name
        text = [None if each is None else os.fsencode(each) for each in (name, root, agent, token)]
        options = _Options(
            ctypes.sizeof(_Options), text[0], text[1], rank, size, int(deadline * 1000), cancel_fd, text[2], text[3],
            arena_bytes,
        )  # fmt: skip
        handle = ctypes.c_void_p()
        _check(_library.ask_group_open(ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle

    def _begin_empty(self) -> None:
        self._handle: Optional[ctypes.c_void_p] = None
        self._closed = False
        self._requests: set[Request] = set()
        self._arrays: set[int] = set()  # addresses of empty() that somebody still has
        self._at_close: list = []  # what else uses the group is told first
        self._garbage: collections.deque[int] = collections.deque()

    def _follow(self, function: object, *arguments: int) -> Group:
        handle = ctypes.c_void_p()
        _check(function(self._open(), *arguments, ctypes.byref(handle)))
        group = Group.__new__(Group)
        group._begin_empty()
        group.name, group._handle = self.name, handle
        group.rank, group.size = _library.ask_group_rank(handle), _library.ask_group_size(handle)
        return group

    def shrink(self) -> Group:
        """Once this group has failed: one of its survivors, which all call it, with ranks from 0 in their former order.
        The same operations have ended at all of them; the others failed and may be begun again there. Those that do
        not come within the deadline are left out. Error ABORTED: its root has died, or it goes on without this member.
        """
        return self._follow(_library.ask_group_shrink)

    def grow(self, size: int) -> Group:
        """A group of more members: those of this one all call it, with no operation under way, and keep their ranks; new
        ones open it by the same name, with this size and ranks from the former one on. This group is over then."""
        return self._follow(_library.ask_group_grow, size)

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the group; operations under way here fail at all members. The memory of empty() stays, and with it
        this member's place, until the last of its arrays is gone."""
        self._closed = True
        while self._at_close:
            self._at_close.pop()()
        self._requests.clear()
        if not self._arrays:
            self._leave()

    def _leave(self) -> None:
        handle = vars(self).pop("_handle", None)  # in one step: another thread may be here, too
        if handle is not None:
            _library.ask_group_close(handle)

    def _open(self) -> ctypes.c_void_p:
        if self._closed or self._handle is None:
            raise _usage(f"group {self.name} is closed")
        while self._garbage:
            _library.ask_free(self._handle, self._garbage.popleft())
        return self._handle

    def _gone(self, address: int) -> None:
        # Maybe in the middle of another call, or in another thread: the next call frees.
        # In this order, since it may be another's by then.
        self._arrays.discard(address)
        self._garbage.append(address)
        if self._closed:
            self.close()

    def empty(self, shape: Union[int, Sequence[int]], dtype: object = numpy.float32) -> numpy.ndarray:
        """An array, not initialised, of memory shared with the agent: operations use it where it is. Error LIMIT: the
        arena has not that much in one piece."""
        handle = self._open()
        kind = numpy.dtype(dtype)
        dimensions = (shape,) if isinstance(shape, int) else tuple(shape)
        count = 1
        for each in dimensions:
            count *= each
        if count < 0 or kind.hasobject:
            raise _usage("no such shape or type")
        address = _library.ask_alloc(handle, count * kind.itemsize)
        if address is None:
            _check(Code.LIMIT)
        memory = (ctypes.c_byte * (count * kind.itemsize)).from_address(address)
        self._arrays.add(address)
        weakref.finalize(memory, self._gone, address).atexit = False
        return numpy.frombuffer(memory, kind, count).reshape(dimensions)

    def _begin(self, function: object, arguments: tuple, arrays: tuple, result: Optional[numpy.ndarray]) -> Request:
        handle = ctypes.c_void_p()
        _check(function(self._open(), *arguments, ctypes.byref(handle)))
        request = Request(self, handle, arrays, result)
        self._requests.add(request)
        return request

    @staticmethod
    def _output(array: numpy.ndarray, out: Optional[numpy.ndarray], kind: int, dtype: Optional[int]) -> numpy.ndarray:
        result = array if out is None else out
        if _type_of(result, dtype) != kind or result.size != array.size:
            raise _usage("the output has not the input's type and number of elements")
        if not result.flags.writeable:
            raise _usage("the output is not writeable")
        return result

    def iallreduce(
        self, array: numpy.ndarray, op: Op = Op.SUM, out: Optional[numpy.ndarray] = None, dtype: Optional[int] = None
    ) -> Request:
        """Begins what allreduce() does; until the request has ended, leave `array` as it is and `out` alone."""
        kind = _type_of(array, dtype)
        result = self._output(array, out, kind, dtype)
        arguments = (array.ctypes.data, result.ctypes.data, array.size, kind, op)
        return self._begin(_library.ask_iallreduce, arguments, (array, result), result)

    def ireduce(
        self,
        array: numpy.ndarray,
        root: int,
        op: Op = Op.SUM,
        out: Optional[numpy.ndarray] = None,
        dtype: Optional[int] = None,
    ) -> Request:
        """Begins what reduce() does."""
        kind = _type_of(array, dtype)
        result = self._output(array, out, kind, dtype) if root == self.rank else None
        where = None if result is None else result.ctypes.data
        arguments = (array.ctypes.data, where, array.size, kind, op, root)
        return self._begin(_library.ask_ireduce, arguments, (array, result), result)

    def ibcast(self, array: numpy.ndarray, root: int, dtype: Optional[int] = None) -> Request:
        """Begins what bcast() does."""
        kind = _type_of(array, dtype)
        self._output(array, None, kind, dtype)
        arguments = (array.ctypes.data, array.size, kind, root)
        return self._begin(_library.ask_ibcast, arguments, (array,), array)

    def ibarrier(self) -> Request:
        """Begins what barrier() does."""
        return self._begin(_library.ask_ibarrier, (), (), None)

    def allreduce(
        self, array: numpy.ndarray, op: Op = Op.SUM, out: Optional[numpy.ndarray] = None, dtype: Optional[int] = None
    ) -> numpy.ndarray:
        """Combines all members' arrays, of any shape, element by element; the result goes to `out`, of the same type
        and number of elements, else in place, and is returned. Error: USAGE, LIMIT and UNSUPPORTED leave the group as
        it was; all others are its end."""
        return self.iallreduce(array, op, out, dtype).wait()

    def reduce(
        self,
        array: numpy.ndarray,
        root: int,
        op: Op = Op.SUM,
        out: Optional[numpy.ndarray] = None,
        dtype: Optional[int] = None,
    ) -> Optional[numpy.ndarray]:
        """As allreduce(), with the result at rank `root` only; None elsewhere."""
        return self.ireduce(array, root, op, out, dtype).wait()

    def bcast(self, array: numpy.ndarray, root: int, dtype: Optional[int] = None) -> numpy.ndarray:
        """What rank `root` has in `array`, into everybody's."""
        return self.ibcast(array, root, dtype).wait()

    def barrier(self) -> None:
        """Returns once every member has begun it."""
        self.ibarrier().wait()


# At the end, because they use what is above.
from .tuples import (  # noqa: E402
    Keys, Receiver, Result, Sender, Stats, receive, receive_async, send, send_async,
)  # fmt: skip
