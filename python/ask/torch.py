# SPDX-License-Identifier: Apache-2.0
"""PyTorch over groups: gradients are summed in the network.

    import ask.torch
    torch.distributed.init_process_group("ask", ...)         # as any backend; or, beside another backend:
    model.register_comm_hook(group, ask.torch.allreduce_hook)   # group: an ask.Group, or a process group "ask"

For torch 1.13 (Debian's python3-torch), tensors on the CPU. One process a host: a group has one member at an agent.
docs/torch.md is the long form.
"""

import atexit
import collections
import dataclasses
import datetime
import ipaddress
import json
import os
import re
import secrets
import socket
import threading
import weakref
from typing import Callable, Optional

import ask
import numpy
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceOptions,
    BarrierOptions,
    BroadcastOptions,
    ReduceOptions,
    Work,
)
from torch.futures import Future

__all__ = ["Options", "ProcessGroup", "allreduce_hook", "allreduce_hook_32"]

# A tensor goes as operations of so many bytes, at all members alike: part of what they must agree on.
_PIECE = 1 << 20
# Of the arena; the rest is for results that DDP reads where they are.
_MOST_PIECES, _LEAST_PIECES = 16, 2
# Of libask's 256: pieces bound what has memory, this what has none.
_MOST_UNDER_WAY = 64
# How long the thread waits for the oldest operation at once; what is handed in meanwhile is begun so much later at most.
_LONGEST_WAIT = 500e-6
# Of a group, in seconds.
_LONGEST = 86400.0
# C++ waits for what it has just begun, through the Python object: these stay alive.
_KEPT_WORKS = 256

# What numpy and libask know of a torch type: numpy's, and `dtype=` where that says less.
_TYPES = {
    torch.float32: (numpy.float32, None), torch.float64: (numpy.float64, None),
    torch.bfloat16: (numpy.uint16, ask.BFLOAT16), torch.float16: (numpy.float16, None),
    torch.int8: (numpy.int8, None), torch.uint8: (numpy.uint8, None), torch.int16: (numpy.int16, None),
    torch.int32: (numpy.int32, None), torch.int64: (numpy.int64, None),
}  # fmt: skip

_OPS = {
    dist.ReduceOp.SUM: ask.Op.SUM, dist.ReduceOp.AVG: ask.Op.SUM, dist.ReduceOp.PRODUCT: ask.Op.PROD,
    dist.ReduceOp.MIN: ask.Op.MIN, dist.ReduceOp.MAX: ask.Op.MAX, dist.ReduceOp.BAND: ask.Op.BAND,
    dist.ReduceOp.BOR: ask.Op.BOR, dist.ReduceOp.BXOR: ask.Op.BXOR,
}  # fmt: skip


def _usage(text: str) -> ask.Error:
    return ask.Error(ask.Code.USAGE, text)


def _checked(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, apart from what computes gradients, if its memory can be read by its address."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
        raise _usage("ask reduces dense tensors: for a sparse one make a Gloo group, new_group(backend='gloo')")
    if tensor.device.type != "cpu":
        raise _usage(f"the tensor is on {tensor.device}: ask takes tensors on the CPU")
    return tensor.detach()


def _reducible(tensor: torch.Tensor, op: dist.ReduceOp) -> torch.Tensor:
    checked = _checked(tensor)
    if checked.dtype not in _TYPES or op not in _OPS:
        raise ask.Error(ask.Code.UNSUPPORTED, f"ask cannot reduce {tensor.dtype} by {op}")
    if _OPS[op] in (ask.Op.BAND, ask.Op.BOR, ask.Op.BXOR) and checked.is_floating_point():
        raise ask.Error(ask.Code.UNSUPPORTED, f"{checked.dtype} has no bits to combine")
    if op == dist.ReduceOp.AVG and not checked.is_floating_point():
        raise ask.Error(ask.Code.UNSUPPORTED, f"the mean of {checked.dtype} is not of that type: divide the sum")
    return checked


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Its values in one dimension, without a copy if they are contiguous; as bytes if libask has no such type."""
    flat = tensor.contiguous().view(-1)
    return flat if flat.dtype in _TYPES else flat.view(torch.uint8)


def _tensor(memory: numpy.ndarray, dtype: torch.dtype, count: int) -> torch.Tensor:
    """The first of a piece's bytes as values."""
    return torch.from_numpy(memory).view(dtype)[:count]


def _array(tensor: torch.Tensor) -> numpy.ndarray:
    """A flat tensor for libask."""
    return tensor.view(torch.int16).numpy().view(numpy.uint16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


class _Operation:
    """A collective on one tensor, in pieces. `source` and `target` are flat and contiguous, and may be the same."""

    def __init__(
        self,
        kind: str,
        source: Optional[torch.Tensor] = None,
        target: Optional[torch.Tensor] = None,
        *,
        op: ask.Op = ask.Op.SUM,
        root: int = 0,
        divide_by: int = 1,
        keep: bool = False,
        finish: Optional[Callable[[], object]] = None,
    ) -> None:
        self.kind, self.source, self.target, self.op, self.root = kind, source, target, op, root
        self.divide_by, self.keep, self.finish = divide_by, keep, finish
        self.whole = False  # target is memory that libask writes in place
        self.begun = 0  # elements
        self.count = 0 if source is None else source.numel()
        self.all_begun = False
        self.pieces = 0  # under way
        self.error: Optional[BaseException] = None
        self.work: Optional[Work] = None
        self.ended = threading.Event()
        self._value: Future = Future()
        # Only what a callback raises reaches those who wait in C++.
        self.future: Future = self._value.then(self._result)

    def _result(self, value: Future) -> object:
        if self.error is not None:
            raise self.error
        return value.value()

    def end(self) -> None:
        result = None
        if self.error is None:
            try:
                result = self.target if self.finish is None else self.finish()
            except BaseException as error:  # of torch, on whoever's tensors: theirs to see
                self.error = error
        self.source = self.target = self.finish = None
        self.ended.set()
        self._value.set_result(result)
        self.work = None


@dataclasses.dataclass
class _Piece:
    """An operation of libask, and the memory that it uses."""

    request: ask.Request
    operation: _Operation
    at: int
    count: int
    input: Optional[numpy.ndarray]
    output: Optional[numpy.ndarray]
    lent: bool = False


class _Engine:
    """The thread that begins a group's operations in the order in which they were handed in, and ends them. All calls
    of the group are its own. Copies to and from the arena are made here, beside what computes gradients."""

    def __init__(self, group: ask.Group) -> None:
        self._group = group
        self._queue: collections.deque[_Operation] = collections.deque()
        self._under_way: collections.deque[_Piece] = collections.deque()
        self._free: list[numpy.ndarray] = []
        self._error: Optional[ask.Error] = None
        self._wake = threading.Event()
        self._lock = threading.Lock()  # of _queue's end, once there is an error
        self._closing = False
        try:
            while len(self._free) < _MOST_PIECES:
                self._free.append(group.empty(_PIECE, numpy.uint8))
        except ask.Error as error:
            if error.code != ask.Code.LIMIT or len(self._free) < _LEAST_PIECES:
                self._free.clear()
                raise
        self._thread = threading.Thread(target=self._run, name=f"ask {group.name}", daemon=True)
        self._thread.start()

    def submit(self, operation: _Operation) -> _Operation:
        with self._lock:
            if self._error is None and self._thread.is_alive():
                self._queue.append(operation)
                self._wake.set()
                return operation
        raise self._error or _usage("the group belongs to the process that opened it, not to a fork's child")

    def stop(self) -> None:
        """Ends the thread, and with it the group: what is under way fails."""
        self._closing = True
        if self._thread.is_alive():  # not in a fork's child
            self._wake.set()
            if threading.current_thread() is not self._thread:
                self._thread.join()

    def _run(self) -> None:
        with torch.no_grad():
            while True:
                self._wake.clear()
                # Only now, or a stop() that came before clear() would not wake the wait below.
                if self._closing or self._error is not None:
                    break
                try:
                    self._begin()
                    # What can begin has: from here on only an end, or something new, moves anything.
                    if self._under_way:
                        self._end()
                    else:
                        self._wake.wait()
                except BaseException as error:  # whatever it is, members would not agree any more on what comes next
                    self._error = error if isinstance(error, ask.Error) else ask.Error(ask.Code.INTERNAL, repr(error))
        self._fail()

    def _fail(self) -> None:
        with self._lock:
            self._error = self._error or _usage(f"group {self._group.name} is closed")
        lost = dict.fromkeys([piece.operation for piece in self._under_way] + list(self._queue))
        self._under_way.clear()
        self._queue.clear()
        self._free.clear()
        self._group.close()
        for operation in lost:
            operation.error = operation.error or self._error
            operation.end()

    def _begin(self) -> None:
        """Begins what there is memory for."""
        while self._queue and len(self._under_way) < _MOST_UNDER_WAY and self._begin_piece(self._queue[0]):
            if self._queue[0].all_begun:
                self._queue.popleft()

    def _begin_piece(self, operation: _Operation) -> bool:
        if operation.kind == "barrier":
            self._began(_Piece(self._group.ibarrier(), operation, 0, 0, None, None))
            return True
        if len(self._free) < 2:
            return False
        if operation.keep and operation.count:
            self._keep(operation)
        count = min(_PIECE // operation.source.element_size(), operation.count - operation.begun)
        self._began(self._launch(operation, operation.begun, count))
        return True

    def _keep(self, operation: _Operation) -> None:
        """The result into memory of the arena that is its own, where there is enough."""
        operation.keep = False
        try:
            memory = self._group.empty(operation.count * operation.source.element_size(), numpy.uint8)
        except ask.Error as error:
            if error.code != ask.Code.LIMIT:
                raise
            return
        operation.target = _tensor(memory, operation.source.dtype, operation.count)
        operation.whole = True

    def _launch(self, operation: _Operation, at: int, count: int) -> _Piece:
        kind, dtype = _TYPES[operation.source.dtype]
        memory, output = self._free.pop(), None
        piece = memory.view(kind)[:count]
        source, staged = operation.source[at : at + count], _tensor(memory, operation.source.dtype, count)
        if operation.divide_by != 1:
            torch.div(source, operation.divide_by, out=staged)
        elif operation.kind != "bcast" or operation.root == self._group.rank:
            staged.copy_(source)
        if operation.kind == "bcast":
            # libask takes an input of its own beside the buffer: out of the arena, which this makes room in.
            self._free.pop()
            request = self._group.ibcast(piece, operation.root, dtype)
            return _Piece(request, operation, at, count, None, memory, lent=True)
        result = None
        if operation.whole:
            result = _array(operation.target[at : at + count])
        elif operation.target is not None:
            output = self._free.pop()
            result = output.view(kind)[:count]
        if operation.kind == "reduce":
            request = self._group.ireduce(piece, operation.root, operation.op, result, dtype)
        else:
            request = self._group.iallreduce(piece, operation.op, result, dtype)
        return _Piece(request, operation, at, count, memory, output)

    def _began(self, piece: _Piece) -> None:
        operation = piece.operation
        operation.begun += piece.count
        operation.pieces += 1
        operation.all_begun = operation.begun == operation.count
        self._under_way.append(piece)

    def _end(self) -> None:
        """Waits for the oldest for a while, and ends what has ended, in order."""
        limit = _LONGEST_WAIT
        while self._under_way and self._ended(self._under_way[0], limit):
            self._take_back(self._under_way.popleft())
            limit = 0.0

    def _ended(self, piece: _Piece, limit: float) -> bool:
        try:
            return piece.request.wait_for(limit)
        except ask.Error as error:
            # The agent refuses it, at all members alike; the group goes on.
            if error.code != ask.Code.UNSUPPORTED:
                raise
            piece.operation.error = error
            return True

    def _take_back(self, piece: _Piece) -> None:
        operation = piece.operation
        if piece.output is not None and operation.target is not None and operation.error is None:
            target = operation.target[piece.at : piece.at + piece.count]
            target.copy_(_tensor(piece.output, target.dtype, piece.count))
        self._free.extend(each for each in (piece.input, piece.output) if each is not None)
        if piece.lent:
            self._free.append(self._group.empty(_PIECE, numpy.uint8))
        operation.pieces -= 1
        if operation.all_begun and operation.pieces == 0:
            operation.end()


class _Work(Work):
    """What torch waits for: one operation."""

    def __init__(self, operation: _Operation) -> None:
        super().__init__()
        self._operation = operation
        operation.work = self

    def wait(self, timeout: datetime.timedelta = datetime.timedelta(0)) -> bool:
        seconds = timeout.total_seconds()
        if not self._operation.ended.wait(seconds if seconds > 0 else None):
            raise ask.Error(ask.Code.DEADLINE, f"the {self._operation.kind} is under way after {seconds} s")
        if self._operation.error is not None:
            raise self._operation.error
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        return self._operation.ended.is_set()

    def is_success(self) -> bool:
        return self.is_completed() and self._operation.error is None

    def exception(self) -> Optional[BaseException]:
        return self._operation.error

    def result(self) -> list:
        self.wait()
        return self._operation.future.value()

    def get_future(self) -> Future:
        return self._operation.future


class ProcessGroup(dist.ProcessGroup):
    """The backend "ask": allreduce, reduce, broadcast, allgather and barrier of one tensor on the CPU.

    `group` is the ask.Group, which no other thread may use. Operations return at once, with a work to wait for; while
    one is under way, leave its tensors as they are. Those of one that fails are undefined.
    """

    def __init__(self, group: ask.Group) -> None:
        super().__init__(group.rank, group.size)
        self.group = group
        self._engine = _engine_of(group)
        self._works: collections.deque[_Work] = collections.deque(maxlen=_KEPT_WORKS)
        weakref.finalize(self, group.close)

    def getBackendName(self) -> str:  # noqa: N802  torch's
        return "ask"

    def _submit(self, operation: _Operation) -> _Work:
        work = _Work(self._engine.submit(operation))
        self._works.append(work)
        return work

    def _change(self, kind: str, tensor: torch.Tensor, changed: bool = True, **named: object) -> _Work:
        """An operation on a tensor in place."""
        flat = _flat(tensor)

        def finish() -> list:
            if changed and not tensor.is_contiguous():
                tensor.copy_(flat.view(tensor.dtype).view(tensor.shape))
            return [tensor]

        return self._submit(_Operation(kind, flat, flat if changed else None, finish=finish, **named))

    def allreduce(self, tensors: list, opts: Optional[AllreduceOptions] = None) -> _Work:
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        tensor = _reducible(_only(tensors), op)
        mean = self.size() if op == dist.ReduceOp.AVG else 1
        return self._change("allreduce", tensor, op=_OPS[op], divide_by=mean)

    def reduce(self, tensors: list, opts: ReduceOptions) -> _Work:
        tensor = _reducible(_only(tensors), opts.reduceOp)
        mean = self.size() if opts.reduceOp == dist.ReduceOp.AVG else 1
        here = opts.rootRank == self.rank()
        return self._change("reduce", tensor, here, op=_OPS[opts.reduceOp], root=opts.rootRank, divide_by=mean)

    def broadcast(self, tensors: list, opts: Optional[BroadcastOptions] = None) -> _Work:
        return self._change("bcast", _checked(_only(tensors)), root=0 if opts is None else opts.rootRank)

    def barrier(self, opts: Optional[BarrierOptions] = None) -> _Work:
        return self._submit(_Operation("barrier"))

    def allgather(self, outputs: list, inputs: list, opts: Optional[AllgatherOptions] = None) -> _Work:
        tensor, each = _checked(_only(inputs)), [_checked(output) for output in _only(outputs)]
        if len(each) != self.size() or any(one.shape != tensor.shape or one.dtype != tensor.dtype for one in each):
            raise _usage(f"allgather needs {self.size()} outputs of the input's shape and type")
        return self._gather(tensor, each, outputs)

    def _allgather_base(self, output: torch.Tensor, tensor: torch.Tensor, opts: object = None) -> _Work:
        if output.numel() != tensor.numel() * self.size() or output.dtype != tensor.dtype:
            raise _usage(f"allgather needs an output {self.size()} times the input, of its type")
        parts = _checked(output).view(self.size(), *tensor.shape)
        return self._gather(_checked(tensor), list(parts), output)

    def _gather(self, tensor: torch.Tensor, outputs: list, value: object) -> _Work:
        """Members' bytes side by side, each with zeros where the others have theirs, ORed."""
        mine = tensor.contiguous().view(-1).view(torch.uint8)
        words = (mine.numel() + 7) // 8
        table = torch.zeros(self.size(), words, dtype=torch.int64)
        rows = table.view(torch.uint8).view(self.size(), words * 8)[:, : mine.numel()]
        rows[self.rank()] = mine

        def finish() -> object:
            for output, row in zip(outputs, rows):
                output.copy_(row.clone().view(tensor.dtype).view(tensor.shape))
            return value

        flat = table.view(-1)
        return self._submit(_Operation("allreduce", flat, flat, op=ask.Op.BOR, finish=finish))


def _only(tensors: list) -> object:
    if len(tensors) != 1:
        raise _usage(f"ask takes one tensor an operation, not {len(tensors)}")
    return tensors[0]


def _refuse(name: str) -> Callable:
    def refused(self: ProcessGroup, *_: object, **__: object) -> Work:
        raise ask.Error(
            ask.Code.UNSUPPORTED,
            f"the backend ask has no {name.strip('_')}: "
            "make a group that has, by torch.distributed.new_group(backend='gloo')",
        )

    return refused


for _name in (
    "_reduce_scatter_base", "allgather_coalesced", "allreduce_coalesced", "alltoall", "alltoall_base", "gather",
    "monitored_barrier", "recv", "recv_anysource", "reduce_scatter", "scatter", "send",
):  # fmt: skip
    setattr(ProcessGroup, _name, _refuse(_name))


@dataclasses.dataclass
class Options:
    """`pg_options` of init_process_group() and new_group(). The group is named by its rank 0, whose host is the root.

    host        this host, as agents know it: a name or address; else $ASK_HOST, else the address that it has
                towards the store
    agent, token, arena_bytes   as of ask.Group
    """

    host: Optional[str] = None
    agent: Optional[str] = None
    token: Optional[str] = None
    arena_bytes: int = 128 << 20


_groups: "weakref.WeakSet[ask.Group]" = weakref.WeakSet()


@atexit.register
def _leave_all() -> None:
    """A process that ends without leaving would fail the group at members that are not done yet."""
    for group in list(_groups):
        group.close()
        group._leave()  # whatever results of its memory somebody still has: nobody reads them any more


def _engine_of(group: ask.Group) -> _Engine:
    if not hasattr(group, "_torch"):
        group._torch = _Engine(group)
        group._at_close.append(group._torch.stop)
        _groups.add(group)
    return group._torch


def _mean_of(state: object, bucket: dist.GradBucket, op: ask.Op) -> Future[torch.Tensor]:
    where = dist.distributed_c10d._get_default_group() if state is None else state
    group = where.group if isinstance(where, ProcessGroup) else where
    if not isinstance(group, ask.Group):
        raise _usage(
            f"the state of a hook of ask.torch is a {type(where).__name__}: "
            "pass an ask.Group, or a process group 'ask'"
        )
    flat = _reducible(bucket.buffer(), dist.ReduceOp.AVG)
    operation = _Operation("allreduce", flat, flat, op=op, divide_by=group.size, keep=True)
    return _engine_of(group).submit(operation).future


def allreduce_hook(state: object, bucket: dist.GradBucket) -> Future[torch.Tensor]:
    """A communication hook for DDP: the mean of all members' gradients, as torch's own allreduce_hook.

    `state` is an ask.Group, which is the hook's from the first backward pass on, or a process group "ask"; None: the
    default one. Each bucket goes its way while autograd computes the next.
    """
    return _mean_of(state, bucket, ask.Op.SUM)


def allreduce_hook_32(state: object, bucket: dist.GradBucket) -> Future[torch.Tensor]:
    """allreduce_hook with half its bytes for float32: sums of ask.Op.SUM_32, off by at most N 2^(L - 30) of the largest
    gradient near by, for N members and L its binary logarithm, rounded up. Not for float64.
    """
    return _mean_of(state, bucket, ask.Op.SUM_32)


def _address_towards(host: str, port: int) -> str | None:
    """This host's own, by which it would go there; of IPv4 rather than of IPv6."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    for family, kind, protocol, _, target in sorted(found, key=lambda each: each[0] != socket.AF_INET):
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(target)  # sends nothing
                address = ipaddress.ip_address(probe.getsockname()[0].split("%")[0])
        except OSError:
            continue
        if not address.is_loopback and not address.is_link_local:
            return str(address)
    return None


def _own_host(options: Options, store: dist.Store) -> str:
    """As other hosts' agents know it."""
    host = options.host or os.environ.get("ASK_HOST")
    if host:
        return host
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    if isinstance(store, dist.TCPStore):
        address = _address_towards(store.host, store.port)
        if address:
            return address
    raise _usage(
        "the store does not tell which host this is: set ASK_HOST, or pg_options=ask.torch.Options(host=...), "
        "to its name or address"
    )


def _agreed(opts: object, options: Options, deadline: datetime.timedelta) -> tuple[str, str]:
    """Name and root of a new group: rank 0 says them, by the store."""
    if opts.group_rank == 0:
        label = re.sub("[^A-Za-z0-9_-]", "", opts.group_id)[:24]
        name, root = f"torch-{label}-{secrets.token_hex(6)}", _own_host(options, opts.store)
        opts.store.set("ask", json.dumps({"group": name, "root": root, "piece": _PIECE}))
        return name, root
    try:
        opts.store.wait(["ask"], deadline)
        said = json.loads(opts.store.get("ask"))
        name, root, piece = said["group"], said["root"], said["piece"]
    except (ValueError, KeyError, TypeError) as error:
        raise ask.Error(ask.Code.INPUT, f"what rank 0 left in the store is not of ask.torch: {error!r}") from None
    except RuntimeError as error:
        raise ask.Error(ask.Code.DEADLINE, f"rank 0 has not said the group's name by the store: {error}") from None
    if not isinstance(name, str) or not isinstance(root, str) or piece != _PIECE:
        raise ask.Error(ask.Code.INPUT, "rank 0 has another version of ask.torch")
    return name, root


def _create(opts: object, pg_options: Optional[Options]) -> ProcessGroup:
    options = Options() if pg_options is None else pg_options
    if not isinstance(options, Options):
        raise _usage(f"pg_options of the backend ask are ask.torch.Options, not {type(options).__name__}")
    seconds = min(max(opts.timeout.total_seconds(), 0.001), _LONGEST)
    name, root = _agreed(opts, options, datetime.timedelta(seconds=seconds))
    group = ask.Group(
        name, opts.group_rank, opts.group_size, root, deadline=seconds, arena_bytes=options.arena_bytes,
        agent=options.agent, token=options.token,
    )  # fmt: skip
    try:
        return ProcessGroup(group)
    except BaseException:
        group.close()
        raise


dist.Backend.register_backend("ask", _create, extended_api=True)
