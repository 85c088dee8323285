# SPDX-License-Identifier: Apache-2.0
"""Key-value tasks: what ask-send and ask-recv do, from numpy and Arrow columns. `import ask` has all of it.

    stats = ask.send("words", ["fig", "plum", "fig"], [1, 2, 3], to="h4")    # on some hosts
    result = ask.receive("words", senders=2)                                # on h4
    result.to_dict()                                                        # {"fig": ..., "plum": ...}

docs/tuples.md is the long form.
"""

from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import functools
import operator
import os
import select
import threading
import weakref
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence, Union

import numpy

from . import Code, Error, Op, _check, _library, _usage
from . import arrow as _arrow

MAX_KEY = 65535
_INT32, _INT64 = 1, 2
_SORTED, _NO_SWITCH, _NO_BACK, _REQUIRE_REGION, _ALLOW_INCOMPLETE, _AGAIN = 1, 2, 4, 8, 16, 32


class _Columns(ctypes.Structure):
    _fields_ = [
        ("rows", ctypes.c_size_t),
        ("offset_type", ctypes.c_int),
        ("offsets", ctypes.c_void_p),
        ("keys", ctypes.c_void_p),
        ("key_bytes", ctypes.c_size_t),
        ("values", ctypes.c_void_p),
    ]


_COUNTS = (
    "tuples_in", "tuples_merged", "tuples_sent", "tuples_whole", "tuples_switch", "tuples_evicted", "tuples_back",
    "tuples_receiver", "left_collision", "left_overflow", "left_contention", "left_back_full", "left_back_contention",
    "left_no_region", "left_long", "packets_sent", "packets_acked_by_switch", "slots_filled", "slots_offered",
    "retransmissions",
)  # fmt: skip


class _Stats(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        *((name, ctypes.c_uint64) for name in _COUNTS),
        ("seconds", ctypes.c_double),
        ("runs", ctypes.c_uint32),
        ("senders", ctypes.c_uint32),
    ]

    def __init__(self) -> None:
        super().__init__(struct_size=ctypes.sizeof(_Stats))


class _SenderOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("task", ctypes.c_char_p),
        ("to", ctypes.c_char_p),
        ("deadline_ms", ctypes.c_uint32),
        ("cancel_fd", ctypes.c_int),
        ("agent", ctypes.c_char_p),
        ("token", ctypes.c_char_p),
        ("sample", ctypes.POINTER(_Columns)),
        ("expected", ctypes.c_uint64),
        ("merge_window", ctypes.c_int64),
        ("can_repeat", ctypes.c_int),
    ]


class _ReceiverOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("task", ctypes.c_char_p),
        ("senders", ctypes.c_uint32),
        ("op", ctypes.c_int),
        ("deadline_ms", ctypes.c_uint32),
        ("cancel_fd", ctypes.c_int),
        ("agent", ctypes.c_char_p),
        ("token", ctypes.c_char_p),
        ("from_hosts", ctypes.c_char_p),
        ("aggregators", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
    ]


def _declare() -> None:
    pointer, number, columns = ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(_Columns)
    out, stats = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(_Stats)
    for name, result, arguments in (
        ("ask_sender_open", number, [ctypes.POINTER(_SenderOptions), out]),
        ("ask_sender_push", number, [pointer, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64]),
        ("ask_sender_push_columns", number, [pointer, columns]),
        ("ask_sender_flush", number, [pointer]),
        ("ask_sender_finish", number, [pointer, stats]),
        ("ask_sender_abandon", number, [pointer, ctypes.c_char_p]),
        ("ask_sender_close", None, [pointer]),
        ("ask_send", number, [ctypes.POINTER(_SenderOptions), columns, stats]),
        ("ask_receiver_open", number, [ctypes.POINTER(_ReceiverOptions), out]),
        ("ask_receiver_wait", number, [pointer, out]),
        ("ask_receiver_confirm", number, [pointer]),
        ("ask_receiver_close", None, [pointer]),
        ("ask_receive", number, [ctypes.POINTER(_ReceiverOptions), out]),
        ("ask_result_columns", columns, [pointer]),
        ("ask_result_counts", ctypes.c_void_p, [pointer]),
        ("ask_result_stats", number, [pointer, stats]),
        ("ask_result_missing", ctypes.c_char_p, [pointer, ctypes.c_size_t]),
        ("ask_result_free", None, [pointer]),
    ):
        function = getattr(_library, name)
        function.restype = result
        function.argtypes = arguments


_declare()


@dataclasses.dataclass(frozen=True)
class Stats:
    """What became of a task's tuples: docs/commands.md has what each counts. tuples_in = tuples_merged + tuples_sent,
    tuples_sent = tuples_switch + tuples_receiver, and tuples_receiver is the sum of all left_..."""

    tuples_in: int
    tuples_merged: int
    tuples_sent: int
    tuples_whole: int
    tuples_switch: int
    tuples_evicted: int
    tuples_back: int
    tuples_receiver: int
    left_collision: int
    left_overflow: int
    left_contention: int
    left_back_full: int
    left_back_contention: int
    left_no_region: int
    left_long: int
    packets_sent: int
    packets_acked_by_switch: int
    slots_filled: int
    slots_offered: int
    retransmissions: int
    seconds: float
    #: More than 1: a switch lost what it had added up, and all was sent again.
    runs: int
    #: Whose tuples these are.
    senders: int


def _stats_of(stats: _Stats) -> Stats:
    return Stats(**{field.name: getattr(stats, field.name) for field in dataclasses.fields(Stats)})


class Keys:
    """Keys by columns: key i is data[offsets[i]:offsets[i + 1]].

    offsets   int32 or int64, of shape (rows + 1,), never decreasing; need not begin at 0
    data      bytes, or whatever else is a contiguous buffer

    Neither is copied.
    """

    def __init__(self, offsets: numpy.ndarray, data: Any) -> None:
        if not isinstance(offsets, numpy.ndarray) or offsets.dtype.name not in ("int32", "int64") or offsets.ndim != 1:
            raise _usage("offsets are not a numpy array of int32 or int64 of one dimension")
        if len(offsets) == 0:
            raise _usage("there are no offsets: of no rows there is one")
        self.offsets = numpy.require(offsets, requirements=["C", "A"])
        try:
            self.data = numpy.frombuffer(data, numpy.uint8) if len(memoryview(data)) else numpy.empty(0, numpy.uint8)
        except (TypeError, ValueError, BufferError) as error:
            raise _usage(f"the bytes of keys are no contiguous buffer: {error}") from error

    def __len__(self) -> int:
        return len(self.offsets) - 1


def _offsets_of(lengths: numpy.ndarray) -> numpy.ndarray:
    offsets = numpy.zeros(len(lengths) + 1, numpy.int64)
    numpy.cumsum(lengths, out=offsets[1:])
    return offsets


def _fixed_width(array: numpy.ndarray) -> Keys:
    """Of numpy's own bytes, which end before the zeros at their end."""
    lengths = numpy.char.str_len(array)
    width = array.dtype.itemsize
    table = numpy.ascontiguousarray(array).view(numpy.uint8).reshape(len(array), width)
    return Keys(_offsets_of(lengths), table[numpy.arange(width) < lengths[:, None]])


def _encoded(key: Any) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, (bytes, bytearray, memoryview)):
        return bytes(key)
    raise _usage(f"a key of type {type(key).__name__}: str or bytes")


def _keys_of(keys: Any) -> Keys:
    if isinstance(keys, Keys):
        return keys
    if isinstance(keys, (str, bytes)):
        raise _usage("keys are one string: a list of them")
    if isinstance(keys, numpy.ndarray):
        if keys.ndim != 1:
            raise _usage(f"keys are an array of {keys.ndim} dimensions: of one")
        if keys.dtype.kind in "US" and len(keys):
            return _fixed_width(keys if keys.dtype.kind == "S" else numpy.char.encode(keys, "utf-8"))
        if keys.dtype.kind not in "USO":
            raise _usage(f"keys are an array of {keys.dtype.name}: of str, bytes or objects, or ask.Keys")
    encoded = [_encoded(key) for key in keys]
    return Keys(_offsets_of(numpy.fromiter(map(len, encoded), numpy.int64, len(encoded))), b"".join(encoded))


def _values_of(values: Any, rows: int) -> Optional[numpy.ndarray]:
    if values is None:
        return None
    if hasattr(values, "__arrow_c_array__"):
        values = _arrow.integers(values)
    array = numpy.asarray(values)
    if array.shape != (rows,):
        raise _usage(f"{rows} keys have values of shape {array.shape}: ({rows},)")
    if rows == 0:
        return numpy.empty(0, numpy.int64)
    if array.dtype.kind not in "iub":
        raise _usage(f"values of {array.dtype.name}: integers that fit int64")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and int(array.max()) > numpy.iinfo(numpy.int64).max:
        raise Error(Code.LIMIT, f"row {int(array.argmax())}: the value {array.max()} leaves int64")
    return numpy.require(array, numpy.int64, ["C", "A"])


class _Tuples:
    """A caller's keys and values as libask takes them, and what has to live as long."""

    def __init__(self, keys: Any, values: Any) -> None:
        if isinstance(keys, Result) and values is None:
            if keys.counts is not None:
                raise _usage("a result of means is of two columns: send its values, or its counts, by ask.Keys")
            keys, values = Keys(keys.offsets, keys.key_bytes), keys.values
        if hasattr(keys, "__arrow_c_array__"):
            strings, inside = _arrow.strings(keys)
            values = inside if values is None else values
            rows = strings.rows
            first = (strings.offset_type, strings.offsets, strings.data, strings.data_bytes)
            self._kept: tuple = (strings,)
        else:
            made = _keys_of(keys)
            rows = len(made)
            first = (
                _INT32 if made.offsets.itemsize == 4 else _INT64,
                made.offsets.ctypes.data, made.data.ctypes.data, made.data.size,
            )  # fmt: skip
            self._kept = (made,)
        array = _values_of(values, rows)
        self._kept += (array,)
        self.columns = _Columns(rows, *first, None if array is None else array.ctypes.data)


def _text(value: Optional[str], name: str) -> Optional[bytes]:
    if value is None:
        return None
    if not isinstance(value, str) or "\0" in value:
        raise _usage(f"{name} is no string without zero bytes")
    return os.fsencode(value)


def _milliseconds(deadline: float) -> int:
    if not 0.001 <= deadline <= 86400:
        raise _usage(f"a deadline of {deadline} s: from 0.001 to 86400")
    return round(deadline * 1000)


def _sender_options(
    task: str,
    to: str,
    deadline: float,
    agent: Optional[str],
    token: Optional[str],
    cancel_fd: int,
    merge_window: Optional[int],
) -> _SenderOptions:
    window = -1 if merge_window is None else merge_window
    if not -1 <= window < 1 << 63:
        raise _usage(f"merge_window is {merge_window}")
    return _SenderOptions(
        struct_size=ctypes.sizeof(_SenderOptions),
        task=_text(task, "task"),
        to=_text(to, "to"),
        deadline_ms=_milliseconds(deadline),
        cancel_fd=cancel_fd,
        agent=_text(agent, "agent"),
        token=_text(token, "token"),
        merge_window=window,
    )


def _op_of(op: Union[Op, str]) -> int:
    if not isinstance(op, str):
        return op
    if op.upper() not in Op.__members__:
        raise _usage(f"no operator is called '{op}': sum, count, min, max or mean")
    return Op[op.upper()]


def _receiver_options(
    task: str,
    senders: int,
    *,
    op: Union[Op, str] = Op.SUM,
    deadline: float = 30.0,
    agent: Optional[str] = None,
    token: Optional[str] = None,
    cancel_fd: int = -1,
    from_hosts: Optional[Sequence[str]] = None,
    aggregators: int = 0,
    sort: bool = False,
    use_switch: bool = True,
    require_region: bool = False,
    allow_incomplete: bool = False,
    again: bool = False,
) -> _ReceiverOptions:
    if not 0 <= senders < 1 << 32 or not 0 <= aggregators < 1 << 32:
        raise _usage("senders or aggregators is out of range")
    flags = (
        _SORTED * sort | _NO_SWITCH * (not use_switch) | _REQUIRE_REGION * require_region
        | _ALLOW_INCOMPLETE * allow_incomplete | _AGAIN * again
    )  # fmt: skip
    return _ReceiverOptions(
        struct_size=ctypes.sizeof(_ReceiverOptions),
        task=_text(task, "task"),
        senders=senders,
        op=_op_of(op),
        deadline_ms=_milliseconds(deadline),
        cancel_fd=cancel_fd,
        agent=_text(agent, "agent"),
        token=_text(token, "token"),
        from_hosts=None if from_hosts is None else _text(",".join(from_hosts), "from_hosts"),
        aggregators=aggregators,
        flags=flags,
    )


class Result:
    """Every key of a task once. `len(result)` rows, in no order unless it was asked for.

    offsets     int64, of shape (rows + 1,), from 0 on
    key_bytes   uint8, of shape (offsets[-1],): key i is key_bytes[offsets[i]:offsets[i + 1]]
    values      int64, of shape (rows,); of means: the sums
    counts      of means: int64, of shape (rows,), of how many values these are the sums; else None
    stats       of all senders together
    missing     with allow_incomplete: whose tuples lack, and why

    The arrays are the library's memory, not copied, and cannot be written to. Arrow takes it as a struct of `key` and
    `value`, or of `key`, `sum` and `count` (__arrow_c_array__).
    """

    def __init__(self, handle: ctypes.c_void_p) -> None:
        owner = _Owner(handle)
        columns = _library.ask_result_columns(handle).contents
        self.offsets = owner.array(columns.offsets, columns.rows + 1, numpy.int64)
        self.key_bytes = owner.array(columns.keys, columns.key_bytes, numpy.uint8)
        self.values = owner.array(columns.values, columns.rows, numpy.int64)
        counts = _library.ask_result_counts(handle)
        self.counts = owner.array(counts, columns.rows, numpy.int64) if counts else None
        stats = _Stats()
        _check(_library.ask_result_stats(handle, ctypes.byref(stats)))
        self.stats = _stats_of(stats)
        self.missing: list[str] = []
        while (each := _library.ask_result_missing(handle, len(self.missing))) is not None:
            self.missing.append(each.decode(errors="replace"))

    def __len__(self) -> int:
        return len(self.values)

    def key(self, row: int) -> bytes:
        """The key of one row."""
        return self.key_bytes[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def keys(self) -> list[bytes]:
        """All keys."""
        data, offsets = self.key_bytes.tobytes(), self.offsets.tolist()
        return [data[first:last] for first, last in zip(offsets, offsets[1:])]

    def means(self) -> numpy.ndarray:
        """Of means: float64, of shape (rows,), each the quotient of a sum and its count, rounded once from what both
        are as float64. Exact, beyond 2^53 too, are values and counts."""
        if self.counts is None:
            raise _usage("this is no result of means: op=\"mean\"")
        return self.values / self.counts

    def items(self) -> Iterator[tuple[bytes, Union[int, float]]]:
        """Pairs of a key and its value, or its mean."""
        if self.counts is None:
            return zip(self.keys(), self.values.tolist())
        return zip(self.keys(), map(operator.truediv, self.values.tolist(), self.counts.tolist()))

    def to_dict(self, encoding: Optional[str] = "utf-8") -> dict:
        """Values by key, or means. Keys are str; bytes without an encoding. UnicodeDecodeError: they are none of it."""
        if encoding is None:
            return dict(self.items())
        return {key.decode(encoding): value for key, value in self.items()}

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Arrow's C data interface: a struct of key (large_binary) and value (int64), or of key, sum and count, not
        copied."""
        columns = {"value": self.values} if self.counts is None else {"sum": self.values, "count": self.counts}
        return _arrow.export(self.offsets, self.key_bytes, columns)


class _Owner:
    """A result of the library's, until the last array of it is gone."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        weakref.finalize(self, _library.ask_result_free, handle).atexit = False

    def array(self, address: Optional[int], count: int, dtype: type) -> numpy.ndarray:
        if not address or count == 0:
            return numpy.zeros(count, dtype)
        memory = (ctypes.c_byte * (count * numpy.dtype(dtype).itemsize)).from_address(address)
        memory._owner = self
        made = numpy.frombuffer(memory, dtype, count)
        made.flags.writeable = False
        return made


class _Cancel:
    """A descriptor that is readable once the caller's is, or once ring() was called."""

    def __init__(self, cancel_fd: int) -> None:
        self._pipe = os.pipe2(os.O_CLOEXEC)
        self._both = select.epoll()
        self._both.register(self._pipe[0], select.EPOLLIN)
        try:
            if cancel_fd != -1:
                self._both.register(cancel_fd, select.EPOLLIN)
        except OSError as error:
            self.close()
            raise _usage(f"cancel_fd {cancel_fd} cannot be waited for: {error}") from error

    def fileno(self) -> int:
        return self._both.fileno()

    def ring(self) -> None:
        os.write(self._pipe[1], b"!")

    def close(self) -> None:
        self._both.close()
        for each in self._pipe:
            os.close(each)


class _Call:
    """body(cancel_fd) on a thread of its own; `then` is called there at its end."""

    def __init__(self, body: Callable[[int], Any], cancel_fd: int, then: Callable[[], None] = lambda: None) -> None:
        self._body, self._then = body, then
        self._result: Any = None
        self._error: Optional[BaseException] = None
        # Not the thread's join(): one that a signal's handler has left takes the thread for ended.
        self._ended = threading.Event()
        self._cancel = _Cancel(cancel_fd)
        threading.Thread(target=self._run, name="ask", daemon=True).start()

    def _run(self) -> None:
        try:
            self._result = self._body(self._cancel.fileno())
        except BaseException as error:
            self._error = error
        self._ended.set()
        self._then()

    def wait(self) -> None:
        self._ended.wait()

    def give_up(self) -> None:
        """Tears the task down on all hosts, which takes no wait for others."""
        self._cancel.ring()
        self._ended.wait()
        self._cancel.close()

    def result(self) -> Any:
        """Once it has ended."""
        self._ended.wait()
        self._cancel.close()
        if self._error is not None:
            raise self._error
        return self._result


def _interruptible(body: Callable[[int], Any], cancel_fd: int) -> Any:
    """Ctrl-C ends it: a signal's handler does not run as long as its thread is in the library."""
    if threading.current_thread() is not threading.main_thread():
        return body(cancel_fd)
    call = _Call(body, cancel_fd)
    try:
        call.wait()
    except BaseException:
        call.give_up()
        raise
    return call.result()


async def _awaitable(body: Callable[[int], Any], cancel_fd: int) -> Any:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    call = _Call(body, cancel_fd, lambda: loop.call_soon_threadsafe(ended.set))
    try:
        await ended.wait()
    except asyncio.CancelledError:
        call.give_up()
        raise
    return call.result()


def _send(options: _SenderOptions, tuples: _Tuples, cancel_fd: int) -> Stats:
    options.cancel_fd = cancel_fd
    stats = _Stats()
    _check(_library.ask_send(ctypes.byref(options), ctypes.byref(tuples.columns), ctypes.byref(stats)))
    return _stats_of(stats)


def _receive(options: _ReceiverOptions, cancel_fd: int) -> Result:
    options.cancel_fd = cancel_fd
    handle = ctypes.c_void_p()
    code = _library.ask_receive(ctypes.byref(options), ctypes.byref(handle))
    try:
        _check(code)
    except Error as error:
        error.result = Result(handle) if handle else None
        raise
    return Result(handle)


def send(
    task: str,
    keys: Any,
    values: Any = None,
    *,
    to: str,
    deadline: float = 30.0,
    agent: Optional[str] = None,
    token: Optional[str] = None,
    cancel_fd: int = -1,
    merge_window: Optional[int] = None,
) -> Stats:
    """Sends all of a sender's tuples to the task that receive() or ask-recv has opened on host `to`, and returns once
    its result, with each of them exactly once, is where the receiver wants it.

    keys          a sequence or array of str or bytes, 0 to 65535 bytes each; ask.Keys; an Arrow array of strings or
                  binaries (whatever has __arrow_c_array__); or, without values, a Result or an Arrow struct or record
                  batch of a key and an int64
    values        integers that fit int64, of shape (rows,), or an Arrow array of them; None: the task's operator is COUNT
    deadline      seconds for finding the task, and without progress afterwards
    merge_window  tuples held back to merge equal keys before they travel; 0: none; None: the agent's
    agent, token, cancel_fd   as of Group

    Arrow's, ask.Keys' and int64 arrays are not copied. Should a switch lose what it has added up, all is sent again.
    Raises Error: USAGE, INPUT and LIMIT before anything has been sent; UNKNOWN: no such host; DEADLINE, ABORTED: the
    text says who is missing or gave up; OVERFLOW names the key; UNAVAILABLE: the agent. Ctrl-C ends it, and the task.
    """
    tuples = _Tuples(keys, values)
    options = _sender_options(task, to, deadline, agent, token, cancel_fd, merge_window)
    return _interruptible(functools.partial(_send, options, tuples), cancel_fd)


async def send_async(task: str, keys: Any, values: Any = None, *, to: str, **options: Any) -> Stats:
    """As send(), for asyncio. Cancelled, it ends the task on all hosts. Leave arrays as they are meanwhile."""
    made = _sender_options(task, to, *_sender_defaults(**options))
    return await _awaitable(functools.partial(_send, made, _Tuples(keys, values)), made.cancel_fd)


def _sender_defaults(
    *,
    deadline: float = 30.0,
    agent: Optional[str] = None,
    token: Optional[str] = None,
    cancel_fd: int = -1,
    merge_window: Optional[int] = None,
) -> tuple:
    return deadline, agent, token, cancel_fd, merge_window


def receive(task: str, senders: int = 1, **options: Any) -> Result:
    """Opens a task on this host and returns its result once so many senders have finished; they succeed with it.

    op                Op.SUM, COUNT, MIN, MAX or MEAN, or "sum", ...: how values of equal keys are combined. Of means
                      the result has sums and counts, by the keys' bytes, and allow_incomplete is refused
    deadline          seconds for senders to join, and without progress afterwards (30)
    sort              rows in the order of the keys' bytes, which takes time
    from_hosts        names of hosts that may send; None: all
    aggregators       per array on the switch; 0: by samples of the senders' keys
    use_switch        False: add up on this host alone
    require_region    fail if the switch has no memory for the task
    allow_incomplete  go on without senders that die: Result.missing
    again             take a result of this task that the agent has kept because nobody took it
    agent, token, cancel_fd   as of Group

    Raises Error: EXISTS: the task is in use; DEADLINE, ABORTED: the text says who is missing or gave up; OVERFLOW names
    the key whose value leaves int64; UNAVAILABLE: the agent. If only the senders could not be told (NOT_TAKEN,
    UNAVAILABLE), the result is the error's `result`, else that is None. Ctrl-C ends it, and the task.
    """
    made = _receiver_options(task, senders, **options)
    return _interruptible(functools.partial(_receive, made), made.cancel_fd)


async def receive_async(task: str, senders: int = 1, **options: Any) -> Result:
    """As receive(), for asyncio. Cancelled, it ends the task on all hosts."""
    made = _receiver_options(task, senders, **options)
    return await _awaitable(functools.partial(_receive, made), made.cancel_fd)


class _Handle:
    """What Sender and Receiver have in common: closed once, whatever happens."""

    _close: Any = None

    def __init__(self) -> None:
        self._handle: Optional[ctypes.c_void_p] = None

    def _open(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise _usage(f"this {type(self).__name__.lower()} is closed")
        return self._handle

    def close(self) -> None:
        """Before its end it ends the task for everybody. Again: nothing."""
        handle = vars(self).pop("_handle", None)  # in one step: another thread may be here, too
        self._handle = None
        if handle is not None:
            type(self)._close(handle)

    def __del__(self) -> None:
        self.close()


class Sender(_Handle):
    """One of a task's senders, for tuples that come bit by bit; options are send()'s. One thread at a time.

        with ask.Sender("words", to="h4") as sender:
            for keys, values in batches:
                sender.push(keys, values)
            sender.finish()

    Left without finish(), it ends the task for everybody: by an exception, which they are told.

    sample     keys, as push() takes, that tell what is to come; only looked at
    expected   tuples in all; 0: not known
    can_repeat should a switch lose what it has, calls raise RUN_AGAIN, and the caller begins again with another sender
    """

    _close = _library.ask_sender_close

    def __init__(
        self, task: str, to: str, *, sample: Any = None, expected: int = 0, can_repeat: bool = False, **options: Any
    ) -> None:
        super().__init__()
        made = _sender_options(task, to, *_sender_defaults(**options))
        made.expected, made.can_repeat = expected, can_repeat
        looked_at = None if sample is None else _Tuples(sample, None)
        if looked_at is not None:
            made.sample = ctypes.pointer(looked_at.columns)
        handle = ctypes.c_void_p()
        _check(_library.ask_sender_open(ctypes.byref(made), ctypes.byref(handle)))
        self._handle = handle

    def push(self, keys: Any, values: Any = None) -> None:
        """Sends these, as send() takes them, or, with an Error of USAGE, INPUT or LIMIT, none of them, and it goes on.
        A single str or bytes is one tuple."""
        if isinstance(keys, (str, bytes)):
            key = _encoded(keys)
            _check(_library.ask_sender_push(self._open(), key, len(key), 1 if values is None else values))
            return
        tuples = _Tuples(keys, values)
        _check(_library.ask_sender_push_columns(self._open(), ctypes.byref(tuples.columns)))

    def flush(self) -> None:
        """Call it before a long time without a push: raises Error if the task has failed."""
        _check(_library.ask_sender_flush(self._open()))

    def finish(self) -> Stats:
        """No more: returns once the result is where the receiver wants it."""
        stats = _Stats()
        _check(_library.ask_sender_finish(self._open(), ctypes.byref(stats)))
        return _stats_of(stats)

    def abandon(self, reason: str) -> None:
        """Tells everybody why the task cannot succeed."""
        _check(_library.ask_sender_abandon(self._open(), reason.replace("\0", "").encode(errors="replace")))

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        if error is not None and self._handle is not None:
            # It may be over already.
            _library.ask_sender_abandon(self._handle, repr(error).replace("\0", "").encode(errors="replace"))
        self.close()


class Receiver(_Handle):
    """A task on this host, whose senders are told only by confirm(); options are receive()'s. One thread at a time.

        with ask.Receiver("words", senders=3) as receiver:
            result = receiver.wait()
            save(result)
            receiver.confirm()
    """

    _close = _library.ask_receiver_close

    def __init__(self, task: str, senders: int = 1, **options: Any) -> None:
        super().__init__()
        made = _receiver_options(task, senders, **options)
        handle = ctypes.c_void_p()
        _check(_library.ask_receiver_open(ctypes.byref(made), ctypes.byref(handle)))
        self._handle = handle

    def wait(self) -> Result:
        """The result, once every sender has finished."""
        handle = ctypes.c_void_p()
        _check(_library.ask_receiver_wait(self._open(), ctypes.byref(handle)))
        return Result(handle)

    def confirm(self) -> None:
        """The result is where it should be: the senders succeed."""
        _check(_library.ask_receiver_confirm(self._open()))

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
