#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A member of tools/bench allreduce over Gloo, as PyTorch's users have it: the same work and report as vectors.cpp's."""

import argparse
import datetime
import json
import os
import resource
import time

import torch
import torch.distributed as dist

SPARE = 64
BELOW = 1024


def parse_flags():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="int32", choices=["int32", "int64", "float32", "float64"])
    parser.add_argument("--master", required=True)
    parser.add_argument("--port", default="29500")
    for name, default in {"count": 1 << 20, "runs": 5, "shorts": 200, "rank": 0, "size": 2, "late-rank": 0, "late": 0}.items():
        parser.add_argument("--" + name, type=int, default=default)
    return parser.parse_args()


def link():
    """Bytes and packets over eth0 so far, received and sent."""
    with open("/proc/self/net/dev", encoding="ascii") as file:
        for line in file:
            name, _, numbers = line.partition(":")
            if name.strip() == "eth0":
                n = [int(each) for each in numbers.split()]
                return {"received": {"bytes": n[0], "packets": n[1]}, "sent": {"bytes": n[8], "packets": n[9]}}
    return {way: {"bytes": 0, "packets": 0} for way in ("received", "sent")}


def minus(after, before):
    return {way: {what: after[way][what] - before[way][what] for what in after[way]} for way in after}


def machine_seconds():
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(each) for each in file.readline().split()[1:9]]
    return (sum(ticks[:3]) + ticks[5] + ticks[6]) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime, usage.ru_stime


class Member:
    def __init__(self, flags):
        self.flags = flags
        self.dtype = getattr(torch, flags.dtype)
        self.at = torch.arange(flags.count, dtype=torch.int64) * 31
        self.few = torch.zeros(SPARE, dtype=self.dtype)
        self.report = {"seconds": [], "user": 0.0, "system": 0.0, "machine": 0.0}

    def run(self):
        before = None
        for run in range(self.flags.runs + 1):
            vector = ((self.at + self.flags.rank * 7 + run) % BELOW).to(self.dtype)
            dist.all_reduce(self.few)
            before = link() if run == 1 else before
            self.run_once(run, vector)
        dist.all_reduce(self.few)
        self.report["link"] = minus(link(), before or link())
        self.report["short"] = self.run_short(lambda: dist.all_reduce(self.few))
        self.report["barrier"] = self.run_short(dist.barrier)
        self.report["bytes"] = self.flags.count * self.few.element_size()
        self.report["note"] = "Gloo of PyTorch " + torch.__version__
        return self.report

    def run_once(self, run, vector):
        machine, own, began = machine_seconds(), own_seconds(), time.monotonic()
        if self.flags.late and self.flags.rank == self.flags.late_rank:
            time.sleep(self.flags.late / 1000)
        dist.all_reduce(vector)
        took = time.monotonic() - began
        if run > 0:
            now = own_seconds()
            self.report["seconds"].append(took)
            self.report["user"] += now[0] - own[0]
            self.report["system"] += now[1] - own[1]
            self.report["machine"] += machine_seconds() - machine
        expected = sum(((self.at + rank * 7 + run) % BELOW) for rank in range(self.flags.size)).to(self.dtype)
        if not torch.equal(vector, expected):
            raise SystemExit(f"rank {self.flags.rank}: run {run} has a wrong sum")

    def run_short(self, operation):
        took = []
        for _ in range(self.flags.shorts):
            began = time.monotonic()
            operation()
            took.append(time.monotonic() - began)
        return took


def main():
    flags = parse_flags()
    os.environ.update(GLOO_SOCKET_IFNAME="eth0", MASTER_ADDR=flags.master, MASTER_PORT=flags.port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=flags.rank, world_size=flags.size, timeout=datetime.timedelta(seconds=120))
    print(json.dumps(Member(flags).run()))
    dist.destroy_process_group()


main()
