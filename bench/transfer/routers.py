#!/usr/bin/env python3
"""Workers of Tenon behind a router of others, compared by `tenon compare`.

    TENON_BINARY=build/release/bin/tenon bench/transfer/routers.py apart [--router vllm-router] [--workers 1,1]
    TENON_BINARY=build/release/bin/tenon bench/transfer/routers.py routing [--router sglang-router]
        [--model MODEL] [--budget 4m] [--set KEY=VALUE]

`apart`: one worker of two threads next to prefill and decode workers of one thread each. Where there are more workers
than processors, those for prompts stand back (nice). `routing`: two workers behind a router that sends requests in
turn, next to two behind one that looks for where their beginning went. Both are files of configs/comparisons/servers,
which say the ports. The router is taken from PATH.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time
import tomllib
import urllib.request

BINARY = os.environ.get("TENON_BINARY", "build/release/bin/tenon")
ROOT = pathlib.Path(__file__).resolve().parents[2]
LAUNCH = {"vllm-router": [], "sglang-router": ["launch"], "smg": ["launch"]}


def free_port():
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


class Cast:
    """All processes of a comparison."""

    def __init__(self, flags):
        self.flags, self.processes = flags, []

    def worker(self, port, threads, role=None, nice=0):
        """Its address, and the port where it hands K/V over."""
        settings = {"kv_cache.plugin": "prefix", "scheduler.plugin": "chunked", "scheduler.options.step_tokens": 512,
                    "limits.max_sequences": 16, "limits.context_tokens": 2048, "kv_cache.memory": self.flags.memory}
        if role:
            settings |= {"disaggregation.role": role, "kv_cache.io_budget": "256MiB"}
        command = ["nice", "-n", str(nice), BINARY, "serve", "--port", str(port), "--threads", str(threads)]
        command += ["--model", self.flags.model] if self.flags.model else []
        for setting in [f"{key}={value}" for key, value in settings.items()] + self.flags.set:
            command += ["--set", setting]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        address = process.stdout.readline().split()[-1]
        return address, re.search(r":(\d+), as role", process.stdout.readline())[1] if role else None

    def router(self, port, *flags):
        name = self.flags.router
        program = shutil.which(name)
        if program is None:
            raise SystemExit(f"{name} is not on PATH (pip install {name})")
        self.processes.append(subprocess.Popen(
            [program, *LAUNCH[name], "--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(free_port()),
             *flags], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        limit = time.monotonic() + 60
        question = json.dumps({"model": self.flags.name, "prompt": "Once", "max_tokens": 1}).encode()
        while True:
            try:
                urllib.request.urlopen(urllib.request.Request(
                    f"http://127.0.0.1:{port}/v1/completions", question, {"Content-Type": "application/json"})).read()
                return
            except OSError as error:
                if time.monotonic() > limit:
                    raise SystemExit(f"{name} at {port}: {error}") from error
                time.sleep(0.3)

    def apart(self, together, apart):
        self.worker(together, 2)
        prefill, decode = map(int, self.flags.workers.split(","))
        flags = ["--vllm-pd-disaggregation" if self.flags.router == "vllm-router" else "--pd-disaggregation"]
        for _ in range(prefill):
            address, kv_port = self.worker(0, 1, "prefill", 10 if prefill + decode > 2 else 0)
            flags += ["--prefill", address, *([] if self.flags.router == "vllm-router" else [kv_port])]
        for _ in range(decode):
            flags += ["--decode", self.worker(0, 1, "decode")[0]]
        self.router(apart, "--policy", "round_robin", *flags)

    def routing(self, in_turn, by_prefix):
        for port, policy in ((in_turn, "round_robin"), (by_prefix, "cache_aware")):
            workers = [self.worker(0, 1)[0] for _ in range(2)]
            self.router(port, "--policy", policy, "--worker-urls", *workers)

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    flags.add_argument("what", choices=("apart", "routing"))
    flags.add_argument("--router", default="vllm-router", choices=sorted(LAUNCH))
    flags.add_argument("--workers", default="1,1", help="for prompts, for answers")
    flags.add_argument("--model", default="")
    flags.add_argument("--memory", help="of each worker's K/V")
    flags.add_argument("--budget", default="4m")
    flags.add_argument("--out", default="", help="folder of results")
    flags.add_argument("--set", action="append", default=[])
    flags = flags.parse_args()
    # For routing less than all instructions take, and more than half of them do.
    flags.memory = flags.memory or {"apart": "96MiB", "routing": "16MiB"}[flags.what]
    flags.name = pathlib.Path(flags.model).name.removesuffix(".gguf") if flags.model else "tale"
    path = ROOT / f"configs/comparisons/servers/{flags.what}.toml"
    plan = tomllib.loads(path.read_text())
    ports = [int(url.rsplit(":", 1)[1]) for url in (plan["url"], plan["arm"][0]["url"])]
    cast = Cast(flags)
    try:
        getattr(cast, flags.what)(*ports)
        subprocess.run([BINARY, "compare", str(path), "--budget", flags.budget, *(["--out", flags.out] if flags.out else [])],
                       check=False)
    finally:
        cast.end()


if __name__ == "__main__":
    main()
