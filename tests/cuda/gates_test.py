#!/usr/bin/env python3
"""What bench/cuda says of kernels beyond what nvcc and a GPU said: occupancy, faults, the page."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/cuda"))
import gates  # noqa: E402
import occupancy  # noqa: E402
import page  # noqa: E402


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


class Page(unittest.TestCase):
    def setUp(self):
        self.roofline = page.ROOFLINE.read_text()

    def section(self, *measured):
        """The page's section where files have these lines."""
        return page.section(self.roofline, ["\n".join(lines) for lines in measured])

    def test_claims_nothing_that_was_not_measured(self):
        text = self.section()
        self.assertIn("no kernel has run on a GPU", text)
        tables = page.Roofline(self.roofline).rows
        self.assertEqual(tables.keys(), page.TITLES.keys())
        heads = [line for line in text.splitlines() if "| H100 ≥ µs | measured |" in line]
        self.assertEqual(len(heads), len(tables))
        kernels = [line for line in text.splitlines() if "| never run |" in line]
        self.assertGreaterEqual(len(kernels), sum(map(len, tables.values())))

    def test_puts_cublaslt_beside_products_in_bf16_alone(self):
        lines = self.section(["device Test H100 80GB", "bandwidth copy 3000000000000",
                              "8b-prefill product.gate_up 500", "cublaslt 13.1.0",
                              "cublaslt 8b-prefill product.gate_up 400"]).splitlines()
        self.assertIn("Measured on Test H100 80GB, which copies 3 TB/s, beside cuBLASLt 13.1.0.", lines)
        self.assertIn("| prompt's largest product: ≥ 0.5 of cuBLASLt's rate | 0.80 | never run |", lines)
        self.assertEqual(sum(line.endswith("| H200 ≥ µs | measured | cuBLASLt |") for line in lines),
                         len(page.BESIDE))
        rows = [line for line in lines if line.startswith("| product.gate_up |")]
        self.assertEqual(sum("| 500 | 400 |" in line for line in rows), 1)
        self.assertEqual(sum("| never run | never run |" in line for line in rows), 2)
        norms = [line for line in lines if line.startswith("| norm |")]
        self.assertEqual(sum(line.endswith("| never run | – |") for line in norms), 2)

    def test_gives_each_device_its_columns(self):
        lines = self.section(["device NVIDIA H100", "bandwidth copy 1", "8b-decode norm 111"],
                             ["device NVIDIA H200", "bandwidth copy 1", "8b-decode norm 222"]).splitlines()
        self.assertIn("Measured on NVIDIA H100, which copies 1B/s; and on NVIDIA H200, which copies 1B/s.", lines)
        norm = next(line for line in lines if line.startswith("| norm |")).split(" | ")
        self.assertEqual((norm[6], norm[9]), ("111", "222"))
        self.assertEqual(page.file_of("device NVIDIA H100 80GB HBM3").name, "h100.txt")
        self.assertEqual(page.file_of("device NVIDIA H200").name, "h200.txt")

    def test_judges_whole_steps_and_not_the_sum_of_their_kernels(self):
        rows = page.Roofline(self.roofline).rows["8b-decode"]
        kernels = [f"8b-decode {name} 10" for name, *_ in rows if name != "step"]
        head = ["device NVIDIA H200", "bandwidth copy 3000000000000"]
        text = self.section([*head, *kernels, "8b-decode step 7654"])
        self.assertIn("Measured on NVIDIA H200, which copies 3 TB/s.", text)
        self.assertIn("| 7,654 |", text)
        moved = next(int(line[2]) for line in rows if line[0] == "step")
        self.assertIn(f"copying reaches | never run | {moved / 7654e-6 / 3e12:.2f} |", text)
        self.assertIn("copying reaches | never run | never run |", self.section(head + kernels))

    def test_puts_steps_by_pytorch_beside_those_that_were_measured(self):
        beside = ["torch 9.9", "torch 8b-decode step 300", "torch 8b-prefill step 400"]
        head = ["device a test", "bandwidth copy 1"]
        text = self.section([*head, "8b-decode step 200", *beside])
        self.assertIn("PyTorch 9.9 on the a test, with its own operations", text)
        self.assertIn("300 µs for the step of \"Decoding, one sequence of 1,024 tokens, bf16\" (1.50 times as long).",
                      text)
        self.assertNotIn("400 µs", text)
        self.assertNotIn("PyTorch", self.section(head + beside))


if __name__ == "__main__":
    unittest.main()
