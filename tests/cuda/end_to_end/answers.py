"""How answers are held against each other: exactly, up to near ties, logits by their largest."""
import ast
import itertools
import pathlib
import struct


class Different(Exception):
    """What was compared is not alike; says where."""


def first_difference(found, expected):
    """The first index at which two lists differ, also where one ends; None where they are equal."""
    for index, (a, b) in enumerate(itertools.zip_longest(found, expected)):
        if a != b:
            return index
    return None


def hold_same_keys(found, expected):
    if found.keys() != expected.keys():
        raise Different(f"there are answers {sorted(found)}, expected {sorted(expected)}")


def hold_tokens(where, found, expected):
    index = first_difference(found, expected)
    if index is not None:
        raise Different(f"{where}, token {index}: {found[index:index + 4]}, "
                        f"expected {expected[index:index + 4]}")


def hold_same_tokens(found, expected):
    """Answers as `Tenon.run` gives them, by request and sample."""
    hold_same_keys(found, expected)
    for key in sorted(expected):
        hold_tokens(f"answer {key}", found[key]["tokens"], expected[key]["tokens"])


def hold_same_bits(found, expected):
    """Nothing is forgiven: tokens and digests of logits (docs/formats/digest.md) are the same."""
    hold_same_tokens(found, expected)
    for key in sorted(expected):
        digests = found[key]["digest"], expected[key]["digest"]
        if digests[0] != digests[1]:
            raise Different(f"answer {key}: digest {digests[0]}, expected {digests[1]}, "
                            "with the same tokens")


def gap_of(answer, index, one, other):
    """How far apart an answer's logprobs of two tokens are; None where it does not tell both."""
    top = dict(answer["logprobs"][index]["top"])
    return abs(top[one] - top[other]) if one in top and other in top else None


class NearTies:
    """Holds tokens and logprobs against those of a reference. Behind the first token that differs
    two answers have nothing in common any more, so each is compared up to there. A token may differ
    where the reference's own logprobs of both are within `tie`."""

    def __init__(self, logprob_tolerance, tie):
        self.logprob_tolerance, self.tie = logprob_tolerance, tie
        self.worst, self.tokens, self.notes = 0.0, 0, []

    def hold(self, found, expected):
        """What was seen, in words."""
        hold_same_keys(found, expected)
        for key in sorted(expected):
            self._hold_answer(key, found[key], expected[key])
        return ", ".join([f"{self.tokens} tokens", f"logprobs within {self.worst:.1e}",
                          *self.notes])

    def _hold_answer(self, key, found, expected):
        ours, theirs = found["tokens"], expected["tokens"]
        for index in range(max(len(ours), len(theirs))):
            if index >= min(len(ours), len(theirs)):
                raise Different(f"answer {key}: {len(ours)} tokens, expected {len(theirs)}")
            if ours[index] != theirs[index]:
                return self._hold_tie(key, index, ours, theirs, expected)
            self._hold_logprob(key, index, found, expected)

    def _hold_tie(self, key, index, ours, theirs, expected):
        gap = gap_of(expected, index, ours[index], theirs[index])
        if gap is None or not gap <= self.tie:
            apart = "not known" if gap is None else f"{gap:.1e}"
            raise Different(f"answer {key}, token {index}: {ours[index:index + 4]}, expected "
                            f"{theirs[index:index + 4]}; distance of their logprobs: {apart}, "
                            f"allowed {self.tie:.0e}")
        self.notes.append(f"near tie ({gap:.1e}) at token {index} of {key}")

    def _hold_logprob(self, key, index, found, expected):
        off = abs(found["logprobs"][index]["logprob"] - expected["logprobs"][index]["logprob"])
        if not off <= self.logprob_tolerance:
            raise Different(f"answer {key}, token {index}: the logprob is off by {off:.2e}, "
                            f"allowed {self.logprob_tolerance:.0e}")
        self.worst = max(self.worst, off)
        self.tokens += 1


def read_npy(path):
    """(shape, numbers) of a file in NumPy's format, version 1, rows first."""
    data = pathlib.Path(path).read_bytes()
    length, = struct.unpack("<H", data[8:10])
    header = ast.literal_eval(data[10:10 + length].decode())
    letter = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q"}[header["descr"]]
    body = data[10 + length:]
    return header["shape"], struct.unpack(f"<{len(body) // struct.calcsize(letter)}{letter}", body)


def hold_logits(path, expected_path, tolerance):
    """Each logit within the tolerance, as a part of the largest one. What was seen, in words."""
    shape, found = read_npy(path)
    expected_shape, expected = read_npy(expected_path)
    if len(found) != len(expected):
        raise Different(f"logits of shape {shape}, expected {expected_shape}")
    largest = max(1.0, max(map(abs, expected)))
    offs = [abs(a - b) if a == a else float("inf") for a, b in zip(found, expected)]
    worst = max(offs)
    if not worst <= tolerance * largest:
        at = offs.index(worst)
        raise Different(f"row and logit {divmod(at, shape[-1])}: {found[at]}, expected "
                        f"{expected[at]}; the largest is {largest:.3g}")
    return f"{shape[0]} rows, within {worst / largest:.1e} of the largest logit"
