#!/usr/bin/env python3
"""What bench/cuda says of kernels beyond what nvcc and a GPU said: occupancy, faults."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/cuda"))
import gates  # noqa: E402
import occupancy  # noqa: E402


class Occupancy(unittest.TestCase):
    def test_is_limited_by_whatever_runs_out_first(self):
        for why, architecture, threads, registers, shared, percent in (
                ("nothing", "sm_80", 128, 32, 0, 100),
                ("registers", "sm_89", 128, 128, 0, 33),
                ("registers in pieces", "sm_90", 128, 97, 0, 25),
                ("blocks", "sm_90", 32, 30, 0, 50),
                ("shared memory", "sm_89", 128, 32, 64 * 1024, 8),
                ("whole warps", "sm_80", 33, 32, 0, 100)):
            with self.subTest(why):
                self.assertEqual(occupancy.occupancy(architecture, threads, registers, shared),
                                 percent)


def row(**values):
    return [values.get(column, 0) for column in gates.COLUMNS]


class Faults(unittest.TestCase):
    def found(self, **values):
        return list(gates.faults({("sm_90", "multiply_bf16<64>"): row(**values)}))

    def test_are_none_where_a_kernel_is_as_it_should_be(self):
        self.assertEqual(self.found(loop=96, **{"loop.HMMA": 16}), [])

    def test_are_spills(self):
        self.assertEqual(self.found(spills=8), ["sm_90 multiply_bf16<64>: 8 bytes are spilled"])

    def test_are_inner_loops_of_something_else(self):
        self.assertIn("16 of the 579 instructions", self.found(loop=579, **{"loop.HMMA": 16})[0])

    def test_are_kernels_that_nobody_launched(self):
        self.assertIn("launches.txt does not have it", self.found(threads=None)[0])


if __name__ == "__main__":
    unittest.main()
