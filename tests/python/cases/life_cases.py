"""What interpreters do to a package with threads of its own: signals, forks, ends in the middle."""

import signal
import subprocess
import sys
import textwrap
import time
import unittest

# Goes on for as long as the context has room, which takes seconds.
LONG = "SamplingParams(max_tokens=1900, ignore_eos=True, temperature=0)"


def started(script, **more):
    # Python 3.12 warns of every fork where there are threads.
    # A test in the background may have interrupts ignored.
    script = ("from tenon import *\nimport os, signal, sys, threading, time\n"
              "signal.signal(signal.SIGINT, signal.default_int_handler)\n" + textwrap.dedent(script).replace("LONG", LONG))
    return subprocess.Popen([sys.executable, "-W", "ignore::DeprecationWarning", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


class Lives(unittest.TestCase):
    def ended(self, process, status=0):
        said, told = process.communicate(timeout=240)
        self.assertEqual(process.returncode, status, told)
        return said, told

    def test_an_interpreter_ends_in_the_middle_of_everything(self):
        for way in ("sys.exit(0)", "raise SystemExit", "pass"):
            with self.subTest(way=way):
                # Several at once: they disturb each other, so that they end at many moments.
                processes = [started(f"""
                    llm = LLM()
                    waiting = threading.Thread(target=lambda: llm.generate(["Once"] * 4, LONG, use_tqdm=False), daemon=True)
                    waiting.start()
                    stream = llm.stream("The king", LONG)
                    next(stream)
                    print("on its way", flush=True)
                    {way}
                """) for _ in range(4)]
                for process in processes:
                    self.assertEqual(self.ended(process), ("on its way\n", ""))

    def test_an_interpreter_ends_in_a_coroutine(self):
        said, told = self.ended(started("""
            import asyncio
            async def main():
                llm = AsyncLLM()
                async for output in llm.generate("Once", LONG):
                    print("first")
                    sys.exit(0)
            asyncio.run(main())
        """))
        self.assertEqual((said, told), ("first\n", ""))

    def test_ctrl_c_ends_what_waits_and_the_pipeline_goes_on(self):
        process = started("""
            llm = LLM()
            small = SamplingParams(max_tokens=4, temperature=0)
            before = llm.generate("The king", small)[0].outputs[0].token_ids
            print("ready", flush=True)
            try:
                while True:
                    llm.generate(["Once"] * 8, LONG)
            except KeyboardInterrupt:
                began = time.monotonic()
                after = llm.generate("The king", small)[0].outputs[0].token_ids
                print(before == after, time.monotonic() - began < 5)
        """)
        self.assertEqual(process.stdout.readline(), "ready\n")
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        said, _ = self.ended(process)
        self.assertEqual(said, "True True\n")

    def test_ctrl_c_ends_streams_at_any_moment(self):
        for moment in (0.01, 0.05, 0.11):
            process = started("""
                llm = LLM()
                print("ready", flush=True)
                try:
                    while True:
                        for delta in llm.stream("Once", LONG): pass
                except KeyboardInterrupt:
                    print("ended", llm.generate("A", SamplingParams(max_tokens=1))[0].finished)
            """)
            self.assertEqual(process.stdout.readline(), "ready\n")
            time.sleep(moment)
            process.send_signal(signal.SIGINT)
            said, _ = self.ended(process)
            self.assertEqual(said, "ended True\n")

    def test_a_child_of_a_fork_is_told_and_may_open_its_own(self):
        said, told = self.ended(started("""
            llm = LLM()
            params = SamplingParams(max_tokens=6, temperature=0)
            stream = llm.stream("Once", LONG)
            next(stream)
            child = os.fork()
            if child == 0:
                try:
                    llm.generate("Once", params)
                except FailedError as told:
                    print(told)
                with LLM() as own:
                    print(own.generate("Once", params)[0].outputs[0].token_ids)
                del llm, stream
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            print(llm.generate("Once", params)[0].outputs[0].token_ids)
        """))
        first, second, third = said.splitlines()
        self.assertIn("before this process was forked", first)
        self.assertEqual(second, third)
        self.assertEqual(told, "")

    def test_what_is_closed_says_so(self):
        said, _ = self.ended(started("""
            llm = LLM()
            running = llm.stream("Once", LONG)
            next(running)
            llm.close()
            llm.close()
            list(running)
            print(running.output.outputs[0].finish_reason)
            try:
                llm.generate("Once")
            except InvalidArgumentError as told:
                print(told)
        """))
        self.assertIn("abort\n", said)
        self.assertIn("closed", said)

    def test_the_lock_is_free_while_the_engine_runs(self):
        said, _ = self.ended(started("""
            llm = LLM()
            done = threading.Event()
            threading.Thread(target=lambda: (llm.generate(["Once"] * 8, LONG), done.set())).start()
            longest, last, turns = 0.0, time.monotonic(), 0
            while not done.is_set():
                time.sleep(0.001)
                now = time.monotonic()
                longest, last, turns = max(longest, now - last), now, turns + 1
            print(turns > 50, longest < 1.0)
        """))
        self.assertEqual(said, "True True\n")

    def test_memory_does_not_grow_with_calls(self):
        said, _ = self.ended(started("""
            import resource
            llm = LLM()
            params = SamplingParams(max_tokens=1, logprobs=4, temperature=0)
            def some(count):
                for _ in range(count):
                    llm.generate("A", params)[0].outputs[0].logprobs[0]
                return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            some(300)
            before = some(300)
            print(some(1500) - before)
        """))
        # An answer that stayed would be a kilobyte at least.
        self.assertLess(int(said), 1000, "KiB")


if __name__ == "__main__":
    unittest.main()
