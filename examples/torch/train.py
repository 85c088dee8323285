#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small classifier by DistributedDataParallel, and shows the loss at each step; with several ways, from the
same seeds by each, side by side.

    train.py [--by ask,gloo] [--steps N] [--deadline SECONDS] [--result FILE]

ways:   ask    the process group "ask" for everything
        hook   Gloo, and gradients by ask.torch.allreduce_hook over an ask.Group
        gloo   Gloo for everything

One process a host, with torch's usual environment: RANK, WORLD_SIZE, MASTER_ADDR (this host's own address at rank 0)
and MASTER_PORT. Every rank makes its part of the data, from a seed. --result keeps each way's losses, as the bits that
they have, and a hash of the parameters at the end.
"""

import argparse
import contextlib
import datetime
import hashlib
import os
import sys
import time

import ask
import ask.torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

INPUTS, HIDDEN, CLASSES, BATCH = 64, 192, 10, 64
# Several buckets a step, so that one travels while the next is computed; the first is of a limit of its own.
BUCKET_MB = 0.1
dist._DEFAULT_FIRST_BUCKET_BYTES = 1 << 16


def arguments():
    parser = argparse.ArgumentParser(description="Trains a small classifier over a group.")
    parser.add_argument("--by", default="ask", help="ask, hook, gloo, or several: ask,gloo")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--deadline", type=float, default=30.0, help="seconds in which an operation must move on")
    parser.add_argument("--result", help="file for losses and parameters")
    parsed = parser.parse_args()
    parsed.ways = parsed.by.split(",")
    unknown = set(parsed.ways) - {"ask", "hook", "gloo"}
    if unknown or parsed.steps < 1 or parsed.deadline <= 0:
        parser.error(f"no way {unknown.pop()!r}" if unknown else "--steps and --deadline are greater than 0")
    return parsed


def new_model():
    torch.manual_seed(1)
    sizes = [INPUTS, HIDDEN, HIDDEN, CLASSES]
    layers = [layer for pair in zip(sizes, sizes[1:]) for layer in (torch.nn.Linear(*pair), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers[:-1])


def batches(rank, steps):
    """Points in a space of INPUTS dimensions, and the nearest of CLASSES centres, the same at all ranks, for each."""
    centres = torch.randn(CLASSES, INPUTS, generator=torch.Generator().manual_seed(2))
    mine = torch.Generator().manual_seed(100 + rank)
    for _ in range(steps):
        labels = torch.randint(CLASSES, (BATCH,), generator=mine)
        yield centres[labels] + 3 * torch.randn(BATCH, INPUTS, generator=mine), labels


@contextlib.contextmanager
def process_group(way, store, options):
    """The default group, and what the communication hook works on: None if there is none."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    limit = datetime.timedelta(seconds=options.deadline)
    dist.init_process_group(
        "ask" if way == "ask" else "gloo", store=dist.PrefixStore(way, store), rank=rank, world_size=size, timeout=limit
    )
    hook = contextlib.nullcontext()
    if way == "hook":
        root = os.environ["MASTER_ADDR"]
        hook = ask.Group(f"train-{os.environ['MASTER_PORT']}", rank, size, root, deadline=options.deadline)
    with hook as state:
        yield state
    dist.destroy_process_group()


def train(way, store, options):
    """Mean losses of all ranks, one a step, a hash of the parameters at the end, and the seconds that steps took."""
    losses = []
    with process_group(way, store, options) as state:
        model = DistributedDataParallel(new_model(), bucket_cap_mb=BUCKET_MB)
        if state is not None:
            model.register_comm_hook(state, ask.torch.allreduce_hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        begun = time.monotonic()
        for points, labels in batches(dist.get_rank(), options.steps):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(points), labels)
            loss.backward()
            optimizer.step()
            mean = loss.detach().double() / dist.get_world_size()
            dist.all_reduce(mean)
            losses.append(mean.item())
            print(f"{way} {len(losses)} {losses[-1]:.6f}", flush=True)
        seconds = time.monotonic() - begun
        digest = hashlib.sha256()
        for parameter in model.parameters():
            digest.update(parameter.detach().numpy().tobytes())
        dist.barrier()
    return losses, digest.hexdigest(), seconds


def show(trained):
    """The losses side by side, and how far the others are from the first at most."""
    ways = list(trained)
    print(" ".join(f"{column:>10}" for column in ["step"] + ways))
    for step, losses in enumerate(zip(*(losses for losses, _, _ in trained.values())), 1):
        print(" ".join([f"{step:>10}"] + [f"{loss:>10.6f}" for loss in losses]))
    for way, (losses, _, seconds) in trained.items():
        print(f"{way}: {1000 * seconds / len(losses):.1f} ms a step")
    for way in ways[1:]:
        pairs = zip(trained[ways[0]][0], trained[way][0])
        most = max(abs(one - other) / max(one, other) for one, other in pairs)
        print(f"{way}: at most {most:.2e} of the loss from {ways[0]}")


def main():
    options = arguments()
    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, rank == 0, datetime.timedelta(seconds=60)
    )
    trained = {way: train(way, store, options) for way in options.ways}
    if options.result:
        with open(options.result, "w") as file:
            for way, (losses, digest, _) in trained.items():
                file.writelines(f"{way} {step} {loss.hex()}\n" for step, loss in enumerate(losses, 1))
                file.write(f"{way} parameters {digest}\n")
    if rank == 0 and len(trained) > 1:
        show(trained)
    # Rank 0 has the store, which others may still read.
    store.add("done", 1)
    while rank == 0 and store.add("done", 0) < size:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
