# SPDX-License-Identifier: Apache-2.0
"""python_test.py CASE SOCKET: the Python package against the agent of python_test.cpp."""

import gc
import os
import sys
import threading

import ask
import numpy

CASE, SOCKET = sys.argv[1:]


def fails(code, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except ask.Error as error:
        assert error.code == code, (error.code, error.text)
        assert error.text
        return error.text
    raise AssertionError(f"{call} should have failed with {code}")


def opened(rank, size):
    return ask.Group("g", rank, size, "h1", agent=SOCKET, arena_bytes=1 << 20, deadline=10)


def collectives(rank):
    with opened(rank, 3) as group:
        for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"):
            values = numpy.full((5, 7), rank + 1, kind)
            assert group.allreduce(values) is values
            assert (values == 6).all() and values.dtype == kind
        mine = group.empty((10, 10), numpy.int32)
        mine[:] = rank
        out = numpy.zeros(100, numpy.int32)
        assert (group.allreduce(mine, ask.Op.MAX, out) == 2).all()
        assert (mine == rank).all()
        at_root = group.reduce(mine, 1)
        assert (at_root == 3).all() if rank == 1 else at_root is None
        said = numpy.full(3, 2.5 if rank == 2 else 0, numpy.float64)
        assert (group.bcast(said, 2) == 2.5).all()
        group.barrier()
        vectors = [numpy.full(64, i + rank, numpy.int64) for i in range(20)]
        requests = [group.iallreduce(vector) for vector in vectors]
        while not requests[-1].test():
            pass
        for i, request in reversed(list(enumerate(requests))):
            assert (request.wait() == 3 * i + 3).all()


def usage(rank):
    group = opened(rank, 1)
    values = numpy.ones(64, numpy.int32)
    fails(ask.Code.USAGE, group.allreduce, values[::2])
    fails(ask.Code.USAGE, group.allreduce, values.astype(">i4"))
    fails(ask.Code.USAGE, group.allreduce, values.astype(complex))
    fails(ask.Code.USAGE, group.allreduce, [1, 2])
    fails(ask.Code.USAGE, group.allreduce, values, out=numpy.ones(63, numpy.int32))
    fails(ask.Code.USAGE, group.allreduce, values, out=numpy.ones(64, numpy.int64))
    fails(ask.Code.USAGE, group.allreduce, values, dtype=ask.BFLOAT16)
    fails(ask.Code.USAGE, group.bcast, values, 1)
    fails(ask.Code.UNSUPPORTED, group.allreduce, values.astype(numpy.float32), ask.Op.BXOR)
    assert "1048576" in fails(ask.Code.LIMIT, group.empty, 1 << 20, numpy.int32)
    half = numpy.array([0x3F80], numpy.uint16)
    group.allreduce(half, dtype=ask.BFLOAT16)
    # The arena's memory comes back with its arrays, and not before.
    kept = group.empty(1 << 18, numpy.int16)
    part = kept[7:9]
    del kept
    gc.collect()
    fails(ask.Code.LIMIT, group.empty, 1 << 20, numpy.int8)
    part[:] = 3
    del part
    gc.collect()
    whole = group.empty(1 << 20, numpy.int8)
    group.close()
    whole[:] = 1  # still mapped
    fails(ask.Code.USAGE, group.barrier)
    del whole
    gc.collect()
    assert group._handle is None
    assert ask.version() >= (0, 1, 0)
    fails(ask.Code.UNAVAILABLE, ask.Group, "g", 0, 1, "h1", agent=SOCKET + ".none", deadline=1)
    fails(ask.Code.LIMIT, ask.Group, "g", 0, 65, "h1", agent=SOCKET)


def failed(rank):
    with opened(rank, 2) as group:
        values = numpy.ones(16, numpy.int32)
        group.barrier()
        assert "h2" in fails(ask.Code.ABORTED, group.allreduce, values)
        assert (values == 1).all()
        fails(ask.Code.ABORTED, group.barrier)
        text = fails(ask.Code.ABORTED, group.shrink)
        assert f"rank {rank} of 2, shrink of 7 with 1 operations" in text


def refused(rank):
    read, write = os.pipe()
    group = ask.Group("g", 0, 1, "h1", agent=SOCKET, arena_bytes=1 << 20, deadline=10, cancel_fd=read)
    first, second = group.ibarrier(), group.ibarrier()

    def waits():
        # It too is turned away, if it comes while the other one is in its call.
        code = ask.Code.USAGE
        while code == ask.Code.USAGE:
            try:
                code = first.wait()
            except ask.Error as error:
                code = error.code
        if code != ask.Code.ABORTED:
            wrong.append(code)

    waiter = threading.Thread(target=waits)
    waiter.start()
    # Until the other is in.
    while ask._library.ask_free(group._handle, None) == 0:
        pass
    fails(ask.Code.USAGE, second.wait)
    os.write(write, b"x")
    waiter.join()
    assert "cancel_fd" in fails(ask.Code.ABORTED, second.wait)
    assert second.wait() is None
    group.close()


case, size = {
    "collectives": (collectives, 3), "usage": (usage, 1), "refused": (refused, 1), "failed": (failed, 2),
}[CASE]  # fmt: skip
wrong = []


def run(rank):
    try:
        case(rank)
    except BaseException:
        wrong.append(rank)
        raise


threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(bool(wrong))
