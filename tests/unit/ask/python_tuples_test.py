# SPDX-License-Identifier: Apache-2.0
"""python_tuples_test.py CASE SOCKET: tasks by the Python package against the agent of python_test.cpp."""

import asyncio
import ctypes
import gc
import os
import signal
import sys

import ask
import numpy
from ask import arrow

CASE, SOCKET = sys.argv[1:]
GIVEN = {"": 1, "fig": -(1 << 63), "apple": (1 << 63) - 1, "tür": -1}


def fails(code, part, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except ask.Error as error:
        assert error.code == code, (error.code, error.text)
        assert part in error.text, (part, error.text)
        return error
    raise AssertionError(f"{call} should have failed with {code}")


def sender(**options):
    return ask.Sender("t", "h3", agent=SOCKET, merge_window=0, **options)


class Exported:
    """A struct's child, or an array with a bitmap, as another library would export it."""

    def __init__(self, form, length, buffers, offset=0, null_count=0):
        self.form, self.length, self.buffers, self.offset, self.null_count = form, length, buffers, offset, null_count

    def __arrow_c_array__(self, requested_schema=None):
        array = arrow._array(self.length, self.buffers, [])
        array.offset, array.null_count = self.offset, self.null_count
        schema = arrow._schema(self.form, b"", [])
        return arrow._capsule(schema, b"arrow_schema"), arrow._capsule(array, b"arrow_array")


def exported_strings(form, offset_type, **more):
    data = numpy.frombuffer(b"??figplumfig", numpy.uint8)
    offsets = numpy.array([0, 2, 5, 9, 12], offset_type)
    return Exported(form, 3, [None, offsets, data], offset=1, **more)


def forms():
    """fig: 1, plum: 2, fig: 3 in every form; python_test.cpp has the sums."""
    with sender(sample=["fig", "plum", "fig"], expected=100) as to:
        three = [1, 2, 3]
        to.push(["fig", b"plum", "fig"], three)
        to.push(("fig", "plum", "fig"), numpy.array(three, numpy.uint8))
        to.push(numpy.array(["fig", "plum", "fig"]), numpy.array(three, ">i4"))
        to.push(numpy.array([b"fig", b"plum", b"fig"]), numpy.array([1, 0, 2, 0, 3, 0])[::2])
        to.push(numpy.array(["fig", "plum", b"fig"], object), numpy.array(three, numpy.uint64))
        to.push(ask.Keys(numpy.array([1, 4, 8, 11], numpy.int32), b"?figplumfig"), three)
        to.push(ask.Keys(numpy.array([0, 3, 7, 10]), memoryview(b"figplumfig")), three)
        for form, offset_type in ((b"u", numpy.int32), (b"z", numpy.int32), (b"U", numpy.int64), (b"Z", numpy.int64)):
            strings = exported_strings(form, offset_type)
            to.push(strings, Exported(b"l", 3, [None, numpy.array([9, 1, 2, 3])], offset=1))
            to.push(strings, Exported(b"C", 3, [None, numpy.array(three, numpy.uint8)]))
        for key, value in zip(("fig", b"plum", "fig"), three):
            to.push(key, value)
        for nothing in ([], numpy.array([], "U3"), numpy.array([], "S"), ask.Keys(numpy.zeros(1, numpy.int64), b"")):
            to.push(nothing, [])
        to.push(["", "ü", numpy.str_("a\nb")], [1, 1, 1])
        wrong_values(to)
        to.flush()
        stats = to.finish()
        assert (stats.tuples_in, stats.runs, stats.left_long) == (7, 1, 7)
    gc.collect()
    assert not arrow._exported, arrow._exported
    fails(ask.Code.USAGE, "this sender is closed", to.push, "a")


def wrong_values(to):
    """None of it is sent, and the sender goes on."""
    keys = ["a", "b"]
    fails(ask.Code.USAGE, "2 keys have values of shape (3,)", to.push, keys, [1, 2, 3])
    fails(ask.Code.USAGE, "of shape (2, 1)", to.push, keys, [[1], [2]])
    fails(ask.Code.USAGE, "values of float64: integers", to.push, keys, [1.5, 2])
    fails(ask.Code.LIMIT, "row 1: the value 9223372036854775808 leaves int64", to.push, keys,
          numpy.array([1, 1 << 63], numpy.uint64))  # fmt: skip
    fails(ask.Code.USAGE, "values of object", to.push, keys, [1, 1 << 64])
    fails(ask.Code.USAGE, "the values are NULL, and the task's operator is not ASK_COUNT", to.push, keys)
    fails(ask.Code.USAGE, "a key of type int: str or bytes", to.push, ["a", 1], [1, 2])
    fails(ask.Code.USAGE, "an array of 2 dimensions", to.push, numpy.array([["a"]]), [1])
    fails(ask.Code.USAGE, "an array of int64", to.push, numpy.array([1, 2]), [1, 2])
    fails(ask.Code.LIMIT, "row 1: a key of 65536 bytes; the limit is 65535", to.push, ["a", "k" * 65536], [1, 2])
    fails(ask.Code.INPUT, "row 1: its offsets decrease, from 2 to 1", to.push,
          ask.Keys(numpy.array([0, 2, 1]), b"ab"), [1, 2])  # fmt: skip
    fails(ask.Code.INPUT, "the last offset is 3, past the 2 bytes", to.push,
          ask.Keys(numpy.array([0, 1, 3]), b"ab"), [1, 2])  # fmt: skip
    fails(ask.Code.USAGE, "offsets are not a numpy array of int32 or int64", ask.Keys, [0, 1], b"a")
    fails(ask.Code.USAGE, "there are no offsets", ask.Keys, numpy.array([], numpy.int64), b"")
    fails(ask.Code.USAGE, "no contiguous buffer", ask.Keys, numpy.array([0, 1]), 3)
    bitmap = numpy.array([0b1011], numpy.uint8)
    nulls = exported_strings(b"u", numpy.int32, null_count=-1)
    nulls.buffers[0] = bitmap
    fails(ask.Code.INPUT, "row 1: its key is null", to.push, nulls, [1, 2, 3])
    fails(ask.Code.INPUT, "row 2: its value is null", to.push, ["a", "b", "c"],
          Exported(b"l", 3, [bitmap, numpy.array([1, 2, 3])], null_count=1))  # fmt: skip
    fails(ask.Code.USAGE, "format 'g' is none of values", to.push, keys, Exported(b"g", 2, [None, numpy.ones(2)]))
    fails(ask.Code.USAGE, "format 'l' is none of keys", to.push, Exported(b"l", 2, [None, numpy.ones(2)]), [1, 2])


def given():
    result = ask.receive("t", 2, agent=SOCKET, sort=True, allow_incomplete=True)
    assert result.to_dict() == GIVEN
    assert result.keys() == [b"", b"apple", b"fig", "tür".encode()]
    assert result.key(2) == b"fig" and len(result) == 4
    assert result.offsets.tolist() == [0, 0, 5, 8, 12] and result.values.tolist()[0] == 1
    assert result.stats.tuples_in == 11 and result.stats.senders == 1
    assert result.missing == ["an unknown subset of h2's tuples: it died"]
    assert not result.values.flags.writeable and result.counts is None
    fails(ask.Code.USAGE, "this is no result of means", result.means)
    # Arrays outlive it, and so does what Arrow has of it.
    values, capsules = result.values, result.__arrow_c_array__()
    del result
    gc.collect()
    assert values[1] == (1 << 63) - 1
    assert_arrow(capsules)
    del capsules
    gc.collect()
    assert not arrow._exported, arrow._exported


def assert_arrow(capsules):
    class Again:
        def __arrow_c_array__(self, requested_schema=None):
            return capsules

    strings, values = arrow.strings(Again())
    assert strings.rows == 4 and strings.offset_type == 2
    assert ctypes.string_at(strings.data, strings.data_bytes) == "applefigtür".encode()
    assert values.tolist() == [1, (1 << 63) - 1, -(1 << 63), -1]


def means():
    result = ask.receive("t", 2, agent=SOCKET, op="mean")
    assert result.to_dict() == {"a": 2.5, "b": ((1 << 63) - 1) / 2}
    assert (result.values.tolist(), result.counts.tolist()) == ([10, (1 << 63) - 1], [4, 2])
    assert result.means().tolist() == [2.5, 2.0**62]
    assert not result.counts.flags.writeable
    capsules = result.__arrow_c_array__()
    schema = arrow._Schema.from_address(arrow._pointer_of(capsules[0], b"arrow_schema"))
    array = arrow._Array.from_address(arrow._pointer_of(capsules[1], b"arrow_array"))
    assert [schema.children[i].contents.name for i in range(schema.n_children)] == [b"key", b"sum", b"count"]
    assert arrow._memory(array.children[2].contents.buffers[1], 2, numpy.int64, None).tolist() == [4, 2]
    fails(ask.Code.USAGE, "a result of means is of two columns", ask.send, "t", result, to="h3", agent=SOCKET)
    fails(ask.Code.USAGE, "no operator is called 'median'", ask.receive, "t", op="median")


def given_up():
    error = fails(ask.Code.NOT_TAKEN, "not taken in time", ask.receive, "t", agent=SOCKET)
    assert error.result.to_dict() == GIVEN


def by_steps():
    with ask.Receiver("t", 2, agent=SOCKET) as receiver:
        fails(ask.Code.USAGE, "no result to confirm", receiver.confirm)
        assert receiver.wait().to_dict(None)[b"fig"] == -(1 << 63)
        receiver.confirm()
    fails(ask.Code.USAGE, "this receiver is closed", receiver.wait)


def wrong():
    none = "/nonexistent/agent.sock"
    error = fails(ask.Code.UNAVAILABLE, f"no agent listens at {none}", ask.send, "t", ["a"], [1], to="h3", agent=none)
    assert error.code.name == "UNAVAILABLE"
    fails(ask.Code.UNAVAILABLE, "no agent listens", ask.receive, "t", agent=none)
    fails(ask.Code.USAGE, "a deadline of 0 s", ask.send, "t", ["a"], [1], to="h3", deadline=0)
    fails(ask.Code.USAGE, "task is no string", ask.send, "t\0", ["a"], [1], to="h3")
    fails(ask.Code.USAGE, "keys are one string", ask.send, "t", "abc", [1], to="h3")
    fails(ask.Code.LIMIT, "4097 senders; the limit is 4096", ask.receive, "t", 4097)
    fails(ask.Code.USAGE, "operator 5 is none of tuples", ask.receive, "t", op=ask.Op.BAND)
    fails(ask.Code.LIMIT, "merge_window of 1048577", ask.send, "t", ["a"], [1], to="h3", merge_window=1048577)
    fails(ask.Code.USAGE, "cancel_fd 999 cannot be waited for", ask.receive, "t", cancel_fd=999)
    fails(ask.Code.UNKNOWN, "no task t at h3", ask.send, "t", ["a"], [1], to="h3", agent=SOCKET)


def interrupted():
    """Ctrl-C."""
    before = len(os.listdir("/proc/self/fd"))
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)  # which may be over before the call begins
        ask.receive("t", agent=SOCKET)
    except KeyboardInterrupt:
        assert len(os.listdir("/proc/self/fd")) == before
        return
    raise AssertionError("not interrupted")


def cancelled():
    async def run():
        receives = asyncio.ensure_future(ask.receive_async("t", agent=SOCKET))
        await asyncio.sleep(0.2)
        receives.cancel()
        try:
            await receives
        except asyncio.CancelledError:
            return
        raise AssertionError("not cancelled")

    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(run())
    assert len(os.listdir("/proc/self/fd")) == before


def awaited():
    async def run():
        ticks = 0
        receives = asyncio.ensure_future(ask.receive_async("t", 2, agent=SOCKET))
        while not receives.done():
            await asyncio.sleep(0.001)
            ticks += 1
        assert ticks > 0
        return await receives

    assert asyncio.run(run()).to_dict() == GIVEN


def abandoned():
    try:
        with sender() as to:
            to.push("a", 1)
            raise ValueError("no more")
    except ValueError:
        return


globals()[CASE]()
