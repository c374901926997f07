#!/usr/bin/env python3
"""Random worlds of prefill and decode workers that are not alike, between them impatient clients and routers.

    TENON_BINARY=build/release/bin/tenon TENON_SOURCE_DIR=$PWD tests/soak/worker_worlds.py
        [--worlds 20] [--seed 1] [--world N]

A world has a model, one or two prefill and one to three decode workers, each with a manager, block size, drafter,
scheduler, thread count and memory of its own, now and then with another K/V type, another instruction set, another
model's weights or a tier, and requests of every kind by either vocabulary of routers. Some clients leave, some routers
give a prefill worker up and send the request on without it, some workers of either kind are killed or get another role;
what a decode worker had is sent to another one. An answer is right if its text, log probabilities and token ids are
those of one process with the decode worker's K/V type. At the end nothing may be held or awaited anywhere, and nothing
run.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

BINARY = os.environ.get("TENON_BINARY", "build/dev/bin/tenon")
SOURCE = pathlib.Path(os.environ.get("TENON_SOURCE_DIR", "."))
MADE = pathlib.Path(BINARY).parent.parent / "tests/golden/models"
PATIENCE = 120
HAND_OVER = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None, "remote_block_ids": None,
             "remote_host": None, "remote_port": None}
# What changes the numbers, and therefore what is exchanged.
BITS = ("kv_cache.dtype", "isa", "model")


class Worker:
    def __init__(self, world, role, settings):
        self.world, self.role, self.settings, self.killed = world, role, dict(settings), False
        words = {key: value for key, value in settings.items() if "." in key}
        if role:
            words |= {"disaggregation.role": role, "disaggregation.lease": "2s"}
        command = [BINARY, "serve", "--port", "0", "--model", settings["model"], "--threads", settings["threads"]]
        if settings.get("isa"):
            command += ["--isa", settings["isa"]]
        for key, value in words.items():
            command += ["--set", f"{key}={value}"]
        self.errors = open(world.folder / f"errors{len(world.workers)}", "w+", encoding="utf-8")
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True)
        world.workers.append(self)
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"{role} worker: {self.said()}")
        self.name, self.port = line.split()[1], int(line.rsplit(":", 1)[1])
        self.address = re.search(r":(\d+), as role", self.process.stdout.readline())[1] if role else None

    def said(self):
        self.errors.seek(0)
        return self.errors.read()[-1500:]

    def ask(self, body, path="/v1/completions", timeout=PATIENCE, leaves=0.0):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.request("POST", path, json.dumps({"model": self.name} | body), {"Content-Type": "application/json"})
        if leaves:
            time.sleep(leaves)
            connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()
            return None
        answer = connection.getresponse()
        said = json.loads(answer.read())
        connection.close()
        assert answer.status == 200, said
        return said

    def figures(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return {name: float(value) for name, value in re.findall(r"^([\w:]+){[^}]*} (\S+)$", text, re.M)}

    def kill(self):
        self.killed = True
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.kill()
        self.process.communicate()
        self.errors.close()


def said(answer):
    return [(choice["text"], choice["finish_reason"], choice["token_ids"], json.dumps(choice["logprobs"]))
            for choice in answer["choices"]]


class World:
    def __init__(self, number, folder):
        self.draw = draw = random.Random(number)
        self.folder, self.workers, self.found, self.answers, self.kills = folder, [], 0, 0, 0
        tale = SOURCE / "configs/models/tale"
        self.model = draw.choice([tale, tale, *(MADE / name for name in (
            "granite4", "deepseek_v2", "llama_gqa", "qwen3_next", "gemma2", "mixtral", "mamba2", "glm_moe_dsa", "phi3",
            "olmo2", "lfm2", "falcon_h1", "gpt_oss", "llama_shared_kv", "gemma3n_text", "qwen3", "llama_mha"))])
        self.context = 512 if self.model == tale else 64
        self.ids = (3, 2000) if self.model == tale else (3, 60)
        adapters = sorted((SOURCE / "tests/golden/adapters").glob(self.model.name)) if self.model.name != "deepseek_v2" else []
        self.adapter = draw.choice(adapters) if adapters and draw.random() < 0.7 else None
        common = {"model": self.model, "kv_cache.dtype": draw.choice(("f32", "f16", "bf16", "i8", "i4")),
                  "kv_cache.block_tokens": draw.choice((4, 8, 16)), "kv_cache.plugin": "prefix",
                  "limits.context_tokens": self.context, "kv_cache.memory": "16MiB"}
        if self.adapter:
            common["adapters.one"] = self.adapter
        self.common = common

    def settings(self):
        draw, own = self.draw, dict(self.common)
        own |= {"threads": draw.choice((1, 1, 2)), "kv_cache.plugin": draw.choice(("prefix", "prefix", "radix")),
                "scheduler.plugin": draw.choice(("static", "continuous", "chunked", "fair")),
                "engine.plan_ahead": draw.choice((0, 1))}
        recurs = self.model.name in ("granite4", "qwen3_next", "mamba2", "lfm2", "falcon_h1")
        drafter = draw.choice(("none", "none", "ngram", "suffix", "ngram" if recurs else "draft_model"))
        if drafter != "none":
            own["drafter.plugin"] = drafter
        if drafter == "draft_model":
            own["drafter.model"] = SOURCE / "configs/models/tale-draft" if self.context == 512 else self.model
        odd = draw.random()
        if odd < 0.12:
            own["kv_cache.block_tokens"] = draw.choice((1, 2, 32))
        elif odd < 0.2:
            own["kv_cache.dtype"] = draw.choice(("f32", "i8", "i4"))
        elif odd < 0.26:
            own["isa"] = draw.choice(("portable", "avx2"))
        elif odd < 0.32:
            own |= {"disaggregation.memory": draw.choice(("1KiB", "40KiB")), "kv_cache.io_budget": "40KiB"}
        elif odd < 0.4:
            own |= {"kv_cache.tiers.1.kind": "disk", "kv_cache.tiers.1.path": self.folder / "kv",
                    "kv_cache.tiers.1.memory": draw.choice(("256KiB", "16MiB"))}
        elif odd < 0.46:
            own["kv_cache.memory"] = "4MiB" if self.context == 512 else "400KiB"
        elif odd < 0.52 and self.context == 512:
            own["model"] = SOURCE / "configs/models/tale-draft"
        return own

    def request(self, number):
        draw = self.draw
        least, most = self.ids
        head = random.Random(draw.choice((1, 2))).choices(range(least, most), k=self.context // 3)
        prompt = head[:draw.randrange(1, len(head))] + draw.choices(range(least, most), k=draw.randrange(0, self.context // 3))
        body = {"prompt": prompt, "max_tokens": draw.randrange(1, self.context // 6), "seed": number, "ignore_eos": True,
                "temperature": draw.choice((0, 0, 0.9)), "logprobs": draw.choice((0, 2)), "return_token_ids": True}
        if draw.random() < 0.2:
            body["n"] = 2
        if self.adapter and draw.random() < 0.5:
            body["adapter"] = "one"
        if draw.random() < 0.15:
            body["cache_salt"] = draw.choice(("one", "two"))
        if draw.random() < 0.1:
            body |= {"repetition_penalty": 1.3, "min_tokens": 1, "logit_bias": {str(least): -5}}
        if draw.random() < 0.1:
            body["priority"] = draw.choice((-3, 7))
        return body

    def through(self, prefill, decode, body, way, kind):
        """The answer, or None where the client did not wait for it. `kind` is how the client or router behaves."""
        if way == "room":
            both = body | {"bootstrap_host": "127.0.0.1", "bootstrap_port": int(prefill.address),
                           "bootstrap_room": random.getrandbits(62)}
            if kind != "alone":  # a router may be lost between its two requests
                threading.Thread(target=self.quietly, args=(prefill, both, 0.05 if kind == "hasty" else 0.0),
                                 daemon=True).start()
            return decode.ask(both, leaves=random.random() * 0.3 if kind == "leaves" else 0.0)
        transfer = {}
        try:
            limit = 0.05 if kind == "hasty" else PATIENCE
            first = prefill.ask(body | {"max_tokens": 1, "min_tokens": 1, "kv_transfer_params": HAND_OVER}, timeout=limit)
            transfer = {"kv_transfer_params": first.get("kv_transfer_params")}
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            pass  # the router goes on without
        if kind == "alone":
            time.sleep(random.random())
        return decode.ask(body | transfer, leaves=random.random() * 0.3 if kind == "leaves" else 0.0)

    @staticmethod
    def quietly(worker, body, leaves):
        try:
            worker.ask(body, leaves=leaves)
        except (OSError, http.client.HTTPException, json.JSONDecodeError, AssertionError):
            pass

    def check(self):
        """What went wrong, in words."""
        draw, wrong = self.draw, []
        prefill = [Worker(self, "prefill", self.settings()) for _ in range(draw.choice((1, 1, 2)))]
        decode = [Worker(self, "decode", self.settings()) for _ in range(draw.choice((1, 2, 3)))]
        alone = {}
        for worker in decode:
            bits = {key: worker.settings.get(key) for key in BITS}
            if str(bits) not in alone:
                alone[str(bits)] = Worker(self, None, self.common | {key: value for key, value in bits.items() if value} |
                                          {"threads": 1, "kv_cache.plugin": "paged"})
        requests = []
        for number in range(draw.randrange(6, 14)):
            requests.append((self.request(number), draw.choice(("room", "params")),
                             draw.choice(("plain", "plain", "plain", "leaves", "hasty", "alone")), draw.random() * 0.5,
                             draw.randrange(len(prefill)), draw.choice(decode)))
        mortal = prefill + (decode if len(decode) > 1 else [])
        kill = draw.random() < 0.5, draw.random(), draw.choice(mortal)
        turn = draw.random() < 0.2, draw.random(), draw.randrange(len(prefill))

        def one(body, way, kind, at, index, to):
            time.sleep(at)
            try:
                try:
                    answer = self.through(prefill[index], to, body, way, kind)
                except (OSError, http.client.HTTPException, json.JSONDecodeError):
                    if not to.killed:
                        raise
                    to = next(worker for worker in decode if not worker.killed)
                    answer = self.through(prefill[index], to, body, way, kind)
                if answer is None:
                    return
                self.answers += 1
                bits = {key: to.settings.get(key) for key in BITS}
                expected = alone[str(bits)].ask(body)
                if said(answer) != said(expected):
                    wrong.append(f"{way}, {kind}: {body} by {to.settings}: {said(answer)}, not {said(expected)}")
            except Exception as error:  # pylint: disable=broad-except
                wrong.append(f"{way}, {kind}: {body} by {to.settings}: {type(error).__name__} {error}")

        threads = [threading.Thread(target=one, args=request) for request in requests]
        for thread in threads:
            thread.start()
        if turn[0]:
            time.sleep(turn[1] * 0.4)
            self.quietly_turn(prefill[turn[2]])
        if kill[0]:
            time.sleep(kill[1] * 0.6)
            kill[2].kill()
            self.kills += 1
        for thread in threads:
            thread.join()
        wrong += self.left([worker for worker in prefill + decode if worker.process.poll() is None])
        return wrong

    @staticmethod
    def quietly_turn(worker):
        try:
            worker.ask({"role": "decode"}, "/v1/engine/role")
        except (OSError, http.client.HTTPException):
            pass

    def left(self, workers):
        """What is held after all leases have ended."""
        wrong = []
        until = time.monotonic() + 30
        for worker in workers:
            while True:
                figures = worker.figures()
                held = {name: figures.get(name, 0.0) for name in (
                    "tenon:kv_transfer_leases", "tenon:kv_transfer_held_bytes", "tenon:kv_transfer_awaited",
                    "vllm:num_requests_running", "vllm:num_requests_waiting")}
                if not any(held.values()):
                    break
                if time.monotonic() > until:
                    wrong.append(f"{worker.role} {worker.settings} keeps {held}")
                    break
                time.sleep(0.2)
            self.found += figures.get("tenon:kv_transfer_found_tokens_total", 0)
        return wrong + [f"{worker.role} ended by itself: {worker.said()}" for worker in self.workers
                        if worker.process.poll() not in (None, -signal.SIGKILL)]

    def end(self):
        for worker in self.workers:
            worker.end()


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    flags.add_argument("--worlds", type=int, default=20)
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--world", type=int)
    flags = flags.parse_args()
    first = flags.seed * 1_000_000
    numbers = [flags.world] if flags.world is not None else range(first, first + flags.worlds)
    wrong = answers = found = killed = 0
    for number in numbers:
        with tempfile.TemporaryDirectory(prefix="tenon-workers-") as folder:
            world = World(number, pathlib.Path(folder))
            try:
                problems = world.check()
            except AssertionError as error:
                problems = [f"no world: {error}"]
            finally:
                world.end()
            for problem in problems:
                print(f"world {number}, {world.model.name}: {problem}", flush=True)
            wrong += bool(problems)
            answers, found, killed = answers + world.answers, found + world.found, killed + world.kills
            shutil.rmtree(pathlib.Path(folder) / "kv", ignore_errors=True)
    print(f"{len(numbers)} worlds, {answers} answers, {int(found)} tokens that came from elsewhere, {killed} workers killed; "
          f"{wrong} worlds wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
