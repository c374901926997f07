"""The programs that are compared: how each is asked for a work, and what it answers.

`cost(work, file, setting)` is what a work takes: seconds of one step or prompt (decode, prefill),
of the program without its timed part (load), bytes (memory), or how many times longer a step of
several tokens is than one of a single token (verify).
"""

import json
import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time


class Failure(Exception):
    """A program that is not there, ended badly, or answered something else; says what to do."""


class Busy:
    """While it is entered, `count` processes compute all the time: what a shared machine is like."""

    running = []  # of all that are entered

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.processes = []
        for _ in range(self.count):
            # Ends with this program, however that ends: its end of the pipe closes.
            process = subprocess.Popen(
                [sys.executable, "-c", "import os, threading\n"
                 "threading.Thread(target=lambda: (os.read(0, 1), os._exit(0)), daemon=True).start()\n"
                 "print(flush=True)\nwhile True: pass"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
            self.processes.append(process)
            Busy.running.append(process)
        for process in self.processes:
            process.stdout.readline()  # it computes by now
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            Busy.running.remove(process)
            process.communicate()

    @staticmethod
    def seconds():
        fields = [pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
                  for process in Busy.running]
        return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def processor_seconds():
    """(idle or waiting for a disk, of this program's children so far) over all processors."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ((int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK"),
            children.ru_utime + children.ru_stime + Busy.seconds())


CONFIDENCE = 0.95  # of every interval that is printed


class Finished:
    """What a command printed, how long it took, how much anonymous memory it held at most, and
    which part of the processors was its own or idle: less than all where other programs, or other
    guests of the machine, took their time.
    """

    def __init__(self, command, timeout, given=""):
        self.command = [*map(str, command)]
        self.peak_bytes = 0
        start, (idle, own) = time.monotonic(), processor_seconds()
        # Peers write logs where they stand.
        with tempfile.TemporaryDirectory() as folder:
            try:
                process = subprocess.Popen(
                    self.command, cwd=folder, text=True, errors="replace", start_new_session=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            except OSError as error:
                raise Failure(f"{self.command[0]} cannot be started: {error.strerror}") from error
            watching = threading.Thread(target=self._watch, args=(process,), daemon=True)
            watching.start()
            try:
                self.output, self.errors = process.communicate(given, timeout=timeout)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                raise Failure(f"{self} did not end within {timeout} s; raise --timeout, or leave "
                              "this work out") from error
            watching.join()
        self.seconds = time.monotonic() - start
        idle, own = (now - then for now, then in zip(processor_seconds(), (idle, own)))
        self.share = (idle + own) / (self.seconds * os.cpu_count())
        if process.returncode != 0:
            how = (f"was ended by signal {-process.returncode}" if process.returncode < 0
                   else f"ended with status {process.returncode}")
            raise Failure(f"{self} {how}: {last_lines(self.errors or self.output)}")

    def __str__(self):
        return " ".join(self.command)

    def _watch(self, process):
        status = pathlib.Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            try:
                for line in status.read_text().splitlines():
                    if line.startswith("RssAnon:"):
                        self.peak_bytes = max(self.peak_bytes, int(line.split()[1]) * 1024)
            except OSError:
                return
            time.sleep(0.01)


def last_lines(text, count=3):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return " / ".join(lines[-count:]) if lines else "it printed nothing"


def parse_json(done):
    """The first JSON value of the output; some programs print lines around it."""
    text = done.output
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    try:
        return json.JSONDecoder().raw_decode(text[min(starts):])[0]
    except (ValueError, IndexError) as error:
        raise Failure(f"{done} printed no JSON, but: {last_lines(text)}; expected what llama-bench "
                      "prints with -o json; is it of another version?") from error


def number(value, done, name):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise Failure(f"{done} answered '{name}' with {value!r}; expected a number above 0")
    return float(value)


class Engine:
    """Base: what flags all have in common."""

    settings = {"decode": [()], "prefill": [()]}

    def __init__(self, name, threads, timeout):
        self.name, self.threads, self.timeout = name, threads, timeout
        self.share = 1.0  # Finished.share of the last command

    def run(self, command):
        done = Finished(command, self.timeout)
        self.share = done.share
        return done

    def peak_bytes(self, done):
        """Of a command that ended. On a crowded machine one of a few milliseconds may have ended
        before anybody looked; then it is run again."""
        for _ in range(4):
            if done.peak_bytes > 0:
                break
            done = self.run(done.command)
        return number(done.peak_bytes, done, "peak memory")

    def can(self, work):
        """Whether it is asked for this work at all."""
        return True

    def settings_for(self, work):
        return self.settings["prefill" if work.kind == "prefill" else "decode"]


class Tenon(Engine):
    def __init__(self, program, threads, timeout, sets=()):
        super().__init__("Tenon", threads, timeout)
        self.program = pathlib.Path(program).absolute()
        if not self.program.is_file():
            raise Failure(f"'{program}' is not there; build it, or name it with --tenon")
        self.sets = [part for one in sets for part in ("--set", one)]
        # The limits are those of the instructions that the pipeline may use.
        isa = next((one.split("=", 1)[1] for one in sets if one.startswith("executor.isa=")), None)
        self.instructions = ["--isa", isa] if isa else []
        self.facts = {}  # by file: what the arithmetic needs at least

    def limits(self, seconds):
        done = self.run([self.program, "bench", "--limits", "--json", "--limit-seconds", seconds,
                         "--threads", self.threads, *self.instructions])
        limits = parse_json(done)
        for name in ("read_gbps", "fma_tflops"):
            number(limits.get(name), done, name)
        return limits

    def ratio_of(self, pairs):
        """Of (ours, theirs): the interval of theirs / ours, by the statistics of `tenon compare`.
        How many pairs there would be was fixed before the first."""
        lines = "".join(f"{ours!r},{theirs!r}\n" for ours, theirs in pairs)
        done = Finished([self.program, "compare", "pairs", "-", "--once", "--json", "--confidence",
                         CONFIDENCE], self.timeout, lines)
        return parse_json(done)["ratio"]

    def bench(self, file, work, *flags, repeat):
        context = work.context + work.tokens + work.steps + 64
        done = self.run([
            self.program, "bench", "--json", "--limit-seconds", 0, "--model", file,
            "--threads", self.threads, "--repeat", repeat, "--batch", work.batch,
            "--set", f"limits.context_tokens={context}",
            "--set", f"limits.max_sequences={work.batch}", *self.sets, *flags])
        report = parse_json(done)
        if "work" in report:
            self.facts[str(file)] = report["work"]
        return report, done

    def cost(self, work, file, setting=(), brief=False):
        repeat = 1 if brief else work.repeat
        prompt = ["--prompt-tokens", max(work.context, 16)]
        if work.kind == "prefill":
            report, done = self.bench(file, work, "--prompt-tokens", work.tokens,
                                      "--decode-tokens", 1, *setting, repeat=repeat)
            return number(report["prefill"]["seconds"], done, "prefill")
        if work.kind == "decode":
            report, done = self.bench(file, work, *prompt, "--decode-tokens", work.steps, *setting,
                                      repeat=repeat)
            return number(report["decode"]["mean_step_seconds"], done, "mean_step_seconds")
        if work.kind == "verify":
            report, done = self.bench(file, work, *prompt, "--decode-tokens", 2 * work.steps,
                                      "--verify", work.tokens, *setting, repeat=repeat)
            return number(report["verify"]["times_decode"], done, "times_decode")
        report, done = self.bench(file, work, *prompt, "--decode-tokens", 1, repeat=1)
        if work.kind == "memory":
            return self.peak_bytes(done)
        return done.seconds - report["prefill"]["seconds"] - report["decode"]["seconds"]


class Llama(Engine):
    """llama.cpp or a fork of it: llama-bench and llama-batched-bench of a folder."""

    def __init__(self, folder, threads, timeout):
        folder = pathlib.Path(folder).absolute()
        found = [place for place in (folder, folder / "bin", folder / "build" / "bin")
                 if (place / "llama-bench").is_file()]
        if not found:
            raise Failure(f"'{folder}' holds no llama-bench; expected the folder of binaries of a "
                          "built llama.cpp or ik_llama.cpp (build/bin); build the targets "
                          "llama-bench and llama-batched-bench")
        self.bench, self.batched = found[0] / "llama-bench", found[0] / "llama-batched-bench"
        usage = subprocess.run([self.bench, "--help"], capture_output=True, text=True, check=False,
                               errors="replace", stdin=subprocess.DEVNULL)
        usage = usage.stdout + usage.stderr
        if "--n-prompt" not in usage:
            raise Failure(f"'{self.bench} --help' does not list --n-prompt, but: "
                          f"{last_lines(usage)}; is it llama-bench?")
        self.is_ik = "--run-time-repack" in usage
        super().__init__("ik_llama.cpp" if self.is_ik else "llama.cpp", threads, timeout)
        attention = [("-fa", "1"), ("-fa", "0")]
        if self.is_ik:
            attention += [("-fa", "1", "-rtr", "1"), ("-fa", "1", "-rtr", "1", "-mqkv", "1"),
                          ("-fa", "1", "-rtr", "1", "-thp", "1")]
        small = [(*setting, "-ub", "128") for setting in attention[:1]]
        self.settings = {"decode": attention, "prefill": attention + small}

    def cost(self, work, file, setting=(), brief=False):
        if work.kind == "verify":
            times = self.batched_steps(work, file, setting, [1, work.tokens], brief)
            return times[1] / times[0]
        if work.kind == "decode" and work.batch > 1:
            return self.batched_steps(work, file, setting, [work.batch], brief)[0]
        repeat = 1 if brief or work.kind in ("load", "memory") else work.repeat
        if work.kind == "prefill":
            asked = ["-p", work.tokens, "-n", 0]
        elif work.kind == "decode":
            asked = self.at_depth(work)
        else:
            asked = ["-p", 0, "-n", 1, *(["-w", 0] if self.is_ik else ["--no-warmup"])]
        done = self.run([self.bench, "-m", file, "-t", self.threads, *asked, "-r", repeat,
                         "-o", "json", *setting])
        seconds = self.seconds_of(done, file)
        if work.kind == "memory":
            return self.peak_bytes(done)
        if work.kind == "load":
            return done.seconds - seconds
        return seconds / (work.steps if work.kind == "decode" else 1)

    def at_depth(self, work):
        if not work.context:
            return ["-p", 0, "-n", work.steps]
        if self.is_ik:
            return ["-p", 0, "-n", 0, "-gp", f"{work.context},{work.steps}"]
        return ["-p", 0, "-n", work.steps, "-d", work.context]

    def seconds_of(self, done, file):
        """Median of the repetitions of the one test that was asked for."""
        tests = parse_json(done)
        if not isinstance(tests, list) or len(tests) != 1 or "samples_ns" not in tests[0]:
            raise Failure(f"{done} did not print one test with 'samples_ns'; expected what "
                          "llama-bench prints with -o json; is it of another version?")
        model = tests[0].get("model_filename")
        if model is not None and not os.path.samefile(model, file):
            raise Failure(f"{done} read '{model}', not '{file}'; compare on one checkpoint")
        samples = [number(sample, done, "samples_ns") for sample in tests[0]["samples_ns"]]
        return statistics.median(samples) * 1e-9

    def batched_steps(self, work, file, setting, batches, brief):
        """Seconds of a step for each batch, median of the repetitions."""
        if not self.batched.is_file():
            raise Failure(f"'{self.batched}' is not there; build the target llama-batched-bench")
        repeat = 1 if brief else work.repeat
        steps = work.steps
        context = -(-(16 + steps) // 256) * 256 * max(batches)
        flags = [value for name, value in zip(setting[::2], setting[1::2])
                 for value in ([name] if name in ("-rtr", "-mqkv", "-thp") else [name, value])]
        done = self.run([
            self.batched, "-m", file, "-c", context, "-b", 2048, "-ub", 512, "-npp", 16,
            "-ntg", steps, "-npl", ",".join(map(str, batches * repeat)), "-t", self.threads,
            "-tb", self.threads, *flags])
        found = {batch: [] for batch in batches}
        for batch, seconds in table_rows(done, "B", "T_TG s"):
            if batch in found:
                found[batch].append(number(seconds, done, "T_TG s") / steps)
        if missing := [batch for batch, times in found.items() if not times]:
            raise Failure(f"{done} printed no row for a batch of {missing[0]}, but: "
                          f"{last_lines(done.output or done.errors)}")
        return [statistics.median(found[batch]) for batch in batches]


def table_rows(done, key, column):
    """(key, column) of each row of a table with bars that names both in its head."""
    head = None
    for line in (done.output + "\n" + done.errors).splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if key in cells and column in cells:
            head = cells
        elif head and len(cells) == len(head):
            try:
                yield int(cells[head.index(key)]), float(cells[head.index(column)])
            except ValueError:
                continue  # the line below the head
