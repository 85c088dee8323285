# SPDX-License-Identifier: Apache-2.0
"""backend_test.py CASE: a rank of backend_test.sh's, with torch's environment."""

import copy
import datetime
import os
import re
import sys
import threading
import time

import ask
import ask.torch
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
HOST = os.environ["MASTER_ADDR"]
DEADLINE = datetime.timedelta(seconds=10)
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
PIECE = ask.torch._PIECE


def fails(code, text, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except ask.Error as error:
        assert error.code == code, (error.code, error.text)
        assert re.search(text, error.text), error.text
        return
    raise AssertionError(f"{call} should have failed with {code}")


def join(backend="ask", nth=0, **named):
    """The nth group of the process: at a port of its own, since one that was listened at is not free at once."""
    if nth:
        named.update(init_method=f"tcp://{HOST}:{int(os.environ['MASTER_PORT']) + 1000 * nth}")
    if "init_method" in named:
        named.update(rank=RANK, world_size=SIZE)
    dist.distributed_c10d._group_count = 0  # one that failed has left it at 1
    dist.init_process_group(backend, timeout=DEADLINE, **named)


def collectives():
    join()
    for kind in FLOATS + INTEGERS:
        of_all = torch.full((5, 7), RANK + 1, dtype=kind)
        dist.all_reduce(of_all)
        assert (of_all == 10).all() and of_all.dtype == kind
        for op, value in ((dist.ReduceOp.PRODUCT, 24), (dist.ReduceOp.MIN, 1), (dist.ReduceOp.MAX, 4)):
            of_all = torch.full((3,), RANK + 1, dtype=kind)
            dist.all_reduce(of_all, op)
            assert (of_all == value).all(), (kind, op, of_all)
        at_root = torch.full((5,), RANK, dtype=kind)
        dist.reduce(at_root, 1)
        assert (at_root == (6 if RANK == 1 else RANK)).all()
        parts = [torch.empty(3, 2, dtype=kind) for _ in range(SIZE)]
        dist.all_gather(parts, torch.full((3, 2), RANK, dtype=kind))
        assert all((part == rank).all() for rank, part in enumerate(parts))
    for kind in FLOATS:
        mean = torch.full((9,), RANK + 0.5, dtype=kind)
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        assert (mean == 2).all()
    for op, value in ((dist.ReduceOp.BAND, 8), (dist.ReduceOp.BOR, 11), (dist.ReduceOp.BXOR, 0)):
        bits = torch.full((9,), 8 + RANK, dtype=torch.int32)
        dist.all_reduce(bits, op)
        assert (bits == value).all(), (op, bits)
    columns = torch.arange(12.0).view(3, 4).t()
    for value in (torch.tensor(2.5), torch.tensor([True, False]), torch.tensor([1 + 2j]), columns):
        said = value.clone() if RANK == 2 else torch.zeros_like(value)
        dist.broadcast(said, 2)
        assert torch.equal(said, value)
    lengths()
    at_once()
    objects()
    dist.barrier()
    dist.destroy_process_group()


def lengths():
    """No value to several pieces, and tensors whose memory has holes."""
    for count in (0, 1, PIECE // 4 - 1, PIECE // 4, PIECE // 4 + 1, 40 * PIECE // 4 + 3):
        values = torch.arange(count, dtype=torch.float32) + RANK
        dist.all_reduce(values)
        assert torch.equal(values, 4 * torch.arange(count, dtype=torch.float32) + 6)
        values = torch.arange(count, dtype=torch.int32) * (RANK == 3)
        dist.broadcast(values, 3)
        assert torch.equal(values, torch.arange(count, dtype=torch.int32))
    columns = torch.zeros(300, 4)
    columns[:, 1] = RANK
    dist.all_reduce(columns[:, 1])
    assert (columns[:, 1] == 6).all() and (columns[:, [0, 2, 3]] == 0).all()
    table = torch.empty(SIZE, 1000, dtype=torch.int16)
    dist.all_gather_into_tensor(table, torch.full((1000,), RANK, dtype=torch.int16))
    assert all((table[rank] == rank).all() for rank in range(SIZE))


def at_once():
    """Many under way, ended in any order; more than there is memory for."""
    vectors = [torch.full((PIECE // 4,), float(i + RANK)) for i in range(40)]
    works = [dist.all_reduce(vector, async_op=True) for vector in vectors]
    barriers = [dist.barrier(async_op=True) for _ in range(100)]
    for work in reversed(barriers + works):
        assert work.wait()
        assert work.is_completed() and work.is_success()
    assert all((vector == 4 * i + 6).all() for i, vector in enumerate(vectors))
    assert works[7].get_future().wait()[0] is vectors[7] or torch.equal(works[7].get_future().wait()[0], vectors[7])


def objects():
    all_of_them = [None] * SIZE
    dist.all_gather_object(all_of_them, {"rank": RANK, "text": "x" * RANK})
    assert [each["rank"] for each in all_of_them] == list(range(SIZE))
    said = [{"a": 1}] if RANK == 0 else [None]
    dist.broadcast_object_list(said)
    assert said == [{"a": 1}]


def groups():
    join()
    world = dist.group.WORLD
    assert dist.get_backend() == "ask" and world.name() == "ask" and (world.rank(), world.size()) == (RANK, SIZE)
    odd, even, three = (dist.new_group(ranks) for ranks in ([1, 3], [0, 2], [1, 2, 3]))
    mine = odd if RANK % 2 else even
    assert dist.get_world_size(mine) == 2 and dist.get_rank(mine) == RANK // 2
    names = [None] * SIZE
    dist.all_gather_object(names, (world.group.name, mine.group.name))
    assert len({name for name, _ in names}) == 1 and len(set(names)) == 2
    value = torch.tensor([float(RANK)])
    dist.all_reduce(value, group=mine)
    assert value == (4 if RANK % 2 else 2)
    if RANK:
        said = torch.tensor([RANK])
        dist.broadcast(said, 2, group=three)  # of the world's ranks
        assert said == 2
        dist.destroy_process_group(three)
    beside = dist.new_group(backend="gloo")
    gathered = [torch.zeros(1) for _ in range(SIZE)]
    dist.all_gather(gathered, torch.tensor([float(RANK)]), group=beside)
    dist.scatter(value, [torch.tensor([9.0 + rank]) for rank in range(SIZE)] if RANK == 0 else None, group=beside)
    assert value == 9 + RANK
    dist.barrier()
    dist.destroy_process_group()
    join(nth=1)
    dist.barrier()
    # The process ends without leaving: that is done for it, and nobody fails.


def refused():
    fails(ask.Code.USAGE, "pg_options", join, pg_options=object())
    join(nth=1, pg_options=ask.torch.Options(arena_bytes=8 << 20))
    one = torch.ones(4)
    fails(ask.Code.UNSUPPORTED, "no send: make a group", dist.send, one, (RANK + 1) % SIZE)
    fails(ask.Code.UNSUPPORTED, "no alltoall_base: make a group", dist.all_to_all_single, one, one)
    fails(ask.Code.UNSUPPORTED, "no reduce_scatter: make a group", dist.reduce_scatter, one, [one] * SIZE)
    fails(ask.Code.USAGE, "sparse", dist.all_reduce, one.to_sparse())
    fails(ask.Code.USAGE, "meta", dist.all_reduce, torch.ones(4, device="meta"))
    fails(ask.Code.UNSUPPORTED, "mean of torch.int32", dist.all_reduce, one.int(), dist.ReduceOp.AVG)
    fails(ask.Code.UNSUPPORTED, "bits", dist.all_reduce, one, dist.ReduceOp.BXOR)
    fails(ask.Code.UNSUPPORTED, "torch.bool", dist.all_reduce, one.bool())
    fails(ask.Code.USAGE, "outputs", dist.all_gather, [one] * (SIZE - 1), one)
    model = DistributedDataParallel(torch.nn.Linear(2, 2))
    model.register_comm_hook("text", ask.torch.allreduce_hook)
    try:
        model(torch.ones(1, 2)).sum().backward()
        raise AssertionError("a hook with a text for a group")
    except RuntimeError as error:
        assert "pass an ask.Group" in str(error), error
    # All of it before anything was sent: the group goes on. Its arena has room for a part of this.
    many = torch.full((16 << 20,), 1, dtype=torch.int8)
    dist.all_reduce(many)
    assert (many == 4).all()
    dist.destroy_process_group()
    fails(ask.Code.LIMIT, "arena", join, nth=2, pg_options=ask.torch.Options(arena_bytes=PIECE))


def nowhere():
    """A store that says nothing of hosts: rank 0 must be told its own."""
    if RANK == 0:
        fails(ask.Code.USAGE, "ASK_HOST", join, init_method=f"file://{os.environ['SCRATCH']}/none")
    os.environ["ASK_HOST"] = f"h{RANK + 1}"
    join(init_method=f"file://{os.environ['SCRATCH']}/some")
    dist.barrier()
    dist.destroy_process_group()


def new_model(seed=1):
    torch.manual_seed(seed)
    layers = (torch.nn.Linear(200, 300), torch.nn.Tanh(), torch.nn.Linear(300, 150), torch.nn.Linear(150, 7))
    return torch.nn.Sequential(*layers)


def backward(model, step):
    generator = torch.Generator().manual_seed(1000 * step + RANK)
    kind = next(model.parameters()).dtype
    inputs = torch.randn(16, 200, generator=generator).to(kind)
    model.zero_grad()
    model(inputs).square().sum().backward()


def of_all(tensor):
    """Every rank's, by Gloo."""
    parts = [torch.empty_like(tensor) for _ in range(SIZE)]
    dist.all_gather(parts, tensor, group=beside)
    return parts


def check_means(mine, means, kind, floor=0.0):
    """The means are everywhere the same bits, and off the exact mean of all ranks' by no more than roundings, of each
    quotient and of each sum, and than what docs/values.md allows a sum on the way. `floor`: of subnormal numbers."""
    unit, near = ROUNDINGS[kind]
    for gradient, mean in zip(mine, means):
        assert all(torch.equal(mean.double(), other) for other in of_all(mean.double()))
        parts = torch.stack(of_all(gradient.double()))
        exact = parts.sum(0) / SIZE
        most = 2 * unit * parts.abs().sum(0) + near * parts.abs().max() + floor
        off = (mean.double() - exact).abs()
        assert (off <= most).all(), (off - most).max()


def gradients(model):
    return [parameter.grad for parameter in model.parameters()]


def alone(model, step):
    backward(model, step)
    return [gradient.clone() for gradient in gradients(model)]


# Half of the distance of 1 and the next number; and what a sum may be off by, of the largest.
ROUNDINGS = {
    torch.float32: (2**-24, 0.0), torch.float64: (2**-53, SIZE * 2**-60),
    torch.bfloat16: (2**-8, SIZE * 2**-28), torch.float16: (2**-11, SIZE * 2**-28),
}  # fmt: skip
beside = None


def hook():
    global beside
    join("gloo")
    beside = dist.group.WORLD
    with ask.Group("by-hook", RANK, SIZE, HOST, deadline=10) as group:
        for kind in (torch.float32, torch.float64):
            for views in (False, True):
                model = new_model().to(kind)
                own = copy.deepcopy(model)
                ddp = DistributedDataParallel(model, bucket_cap_mb=0.1, gradient_as_bucket_view=views)
                ddp.register_comm_hook(group, ask.torch.allreduce_hook)
                for step in range(3):
                    backward(ddp, step)
                    check_means(alone(own, step), gradients(model), kind)
                arena = min(piece.ctypes.data for piece in group._torch._free)  # its first bytes
                for gradient in gradients(model):
                    assert not arena <= gradient.data_ptr() < arena + (64 << 20), "a gradient is in the arena"
        compressed(group)
        unused(group)
    backend(group.name)


def compressed(group):
    """torch's wrapper around the hook: buckets of 16 bits. That for bf16 wants NCCL."""
    model = new_model()
    own = copy.deepcopy(model)
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.1)
    ddp.register_comm_hook(group, default_hooks.fp16_compress_wrapper(ask.torch.allreduce_hook))
    for step in range(2):
        backward(ddp, step)
        check_means(alone(own, step), gradients(model), torch.float16, floor=2**-24)


def unused(group):
    """Parameters that have no part in the loss."""
    model = torch.nn.ModuleList([new_model(), torch.nn.Linear(3, 3)])
    model.forward = model[0].forward
    own = copy.deepcopy(model[0])
    ddp = DistributedDataParallel(model, find_unused_parameters=True)
    ddp.register_comm_hook(group, ask.torch.allreduce_hook)
    backward(ddp, 1)
    check_means(alone(own, 1), gradients(model[0]), torch.float32)
    assert all(parameter.grad is None for parameter in model[1].parameters())


def backend(group_name):
    """All of DDP by the backend: the means of its own allreduce, and of the hook on it, are the same."""
    global beside
    dist.destroy_process_group()
    join(nth=1)
    beside = dist.new_group(backend="gloo")
    # Gloo has no bf16.
    for kind in (torch.float32, torch.bfloat16):
        by_backend(kind)
    assert group_name != dist.group.WORLD.group.name
    dist.destroy_process_group()


def by_backend(kind):
    plain, hooked = new_model(RANK + 1).to(kind), new_model(RANK + 1).to(kind)  # rank 0's counts
    own = new_model(1).to(kind)
    ddp = DistributedDataParallel(plain, bucket_cap_mb=0.1, find_unused_parameters=True)
    by_hook = DistributedDataParallel(hooked, bucket_cap_mb=0.1)
    by_hook.register_comm_hook(None, ask.torch.allreduce_hook)
    for step in range(3):
        backward(ddp, step)
        backward(by_hook, step)
        check_means(alone(own, step), gradients(plain), kind)
        assert all(torch.equal(one, other) for one, other in zip(gradients(plain), gradients(hooked)))


def in_flight():
    """The others begin their backward pass once rank 0 has handed in every bucket of its own: a hook that waited for
    its sum would never come so far."""
    join()
    store = dist.distributed_c10d._get_default_store()
    seen = []

    def noted(state, bucket):
        future = ask.torch.allreduce_hook(state, bucket)
        seen.append(future)
        if bucket.is_last() and len(seen) > 1:
            assert len(seen) > 3 and not any(each.done() for each in seen[1:])
            store.set("all in", b"1")
        return future

    layers = (torch.nn.Linear(200, 200) for _ in range(5))
    ddp = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.05)
    ddp.register_comm_hook(None, noted if RANK == 0 else ask.torch.allreduce_hook)
    ddp(torch.ones(2, 200)).sum().backward()  # of one bucket; DDP makes several after it
    loss = ddp(torch.ones(2, 200)).sum()
    if RANK != 0:
        store.wait(["all in"], DEADLINE)
    loss.backward()
    dist.barrier()
    dist.destroy_process_group()


def memory():
    """Buckets that have no room in the arena come back by a copy, and to the same; what they took comes back."""
    join(pg_options=ask.torch.Options(arena_bytes=4 << 20))
    engine = dist.group.WORLD._engine
    model = torch.nn.Linear(1000, 1500)  # 6 MB
    ddp = DistributedDataParallel(model, bucket_cap_mb=1)
    ddp.register_comm_hook(None, ask.torch.allreduce_hook)
    for step in range(3):
        model.zero_grad()
        ddp(torch.full((1, 1000), float(RANK + step))).sum().backward()
        assert torch.equal(model.weight.grad, torch.full((1500, 1000), 1.5 + step))
    assert len(engine._free) == 4, len(engine._free)
    works = [dist.all_reduce(torch.ones(3 << 20, dtype=torch.uint8), async_op=True) for _ in range(9)]
    works += [dist.broadcast(torch.ones(3 << 20, dtype=torch.uint8), 1, async_op=True) for _ in range(9)]
    for work in works:
        work.wait()
    assert len(engine._free) == 4, len(engine._free)
    dist.barrier()
    dist.destroy_process_group()


def disagree():
    join()
    begun = time.monotonic()
    try:
        dist.all_reduce(torch.ones(10 + RANK % 2))
        raise AssertionError("lengths of 10 and 11 were summed")
    except ask.Error as error:
        assert "differ" in error.text, error.text
        code = error.code
    fails(code, "differ", dist.barrier)
    assert time.monotonic() - begun < DEADLINE.total_seconds()


def closing():
    """The thread of a group hears that it is to end, whenever that is said: here between two of its waits."""
    join()
    group, engine = dist.group.WORLD.group, dist.group.WORLD._engine
    clear = engine._wake.clear

    def clear_late():
        # Idle, it comes here before it sleeps: held until it has been told.
        while not (engine._queue or engine._under_way or (engine._closing and engine._wake.is_set())):
            time.sleep(0.001)
        clear()

    dist.barrier()
    engine._wake.clear = clear_late
    dist.all_reduce(torch.ones(1))
    closer = threading.Thread(target=group.close, daemon=True)
    closer.start()
    closer.join(DEADLINE.total_seconds())
    assert not closer.is_alive(), "the group's thread sleeps on"
    fails(ask.Code.USAGE, "is closed", dist.barrier)


def missing():
    """Rank 3 never comes: all others fail within the deadline, and rank 0 names it."""
    if RANK == 3:
        return
    store = dist.TCPStore(HOST, int(os.environ["MASTER_PORT"]), None, RANK == 0, wait_for_workers=False)
    begun = time.monotonic()
    # All wait as long, so any of them may be the first to give up: it is missing, too, where others still wait. Who is
    # later than the root may only hear that this is not there any more.
    named = "3 of 4 did not join" if RANK == 0 else "3 of 4 did not join|the root"
    fails(ask.Code.DEADLINE, named, join, store=store, rank=RANK, world_size=SIZE)
    assert time.monotonic() - begun < DEADLINE.total_seconds() + 5
    store.add("done", 1)
    while RANK == 0 and store.add("done", 0) < SIZE - 1:
        assert time.monotonic() - begun < 30, "the others have not come so far"
        time.sleep(0.01)


torch.set_num_threads(1)
dist._DEFAULT_FIRST_BUCKET_BYTES = 1 << 15
{each.__name__: each for each in (collectives, groups, refused, nowhere, hook, in_flight, memory, disagree, closing, missing)}[
    sys.argv[1]
]()
