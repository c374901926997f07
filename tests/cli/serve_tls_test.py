"""`tenon serve` and `tenon load` under TLS, with certificates that the test makes."""
import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import pathlib
import unittest

from program import BINARY, run
from server import PATIENCE, Server

PROMPT = {"prompt": "The old witch", "max_tokens": 6, "seed": 1}


def certificate(folder, name):
    """(certificate, key) of 127.0.0.1, signed by itself."""
    files = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-days", "2", "-subj", "/CN=tenon test", "-addext", "subjectAltName=IP:127.0.0.1",
         "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


class SecretServer(Server):
    def __init__(self, files, *arguments):
        self.context = ssl.create_default_context(cafile=files[0])
        super().__init__("--tls-certificate", files[0], "--tls-key", files[1], *arguments)

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    def connect(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE,
                                           context=self.context)

    def open_socket(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def socket(self):
        return self.context.wrap_socket(self.open_socket(), server_hostname="127.0.0.1")


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.files = certificate(cls.folder, "usual")
        cls.server = SecretServer(cls.files)
        cls.addClassCleanup(cls.server.__exit__)
        cls.prompts = cls.folder / "prompts"
        cls.prompts.write_text("The old witch\nA king\n")

    def load(self, *arguments):
        return run("load", self.server.url, "--prompts", self.prompts, "--in-flight", 2,
                   "--max-tokens", 4, *arguments)

    def test_answers_are_those_of_the_program(self):
        self.assertTrue(self.server.line.endswith(f"at {self.server.url}\n"), self.server.line)
        said = run("run", PROMPT["prompt"], "--max-tokens", 6, "--seed", 1).stdout.strip()
        connection = self.server.connect()
        for _ in range(2):
            answer = self.server.post("/v1/completions", PROMPT, connection=connection)[2]
            self.assertIn(answer["choices"][0]["text"].strip(), said)
        connection.close()
        events = self.server.events("/v1/completions", PROMPT | {"stream": True})
        self.assertEqual(events.pop(), "[DONE]")
        text = "".join(json.loads(event)["choices"][0]["text"] for event in events)
        self.assertEqual(text, answer["choices"][0]["text"])

    def test_an_end_is_said(self):
        data = self.server.talk(b"GET /version HTTP/1.0\r\n\r\n")  # raises where it is not
        self.assertTrue(data.startswith(b"HTTP/1.1 200 OK"), data)

    def test_older_versions_are_refused(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.files[0])
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with context.wrap_socket(self.server.open_socket(), server_hostname="127.0.0.1") as wire:
            self.assertEqual(wire.version(), "TLSv1.2")
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        with self.assertRaises((ssl.SSLError, ConnectionResetError)):
            context.wrap_socket(self.server.open_socket(), server_hostname="127.0.0.1")

    def test_a_stream_that_is_left_ends_its_request(self):
        wire = self.server.socket()
        body = json.dumps(PROMPT | {"max_tokens": 400, "ignore_eos": True, "stream": True}).encode()
        wire.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.assertTrue(wire.recv(100).startswith(b"HTTP/1.1 200"))
        wire.close()
        self.server.wait_for('vllm:num_requests_running{model_name="tale"} 0')

    def test_a_load_believes_named_authorities_alone(self):
        done = self.load("--authorities", self.files[0], "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["answered"], 2)
        done = self.load()
        self.assertEqual(done.returncode, 1)
        self.assertIn("certificate is not trusted", done.stderr)
        done = self.load("--authorities", self.folder / "none")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot read the file of authorities", done.stderr)

    def test_an_arm_of_a_comparison_is_reached(self):
        command = [BINARY, "compare-arm", "--url", self.server.url]
        orders = json.dumps({"do": "describe"}) + "\n"
        done = subprocess.run(command + ["--authorities", self.files[0]], input=orders,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(self.server.url, done.stdout)
        done = subprocess.run(command, input=orders, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertIn("certificate is not trusted", done.stdout)

    def test_a_new_certificate_is_read_on_a_hangup(self):
        files = [shutil.copy(file, self.folder / f"own{file.suffix}") for file in self.files]
        other = certificate(self.folder, "other")
        with SecretServer(files) as server:
            before = server.connect()
            self.assertEqual(server.get("/health", connection=before)[0], 200)
            for source, target in zip(other, files):
                shutil.copy(source, target)
            server.process.send_signal(signal.SIGHUP)
            server.context = ssl.create_default_context(cafile=other[0])
            for _ in range(PATIENCE * 20):
                try:
                    status = server.get("/health")[0]
                    break
                except ssl.SSLCertVerificationError:
                    continue
            self.assertEqual(status, 200)
            self.assertEqual(server.get("/health", connection=before)[0], 200)
            before.close()
            self.assertEqual(server.end()[0], 0)

    def test_silent_clients_hold_up_nobody(self):
        with SecretServer(self.files) as server:
            silent, half = server.open_socket(), server.open_socket()
            half.sendall(b"\x16\x03\x01\x02")
            self.assertEqual(server.get("/health")[0], 200)
            self.assertEqual(server.end()[0], 0)
            silent.close()
            half.close()

    def test_flags_that_do_not_go_together_are_refused(self):
        for arguments, message in (
                (["--tls-key", self.files[1]], "one of --tls-certificate and --tls-key is missing"),
                (["--tls-certificate", self.files[0], "--tls-key", self.files[1], "--socket",
                  self.folder / "socket"], "there is no port that TLS could protect"),
                (["--tls-certificate", self.files[0], "--tls-key", self.files[0]],
                 "has no private key in PEM")):
            done = run("serve", *arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
