"""Tables of what was measured, and the roofline as a picture."""

import math
import statistics
import textwrap

from engines import CONFIDENCE
from pairs import limit_of_load, mean_state, step_load


class Line:
    """A work's results, ready to print; costs are medians over the pairs that were kept."""

    def __init__(self, result):
        self.__dict__.update(result)
        self.all_pairs = [pair for pairs in self.pairs.values() for pair in pairs] or self.alone
        self.ours = self.median("tenon")
        self.limit = self.median("limit")

    @property
    def beside_others(self):
        """Then the limit is that of a machine which the programs did not have."""
        return self.__dict__.get("busy", 0) > 0

    def median(self, member):
        return statistics.median(p[member] for p in self.all_pairs) if self.all_pairs else None

    def fraction(self, pairs, member):
        """Of the limit; of its own pairs, as states differ between them."""
        if not pairs or self.kind == "verify" or self.beside_others:
            return None
        return statistics.median(pair["limit"] / pair[member] for pair in pairs)

    def text(self, cost):
        if cost is None:
            return "–"
        if self.kind == "verify":
            return f"{cost:.2f}×"
        if self.kind == "load":
            return f"{cost:.2f} s"
        if self.kind == "memory":
            return f"{cost / 2**20:.0f} MiB"
        return f"{(self.tokens if self.kind == 'prefill' else self.batch) / cost:.4g}/s"

    def with_fraction(self, cost, fraction):
        if cost is None:
            return "–"
        return self.text(cost) + ("" if fraction is None else f" ({fraction:.2f})")

    def goal_text(self):
        if self.goal is None or not self.all_pairs:
            return ""
        return f"{self.goal:.2f} {'reached' if self.reached() else 'missed'}"

    def reached(self):
        if self.goal is None or not self.all_pairs:
            return True
        if self.kind == "verify":
            return self.ours <= self.goal
        return self.fraction(self.all_pairs, "tenon") >= self.goal


def ratio_text(line, peer):
    if peer in line.failures:
        return "failed"
    if peer not in line.ratios:
        return f"– ({line.dropped[peer]} dropped)" if peer in line.dropped else "–"
    ratio = line.ratios[peer]
    low, high = ("?" if ratio[end] is None else f"{ratio[end]:.2f}" for end in ("low", "high"))
    text = f"{ratio['estimate']:.2f} [{low}, {high}]"
    return text + (f", {line.dropped[peer]} dropped" if line.dropped[peer] else "")


def rows_of(lines, peers):
    head = ["Work", "Type", "Tenon", "Limit", *(
        cell for peer in peers for cell in (peer, f"Tenon / {peer}")), "Goal"]
    rows = []
    for line in lines:
        row = [line.name, line.type,
               with_limit(line, line.all_pairs, "tenon"),
               "–" if line.beside_others else line.text(line.limit)]
        for peer in peers:
            row += [with_limit(line, line.pairs.get(peer, []), "peer"), ratio_text(line, peer)]
        rows.append([*row, line.goal_text()])
    return head, rows


def with_limit(line, pairs, member):
    if not pairs:
        return "–"
    return line.with_fraction(statistics.median(pair[member] for pair in pairs),
                              line.fraction(pairs, member))


def print_rows(head, rows, markdown):
    if markdown:
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        for row in rows:
            print("| " + " | ".join(row) + " |")
        return
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def settings_text(lines, peers):
    """Which setting of each peer was best, and for what."""
    texts = []
    for peer in peers:
        by_setting = {}
        for line in lines:
            if peer in line.settings and line.kind not in ("load", "memory"):
                setting = " ".join(line.settings[peer]) or "as it is"
                by_setting.setdefault(setting, []).append(f"{line.type} {line.name}")
        texts += [f"{peer} `{setting}`: {'; '.join(works)}" for setting, works in by_setting.items()]
    return texts


def machine_text(results, lines):
    states = [pair["state"] for line in lines for pair in line.all_pairs] or [results["machine"]]
    reads = sorted(state["read_gbps"] for state in states)
    mean = mean_state(states)
    sets = "".join(f", `{key}`" for key in results.get("tenon", []))
    date = results.get("date", "")
    return (f"{results['machine'].get('processor', 'unknown processor')}, {results['threads']} "
            f"threads{sets}{', ' + date if date else ''}; read {reads[0]:.1f} to {reads[-1]:.1f} GB/s, "
            f"fp32 {mean['fma_tflops']:.2f}, bf16 {mean.get('bf16_tflops', 0):.2f} TFLOP/s, "
            f"int8 {mean.get('int8_tops', 0):.2f} TOP/s")


def roofline(lines, width=64, height=16):
    """Operations a second over operations a byte, both on logarithmic axes; a letter a work."""
    points = []
    for line in lines:
        if (line.kind not in ("decode", "prefill") or not line.all_pairs or line.beside_others):
            continue
        operations, weights, kv = step_load(line, line.facts)
        sum_ = sum(operations.values())
        others = [statistics.median(p["peer"] for p in pairs)
                  for pairs in line.pairs.values() if pairs]
        points.append((line, sum_ / (weights + kv), sum_ / line.ours,
                       sum_ / min(others) if others else None))
    if not points:
        return []
    state = mean_state([pair["state"] for point in points for pair in point[0].all_pairs])
    f32 = state["fma_tflops"] * 1e12
    roofs = {"i": max(state.get("int8_tops", 0) * 1e12, f32),
             "b": max(state.get("bf16_tflops", 0) * 1e12, f32)}
    low_x = min(math.log2(min(p[1] for p in points)) - 1, -1)
    high_x = max(math.log2(max(p[1] for p in points)) + 1, 10)
    high_y = math.log2(max(roofs.values())) + 0.3
    low_y = min(math.log2(min(p[2] for p in points)), low_x + math.log2(state["read_gbps"] * 1e9))
    grid = [[" "] * width for _ in range(height)]

    def put(x, y, mark):
        column = round((x - low_x) / (high_x - low_x) * (width - 1))
        row = round((high_y - y) / (high_y - low_y) * (height - 1))
        if 0 <= row < height and 0 <= column < width:
            grid[row][column] = mark

    for column in range(width):
        x = low_x + column * (high_x - low_x) / (width - 1)
        slope = x + math.log2(state["read_gbps"] * 1e9)
        for mark, roof in (("=", roofs["b"]), ("-", roofs["i"])):
            put(x, min(slope, math.log2(roof)), "/" if slope < math.log2(roof) else mark)
    key = []
    for index, (line, intensity, ours, best) in enumerate(points):
        if best:
            put(math.log2(intensity), math.log2(best), "·")
        letter = chr(ord("A") + index % 26)
        put(math.log2(intensity), math.log2(ours), letter)
        key.append(f"{letter} {line.shape} {line.type} {line.name}")
    top = f"{2 ** high_y / 1e12:.2f} TOP/s"
    return [top, *("|" + "".join(row).rstrip() for row in grid), "+" + "-" * width,
            f" {2 ** low_x:.2g} operations a byte".ljust(width - 8) + f"{2 ** high_x:.0f}",
            "/ read bandwidth   - int8   = bf16   A… Tenon   · the best peer", *key]


def show(results, markdown):
    """Prints everything; whether all goals were reached."""
    def say(text):
        after = "  " if text.startswith("- ") else ""
        print(textwrap.fill(text, 100, subsequent_indent=after, break_long_words=False,
                            break_on_hyphens=False) if markdown else text)

    lines = [Line(result) for result in results["works"]]
    peers = results["peers"]
    say(machine_text(results, lines))
    print()
    for shape in dict.fromkeys(line.shape for line in lines):
        print(f"{'#### ' if markdown else ''}{shape}\n")
        print_rows(*rows_of([line for line in lines if line.shape == shape], peers), markdown)
        print()
    say("Tokens a second, in brackets the fraction of the limit; Tenon / peer: the mean ratio of "
        f"the pairs and its interval ({CONFIDENCE:.0%}); dropped: pairs whose states differ by more than "
        f"{results['agree']:.0%}, or with less than {results['share']:.0%} of the processors.")
    if results["share"] == 0:
        say("Other programs ran beside these (`--share 0`): ratios hold, fractions do not.")
    for text in settings_text(lines, peers):
        say(f"- {text}")
    for line in lines:
        for peer, failure in line.failures.items():
            say(f"- {peer} failed at {line.type} {line.name}: {failure}")
    for text in results["absent"]:
        say(f"- left out: {text}")
    picture = roofline(lines)
    if picture:
        print("\n```\n" + "\n".join(picture) + "\n```" if markdown else "\n" + "\n".join(picture))
    return all(line.reached() for line in lines)
