"""Several models behind one `tenon serve`, loaded when they are asked for."""
import json
import pathlib
import socket
import tempfile
import threading
import time
import unittest

from program import MODEL, SOURCE, run
from server import PATIENCE, Server

DRAFT = SOURCE / "configs/models/tale-draft"
ASK = {"prompt": "The old witch", "max_tokens": 12, "seed": 7}
LITTLE = 'kv_cache.memory = "16MiB"\nlimits.context_tokens = 512\nlimits.max_sequences = 4\n'


def entry(name, model=MODEL, more=LITTLE):
    return f'[[server.models]]\nname = "{name}"\nmodel = "{model}"\n{more}\n'


class Desk(Server):
    """A server whose models are those of a file with this text."""

    def __init__(self, text, *arguments):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".toml")
        self.file.write("format = 1\n" + text)
        self.file.flush()
        self.heard = ""
        super().__init__("--models", self.file.name, *arguments)
        # So that a full pipe never holds the server up.
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self):
        for line in self.process.stderr:
            self.heard += line

    def __exit__(self, *everything):
        self.process.kill()
        self.process.wait()
        self.listener.join()
        self.process.stdout.close()
        self.process.stderr.close()
        self.folder.cleanup()
        self.file.close()

    def end_and_wait(self, number):
        self.process.send_signal(number)
        status = self.process.wait(timeout=PATIENCE)
        self.listener.join()
        return status

    def models(self):
        return {model["id"]: model for model in self.get("/v1/models")[2]["data"]}

    def state(self, name):
        return self.models()[name]["status"]["value"]

    def wait_for_state(self, name, state):
        limit = time.monotonic() + PATIENCE
        while self.state(name) != state:
            assert time.monotonic() < limit, (name, self.state(name), self.heard)

    def ask(self, model, **more):
        return self.post("/v1/completions", {"model": model} | ASK | more)

    def figure(self, name, **labels):
        wanted = ",".join(f'{key}="{value}"' for key, value in labels.items())
        for line in self.get("/metrics")[2].decode().splitlines():
            if line.startswith(f"{name}{{{wanted}}} "):
                return float(line.rsplit(" ", 1)[1])
        return None


class Busy:
    """A long answer of a model, of which more comes as long as this is open."""

    def __init__(self, desk, model):
        self.connection = desk.connect()
        body = {"model": model, "prompt": "Once", "max_tokens": 400, "ignore_eos": True, "stream": True}
        self.connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        self.answer.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()


# The oracle needs seconds for what the others do at once.
SLOW = LITTLE + 'executor.plugin = "ref"\n'


class Models(unittest.TestCase):
    def test_a_model_is_loaded_when_it_is_asked_for_and_answers_as_ever(self):
        with Desk(entry("big") + entry("little", DRAFT)) as desk:
            before = desk.models()
            self.assertEqual(list(before), ["big", "little"])
            for model in before.values():
                self.assertEqual(model["status"], {"value": "unloaded"})
                self.assertTrue(model["on_demand"])
                self.assertEqual(model["max_model_len"], 512)
                self.assertGreater(model["memory_bytes"], 16 << 20)
                self.assertNotIn("numerics", model)
            status, _, answer = desk.ask("big")
            self.assertEqual(status, 200, answer)
            alone = json.loads(run("run", ASK["prompt"], "--max-tokens", 12, "--seed", 7, "--json",
                                   "--set", "limits.context_tokens=512").stdout)
            self.assertEqual(answer["choices"][0]["text"], alone["requests"][0]["text"])
            self.assertEqual(desk.state("big"), "loaded")
            self.assertEqual(desk.state("little"), "unloaded")
            self.assertIn("numerics", desk.models()["big"])
            self.assertIn("loading big", desk.heard)
            self.assertRegex(desk.heard, r"big: weights [\d.]+ MiB, and 16.0 MiB for K/V at least")
            # Those who only look load nothing.
            status, _, refusal = desk.get("/model_info?model=little")
            self.assertEqual((status, refusal["error"]["code"]), (503, "model_not_loaded"))
            self.assertEqual(desk.get("/v1/engine/steps?model=little")[0], 503)
            self.assertEqual(desk.state("little"), "unloaded")

    def test_a_wrong_name_is_refused_with_the_names_that_there_are(self):
        with Desk(entry("big") + entry("little", DRAFT)) as desk:
            status, _, refusal = desk.ask("huge")
            self.assertEqual(status, 404)
            self.assertEqual(refusal["error"]["message"],
                             "there is no model 'huge' here, only 'big' and 'little' – GET /v1/models "
                             "lists what there is")
            self.assertEqual(desk.post("/v1/completions", ASK)[0], 400)

    def test_first_requests_at_once_load_the_model_once(self):
        with Desk(entry("big")) as desk:
            answers = []
            threads = [threading.Thread(target=lambda: answers.append(desk.ask("big"))) for _ in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual({status for status, _, _ in answers}, {200})
            self.assertEqual(len({answer["choices"][0]["text"] for _, _, answer in answers}), 1)
            self.assertEqual(desk.figure("tenon:model_loads_total", model_name="big"), 1)

    def test_a_model_that_cannot_be_loaded_says_why_and_leaves_the_others_alone(self):
        with Desk(entry("gone", "/no/such/model") + entry("big")) as desk:
            self.assertEqual(desk.ask("big")[0], 200)
            for _ in range(2):
                status, _, refusal = desk.ask("gone")
                self.assertEqual((status, refusal["error"]["code"]), (503, "model_load_failed"))
                self.assertIn("/no/such/model", refusal["error"]["message"])
            state = desk.models()["gone"]["status"]
            self.assertEqual((state["value"], state["failed"]), ("unloaded", True))
            self.assertIn("/no/such/model", state["error"])
            self.assertEqual(desk.ask("big")[0], 200)
            self.assertEqual(desk.get("/health")[0], 200)
            self.assertIn("the model 'gone' cannot be loaded as it is", desk.heard)

    def test_where_memory_is_short_the_one_that_was_not_used_for_longest_goes(self):
        names = ("one", "two", "three")
        adapters = 'executor.isa = "portable"\n'  # so that no two share their weights
        text = entry("one") + entry("two", DRAFT) + entry("three", more=LITTLE + adapters)
        with Desk(text) as desk:
            needs = {name: desk.models()[name]["memory_bytes"] for name in names}
        room = needs["one"] + needs["three"] + (1 << 20)
        with Desk(f'[server]\nmemory = "{room}B"\n' + text) as desk:
            for name in ("one", "two", "three"):
                self.assertEqual(desk.ask(name)[0], 200)
            self.assertEqual(desk.state("three"), "loaded")
            self.assertEqual(desk.state("one"), "unloaded")
            self.assertEqual(desk.figure("tenon:model_unloads_total", model_name="one", reason="memory"), 1)
            self.assertEqual(desk.ask("one")[0], 200)

    def test_a_model_in_use_is_not_unloaded_and_who_waits_in_vain_is_told(self):
        with Desk('[server]\nmax_loaded = 1\nload_wait = "50ms"\n' + entry("slow", more=SLOW) + entry("quick")) as desk:
            with Busy(desk, "slow"):
                status, headers, refusal = desk.ask("quick")
                self.assertEqual((status, refusal["error"]["code"]), (503, "no_room_for_model"))
                self.assertIn("slow is in use", refusal["error"]["message"])
                self.assertEqual(headers["Retry-After"], "10")
                self.assertEqual(desk.post("/models/unload", {"model": "slow"})[0], 409)
                self.assertEqual(desk.state("slow"), "loaded")
            # Its client went away, so that it is no longer in use soon.
            limit = time.monotonic() + PATIENCE
            while desk.ask("quick")[0] != 200:
                self.assertLess(time.monotonic(), limit)
            self.assertEqual(desk.state("slow"), "unloaded")

    def test_a_request_waits_until_a_model_in_use_is_done(self):
        with Desk("[server]\nmax_loaded = 1\n" + entry("slow", more=SLOW) + entry("quick")) as desk:
            busy = Busy(desk, "slow")
            waiting = []
            thread = threading.Thread(target=lambda: waiting.append(desk.ask("quick")))
            thread.start()
            busy.connection.close()
            thread.join(PATIENCE)
            self.assertEqual(waiting[0][0], 200)

    def test_idle_models_are_unloaded_and_their_figures_stay(self):
        with Desk('[server]\nidle_unload = "100ms"\n' + entry("big") + entry("stays", DRAFT, LITTLE + 'idle_unload = "never"\n')) as desk:
            for _ in range(2):
                self.assertEqual(desk.ask("big")[0], 200)
                desk.wait_for_state("big", "unloaded")
            self.assertEqual(desk.ask("stays")[0], 200)
            self.assertEqual(desk.figure("vllm:generation_tokens_total", model_name="big"), 24)
            self.assertEqual(desk.figure("tenon:model_loads_total", model_name="big"), 2)
            self.assertEqual(desk.figure("tenon:model_unloads_total", model_name="big", reason="idle"), 2)
            self.assertEqual(desk.figure("tenon:model_loaded", model_name="big"), 0)
            self.assertEqual(desk.state("stays"), "loaded")
            self.assertIn("big is unloaded: nobody used it for long", desk.heard)
            # What it was is still known.
            self.assertIn("numerics", desk.models()["big"])

    def test_models_are_loaded_and_unloaded_on_request(self):
        with Desk(entry("big") + entry("kept", DRAFT, "keep = true\n" + LITTLE)) as desk:
            self.assertEqual(desk.state("kept"), "loaded")
            self.assertFalse(desk.models()["kept"]["on_demand"])
            self.assertEqual(desk.post("/models/load", {"model": "big"})[2], {"success": True})
            self.assertEqual(desk.state("big"), "loaded")
            self.assertEqual(desk.post("/models/unload", {"model": "big"})[2], {"success": True})
            self.assertEqual(desk.state("big"), "unloaded")
            self.assertEqual(desk.post("/models/unload", {"model": "kept"})[0], 400)
            self.assertEqual(desk.post("/models/load", {"model": "other"})[0], 404)
            self.assertEqual(desk.post("/models/load", {"name": "big"})[0], 400)
            self.assertEqual(desk.get("/models")[2], desk.get("/v1/models")[2])

    def test_every_path_that_needs_a_model_loads_it(self):
        chat = [{"role": "user", "content": "Once"}]
        bodies = {"/v1/chat/completions": {"messages": chat, "max_tokens": 2},
                  "/v1/messages": {"messages": chat, "max_tokens": 2},
                  "/v1/messages/count_tokens": {"messages": chat},
                  "/v1/embeddings": {"input": "a king"}, "/tokenize": {"prompt": "a"},
                  "/detokenize": {"tokens": [5]}}
        with Desk(entry("big")) as desk:
            for path, body in bodies.items():
                self.assertEqual(desk.post("/models/unload", {"model": "big"})[0], 200)
                status, _, answer = desk.post(path, {"model": "big"} | body)
                self.assertEqual(status, 200, (path, answer))
                self.assertEqual(desk.state("big"), "loaded", path)

    def test_running_answers_are_finished_when_the_server_drains(self):
        with Desk(entry("big")) as desk:
            busy = Busy(desk, "big")
            desk.process.terminate()
            text = busy.answer.read().decode()
            self.assertIn("data: [DONE]", text)
            self.assertEqual(desk.process.wait(timeout=PATIENCE), 0)

    def test_models_named_on_the_command_line_may_be_loaded_on_demand_too(self):
        with Server("--on-demand", f"a={MODEL}", f"b={DRAFT}", "--set", "kv_cache.memory=16MiB",
                    "--set", "limits.context_tokens=512", "--set", "limits.max_sequences=4") as server:
            data = server.get("/v1/models")[2]["data"]
            self.assertEqual([(model["id"], model["status"]["value"]) for model in data],
                             [("a", "unloaded"), ("b", "unloaded")])
            self.assertEqual(server.post("/v1/completions", {"model": "b"} | ASK)[0], 200)


class Refusals(unittest.TestCase):
    def refuse(self, text, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "desk.toml"
            file.write_text(text)
            done = run("serve", "--port", 0, "--models", file, *arguments)
            self.assertNotEqual(done.returncode, 0)
            return done.stderr.replace(str(file), "desk.toml")

    def test_faults_of_a_list_are_told_at_the_start_with_their_places(self):
        text = self.refuse('format = 1\n[server]\nmax_loaded = 0\n[[server.models]]\nmodel = "a"\n')
        self.assertIn("desk.toml:3:1: max_loaded is the integer 0; expected a whole number from 1 to 1024", text)
        self.assertIn("the model has no 'name'", text)

    def test_a_key_that_no_pipeline_has_is_told_with_its_place(self):
        text = self.refuse('format = 1\n[[server.models]]\nname = "a"\nschedular.plugin = "static"\n')
        self.assertRegex(text, r"desk\.toml:4:\d+: .*schedular")

    def test_what_several_entries_say_wrong_is_told_at_once(self):
        text = self.refuse("format = 1\n" + entry("a", more="kv_cache.plugn = 'paged'")
                           + entry("b", more="pipeline = 'gone.toml'") + entry("c", more="parallel.data = 2")
                           + entry("d", more="chat_template = 'gone.jinja'"))
        self.assertRegex(text, r"the model 'a': desk\.toml:\d+:\d+: unknown key 'kv_cache\.plugn'")
        self.assertRegex(text, r"\nthe model 'b': cannot open '.*/gone\.toml'")
        self.assertIn("\nthe model 'c' is run by several processes or engines", text)
        self.assertRegex(text, r"\nthe model 'd': cannot open '.*/gone\.jinja'")

    def test_an_address_that_is_taken_is_told_before_models_are_loaded(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            done = run("serve", "--port", taken.getsockname()[1])
        self.assertEqual(done.returncode, 1)
        self.assertIn("Address already in use", done.stderr)
        self.assertNotIn("memory:", done.stderr)

    def test_options_about_loading_need_a_model_that_is_loaded_on_demand(self):
        done = run("serve", "--port", 0, "--idle-unload", "10min")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("say --on-demand", done.stderr)
        text = self.refuse("format = 1\n" + entry("a"), "--idle-unload", "soon")
        self.assertIn("--idle-unload is 'soon' – it must be a time such as 10min, or never", text)

    def test_kv_events_need_a_model_that_stays(self):
        text = self.refuse("format = 1\n" + entry("a"), "--kv-events", "tcp://127.0.0.1:*")
        self.assertIn("--kv-events tells of a model that stays loaded", text)


if __name__ == "__main__":
    unittest.main()
