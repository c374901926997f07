"""Machine states, limits, and pairs that are measured in one state."""

import concurrent.futures
import mmap
import os
import statistics
import sys
import time

from engines import Busy, Failure

CEILINGS = ("fma_tflops", "bf16_tflops", "int8_tops")


def copy_seconds(file, threads):
    """The file from the page cache into fresh memory, a part a thread."""
    size = os.path.getsize(file)
    step = 1 << 22
    with open(file, "rb") as source, mmap.mmap(-1, size) as memory:
        view = memoryview(memory)

        def copy(part):
            for at in range(part * size // threads, (part + 1) * size // threads, step):
                end = min(at + step, (part + 1) * size // threads)
                os.preadv(source.fileno(), [view[at:end]], at)

        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            list(pool.map(copy, range(threads)))
        seconds = time.monotonic() - start
        view.release()
    return seconds


def operations_seconds(operations, limits):
    f32 = limits["fma_tflops"]
    rates = {"int8": max(limits.get("int8_tops", 0), f32),
             "bf16": max(limits.get("bf16_tflops", 0), f32), "f32": f32}
    return sum(operations[kind] / (rates[kind] * 1e12) for kind in rates)


def weight_bytes_of(facts, rows):
    """Of experts those that so many rows are expected to choose among them, if all are as likely."""
    idle = (1 - facts.get("expert_share", 1)) ** rows
    return facts["weight_bytes"] + facts.get("expert_bytes", 0) * (1 - idle)


def load_of(work, rows, sampled, kv_tokens, facts):
    """Operations by kind and bytes of one step or prompt."""
    operations = {kind: facts["row_operations"][kind] * rows
                  + facts["head_operations"][kind] * sampled for kind in ("int8", "bf16", "f32")}
    return operations, weight_bytes_of(facts, rows), facts["kv_bytes_per_token"] * kv_tokens


def step_load(work, facts, tokens=None):
    if work.kind == "prefill":
        return load_of(work, work.tokens, 1, work.tokens, facts)
    rows = work.batch if tokens is None else tokens
    context = (max(work.context, 16) + work.steps / 2) * work.batch
    return load_of(work, rows, rows, context, facts)


def limit_of_load(load, limits):
    """max(bytes of weights / bandwidth, operations / ceiling) + bytes of KV / bandwidth."""
    operations, weight_bytes, kv_bytes = load
    bandwidth = limits["read_gbps"] * 1e9
    return (max(weight_bytes / bandwidth, operations_seconds(operations, limits))
            + kv_bytes / bandwidth)


def limit_of(work, facts, limits, file):
    """The least cost of a work in this state; what is compared with it are costs of programs."""
    if work.kind == "memory":
        return facts["weight_bytes"] + facts.get("expert_bytes", 0)
    if work.kind == "load":
        return limits["copy_seconds"]
    if work.kind == "verify":
        return (limit_of_load(step_load(work, facts, work.tokens), limits)
                / limit_of_load(step_load(work, facts, 1), limits))
    return limit_of_load(step_load(work, facts), limits)


def mean_state(states):
    return {key: statistics.fmean(state[key] for state in states) for key in states[0]
            if isinstance(states[0][key], (int, float))}


def agree(states, work, within):
    """Whether bandwidth, and where many rows are computed ceilings too, stayed what they were."""
    names = ["read_gbps"]
    if work.kind == "prefill" or work.batch >= 8:
        names += [name for name in CEILINGS if all(state.get(name) for state in states)]
    return all(max(state[name] for state in states) <= (1 + within) * min(
        state[name] for state in states) for name in names)


class Pairs:
    """Rounds of all programs in turn, the order reversed each time; states around each piece."""

    def __init__(self, tenon, peers, flags):
        self.tenon, self.peers, self.flags = tenon, peers, flags
        self.best = {}  # settings by program and kind of work

    def say(self, text):
        print(f"  {text}", file=sys.stderr, flush=True)

    def state(self, work, file):
        limits = self.tenon.limits(self.flags.state_seconds)
        if work.kind == "load":
            limits["copy_seconds"] = copy_seconds(file, self.tenon.threads)
        return limits

    def best_setting(self, engine, work, file):
        """Tries each setting once, for works of a kind together (all batches are one kind); a
        setting that this program does not know is passed over."""
        choices = engine.settings_for(work)
        if len(choices) == 1 or work.kind in ("load", "memory"):
            return choices[0]
        several = work.batch > 1 or work.kind == "verify"
        key = (engine.name, file, several or work.kind, work.context)
        if key not in self.best:
            self.best[key] = self.try_settings(engine, work, file, choices)
        return self.best[key]

    def try_settings(self, engine, work, file, choices):
        costs, problem = {}, None
        for setting in choices:
            try:
                costs[setting] = engine.cost(work, file, setting, brief=True)
            except Failure as failure:
                problem = problem or failure
        if not costs:
            raise problem
        return min(costs, key=costs.get)

    def with_settings(self, work, file, failures):
        """The programs that can do a work, by name, and the best setting of each."""
        engines, settings = {self.tenon.name: self.tenon}, {self.tenon.name: ()}
        for peer in filter(lambda peer: peer.can(work), self.peers):
            try:
                settings[peer.name] = self.best_setting(peer, work, file)
                engines[peer.name] = peer
            except Failure as failure:
                self.leave_out(peer.name, work, failure, failures)
        return engines, settings

    def leave_out(self, name, work, failure, failures):
        failures[name] = str(failure)
        self.say(f"{work.title}: {name} left out: {failure}")

    def wanting(self, pairs, alone):
        return any(len(done) < self.flags.pairs for done in [*pairs.values()] or [alone])

    def measure(self, work, file):
        """{"settings": …, "pairs": {peer: [{"tenon", "peer", "limit", "state"}]}, "dropped": …}"""
        failures, alone = {}, []
        engines, settings = self.with_settings(work, file, failures)
        pairs = {name: [] for name in engines if name != self.tenon.name}
        dropped = dict.fromkeys(pairs, 0)
        state = self.state(work, file)
        for number in range(3 * self.flags.pairs):
            if not self.wanting(pairs, alone):
                break
            order = list(engines) if number % 2 == 0 else list(engines)[::-1]
            costs, states, shares = {}, [state], {}
            for name in order:
                try:
                    with Busy(work.busy):
                        costs[name] = engines[name].cost(work, file, settings[name])
                    shares[name] = engines[name].share
                except Failure as failure:
                    if name == self.tenon.name:
                        raise
                    self.leave_out(name, work, failure, failures)
                    for table in (engines, pairs, dropped):
                        table.pop(name)
                states.append(self.state(work, file))
            state = states[-1]
            self.sort_round(work, file, order, costs, states, shares, pairs, dropped, alone)
        ratios = {}
        for name, kept in pairs.items():
            # A load that took no longer than its first token is within what timing can tell.
            if costs := [(pair["tenon"], pair["peer"]) for pair in kept
                         if pair["tenon"] > 0 and pair["peer"] > 0]:
                ratios[name] = self.tenon.ratio_of(costs)
        return {"settings": {name: list(map(str, settings[name])) for name in engines},
                "pairs": pairs, "ratios": ratios, "dropped": dropped, "alone": alone,
                "failures": failures}

    def sort_round(self, work, file, order, costs, states, shares, pairs, dropped, alone):
        """Keeps the pairs of a round whose states agree, and which others left alone."""
        ours = costs[self.tenon.name]
        disturbed = [name for name, share in shares.items() if share < self.flags.share]
        facts = self.tenon.facts[str(file)]

        def entry(around):
            state = mean_state(around)
            return {"tenon": ours, "limit": limit_of(work, facts, state, file), "state": state}

        at = order.index(self.tenon.name)
        own = states[at:at + 2]
        if agree(own, work, self.flags.agree) and self.tenon.name not in disturbed:
            alone.append(entry(own))
        said = [f"Tenon {ours:.4g}"]
        for name in pairs:
            there = order.index(name)
            around = states[min(at, there):max(at, there) + 2]
            why = [f"{each} had {shares[each]:.2f} of the processors"
                   for each in (self.tenon.name, name) if each in disturbed]
            why += [] if agree(around, work, self.flags.agree) else ["states differ"]
            if not why:
                pairs[name].append({**entry(around), "peer": costs[name]})
            else:
                dropped[name] += 1
            dropping = f" (dropped: {'; '.join(why)})" if why else ""
            said.append(f"{name} {costs[name]:.4g}{dropping}")
        reads = ", ".join(f"{state['read_gbps']:.1f}" for state in states)
        self.say(f"{work.title}: {'; '.join(said)}; read {reads} GB/s")
