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
        return list(gates.faults({("sm_90", "multiply_many<NarrowTile>"): row(**values)}))

    def test_are_none_where_a_kernel_is_as_it_should_be(self):
        self.assertEqual(self.found(loop=81, **{"loop.HMMA": 32}), [])

    def test_are_spills(self):
        self.assertEqual(self.found(spills=8), ["sm_90 multiply_many<NarrowTile>: 8 bytes are spilled"])

    def test_are_instructions_that_no_device_takes(self):
        for text, refused in (("LDGSTS.E.BYPASS.128 [R39+UR0], desc[UR1][R18.64]", True),
                              ("LDGSTS.E.BYPASS.128 [R25+0x10], desc[UR12][R18.64]", False)):
            self.assertEqual(gates.is_refused((0, text)), refused)
        self.assertEqual(self.found(refused=2),
                         ["sm_90 multiply_many<NarrowTile>: no device takes 2 of its instructions"])

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
        self.assertEqual(len(heads), len(tables) + 1)  # and that of whole steps
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
        self.assertEqual(sum("| never run | never run |" in line for line in rows), len(page.BESIDE))
        norms = [line for line in lines if line.startswith("| norm |")]
        self.assertEqual(sum(line.endswith("| never run | – |") for line in norms), len(page.BESIDE))

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
        beside = ["torch 9.9", "torch 8b-decode step 3000", "torch 8b-prefill step 4000"]
        head = ["device H100 of a test", "bandwidth copy 1"]
        text = self.section([*head, "8b-decode step 2000", *beside])
        self.assertIn("PyTorch is 9.9 on the H100 of a test, with its own operations", text)
        least = page.Roofline(self.roofline).rows["8b-decode"][-1][5]
        self.assertIn(f"| Decoding, one sequence of 1,024 tokens, bf16 | {page.microseconds(float(least))} | 2,000 | "
                      f"{float(least) / 2000:.2f} | 3,000 |", text)
        self.assertIn("| never run | – | 4,000 |", text)
        self.assertNotIn("PyTorch is", self.section([*head, "8b-decode step 2000"]))

    def test_gives_every_step_a_title_of_its_own(self):
        titles = [page.whole(name) for name in page.TITLES]
        self.assertEqual(len(set(titles)), len(titles))
        self.assertFalse([title for title in titles if "The same" in title])
        self.assertEqual(page.whole("8b-batch32-w4"), "Decoding, 32 sequences of 1,024 tokens, weights of 4 bits")


if __name__ == "__main__":
    unittest.main()
