"""One model and many threads, with Python's lock and without: each test in a process of its own, whose threads change
places as often as they can."""

import sys
import unittest

from life_cases import started

WITHOUT_LOCK = hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled()


class Threads(unittest.TestCase):
    def said_by(self, script):
        process = started("sys.setswitchinterval(1e-6)\n" + script)
        said, told = process.communicate(timeout=240)
        self.assertEqual((process.returncode, told), (0, ""))
        return said

    @unittest.skipUnless(WITHOUT_LOCK, "this Python has a lock")
    def test_a_python_without_a_lock_stays_without(self):
        self.assertEqual(self.said_by("print(sys._is_gil_enabled())"), "False\n")

    def test_threads_have_the_answers_that_one_has(self):
        said = self.said_by("""
prompts = ["Once upon a time", "The king", "A fox", "There was"]
params = SamplingParams(max_tokens=12, seed=3, logprobs=2)
def answered(ask):
    return [(one.token_ids, [sorted(each) for each in one.logprobs]) for one in (output.outputs[0] for output in ask())]
with LLM() as llm:
    alone = [answered(lambda: llm.generate([prompt], params, use_tqdm=False)) for prompt in prompts]
    found = []
    def work(turn):
        for place in range(6):
            place = (place + turn) % len(prompts)
            if turn % 2:
                stream = llm.stream(prompts[place], params)
                list(stream)
                ask = lambda: [stream.output]
            else:
                ask = lambda: llm.generate([prompts[place]], params, use_tqdm=False)
            found.append(answered(ask) == alone[place])
    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(16)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(len(found), all(found))
""")
        self.assertEqual(said, "96 True\n")

    def test_what_threads_enqueue_comes_out_once(self):
        said = self.said_by("""
params = SamplingParams(max_tokens=1)
with LLM() as llm:
    asked, found = [], []
    def ask():
        for _ in range(40):
            asked.extend(llm.enqueue(["A", "The"], params))
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads: thread.start()
    while any(thread.is_alive() for thread in threads):
        found += llm.wait_for_completion(use_tqdm=False)
    found += llm.wait_for_completion(use_tqdm=False)
    ids = [output.request_id for output in found]
    print(len(asked), len(set(asked)), sorted(asked) == sorted(ids))
""")
        self.assertEqual(said, "320 320 True\n")

    def test_threads_open_plugins_in_python_at_once(self):
        said = self.said_by("""
class Eager:
    def plan(self, step):
        step.advance()
        for sequence in step.waiting:
            step.grant(sequence)
found = []
gate = threading.Barrier(6)
def work():
    gate.wait()
    with LLM(scheduler=Eager) as llm:
        found.append(llm.generate("Once", SamplingParams(max_tokens=4, temperature=0), use_tqdm=False)[0].outputs[0].text)
threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found), len(set(found)))
""")
        self.assertEqual(said, "6 1\n")


if __name__ == "__main__":
    unittest.main()
