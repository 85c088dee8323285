#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""spread.py send TASK HOST FILE     on hosts that have lines "NUMBER KEY" in FILE; HOST receives
spread.py receive TASK SENDERS       there: prints every key with how many numbers it has, the least and the largest

Three tasks at once, one for each column of the answer, with asyncio.
"""

import asyncio
import sys

import ask
import numpy

OPERATORS = {"count": ask.Op.COUNT, "least": ask.Op.MIN, "largest": ask.Op.MAX}


async def send(task: str, host: str, file: str) -> None:
    table = numpy.loadtxt(file, dtype=str, ndmin=2)
    numbers, keys = table[:, 0].astype(numpy.int64), table[:, 1].copy()
    stats = await asyncio.gather(*(ask.send_async(f"{task}-{each}", keys, numbers, to=host) for each in OPERATORS))
    print(*(each.tuples_in for each in stats))


async def receive(task: str, senders: int) -> None:
    results = await asyncio.gather(
        *(ask.receive_async(f"{task}-{name}", senders, op=op, sort=True) for name, op in OPERATORS.items())
    )
    # Sorted, so that the same row of each is the same key's.
    for key, *row in zip(results[0].keys(), *(result.values.tolist() for result in results)):
        print(key.decode(), *row)


def main() -> int:
    try:
        if len(sys.argv) == 5 and sys.argv[1] == "send":
            asyncio.run(send(*sys.argv[2:]))
        elif len(sys.argv) == 4 and sys.argv[1] == "receive":
            asyncio.run(receive(sys.argv[2], int(sys.argv[3])))
        else:
            print(__doc__, file=sys.stderr)
            return ask.Code.USAGE
    except ask.Error as error:
        print(f"spread.py: {error} ({error.code.name.lower()})", file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
