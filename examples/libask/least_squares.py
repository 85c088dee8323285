#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""least_squares.py GROUP RANK SIZE ROOT FILE

Rows "y x1 x2 ..." of numbers, some in each member's FILE: the coefficients that fit y best by the x of all rows, printed
by each member. What travels is X'X and X'y, however many rows there are.
"""

import sys

import ask
import numpy


def main() -> int:
    if len(sys.argv) != 6:
        print(__doc__, file=sys.stderr)
        return ask.Code.USAGE
    rows = numpy.loadtxt(sys.argv[5], ndmin=2)
    y, x = rows[:, 0].copy(), rows[:, 1:].copy()
    try:
        with ask.Group(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]) as group:
            # Shared with the agent: not copied. Both are under way at once.
            square = group.empty((x.shape[1], x.shape[1]), numpy.float64)
            side = group.empty(x.shape[1], numpy.float64)
            square[:], side[:] = x.T @ x, x.T @ y
            requests = [group.iallreduce(square), group.iallreduce(side)]
            for request in requests:
                request.wait()
            for coefficient in numpy.linalg.solve(square, side):
                print(repr(float(coefficient)))
            return 0
    except ask.Error as error:
        print(f"least_squares.py: {error} ({error.code.name.lower()})", file=sys.stderr)
        return error.code


if __name__ == "__main__":
    sys.exit(main())
