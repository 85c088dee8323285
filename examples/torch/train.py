#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small classifier by DistributedDataParallel, and shows the loss at each step; with several ways, from the
same seeds by each, side by side.

    train.py [--by ask,gloo] [--steps N] [--hidden N] [--deadline SECONDS] [--result FILE] [--curve FILE]

ways:   ask      the process group "ask" for everything
        hook     Gloo, and gradients by ask.torch.allreduce_hook over an ask.Group
        hook32   the same by ask.torch.allreduce_hook_32
        gloo     Gloo for everything

One process a host, with torch's usual environment: RANK, WORLD_SIZE, MASTER_ADDR (this host's own address at rank 0)
and MASTER_PORT. Every rank makes its part of the data, from a seed. --result keeps each way's losses, as the bits that
they have, and a hash of the parameters at the end; --curve how many of 2000 other points the model gets right after so
many seconds, every tenth step.
"""

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import sys
import time

import ask
import ask.torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

INPUTS, CLASSES, BATCH = 64, 10, 64
# Points that nobody learns from, and every how many steps the model is tried on them.
TRIED, TRIED_EVERY = 2000, 10
# Several buckets a step, so that one travels while the next is computed; the first is of a limit of its own.
BUCKET_MB = 0.1
dist._DEFAULT_FIRST_BUCKET_BYTES = 1 << 16


def arguments():
    parser = argparse.ArgumentParser(description="Trains a small classifier over a group.")
    parser.add_argument("--by", default="ask", help="ask, hook, hook32, gloo, or several: ask,gloo")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--hidden", type=int, default=192, help="width of the two layers in the middle")
    parser.add_argument("--deadline", type=float, default=30.0, help="seconds in which an operation must move on")
    parser.add_argument("--result", help="file for losses and parameters")
    parser.add_argument("--curve", help="file for accuracy by time, as JSON")
    parsed = parser.parse_args()
    parsed.ways = parsed.by.split(",")
    unknown = set(parsed.ways) - {"ask", "hook", "hook32", "gloo"}
    if unknown or parsed.steps < 1 or parsed.hidden < 1 or parsed.deadline <= 0:
        parser.error(f"no way {unknown.pop()!r}" if unknown else "--steps, --hidden and --deadline are greater than 0")
    return parsed


def new_model(hidden):
    torch.manual_seed(1)
    sizes = [INPUTS, hidden, hidden, CLASSES]
    layers = [layer for pair in zip(sizes, sizes[1:]) for layer in (torch.nn.Linear(*pair), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers[:-1])


def points_near(centres, count, generator):
    """So many points around the centres, and of which each is."""
    labels = torch.randint(CLASSES, (count,), generator=generator)
    return centres[labels] + 3 * torch.randn(count, INPUTS, generator=generator), labels


def new_centres():
    """In a space of INPUTS dimensions, the same at all ranks."""
    return torch.randn(CLASSES, INPUTS, generator=torch.Generator().manual_seed(2))


def batches(rank, steps):
    centres = new_centres()
    mine = torch.Generator().manual_seed(100 + rank)
    for _ in range(steps):
        yield points_near(centres, BATCH, mine)


class Trial:
    """The model's accuracy by the seconds of training, which those of the trials are not among."""

    def __init__(self, model):
        self.model = model
        self.points, self.labels = points_near(new_centres(), TRIED, torch.Generator().manual_seed(3))
        self.began, self.apart = time.monotonic(), 0.0
        self.curve = []

    def look(self, step):
        if step % TRIED_EVERY:
            return
        now = time.monotonic()
        with torch.no_grad():
            right = (self.model(self.points).argmax(1) == self.labels).double().mean().item()
        self.curve.append((step, now - self.began - self.apart, right))
        self.apart += time.monotonic() - now


@contextlib.contextmanager
def process_group(way, store, options):
    """The default group, and what the communication hook works on: None if there is none."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    limit = datetime.timedelta(seconds=options.deadline)
    dist.init_process_group(
        "ask" if way == "ask" else "gloo", store=dist.PrefixStore(way, store), rank=rank, world_size=size, timeout=limit
    )
    hook = contextlib.nullcontext()
    if way.startswith("hook"):
        root = os.environ["MASTER_ADDR"]
        hook = ask.Group(f"train-{os.environ['MASTER_PORT']}", rank, size, root, deadline=options.deadline)
    with hook as state:
        yield state
    dist.destroy_process_group()


def train(way, store, options):
    """Mean losses of all ranks, one a step, a hash of the parameters at the end, the seconds that steps took, and the
    accuracies."""
    losses = []
    with process_group(way, store, options) as state:
        model = DistributedDataParallel(new_model(options.hidden), bucket_cap_mb=BUCKET_MB)
        if state is not None:
            hook = ask.torch.allreduce_hook_32 if way == "hook32" else ask.torch.allreduce_hook
            model.register_comm_hook(state, hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        trial = Trial(model.module) if options.curve else None
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
            if trial:
                trial.look(len(losses))
        seconds = time.monotonic() - begun
        digest = hashlib.sha256()
        for parameter in model.parameters():
            digest.update(parameter.detach().numpy().tobytes())
        dist.barrier()
    return losses, digest.hexdigest(), seconds, trial.curve if trial else []


def show(trained):
    """The losses side by side, and how far the others are from the first at most."""
    ways = list(trained)
    print(" ".join(f"{column:>10}" for column in ["step"] + ways))
    for step, losses in enumerate(zip(*(losses for losses, *_ in trained.values())), 1):
        print(" ".join([f"{step:>10}"] + [f"{loss:>10.6f}" for loss in losses]))
    for way, (losses, _, seconds, _) in trained.items():
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
            for way, (losses, digest, *_) in trained.items():
                file.writelines(f"{way} {step} {loss.hex()}\n" for step, loss in enumerate(losses, 1))
                file.write(f"{way} parameters {digest}\n")
    if options.curve:
        with open(options.curve, "w") as file:
            json.dump({way: curve for way, (*_, curve) in trained.items()}, file)
    if rank == 0 and len(trained) > 1:
        show(trained)
    # Rank 0 has the store, which others may still read.
    store.add("done", 1)
    while rank == 0 and store.add("done", 0) < size:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
