"""`tenon serve --grpc-port`: vllm.Inference and vllm.Control, beside HTTP and as HTTP answers. Without gRPC in the build, that it says so.

Beside a build with TENON_GRPC the tests need Python's grpcio and protobuf, and protoc.
"""
import importlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

from program import SOURCE, run, run_json
from server import PATIENCE, Server

PROTO = pathlib.Path(SOURCE) / "core/server/grpc"
ABSENT = "this build has no gRPC"
# A port that is nobody's: whoever has gRPC says so before anything else goes wrong.
IS_BUILT = ABSENT not in run("serve", "--grpc-port", 0, "--port", 0, "--host", "256.0.0.1").stderr


def needed():
    """The messages' module and grpc; skips with a reason where something is missing."""
    try:
        grpc = importlib.import_module("grpc")
        importlib.import_module("google.protobuf")
    except ImportError as error:
        raise unittest.SkipTest(f"{error} – install python3-grpcio and python3-protobuf")
    if shutil.which("protoc") is None:
        raise unittest.SkipTest("there is no protoc – install protobuf-compiler")
    folder = tempfile.mkdtemp()
    subprocess.run(["protoc", f"--proto_path={PROTO}", f"--python_out={folder}", "vllm/inference.proto",
                    "vllm/control.proto"], check=True)
    sys.path.insert(0, folder)
    return importlib.import_module("vllm.inference_pb2"), grpc, folder


class Absent(unittest.TestCase):
    def test_a_build_without_it_says_so(self):
        if IS_BUILT:
            self.skipTest("this build has gRPC")
        done = run("serve", "--port", 0, "--grpc-port", 0)
        self.assertEqual(done.returncode, 1)
        self.assertIn(ABSENT, done.stderr)


@unittest.skipUnless(IS_BUILT, "built without TENON_GRPC")
class Inference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pb, cls.grpc, cls.folder = needed()
        cls.control_pb = importlib.import_module("vllm.control_pb2")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def served(self, *arguments):
        server = Server("--grpc-port", 0, *arguments)
        self.addCleanup(server.__exit__)
        line = server.process.stdout.readline()
        self.assertIn(" by gRPC at 127.0.0.1:", line)
        self.channel = self.grpc.insecure_channel(line.split()[-1])
        self.addCleanup(self.channel.close)
        return server

    def method(self, name, kind):
        return getattr(self.channel, kind)(
            f"/vllm.Inference/{name}", request_serializer=self.pb.GenerateRequest.SerializeToString,
            response_deserializer=self.pb.GenerateResponse.FromString)

    def control(self, name, metadata=None, **fields):
        request = getattr(self.control_pb, f"{name}Request")(**fields)
        answers = self.control_pb.DESCRIPTOR.services_by_name["Control"].methods_by_name[name].output_type.name
        return self.channel.unary_unary(
            f"/vllm.Control/{name}", request_serializer=type(request).SerializeToString,
            response_deserializer=getattr(self.control_pb, answers).FromString)(
                request, timeout=PATIENCE, metadata=metadata)

    def control_refused(self, code, words, name, **fields):
        with self.assertRaises(self.grpc.RpcError) as caught:
            self.control(name, **fields)
        self.assertEqual(caught.exception.code(), code)
        self.assertIn(words, caught.exception.details())

    @staticmethod
    def struct(**members):
        made = importlib.import_module("google.protobuf.struct_pb2").Struct()
        made.update(members)
        return made

    def whole(self, metadata=None, **fields):
        return self.method("Generate", "unary_unary")(self.pb.GenerateRequest(**fields),
                                                      timeout=PATIENCE, metadata=metadata)

    def pieces(self, timeout=PATIENCE, **fields):
        return self.method("GenerateStream", "unary_stream")(self.pb.GenerateRequest(**fields),
                                                             timeout=timeout)

    def refused(self, code, words, **fields):
        with self.assertRaises(self.grpc.RpcError) as caught:
            self.whole(**fields)
        self.assertEqual(caught.exception.code(), code)
        self.assertIn(words, caught.exception.details())
        return caught.exception

    def test_the_answer_is_what_run_says_whole_and_in_pieces(self):
        self.served()
        asked = {"text": "The old witch", "stopping": self.pb.StoppingCriteria(max_new_tokens=24)}
        alone = run_json("The old witch", "--max-tokens", 24, "--temperature", 0)["requests"][0]
        whole = self.whole(**asked).outputs
        self.assertEqual(whole.text, alone["text"])
        first, *others = self.pieces(**asked)
        self.assertGreater(first.prompt_info.num_prompt_tokens, 0)
        self.assertFalse(first.HasField("outputs"))
        self.assertFalse(any(piece.HasField("prompt_info") for piece in others))
        self.assertEqual("".join(piece.outputs.text for piece in others), whole.text)
        self.assertEqual(sum(piece.outputs.num_tokens for piece in others), 24)
        self.assertEqual(others[-1].outputs.finish_info, whole.finish_info)
        self.assertEqual(whole.finish_info.finish_reason, self.pb.FinishInfo.LENGTH)

    def test_tokens_and_scores_are_those_of_http(self):
        server = self.served()
        told = self.pb.ResponseOptions(
            prompt_token_ids=True, prompt_logprobs=True, output_token_ids=True, output_logprobs=True,
            output_candidates=self.pb.CandidateTokens(top_n=3))
        answer = self.whole(text="The king and the queen", response=told, temperature=0.7,
                            sampling=self.pb.RandomSampling(seed=5, top_p=0.9),
                            stopping=self.pb.StoppingCriteria(max_new_tokens=8))
        _, _, there = server.post("/v1/completions", {
            "prompt": "The king and the queen", "temperature": 0.7, "seed": 5, "top_p": 0.9,
            "max_tokens": 8, "logprobs": 3, "echo": True, "return_token_ids": True})
        choice = there["choices"][0]
        prompt, outputs = answer.prompt_info, answer.outputs
        self.assertEqual([*prompt.token_ids, *outputs.token_ids], choice["token_ids"])
        scores = choice["logprobs"]["token_logprobs"]
        self.assertEqual((prompt.logprobs[0], prompt.ranks[0]), (0, 0))
        for mine, other in zip([*prompt.logprobs[1:], *outputs.logprobs], scores[1:], strict=True):
            self.assertAlmostEqual(mine, other, places=5)
        for token, rank, candidates in zip(outputs.token_ids, outputs.ranks, outputs.candidate_tokens,
                                           strict=True):
            others = [(each.id, each.rank) for each in candidates.tokens]
            self.assertNotIn(token, [each for each, _ in others])
            self.assertEqual([each for _, each in others], [r for r in (1, 2, 3) if r != rank])

    def test_several_sequences_come_in_one_stream(self):
        self.served()
        texts = {0: "", 1: "", 2: ""}
        for piece in self.pieces(text="The king", temperature=1.0,
                                 sampling=self.pb.RandomSampling(num_sequences=3, seed=1),
                                 stopping=self.pb.StoppingCriteria(max_new_tokens=9)):
            texts[piece.outputs.index] += piece.outputs.text
        alone = run_json("The king", "--n", 3, "--seed", 1, "--temperature", 1, "--max-tokens", 9)
        self.assertEqual([texts[i] for i in range(3)],
                         [answer["text"] for answer in alone["requests"]])
        self.refused(self.grpc.StatusCode.INVALID_ARGUMENT, "room for one sequence", text="a",
                     sampling=self.pb.RandomSampling(num_sequences=2))

    def test_answers_end_and_have_forms_as_they_were_asked_for(self):
        self.served()
        held = self.whole(text="a", decoding=self.pb.DecodingParameters(regex="[0-9]{3}")).outputs
        self.assertRegex(held.text, "^[0-9]{3}$")
        self.assertEqual(held.finish_info.WhichOneof("stop_reason"), "eos_token_id")
        chosen = self.pb.DecodingParameters(
            choice=self.pb.DecodingParameters.StringChoices(choices=["king", "queen"]))
        self.assertIn(self.whole(text="a", decoding=chosen).outputs.text, ("king", "queen"))
        stopped = self.whole(text="Once upon a time", stopping=self.pb.StoppingCriteria(
            max_new_tokens=200, stop_strings=["the"])).outputs
        self.assertEqual(stopped.finish_info.stop_string, "the")
        self.assertNotIn("the", stopped.text)
        first = self.whole(text="a", response=self.pb.ResponseOptions(output_token_ids=True)).outputs
        ended = self.whole(text="a", stopping=self.pb.StoppingCriteria(
            stop_token_ids=[first.token_ids[2]])).outputs
        self.assertEqual(ended.finish_info.stop_token_id, first.token_ids[2])

    def test_bytes_that_are_no_text_are_replaced(self):
        server = self.served()
        odd = next(token for token in range(256)
                   if "\ufffd" in server.post("/detokenize", {"tokens": [token, token]})[2]["prompt"])
        answer = self.whole(text="a", decoding=self.pb.DecodingParameters(allowed_token_ids=[odd]),
                            stopping=self.pb.StoppingCriteria(max_new_tokens=2, ignore_eos=True))
        self.assertEqual(set(answer.outputs.text), {"\ufffd"})

    def test_what_is_not_offered_is_refused_by_name(self):
        self.served()
        wrong, pb = self.grpc.StatusCode.INVALID_ARGUMENT, self.pb
        transfer = self.struct(a=1)
        self.refused(wrong, '"prompt" is missing')
        for words, fields in (
                ("temperature is -1", {"temperature": -1}),
                ("truncate_prompt_tokens", {"truncate_prompt_tokens": 3}),
                ('adapter is "nope"', {"lora_name": "nope"}),
                ('"media"', {"media": [pb.MediaItem(url="http://x/")]}),
                ("top_p is 0", {"sampling": pb.RandomSampling(top_p=0)}),
                ("thinking_token_budget", {"stopping": pb.StoppingCriteria(thinking_token_budget=5)}),
                ("bad word 0 has no tokens", {"decoding": pb.DecodingParameters(
                    bad_words_token_ids=[pb.TokenIds()])}),
                ("bad word 0: token 0 has id 2147483647", {"decoding": pb.DecodingParameters(
                    bad_words_token_ids=[pb.TokenIds(ids=[4294967295])])}),
                ("reasoning_ended", {"engine_reasoning_gate": pb.EngineReasoningGate(reasoning_ended=False)}),
                ("kv.ec_transfer_params", {"kv": pb.KVCacheParameters(ec_transfer_params=transfer)}),
                ("is not set up for that", {"kv": pb.KVCacheParameters(kv_transfer_params=self.struct(
                    do_remote_decode=True))}),
                ("must be true or false", {"kv": pb.KVCacheParameters(kv_transfer_params=self.struct(
                    do_remote_decode=1))}),
                ("is no JSON", {"decoding": pb.DecodingParameters(json="{")}),
                ("structural_tag", {"decoding": pb.DecodingParameters(structural_tag="x")}),
                ("closing parenthesis", {"decoding": pb.DecodingParameters(regex="(")}),
                ('by "top_n"', {"response": pb.ResponseOptions(
                    output_logprobs=True, output_candidates=pb.CandidateTokens(all=True))}),
                ("skip_special_tokens", {"response": pb.ResponseOptions(skip_special_tokens=False)})):
            with self.subTest(words):
                self.refused(wrong, words, text="a", **fields)
        self.refused(wrong, "has id 99999999", token_ids=pb.TokenIds(ids=[99999999]))
        self.refused(self.grpc.StatusCode.NOT_FOUND, "no model 'x'", text="a", model="x")
        for path, code in (("/vllm.Inference/Generate", wrong),
                           ("/vllm.Other/Generate", self.grpc.StatusCode.UNIMPLEMENTED)):
            with self.assertRaises(self.grpc.RpcError) as caught:
                self.channel.unary_unary(path)(b"\xff\xff", timeout=PATIENCE)
            self.assertEqual(caught.exception.code(), code)

    def test_a_zero_that_is_said_turns_a_stage_off(self):
        server = self.served("--set", "generation.top_k=1")
        asked = {"text": "The king", "temperature": 1, "stopping": self.pb.StoppingCriteria(max_new_tokens=12)}
        sampling = {"seed": 3, "min_p": 0}
        _, _, off = server.post("/v1/completions", {"prompt": "The king", "temperature": 1, "top_k": 0, "seed": 3,
                                                    "max_tokens": 12})
        _, _, own = server.post("/v1/completions", {"prompt": "The king", "temperature": 1, "seed": 3,
                                                    "max_tokens": 12})
        self.assertNotEqual(off["choices"][0]["text"], own["choices"][0]["text"])
        for top_k, there in (({"top_k": 0}, off), ({}, own)):
            answer = self.whole(sampling=self.pb.RandomSampling(**sampling, **top_k), **asked)
            self.assertEqual(answer.outputs.text, there["choices"][0]["text"])

    def test_words_of_tokens_are_not_said(self):
        self.served()
        told = self.pb.ResponseOptions(output_token_ids=True)
        first = self.whole(text="The old witch", response=told).outputs.token_ids
        banned = [self.pb.TokenIds(ids=first[4:6])]
        others = self.whole(text="The old witch", response=told, decoding=self.pb.DecodingParameters(
            bad_words_token_ids=banned)).outputs.token_ids
        self.assertEqual(others[:5], first[:5])
        self.assertNotEqual(others[5], first[5])

    def test_an_answer_says_what_was_found_and_what_had_no_effect(self):
        self.served("--set", "kv_cache.plugin=prefix")
        asked = self.pb.GenerateRequest(text="Once upon a time there was a king " * 8, session_id="s")
        answers = []
        for _ in range(2):
            call = self.channel.unary_unary(
                "/vllm.Inference/Generate", request_serializer=self.pb.GenerateRequest.SerializeToString,
                response_deserializer=self.pb.GenerateResponse.FromString).with_call(asked, timeout=PATIENCE)
            answers.append(call[0].outputs.finish_info)
            self.assertIn(("tenon-ignored-fields", "session_id"), list(call[1].initial_metadata()))
        self.assertTrue(answers[0].HasField("num_cached_tokens"))
        self.assertEqual(answers[0].num_cached_tokens, 0)
        self.assertGreater(answers[1].num_cached_tokens, 16)

    def test_prefill_and_decode_are_apart_over_grpc(self):
        cut = ["--set", "kv_cache.plugin=prefix", "--set", "kv_cache.block_tokens=8"]
        asked = {"text": "Once upon a time there was a king " * 8}
        most = self.pb.StoppingCriteria(max_new_tokens=12)
        told = self.pb.ResponseOptions(output_token_ids=True, output_logprobs=True)
        self.served(*cut)
        alone = self.whole(**asked, stopping=most, response=told).outputs
        workers = {}
        for role in ("prefill", "decode"):
            server = self.served(*cut, "--set", f"disaggregation.role={role}")
            workers[role] = server, self.channel
        for stream in (False, True):
            with self.subTest(stream=stream):
                self.channel = workers["prefill"][1]
                ask = (lambda **fields: list(self.pieces(**fields))[-1]) if stream else self.whole
                first = ask(**asked, stopping=self.pb.StoppingCriteria(max_new_tokens=1), kv=self.pb.KVCacheParameters(
                    kv_transfer_params=self.struct(do_remote_decode=True, do_remote_prefill=False, remote_host=None,
                                                   remote_block_ids=[])))
                params = first.outputs.finish_info.kv_transfer_params
                self.assertEqual((params["do_remote_prefill"], params["remote_host"]), (True, "127.0.0.1"))
                self.channel = workers["decode"][1]
                answer = self.whole(**asked, stopping=most, response=told,
                                    kv=self.pb.KVCacheParameters(kv_transfer_params=params))
                self.assertEqual(answer.outputs.token_ids, alone.token_ids)
                self.assertEqual(answer.outputs.logprobs, alone.logprobs)
                self.assertFalse(answer.outputs.finish_info.HasField("kv_transfer_params"))
        metrics = workers["decode"][0].get("/metrics")[2].decode()
        self.assertRegex(metrics, r"tenon:kv_transfer_complete_total\{.*\} 1\b")
        self.assertRegex(metrics, r"tenon:kv_transfer_partial_total\{.*\} 0\b")

    def test_control_tells_of_server_and_model(self):
        server = self.served()
        info = self.control("GetServerInfo")
        _, _, told = server.get("/server_info")
        self.assertEqual((info.api_version, info.engine_version), ("vllm", told["version"]))
        self.assertEqual(info.kv_block_size * info.total_kv_blocks, told["max_total_num_tokens"])
        self.assertEqual(info.kv_block_size, told["page_size"])
        self.assertEqual(info.max_model_len, told["context_length"])
        self.assertEqual(info.max_running_requests, told["max_running_requests"])
        self.assertEqual(info.parallelism.world_size, 1)
        self.assertNotEqual(info.instance_id, "")
        model = self.control("GetModelInfo")
        self.assertEqual((model.served_model_name, model.model_id), ("tale", told["model_path"]))
        self.assertTrue(model.supports_text_input and model.supports_token_ids_input)
        self.assertFalse(model.supports_lora or model.supports_multimodal)
        self.assertEqual(len(self.control("ListLoras").adapters), 0)
        self.assertEqual(len(self.control("GetKvEventSources").sources), 0)
        self.assertFalse(self.control("IsPaused").paused or self.control("IsSleeping").sleeping)

    def test_health_knows_both_services_by_name(self):
        self.served()
        check = self.channel.unary_unary("/grpc.health.v1.Health/Check")
        for name in (b"", b"vllm.Inference", b"vllm.Control"):
            # A HealthCheckRequest of that service; its answer is SERVING.
            self.assertEqual(check(b"\x0a" + bytes([len(name)]) + name, timeout=PATIENCE), b"\x08\x01")
        with self.assertRaises(self.grpc.RpcError) as caught:
            check(b"\x0a\x04none", timeout=PATIENCE)
        self.assertEqual(caught.exception.code(), self.grpc.StatusCode.NOT_FOUND)

    def test_control_refuses_what_it_cannot_do(self):
        self.served()
        codes = self.grpc.StatusCode
        self.control_refused(codes.FAILED_PRECONDITION, "SIGTERM", "Shutdown")
        self.control_refused(codes.FAILED_PRECONDITION, "start it with --adapters FOLDER", "LoadLora", lora_name="a")
        with self.assertRaises(self.grpc.RpcError) as caught:
            self.channel.unary_unary("/vllm.Control/Sleep")(b"", timeout=PATIENCE)
        self.assertEqual(caught.exception.code(), codes.UNIMPLEMENTED)
        with self.assertRaises(self.grpc.RpcError) as caught:
            self.channel.unary_unary("/vllm.Control/Abort")(b"\xff\xff", timeout=PATIENCE)
        self.assertEqual(caught.exception.code(), codes.INVALID_ARGUMENT)
        self.assertIn("no vllm.AbortRequest", caught.exception.details())

    def test_control_ends_a_request_by_its_name(self):
        server = self.served()
        endless = {"text": "The king", "stopping": self.pb.StoppingCriteria(max_new_tokens=2000, ignore_eos=True)}
        stream = self.pieces(request_id="mine", **endless)
        next(stream), next(stream)
        self.control("Abort", request_ids=["nobody's", "mine"])
        *_, last = stream
        self.assertEqual(last.outputs.finish_info.finish_reason, self.pb.FinishInfo.ABORTED)
        server.wait_for('vllm:num_requests_running{model_name="tale"} 0')

    def test_control_needs_a_key_and_ends_nothing_of_another(self):
        keys = pathlib.Path(self.folder) / "two_keys"
        keys.write_text("alice 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\n"
                        "bob 81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9\n")
        self.served("--keys", keys)
        self.control_refused(self.grpc.StatusCode.UNAUTHENTICATED, "a key is needed", "GetServerInfo")
        alice, bob = ([("authorization", f"Bearer {key}")] for key in ("secret", "bob"))
        stream = self.method("GenerateStream", "unary_stream")(
            self.pb.GenerateRequest(request_id="mine", text="The king", stopping=self.pb.StoppingCriteria(
                max_new_tokens=200, ignore_eos=True)), timeout=PATIENCE, metadata=alice)
        next(stream), next(stream)
        self.control("Abort", request_ids=["mine"], metadata=bob)
        *_, last = stream
        self.assertEqual(last.outputs.finish_info.finish_reason, self.pb.FinishInfo.LENGTH)

    def test_keys_are_those_of_http(self):
        keys = pathlib.Path(self.folder) / "keys"
        keys.write_text("alice 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b requests=2\n")
        self.served("--keys", keys)
        self.refused(self.grpc.StatusCode.UNAUTHENTICATED, "a key is needed", text="a")
        for _ in range(2):
            self.assertEqual(
                self.whole(text="a", metadata=[("authorization", "Bearer secret")]).outputs.num_tokens, 20)
        error = self.refused(self.grpc.StatusCode.RESOURCE_EXHAUSTED, "used up", text="a",
                             metadata=[("authorization", "Bearer secret")])
        self.assertIn("retry-after", {key for key, _ in error.trailing_metadata()})

    def test_who_goes_away_takes_the_request_along(self):
        # The oracle, since answers of the quicker one end before a client that waits for a processor goes away.
        server = self.served("--set", "executor.plugin=ref")
        endless = {"text": "The king", "stopping": self.pb.StoppingCriteria(
            max_new_tokens=2000, ignore_eos=True)}
        stream = self.pieces(**endless)
        next(stream), next(stream)
        stream.cancel()
        server.wait_for('vllm:request_success_total{model_name="tale",finished_reason="abort"} 1')
        with self.assertRaises(self.grpc.RpcError) as caught:
            list(self.pieces(timeout=2, **endless))
        self.assertEqual(caught.exception.code(), self.grpc.StatusCode.DEADLINE_EXCEEDED)
        server.wait_for('vllm:request_success_total{model_name="tale",finished_reason="abort"} 2')
        server.wait_for('vllm:num_requests_running{model_name="tale"} 0')

    def test_many_at_once_get_the_same_answer(self):
        self.served()
        answers = []
        def ask():
            answers.append("".join(piece.outputs.text for piece in self.pieces(
                text="The old witch", stopping=self.pb.StoppingCriteria(max_new_tokens=40))))
        threads = [threading.Thread(target=ask) for _ in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(answers), len(set(answers))), (32, 1))

    def test_a_signal_lets_calls_end(self):
        server = self.served()
        stream = self.pieces(text="The king", stopping=self.pb.StoppingCriteria(
            max_new_tokens=300, ignore_eos=True))
        pieces = [next(stream), next(stream)]
        server.process.terminate()
        pieces += list(stream)
        self.assertEqual(sum(piece.outputs.num_tokens for piece in pieces), 300)
        self.assertEqual(server.wait()[0], 0)

    def test_an_address_in_use_is_refused(self):
        server = self.served()
        port = server.port
        done = run("serve", "--port", 0, "--grpc-port", port)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"gRPC cannot listen on '127.0.0.1:{port}'", done.stderr)


if __name__ == "__main__":
    unittest.main()
