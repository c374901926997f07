"""What stands between an engine and a plugin that is written in Python (docs/plugins/python.md).

The bridge library runs this file once in the interpreter that it finds, and calls what `open_plugin` returns. Every
answer is a tuple: ("", result), or (what went wrong,)."""

import importlib.util
import inspect
import operator
import sys
import traceback
from collections import namedtuple

_SEQUENCE = ("seq prompt_tokens known_tokens computed_tokens in_flight_tokens limit_tokens offered_drafts fork_group "
             "samples tenant priority whole_tokens arrival_ns deadline_ns place")


class Sequence(namedtuple("Sequence", _SEQUENCE)):
    """A sequence as a scheduler sees it; the fields are those of tenon::SequenceView."""

    __slots__ = ()

    @property
    def left(self):
        """Known tokens that are not computed yet."""
        return self.known_tokens - self.computed_tokens


Cost = namedtuple("Cost", "step_id rows sequences logits_rows duration_ns")
Event = namedtuple("Event", "kind seq step_id tenant prompt_tokens known_tokens computed_tokens accepted_drafts")
_KINDS = ("arrived", "progressed", "aborted", "finished")


class Step:
    """The step that is being planned. What is granted is computed; everything else waits."""

    def __init__(self, head, waiting, running, call):
        (self.step_id, self.now_ns, self.max_sequences, self.max_batch_tokens, self.context_tokens, self.kv_tokens,
         *last) = head
        self.last_step = Cost(*last)
        self.waiting = [Sequence._make(one) for one in waiting]   # first come first
        self.running = [Sequence._make(one) for one in running]   # first admitted first
        self._call = call

    @property
    def budget(self):
        """Tokens that this step may still compute."""
        return self._call(0, 0, 0)

    @property
    def free_tokens(self):
        """Slots of K/V that could be granted, about."""
        return self._call(1, 0, 0)

    def cached(self, sequence):
        """Leading tokens of a sequence whose K/V is in the cache."""
        return self._call(2, sequence.seq, 0)

    def cost(self, sequence, tokens):
        """Slots that computing so many tokens more would take out of `free_tokens`."""
        return self._call(3, sequence.seq, tokens)

    def limit(self, tokens):
        """The step computes no more than so many tokens. Before anything is granted."""
        self._call(4, tokens, 0)

    def advance(self, prompts=None):
        """Every running sequence goes on: those that decode by a token and their drafts, then prompts that were begun, by
        up to `prompts` tokens each (None = as many as there is room for). Where memory is short, the latest are preempted."""
        self._call(5, 0 if prompts is None else prompts, bool(self.waiting))

    def grant(self, sequence, tokens=None):
        """Lets a waiting sequence in, with up to `tokens` of its prompt (None = all that there is room for). False: there is
        no row, no memory or no room in the step for it, and nothing changed."""
        return bool(self._call(6, sequence.place, 0 if tokens is None else tokens))

    def make_room(self, sequence, tokens):
        """Preempts running sequences that come after a waiting one in the order of `policy`, until there is memory for so
        many of its tokens. Before anything is granted."""
        return bool(self._call(7, sequence.place, tokens))


def _answer(body):
    try:
        return ("", body())
    except BaseException as fault:  # nothing may cross the boundary
        # Where the plugin was: what it was given wrong comes to light here.
        own = _answer.__code__.co_filename
        theirs = [one for one in traceback.extract_tb(fault.__traceback__) if one.filename != own]
        place = f" ({theirs[-1].filename}:{theirs[-1].lineno})" if theirs else ""
        return (f"{type(fault).__name__}: {fault}{place}",)


def _token(given, method):
    try:
        return operator.index(given)
    except TypeError:
        raise TypeError(f"{method} gave {given!r}, which is no token") from None


class SchedulerBridge:
    def __init__(self, plugin):
        self._plan = plugin.plan
        self._on_event = getattr(plugin, "on_event", None)
        self.listens = self._on_event is not None

    def plan(self, head, waiting, running, call):
        return _answer(lambda: self._plan(Step(head, waiting, running, call)))

    def on_event(self, *event):
        kind, *rest = event
        return _answer(lambda: self._on_event(Event(_KINDS[kind] if kind < len(_KINDS) else "?", *rest)))


class DrafterBridge:
    def __init__(self, plugin):
        self._propose = plugin.propose
        self._begin = getattr(plugin, "begin", None)
        self._end = getattr(plugin, "end", None)
        self._accept = getattr(plugin, "accept", None)
        self.listens = False

    def propose(self, seq, history, most):
        def guess(tokens):
            proposed = self._propose(seq, tokens, most)
            return [] if proposed is None else [_token(token, "propose") for token in proposed][:most]
        return _answer(lambda: self._with(history, guess))

    def begin(self, seq, parent):
        return _answer(lambda: self._begin and self._begin(seq, parent if parent >= 0 else None))

    def end(self, seq):
        return _answer(lambda: self._end and self._end(seq))

    def accept(self, seq, history, drafted, accepted):
        return _answer(lambda: self._accept and self._with(history, lambda tokens: self._accept(seq, tokens, drafted, accepted)))

    @staticmethod
    def _with(history, use):
        """The engine's memory is lent for the call alone."""
        with history, history.cast("i") as tokens:
            return use(tokens)


class Row:
    """A row to draw a token from. Its arrays are the engine's memory, lent for the call."""

    def __init__(self, seq, logits, history, prompt_tokens, seed, sample, position, params):
        self.seq, self.logits, self.history, self.prompt_tokens = seq, logits, history, prompt_tokens
        self.seed, self.sample, self.position, self.params = seed, sample, position, params


class SamplerBridge:
    def __init__(self, plugin):
        self._sample = plugin.sample
        self._params = {}
        self.listens = False

    def begin(self, seq, parent, params):
        return _answer(lambda: self._params.__setitem__(seq, dict(params)))

    def end(self, seq):
        return _answer(lambda: self._params.pop(seq, None))

    def draw(self, seq, logits, history, *key):
        def body():
            with logits, history, logits.cast("f") as row, history.cast("i") as tokens:
                return _token(self._sample(Row(seq, row, tokens, *key, self._params.get(seq, {}))), "sample")
        return _answer(body)


_BRIDGES = {"scheduler": (SchedulerBridge, "plan"), "drafter": (DrafterBridge, "propose"), "sampler": (SamplerBridge, "sample")}


def _class_in(file, name, method):
    spec = importlib.util.spec_from_file_location(f"tenon_plugin_{abs(hash(file))}", file)
    if spec is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found = [one for one in vars(module).values()
             if inspect.isclass(one) and one.__module__ == spec.name and callable(getattr(one, method, None))]
    if name:
        found = [one for one in found if one.__name__ == name]
        if not found:
            raise ImportError(f"there is no class {name!r} with a method {method!r} in {file}")
    if len(found) != 1:
        names = ", ".join(one.__name__ for one in found)
        raise ImportError(f"{file} has {'several classes' if found else 'no class'} with a method {method!r}"
                          + (f" ({names}) – say which by the option class" if found else ""))
    return found[0]


def open_plugin(interface, file, name, arguments, key):
    def body():
        bridge, method = _BRIDGES[interface]
        if key:
            made = sys.modules["tenon.plugins"].registered(key)
        elif file:
            made = _class_in(file, name, method)
        else:
            raise ValueError("the option file is missing – it names the Python file with the class")
        if inspect.isclass(made):
            made = made(arguments) if arguments else made()
        if not callable(getattr(made, method, None)):
            raise TypeError(f"{made!r} has no method {method!r}")
        return bridge(made)
    return _answer(body)
