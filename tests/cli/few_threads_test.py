"""A system that starts no further thread, as a container with few processes does: a sentence, never a crash."""
import os
import resource
import subprocess
import unittest

from program import BINARY, SANITIZED

NOBODY = 65534
# To the process of a user who has no other, the limit counts its threads and its children.
LIMITS = (1, 2, 3, 4, 6)


def limited(arguments, limit):
    def give_up():
        if os.geteuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    return subprocess.run([BINARY, *arguments], preexec_fn=give_up, cwd="/", text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=120)


@unittest.skipIf(SANITIZED, "sanitizers start threads of their own")
class FewThreads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            limited(["--version"], 100)
        except (PermissionError, subprocess.SubprocessError) as error:
            raise unittest.SkipTest(f"the program is not for every user: {error}")

    def test_the_program_ends_with_a_sentence(self):
        seen = set()
        for command in (["run", "--threads", "3", "--max-tokens", "2", "Once"],
                        ["bench", "--limits"], ["plugins", "list"], ["doctor"],
                        ["serve", "--port", "0", "--host", "256.0.0.1"]):
            for limit in LIMITS:
                done = limited(command, limit)
                self.assertIn(done.returncode, (0, 1), f"{command} with {limit}: {done.stderr}")
                if done.returncode == 1 and "256.0.0.1" not in done.stderr:
                    self.assertRegex(done.stdout + done.stderr, "Resource temporarily unavailable|no process", command)
                seen.add(done.returncode)
        self.assertIn(1, seen)


if __name__ == "__main__":
    unittest.main()
