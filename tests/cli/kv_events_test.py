"""`tenon serve --kv-events`: what comes into the prefix cache and goes, as vLLM publishes it over ZeroMQ.

The subscriber needs pyzmq and msgspec (its classes are declared as vLLM's are); tests that need them skip without.
"""
import importlib
import unittest

from program import run
from server import PATIENCE, Server, has_zmq

PREFIX = ["--set", "kv_cache.plugin=prefix"]
LONG = "Once upon a time there was a king who had a daughter, and the old witch lived in the wood. " * 6


def module(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise unittest.SkipTest(f"{error} – install pyzmq and msgspec")


def event_classes(msgspec, arrays):
    """vLLM's own, of before and after June 2026."""
    class Event(msgspec.Struct, tag=True, omit_defaults=True, gc=False, array_like=arrays):
        pass

    class BlockStored(Event, tag="BlockStored"):
        block_hashes: list[bytes | int]
        parent_block_hash: bytes | int | None
        token_ids: list[int]
        block_size: int
        lora_id: int | None
        medium: str | None
        lora_name: str | None
        extra_keys: list[tuple | None] | None = None
        group_idx: int | None = None

    class BlockRemoved(Event, tag="BlockRemoved"):
        block_hashes: list[bytes | int]
        medium: str | None
        group_idx: int | None = None

    class AllBlocksCleared(Event, tag="AllBlocksCleared"):
        pass

    class Batch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
        ts: float
        events: list[BlockStored | BlockRemoved | AllBlocksCleared]
        data_parallel_rank: int | None = None

    return BlockStored, BlockRemoved, AllBlocksCleared, msgspec.msgpack.Decoder(Batch)


class Refused(unittest.TestCase):
    def says(self, words, *arguments):
        done = run("serve", "--port", 0, *arguments)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(words, done.stderr)

    def test_what_cannot_be_published_is_refused_at_the_start(self):
        self.says("--kv-events is '5557' – expected tcp://*:PORT", "--kv-events", "5557")
        self.says("kv_cache 'paged' tells nothing of its blocks", "--kv-events", "tcp://*:0",
                  "--set", "kv_cache.plugin=paged")
        self.says("--kv-events-topic has no effect without --kv-events", "--kv-events-topic", "x")
        self.says("--kv-events-replay is 'ftp://x'", "--kv-events", "tcp://*:0", "--kv-events-replay", "ftp://x")

    def test_a_shortened_hash_names_no_blocks(self):
        self.says("with its whole hash_bits", "--kv-events", "tcp://*:0", "--set", "kv_cache.plugin=prefix",
                  "--set", "kv_cache.options.hash_bits=32")

    def test_without_the_library_it_says_what_to_install(self):
        if has_zmq():
            self.skipTest("libzmq5 is installed")
        self.says("install libzmq5", "--kv-events", "tcp://*:0")

    @unittest.skipUnless(has_zmq(), "there is no libzmq5")
    def test_an_address_in_use_is_refused(self):
        with Server("--kv-events", "tcp://*:0", *PREFIX) as server:
            endpoint = server.process.stdout.readline().split()[-1]
            self.says("ZeroMQ cannot bind", "--kv-events", endpoint, *PREFIX)


class Published(unittest.TestCase):
    def setUp(self):
        self.zmq = module("zmq")
        self.context = self.zmq.Context()
        self.addCleanup(self.context.term)

    def served(self, *arguments, arrays=False):
        self.stored, self.removed, self.cleared, self.decoder = event_classes(module("msgspec"), arrays)
        server = Server("--kv-events", "tcp://*:0", "--kv-events-replay", "tcp://127.0.0.1:0", *PREFIX, *arguments,
                        *(["--kv-events-arrays"] if arrays else []))
        self.addCleanup(server.__exit__)
        line = server.process.stdout.readline().split()
        self.assertEqual(line[:4], ["publishing", "KV", "events", "at"])
        self.endpoint = line[4].rstrip(",").replace("*", "127.0.0.1")
        self.replay_endpoint = line[-1]
        self.socket = self.opened(self.zmq.SUB)
        self.socket.connect(self.endpoint)
        self.socket.subscribe(b"")
        self.ask(server, "a", 1)
        return server

    def opened(self, kind):
        socket = self.context.socket(kind)
        socket.setsockopt(self.zmq.RCVTIMEO, PATIENCE * 1000)
        self.addCleanup(socket.close, 0)
        return socket

    def ask(self, server, prompt, tokens=1, **fields):
        status, _, answer = server.post("/v1/completions", {"prompt": prompt, "max_tokens": tokens, "temperature": 0,
                                                            "return_token_ids": True} | fields)
        self.assertEqual(status, 200, answer)
        return answer

    def replayed(self, first=0):
        """[(sequence, topic, batch)] from `first` on."""
        socket = self.opened(self.zmq.DEALER)
        socket.connect(self.replay_endpoint)
        socket.send_multipart([b"", first.to_bytes(8, "big")])
        found = []
        while True:
            empty, topic, sequence, payload = socket.recv_multipart()
            self.assertEqual(empty, b"")
            number = int.from_bytes(sequence, "big", signed=True)
            if number == -1:
                self.assertEqual((topic, payload), (b"", b""))
                socket.close()
                return found
            found.append((number, topic, self.decoder.decode(payload)))

    def events(self, until):
        """All of them, from the first on, as soon as `until` of them is true."""
        for _ in range(PATIENCE * 20):
            events = [event for _, _, batch in self.replayed() for event in batch.events]
            if until(events):
                return events
            # Events come behind the step, which comes behind the answer.
            self.socket.poll(50)
        raise AssertionError(f"never came: {events}")

    def blocks(self, events):
        """{hash: (parent, tokens)} of what is stored at the end."""
        held = {}
        for event in events:
            if isinstance(event, self.cleared):
                held.clear()
            elif isinstance(event, self.removed):
                for block in event.block_hashes:
                    held.pop(block, None)
            else:
                parent = event.parent_block_hash
                for i, block in enumerate(event.block_hashes):
                    tokens = event.token_ids[i * event.block_size:(i + 1) * event.block_size]
                    self.assertEqual(len(tokens), event.block_size)
                    held[block] = (parent, tokens)
                    parent = block
        return held

    def test_a_prompt_is_told_block_by_block(self):
        for plugin in ("prefix", "radix"):
            with self.subTest(plugin):
                server = self.served("--set", f"kv_cache.plugin={plugin}")
                self.ask(server, LONG, 1)
                tokens = server.post("/tokenize", {"prompt": LONG})[2]["tokens"]
                events = self.events(lambda events: events)
                self.assertEqual({event.medium for event in events}, {"GPU"})
                size = events[0].block_size
                blocks = self.blocks(events)
                self.assertEqual(len(blocks), len(tokens) // size)
                [first] = [block for block, (parent, _) in blocks.items() if parent is None]
                chain, children = [first], {parent: block for block, (parent, _) in blocks.items()}
                while chain[-1] in children:
                    chain.append(children[chain[-1]])
                told = [token for block in chain for token in blocks[block][1]]
                self.assertEqual(told, tokens[:len(told)])
                # The same again stores nothing; what goes on after it has it as its parent.
                self.ask(server, LONG, 1)
                self.ask(server, LONG + "Then the king went away, and nobody knew where. " * 4, 1)
                more = self.events(lambda now: len(now) > len(events))[len(events):]
                self.assertEqual(more[0].parent_block_hash, chain[-1])

    def test_batches_are_numbered_and_come_to_who_listens(self):
        server = self.served("--kv-events-topic", "kv@here@{model}")
        heard = []
        for i in range(40):  # until a subscriber is there, what is published is not heard
            self.ask(server, f"{i} {LONG}", 1)
            if self.socket.poll(100):
                heard.append(self.socket.recv_multipart())
                if len(heard) == 2:
                    break
        [(topic, first, payload), (_, second, _)] = heard
        self.assertEqual(topic, b"kv@here@tale")
        self.assertEqual(len(first), 8)
        self.assertEqual(int.from_bytes(second, "big"), int.from_bytes(first, "big") + 1)
        batch = self.decoder.decode(payload)
        self.assertEqual(batch.data_parallel_rank, 0)
        self.assertGreater(batch.ts, 1e9)
        number = int.from_bytes(first, "big")
        found = self.replayed(number)
        self.assertEqual(found[0], (number, topic, batch))
        self.assertEqual([each for each, _, _ in found], list(range(number, number + len(found))))

    def test_what_memory_pushes_out_is_removed(self):
        server = self.served("--set", "kv_cache.memory=800KiB", "--set", "limits.context_tokens=256")
        for i in range(6):
            self.ask(server, f"{i} {LONG[:200]}", 1)
        events = self.events(lambda events: any(isinstance(event, self.removed) for event in events))
        known = set()
        for event in events:
            if isinstance(event, self.removed):
                self.assertLessEqual(set(event.block_hashes), known, "what was never stored is not removed")
            else:
                known |= set(event.block_hashes)

    def test_salts_are_told_apart_and_a_flush_clears(self):
        server = self.served()
        self.ask(server, LONG, 1)
        mine = self.events(lambda events: events)
        self.assertEqual({event.extra_keys for event in mine}, {None})
        self.ask(server, LONG, 1, cache_salt="s")
        salted = self.events(lambda events: len(events) > len(mine))[len(mine):]
        self.assertEqual(len(salted[0].extra_keys), len(salted[0].block_hashes))
        self.assertTrue(salted[0].extra_keys[0][0].startswith("salt-"))
        self.assertEqual(salted[0].token_ids, mine[0].token_ids)
        self.assertNotEqual(salted[0].block_hashes, mine[0].block_hashes)
        before = len(mine) + len(salted)
        server.post("/flush_cache", None)
        events = self.events(lambda events: len(events) > before)
        self.assertIsInstance(events[before], self.cleared)
        self.ask(server, LONG, 1)
        anew = self.events(lambda events: len(events) > before + 1)[before + 1:]
        self.assertEqual((anew[0].token_ids, anew[0].extra_keys), (mine[0].token_ids, None))

    def test_two_servers_give_the_same_content_the_same_name(self):
        names = []
        for _ in range(2):
            server = self.served()
            self.ask(server, LONG, 1)
            names.append(self.events(lambda events: events)[0].block_hashes)
        self.assertEqual(*names)

    def test_arrays_are_for_older_subscribers(self):
        server = self.served(arrays=True)
        self.ask(server, LONG, 1)
        self.assertGreater(len(self.blocks(self.events(lambda events: events))), 2)
        server.post("/flush_cache", None)
        self.events(lambda events: isinstance(events[-1], self.cleared))

    def test_a_question_that_is_none_is_not_answered_and_harms_nothing(self):
        server = self.served()
        socket = self.opened(self.zmq.DEALER)
        socket.connect(self.replay_endpoint)
        for parts in ([b"x"], [b"", b"abc"], [b"", b"1" * 300], [b""] * 9):
            socket.send_multipart(parts)
        self.ask(server, LONG, 1)
        self.assertTrue(self.events(lambda events: events))
        self.assertEqual(socket.poll(0), 0)


if __name__ == "__main__":
    unittest.main()
