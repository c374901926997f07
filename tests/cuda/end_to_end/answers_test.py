#!/usr/bin/env python3
"""What answers.py finds, in answers that were made to differ."""
import pathlib
import struct
import tempfile
import unittest

from answers import Different, NearTies, hold_logits, hold_same_bits, hold_same_tokens


def answers(tokens=(5, 6, 7), digest="a", logprobs=(-0.5, -0.5, -0.5), second=-0.6):
    """One answer; beside each token, token 9 was thought of with the logprob `second`."""
    return {(0, 0): {"tokens": list(tokens), "digest": digest, "logprobs": [
        {"logprob": logprob, "top": [[token, logprob], [9, second]]}
        for token, logprob in zip(tokens, logprobs)]}}


def npy(path, shape, numbers):
    header = str({"descr": "<f4", "fortran_order": False, "shape": shape}).encode() + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
                     + struct.pack(f"<{len(numbers)}f", *numbers))


class Exactly(unittest.TestCase):
    def test_equal_answers_are_the_same(self):
        hold_same_bits(answers(), answers())

    def test_another_digest_is_found_but_not_among_tokens(self):
        hold_same_tokens(answers(digest="b"), answers())
        with self.assertRaisesRegex(Different, r"answer \(0, 0\): digest b, expected a"):
            hold_same_bits(answers(digest="b"), answers())

    def test_other_missing_and_more_tokens_are_found(self):
        for tokens in ((5, 6, 8), (5, 6), (5, 6, 7, 7)):
            with self.subTest(tokens), self.assertRaisesRegex(Different, r"\(0, 0\), token "):
                hold_same_bits(answers(tokens), answers())

    def test_a_missing_answer_is_found(self):
        with self.assertRaisesRegex(Different, r"there are answers \[\], expected \[\(0, 0\)\]"):
            hold_same_tokens({}, answers())


class UpToNearTies(unittest.TestCase):
    def hold(self, found, expected=None, tie=0.2):
        return NearTies(0.01, tie).hold(found, expected or answers())

    def test_the_worst_logprob_is_told(self):
        self.assertEqual(self.hold(answers(logprobs=(-0.5, -0.508, -0.5))),
                         "3 tokens, logprobs within 8.0e-03")

    def test_a_logprob_beyond_the_tolerance_is_found_and_so_is_nan(self):
        for logprob in (-0.52, float("nan")):
            with self.subTest(logprob), self.assertRaisesRegex(Different, "token 1: the logprob"):
                self.hold(answers(logprobs=(-0.5, logprob, -0.5)))

    def test_a_near_tie_is_forgiven_with_all_behind_it(self):
        self.assertEqual(self.hold(answers((5, 9, 1))), "1 tokens, logprobs within 0.0e+00, "
                         "near tie (1.0e-01) at token 1 of (0, 0)")

    def test_a_token_that_was_no_near_tie_is_found(self):
        with self.assertRaisesRegex(Different, "token 1: .*distance of their logprobs: 1.0e-01"):
            self.hold(answers((5, 9, 7)), tie=0.05)
        with self.assertRaisesRegex(Different, "token 1: .*distance of their logprobs: not known"):
            self.hold(answers((5, 8, 7)))

    def test_an_answer_that_ends_early_is_found(self):
        with self.assertRaisesRegex(Different, "2 tokens, expected 3"):
            self.hold(answers((5, 6)))


class Logits(unittest.TestCase):
    def hold(self, numbers, shape=(2, 2)):
        with tempfile.TemporaryDirectory() as folder:
            found, expected = (pathlib.Path(folder) / name for name in ("found", "expected"))
            npy(found, shape, numbers)
            npy(expected, (2, 2), [1, -4, 2, 3])
            return hold_logits(found, expected, 0.1)

    def test_the_tolerance_is_a_part_of_the_largest(self):
        self.assertEqual(self.hold([1, -4, 2.25, 3]), "2 rows, within 6.2e-02 of the largest logit")

    def test_others_nan_and_other_shapes_are_found(self):
        with self.assertRaisesRegex(Different, r"row and logit \(1, 0\): 2.5, expected 2.0"):
            self.hold([1, -4, 2.5, 3])
        with self.assertRaisesRegex(Different, r"row and logit \(0, 1\): nan"):
            self.hold([1, float("nan"), 2, 3])
        with self.assertRaisesRegex(Different, r"shape \(1, 2\), expected \(2, 2\)"):
            self.hold([1, -4], (1, 2))


if __name__ == "__main__":
    unittest.main()
