#!/usr/bin/env python3
"""What takes too long for every build: the installed package for 10,000 calls, from many threads and coroutines at once, and
in processes that are interrupted, forked and ended at random moments.

  python tests/python/endurance.py [SEED]       with the Python that has tenon"""

import random
import signal
import subprocess
import sys
import textwrap
import time

CALLS = 10_000
MOMENTS = 40  # of each way to end
ENDS = 100  # of whole processes
LONG = "SamplingParams(max_tokens=1900, ignore_eos=True, temperature=0)"


def script(text):
    # Whoever started this in the background may have had interrupts ignored.
    return ("import asyncio, os, resource, signal, sys, threading, time\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom tenon import *\n"
            + textwrap.dedent(text).replace("LONG", LONG))


def started(text):
    return subprocess.Popen([sys.executable, "-W", "ignore::DeprecationWarning", "-c", script(text)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


PATIENCE = 600  # seconds until something hangs, however busy the machine is


def ended(process, wanted, seconds=PATIENCE):
    """Fails if it hangs, crashes or says anything else."""
    try:
        said, told = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        sys.exit(f"endurance: it hangs\n{process.communicate()}")
    if process.returncode != 0 or said != wanted:
        sys.exit(f"endurance: it ended with {process.returncode}\n{said}\n{told}")


def calls():
    process = started(f"""
        llm = LLM()
        params = SamplingParams(max_tokens=2, logprobs=4, temperature=0)
        def some(count):
            for i in range(count):
                if i % 10 == 0:
                    for delta in llm.stream("A", params): pass
                elif i % 10 == 1:
                    llm.embed("A fox")
                else:
                    llm.generate(f"A {{i % 50}}", params)[0].outputs[0].logprobs[0]
            return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() // 1024
        some(1000)
        before = some(1000)
        after = some({CALLS})
        print("grew" if after - before > 2048 else "ended")
        print(f"{{after - before}} KiB more after {CALLS} calls, of {{after}}", file=sys.stderr)
    """)
    ended(process, "ended\n", 1800)


def everything_at_once():
    ended(started("""
        llm, coroutines = LLM(), AsyncLLM()
        params = SamplingParams(temperature=0, max_tokens=24)
        prompts = [f"The {i}. king" for i in range(64)]
        expected = [one.outputs[0].token_ids for one in llm.generate(prompts, params, use_tqdm=False)]
        found = [None] * 128
        def ask(i):
            for _ in range(4):
                found[i] = llm.generate(prompts[i], params)[0].outputs[0].token_ids
        async def await_it(i):
            for _ in range(4):
                async for output in coroutines.generate(prompts[i], params): pass
            found[64 + i] = output.outputs[0].token_ids
        async def all_of_them():
            await asyncio.gather(*(await_it(i) for i in range(64)))
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(64)]
        for thread in threads: thread.start()
        asyncio.run(all_of_them())
        for thread in threads: thread.join()
        print(found == expected * 2)
    """), "True\n", 600)


def interrupted(drawn):
    """The pipeline goes on after each of many interruptions, in one process."""
    process = started(f"""
        llm = LLM()
        params = SamplingParams(max_tokens=6, temperature=0)
        expected = llm.generate("The king", params)[0].outputs[0].token_ids
        print("ready", flush=True)
        for i in range({MOMENTS}):
            try:
                while True:
                    if i % 4 == 0: llm.generate(["Once"] * 8, LONG, use_tqdm=False)
                    elif i % 4 == 1:
                        for delta in llm.stream("Once", LONG): pass
                    elif i % 4 == 2: llm.embed(["Once upon a time"] * 64, use_tqdm=False)
                    else: llm.score(["Once upon a time"] * 64, use_tqdm=False)
            except KeyboardInterrupt:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                assert llm.generate("The king", params)[0].outputs[0].token_ids == expected
                signal.signal(signal.SIGINT, signal.default_int_handler)
                print("again", flush=True)
        print("ended")
    """)
    process.stdout.readline()
    for _ in range(MOMENTS):
        time.sleep(drawn.uniform(0.05, 0.35))
        process.send_signal(signal.SIGINT)
        if process.stdout.readline() != "again\n":
            sys.exit(f"endurance: it was not interrupted\n{process.communicate(timeout=PATIENCE)}")
    # It may have been read together with the line before, where nothing else would find it.
    if process.stdout.readline() != "ended\n":
        sys.exit(f"endurance: it did not end\n{process.communicate(timeout=PATIENCE)}")
    ended(process, "")


def at_random_moments(drawn):
    """Whole processes: from the import on, and once the model answers."""
    text = """
        llm = LLM()
        threading.Thread(target=lambda: llm.generate(["Once"] * 4, LONG, use_tqdm=False), daemon=True).start()
        stream = llm.stream("The king", LONG)
        next(stream)
        print("on its way", flush=True)
        for delta in stream: pass
    """
    for number in range(ENDS):
        process = started(text)
        if number % 2 == 0:
            process.stdout.readline()
        time.sleep(drawn.uniform(0, 0.5) if number % 2 == 0 else drawn.uniform(0.05, 1.5))
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            sys.exit("endurance: it hangs after an interrupt")
        # 1: Python's KeyboardInterrupt before or after the import of signal; -2: so early that it has no handler yet.
        if process.returncode not in (0, 1, 130, -signal.SIGINT):
            sys.exit(f"endurance: it ended with {process.returncode}")


def forked_and_left(drawn):
    for _ in range(MOMENTS // 2):
        ended(started(f"""
            llm = LLM()
            threading.Thread(target=lambda: llm.generate(["Once"] * 4, LONG, use_tqdm=False), daemon=True).start()
            stream = llm.stream("Once", LONG)
            next(stream)
            time.sleep({drawn.uniform(0, 0.2)})
            child = os.fork()
            if child == 0:
                sys.exit(0)
            print(os.waitpid(child, 0)[1])
        """), "0\n")


def main():
    # Where interrupts are ignored, as in the background of a shell, the processes would miss one that comes before they say
    # otherwise, and go on until their answers end.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.randrange(1 << 30)
    drawn = random.Random(seed)
    print(f"seed {seed}", flush=True)
    for part in (everything_at_once, lambda: interrupted(drawn), lambda: at_random_moments(drawn),
                 lambda: forked_and_left(drawn), calls):
        begin = time.monotonic()
        part()
        print(f"{time.monotonic() - begin:.0f} s", flush=True)
    print("endurance: all of it went well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
