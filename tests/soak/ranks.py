#!/usr/bin/env python3
"""Ranks that are killed, stopped, starved, cut off, or have faulty disks, at random, again and again.

    TENON_BINARY=build/release/bin/tenon TENON_SOURCE_DIR=$PWD tests/soak/ranks.py
        [--faults 100] [--ranks 3] [--keys parallel.tensor,parallel.pipeline] [--seed 1] [--cut-links]

After each fault every process must end within 10 s, with one sentence that names the rank; no process may be left,
and nothing in /dev/shm. A rank that is starved (a stop of two seconds) must bring nobody down. One rank may also be of
another build, or be granted too little memory (which needs root and cgroups). Faults of disks need root and mount name
spaces: one rank then has a model that is cut off, changed, or gone. --cut-links needs root, and
`ip` with name spaces: ranks are then two hosts on a link, which goes down or swallows everything, in the middle of an
answer. What the machine lacks is said, and skipped.
"""
import argparse
import os
import pathlib
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from hosts import Hosts, why_no_hosts

BINARY = os.environ.get("TENON_BINARY", "build/dev/bin/tenon")
SOURCE = pathlib.Path(os.environ.get("TENON_SOURCE_DIR", "."))
MODEL = SOURCE / "configs/models/tale"
LONG = ["--model", str(MODEL), "--threads", "1", "--max-tokens", "200000", "--ignore-eos", "--log-level", "info",
        "--set", "limits.context_tokens=250000", "--set", "limits.exceed_model_context=true",
        "--set", "kv_cache.memory=2GiB", "Once upon a time"]
PLACE = re.compile(r"rank (\d+) on \S+ \(process (\d+)\): weights")
PATIENCE_S = 10
MARK = "TENON_SOAK_RUN"  # in the environment of all processes of a run


class Failure(Exception):
    pass


def processes(mark):
    """{process: its environment} of a run, as far as they can be seen."""
    found = {}
    for place in pathlib.Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        try:
            environment = dict(entry.split("=", 1) for entry in (place / "environ").read_text(errors="replace").split("\0")
                               if "=" in entry)
            # One that has ended and waits to be asked for has none.
            if environment.get(MARK) == mark:
                found[int(place.name)] = environment
        except OSError:
            pass
    return found


def segments():
    """What lies in /dev/shm and nobody has open."""
    names = {str(path) for path in pathlib.Path("/dev/shm").rglob("*") if path.is_file()}
    for maps in pathlib.Path("/proc").glob("[0-9]*/maps"):
        try:
            text = maps.read_text(errors="replace")
        except OSError:
            continue
        names = {name for name in names if name not in text}
    return names


class Run:
    """A long answer that several processes make together."""
    count = 0

    def __init__(self, key, ranks, launcher=None, program=(BINARY,)):
        command = [BINARY, "run", "--launch", str(ranks), "--set", f"{key}={ranks}", *LONG]
        if launcher:
            command = [*launcher, *program, "run", "--set", f"{key}={ranks}", *LONG]
        Run.count += 1
        self.mark = f"{os.getpid()}-{Run.count}"
        self.segments = segments()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env={**os.environ, MARK: self.mark})
        self.places, self.said, self.ends = {}, [], {}

    def answers(self, ranks, watched=True):
        """Waits until an answer is on its way."""
        for line in self.process.stderr:
            self.said.append(line)
            if found := PLACE.search(line):
                self.places[int(found[1])] = int(found[2])
            if len(self.places) == ranks:
                break
        if len(self.places) != ranks:
            raise Failure("the ranks did not come: " + "".join(self.said))
        if watched:
            self.ends = {rank: os.pidfd_open(place) for rank, place in self.places.items()}
        self.process.stdout.read(1)
        return self

    def begun(self, rank):
        """The process of a rank that has just begun."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for place, environment in processes(self.mark).items():
                if environment.get("OMPI_COMM_WORLD_RANK") == str(rank):
                    return place
            time.sleep(0.01)
        raise Failure(f"rank {rank} did not begin")

    def is_running(self):
        return self.process.poll() is None

    def wait(self):
        """Standard error after all have ended, and how long that took."""
        error, seconds = self.communicated()
        for rank, end in self.ends.items():
            if not select.select([end], [], [], 20)[0]:
                raise Failure(f"the process of rank {rank} is left")
            os.close(end)
        until = time.monotonic() + 20
        while (left := processes(self.mark)) or (kept := segments() - self.segments):
            if time.monotonic() > until:
                raise Failure(f"left are the processes {sorted(left)}" if left else f"left is {sorted(kept)}")
            time.sleep(0.1)
        return error, seconds

    def communicated(self):
        """Standard error, and for how long it came; in slices of time, so that a machine that stands still loses one
        of them alone."""
        seconds, last = 0, time.monotonic()
        for _ in range((PATIENCE_S + 20) * 10):
            try:
                error = self.process.communicate(timeout=0.1)[1]
            except subprocess.TimeoutExpired:
                error = None
            now = time.monotonic()
            seconds, last = seconds + min(now - last, 0.3), now
            if error is not None:
                return error, seconds
        left = processes(self.mark)
        names = [(place / "cmdline").read_text().split("\0")[0] for place in (pathlib.Path(f"/proc/{one}") for one in left)
                 if place.exists()]
        for place in left:
            os.kill(place, signal.SIGKILL)
        raise Failure(f"the run goes on: left are {names}; said was: {self.process.communicate()[1]}")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.wait()


def named(error, rank):
    """The one sentence that names the rank."""
    said = [line for line in error.splitlines() if re.search(rf"tenon: .*rank {rank} on \S+ \(process \d+\)", line)]
    if len(said) != 1:
        raise Failure(f"rank {rank} is named {len(said)} times: {error}")
    return said[0]


DISK = ("cut off", "changed", "gone", "unreadable")
# What another rank may lack, and what is said of it.
LACKS = {"memory": "the system killed it for want of memory|grants|memory", "room for addresses": "memory|grants|thread",
         "the others' build": "build .* all ranks must have the same"}


def mpirun(ranks):
    return [shutil.which("mpirun.openmpi") or "mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none",
            "--quiet", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]


def script(folder, rank, commands):
    """A script that starts a rank; one of them by these commands."""
    place = pathlib.Path(folder) / "rank"
    place.write_text(f"#!/bin/sh\n[ \"$OMPI_COMM_WORLD_RANK\" = {rank} ] || exec {BINARY} \"$@\"\n{commands}\n")
    place.chmod(0o755)
    return [str(place)]


def disk_script(folder, rank, kind):
    """One rank has a faulty disk below its model."""
    weights = "model.safetensors"
    spoil = {"cut off": f"truncate -s $(($(stat -c %s {weights}) / 2)) {weights}", "gone": f"rm {weights}",
             "changed": f"dd if=/dev/urandom of={weights} bs=4096 seek=$(($(stat -c %s {weights}) / 8192)) "
                        f"count=$(($(stat -c %s {weights}) / 8192)) conv=notrunc 2> /dev/null",
             "unreadable": f"rm {weights}; mkdir {weights}"}[kind]
    return script(folder, rank,
                  f"exec unshare -m sh -c 'cp -r {MODEL.resolve()} {folder}/model && cd {folder}/model && {spoil} && "
                  f"cd \"$OLDPWD\" && mount --bind {folder}/model {MODEL.resolve()} && exec {BINARY} \"$@\"' sh \"$@\"")


def why_no_mounts():
    done = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip()


def memory_group():
    """A folder of the system's that limits memory, or None."""
    place = pathlib.Path("/sys/fs/cgroup/memory/tenon-soak")
    try:
        place.mkdir(exist_ok=True)
        (place / "memory.limit_in_bytes").write_text("24M")
        return place
    except OSError:
        return None


def lacking_script(folder, rank, what):
    """One rank lacks something; None where that cannot be arranged here."""
    if what == "memory":
        group = memory_group()
        return group and script(folder, rank, f"echo $$ > {group}/tasks; exec {BINARY} \"$@\"")
    if what == "room for addresses":
        return script(folder, rank, f"ulimit -v 700000; exec {BINARY} \"$@\"")
    data = pathlib.Path(BINARY).read_bytes()
    found = re.search(rb"\d+\.\d+[^\0]* \(boundary [0-9a-f]+\)", data)
    if found is None:
        return None
    other = found[0].replace(b"boundary ", b"boundary X")[:len(found[0])]
    copy = pathlib.Path(BINARY).parent / f"tenon-soak-{os.getpid()}"  # where it finds its plugins
    try:
        copy.write_bytes(data.replace(found[0], other))
    except OSError:
        return None
    copy.chmod(0o755)
    return script(folder, rank, f"exec {copy} \"$@\"")


def ends_named(run, rank, what):
    """How long it took, and the sentence of a run in which one rank is not as the others."""
    error, seconds = run.wait()
    if run.process.returncode == 0:
        raise Failure(f"{what}, and the status is 0")
    if seconds > PATIENCE_S:
        raise Failure(f"{what}, and all ended after {seconds:.1f} s")
    said = [line for line in error.splitlines() if line.startswith("tenon: ") and f"rank {rank} on" in line]
    if not said:
        raise Failure(f"{what}, and nobody said so: {error}")
    return seconds, said[0]


def disk_fault(key, ranks, rank, kind):
    with tempfile.TemporaryDirectory(prefix="tenon-ranks-") as folder:
        seconds, said = ends_named(Run(key, ranks, mpirun(ranks), disk_script(folder, rank, kind)), rank,
                                   f"the model of rank {rank} was {kind}")
    return f"{key}: the model of rank {rank} was {kind}: {seconds:.1f} s; {said}"


def lacking(key, ranks, rank, what):
    with tempfile.TemporaryDirectory(prefix="tenon-ranks-") as folder:
        program = lacking_script(folder, rank, what)
        if program is None:
            return f"{key}: {what} cannot be taken from a rank here"
        try:
            seconds, said = ends_named(Run(key, ranks, mpirun(ranks), program), rank, f"rank {rank} lacked {what}")
        finally:
            (pathlib.Path(BINARY).parent / f"tenon-soak-{os.getpid()}").unlink(missing_ok=True)
    if not re.search(LACKS[what], said):
        raise Failure(f"rank {rank} lacked {what}, and what was said is: {said}")
    return f"{key}: rank {rank} lacked {what}: {seconds:.1f} s; {said}"


def early_fault(key, ranks, rank, kind, numbers):
    """A rank is lost while it starts, joins the others, or loads."""
    run = Run(key, ranks)
    place = run.begun(rank)
    time.sleep(numbers.random() * numbers.choice((0.05, 0.2, 0.8)))
    os.kill(place, getattr(signal, kind))
    error, seconds = run.wait()
    if run.process.returncode == 0:
        raise Failure(f"rank {rank} was lost by {kind} as it began, and the status is 0")
    if seconds > PATIENCE_S:
        raise Failure(f"rank {rank} was lost by {kind} as it began, and all ended after {seconds:.1f} s")
    return f"{key}: {kind} of rank {rank} as it began: {seconds:.1f} s; {named(error, rank)}"


def fault(key, ranks, numbers, has_mounts):
    """One fault; what happened, in words."""
    rank = numbers.randrange(ranks)
    kind = numbers.choice(("SIGKILL", "SIGSTOP", "SIGSEGV", "starved", "early", "early", "disk", "lacking"))
    try:
        return one_fault(key, ranks, rank, kind, numbers, has_mounts)
    except Failure as failure:
        raise Failure(f"{key}, rank {rank}, {kind}: {failure}") from failure


def one_fault(key, ranks, rank, kind, numbers, has_mounts):
    if kind == "disk" and has_mounts:
        return disk_fault(key, ranks, rank, numbers.choice(DISK))
    if kind == "lacking":
        return lacking(key, ranks, rank, numbers.choice(sorted(LACKS)))
    if kind in ("early", "disk"):
        return early_fault(key, ranks, rank, numbers.choice(("SIGKILL", "SIGSTOP")), numbers)
    run = Run(key, ranks).answers(ranks)
    time.sleep(numbers.random() * 0.5)
    if kind == "starved":
        os.kill(run.places[rank], signal.SIGSTOP)
        time.sleep(2)
        os.kill(run.places[rank], signal.SIGCONT)
        time.sleep(0.5)
        if not run.is_running():
            raise Failure(f"rank {rank} had no time for 2 s, and the run ended")
        run.end()
        return f"{key}: rank {rank} had no time for 2 s; the run went on"
    os.kill(run.places[rank], getattr(signal, kind))
    error, seconds = run.wait()
    if run.process.returncode == 0:
        raise Failure(f"rank {rank} was lost by {kind}, and the status is 0")
    if seconds > PATIENCE_S:
        raise Failure(f"rank {rank} was lost by {kind}, and all ended after {seconds:.1f} s")
    return f"{key}: {kind} of rank {rank}: {seconds:.1f} s; {named(error, rank)}"


def cut_links(keys):
    if why := why_no_hosts():
        print(f"skipped: links cannot be cut here, since {why}")
        return
    for key, how in [(key, how) for key in keys for how in ("down", "silent")]:
        with Hosts() as hosts:
            run = Run(key, 2, hosts.launcher()).answers(2, watched=False)
            hosts.cut(how)
            seconds, said = ends_named(run, 1, f"{key}: the link was {how}")
            print(f"{key}: the link was {how}: {seconds:.1f} s; {said}", flush=True)


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    flags.add_argument("--faults", type=int, default=100)
    flags.add_argument("--ranks", type=int, default=3)
    flags.add_argument("--keys", default="parallel.tensor,parallel.pipeline")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--cut-links", action="store_true")
    flags = flags.parse_args()
    if not (shutil.which("mpirun.openmpi") or shutil.which("mpirun")):
        print("skipped: Open MPI's mpirun is not installed (package openmpi-bin)")
        return 0
    numbers = random.Random(flags.seed)
    keys = flags.keys.split(",")
    if why := why_no_mounts():
        print(f"no rank has a disk of its own here, since {why}")
    try:
        for number in range(flags.faults):
            print(f"{number + 1}: {fault(numbers.choice(keys), flags.ranks, numbers, not why)}", flush=True)
        if flags.cut_links:
            cut_links(keys)
    except Failure as failure:
        print(f"failed with seed {flags.seed}: {failure}", file=sys.stderr)
        return 1
    print(f"{flags.faults} faults: all ended in time, all were named, nothing is left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
