"""Checks of strategies: whatever plans steps, keeps K and V, drafts or captures, the executor gives
the same bits as in plain steps. Nothing is forgiven."""
import threading
from functools import partial

from answers import Different, hold_same_bits
from program import Broken, answers_of
from prompts import mixed_token_requests, text_requests

# Steps that are not captured, without anything that a strategy adds.
PLAIN = ("executor.graph_memory=0", "scheduler.plugin=continuous", "kv_cache.plugin=paged")
COMBINATIONS = (
    ("scheduler.plugin=continuous", "kv_cache.plugin=paged"),
    ("scheduler.plugin=chunked", "kv_cache.plugin=radix", "scheduler.options.step_tokens=5"),
    ("scheduler.plugin=static", "kv_cache.plugin=naive"),
    ("scheduler.plugin=fair", "kv_cache.plugin=prefix"),
    ("scheduler.plugin=continuous", "kv_cache.plugin=paged", "engine.plan_ahead=1"),
    ("scheduler.plugin=fair", "kv_cache.plugin=radix", "engine.plan_ahead=1",
     "limits.max_sequences=5"),
    ("kv_cache.block_tokens=3", "executor.graph_memory=4MiB"),
)
# 288 tokens of K and V for 13 sequences of 25 to 55.
SCARCE = ("kv_cache.memory=884736", "limits.context_tokens=128", "limits.max_batch_tokens=64")
SWAPPED = (*SCARCE, "kv_cache.swap_memory=4MiB", "engine.plan_ahead=1",
           "scheduler.options.preempt=swap")
COMBINATIONS_OF_MODELS = (
    ("gpt_oss", ("scheduler.plugin=chunked", "kv_cache.plugin=radix",
                 "scheduler.options.step_tokens=4")),
    ("deepseek_v2_experts", ("scheduler.plugin=static", "kv_cache.plugin=naive",
                             "engine.plan_ahead=1")),
    ("qwen3_moe", ("scheduler.plugin=fair", "kv_cache.plugin=prefix", "engine.plan_ahead=1")),
)
SHOWN_TOTALS = ("preemptions", "swapped_out_tokens", "reused_tokens", "drafted_tokens",
                "accepted_tokens")


class Baseline:
    """Answers of `tale` in plain steps. They are made once; who asks meanwhile waits."""

    def __init__(self, tenon):
        self.tenon = tenon
        self.lock = threading.Lock()
        self.report = None

    def _made(self):
        with self.lock:
            if self.report is None:
                try:
                    self.report = self.tenon.report(self.tenon.bundled("tale"), text_requests(),
                                                    PLAIN)
                except Broken as broken:
                    self.report = broken
        if isinstance(self.report, Broken):
            raise Broken(f"there is no baseline: {self.report}")
        return self.report

    def answers(self):
        return answers_of(self._made())

    def check(self):
        totals = self._made()["totals"]
        return (f"{len(self.answers())} answers, {totals['steps']} steps, "
                f"{totals['tokens_per_second']:.0f} tokens/s")


class StrategyChecks:
    def __init__(self, tenon, baseline):
        self.tenon, self.baseline = tenon, baseline

    def combination(self, settings, wanted=None):
        """The baseline's bits with these settings, and that the wanted thing did happen."""
        report = self.tenon.report(self.tenon.bundled("tale"), text_requests(), settings)
        hold_same_bits(answers_of(report), self.baseline.answers())
        totals = report["totals"]
        seen = ", ".join([f"{totals['steps']} steps"] + [f"{totals[name]} {name}" for name in
                                                         SHOWN_TOTALS if totals[name]])
        if wanted and not totals[wanted]:
            raise Different(f"there were no {wanted}, so the check says nothing ({seen})")
        return seen

    def combination_of_model(self, model, settings):
        requests = mixed_token_requests(temperature=0.7, seed=5)
        expected = self.tenon.run(model, requests, ("executor.graph_memory=0",))
        hold_same_bits(self.tenon.run(model, requests, settings), expected)
        return f"{len(requests)} prompts"

    def alone_and_together(self, model):
        requests = mixed_token_requests(temperature=0.7, seed=5)
        together = self.tenon.run(model, requests)
        for i in (0, 2, 5):
            alone = self.tenon.run(model, [requests[i]], ("executor.graph_memory=0",))
            hold_same_bits({(i, 0): alone[0, 0]}, {(i, 0): together[i, 0]})
        return f"{len(requests)} prompts"

    def drawn_on_device(self):
        """Without --json no digest is asked for, so rows are drawn where their logits are; those of
        the baseline are drawn on the host."""
        requests = text_requests()
        chosen = (1, 3, 5)
        for i in chosen:
            words = []
            for key in ("max_tokens", "temperature", "top_p", "top_k", "seed"):
                words += ["--" + key.replace("_", "-"), requests[i][key]]
            text = self.tenon.call(
                "run", requests[i]["prompt"], "--quiet", "--no-echo", "--ignore-eos", "--model",
                self.tenon.bundled("tale"), *self.tenon.flags(), *words).strip()
            expected = self.baseline.answers()[i, 0]["text"].strip()
            if text != expected:
                raise Different(f"prompt {i}: {text[:60]!r}, expected {expected[:60]!r}")
        return f"{len(chosen)} texts"

    def all(self):
        """(name, check) of each."""
        golden, bits = self.tenon.golden, "tale: bits of the baseline"
        for settings in COMBINATIONS:
            yield f"{bits} with {', '.join(settings)}", partial(self.combination, settings)
        yield f"{bits} where memory is scarce", partial(self.combination, SCARCE, "preemptions")
        yield (f"{bits} where K and V are swapped",
               partial(self.combination, SWAPPED, "swapped_out_tokens"))
        draft_model = f"drafter.model={self.tenon.bundled('tale-draft')}"
        for drafter, more in (("ngram", ()), ("suffix", ()), ("draft_model", (draft_model,))):
            settings = (f"drafter.plugin={drafter}", "drafter.options.adaptive=false", *more)
            yield (f"{bits} with the drafter {drafter}",
                   partial(self.combination, settings, "drafted_tokens"))
        yield "tale: drawn on the device, texts of the host's draws", self.drawn_on_device
        for name in ("mixtral", "deepseek_v3_experts"):
            yield (f"{name}: bits alone and together",
                   partial(self.alone_and_together, golden(f"models/{name}")))
        for name, settings in COMBINATIONS_OF_MODELS:
            yield (f"{name}: bits of plain steps with {', '.join(settings)}",
                   partial(self.combination_of_model, golden(f"models/{name}"), settings))
