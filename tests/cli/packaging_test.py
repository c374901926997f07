"""What is installed beside the program: completions, manual pages, the service, the container."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

from program import BINARY, SOURCE, run


def commands_of(help_text):
    """The names under "Subcommands:"."""
    part = re.split(r"^Subcommands:\n", help_text, flags=re.M)
    return re.findall(r"^  (\S+)", part[1], re.M) if len(part) > 1 else []


def options_of(help_text):
    """Flags that set something to false are shown as "--no-echo{false}"."""
    return {re.sub(r"\{.*", "", name) for line in re.findall(r"^  (-\S+)", help_text, re.M)
            for name in line.split(",")}


def all_commands(path=()):
    """(words, what --help says) of every command that --help lists."""
    text = run(*path, "--help").stdout
    found = [(path, text)]
    for name in commands_of(text):
        found += all_commands((*path, name))
    return found


COMMANDS = all_commands()


INTERFACES = {"scheduler", "kv_cache", "attention", "state", "linear", "sampler", "drafter", "kv_store"}


def complete(script, *words):
    """What bash offers behind these words."""
    code = (f". {script}; COMP_WORDS=(tenon \"$@\"); COMP_CWORD=$(({len(words)})); _tenon; "
            'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-c", code, "bash", *words], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return set(done.stdout.split())


class Completion(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def script(self, shell):
        path = pathlib.Path(self.folder.name) / shell
        done = run("completion", shell)
        self.assertEqual(done.returncode, 0, done.stderr)
        path.write_text(done.stdout)
        return path

    def test_bash_offers_what_help_lists(self):
        script = self.script("bash")
        self.assertGreater(len(COMMANDS), 20)
        for path, text in COMMANDS:
            with self.subTest(command=path):
                offered = complete(script, *path, "")
                more = INTERFACES if path == ("plugins", "new") else set()
                self.assertEqual(offered, set(commands_of(text)) | options_of(text) | more)

    def test_bash_knows_where_it_is(self):
        script = self.script("bash")
        self.assertEqual(complete(script, "mod"), {"model"})
        self.assertEqual(complete(script, "model", "inf"), {"info"})
        self.assertEqual(complete(script, "load", "http://h", "--in-f"), {"--in-flight"})
        # The value of an option is a file, which is the shell's business.
        self.assertEqual(complete(script, "run", "--file", ""), set())

    def test_bash_offers_keys_and_values_of_settings(self):
        script = self.script("bash")
        os.environ["PATH"] = f"{pathlib.Path(BINARY).parent}:{os.environ['PATH']}"
        self.assertEqual(complete(script, "run", "--set", "kv_cache.dt"), {"kv_cache.dtype="})
        self.assertEqual(complete(script, "run", "--set", "kv_cache.dtype", "="),
                         {"f32", "f16", "bf16", "i8", "i4", "auto"})
        self.assertEqual(complete(script, "run", "--set", "scheduler.plugin", "=", "c"),
                         {"chunked", "continuous"})
        self.assertIn("none", complete(script, "run", "--set", "drafter.plugin", "="))
        self.assertEqual(complete(script, "run", "--set", "limits.max_sequences", "="), set())
        self.assertEqual(complete(script, "plugins", "new", "kv"), {"kv_cache", "kv_store"})

    def test_scripts_are_sound(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.script(shell)
            if shutil.which(shell):
                with self.subTest(shell=shell):
                    done = subprocess.run([shell, "-n", script], capture_output=True, text=True, check=False)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_other_shells_name_every_option(self):
        zsh, fish = self.script("zsh").read_text(), self.script("fish").read_text()
        for path, text in COMMANDS:
            at = " ".join(("tenon", *path))
            arm = zsh.split(f"'{at}')\n      commands=", 1)[1].split(";;", 1)[0]
            lines = [line for line in fish.splitlines() if f"'__tenon_at {at}'" in line]
            for name in options_of(text):
                with self.subTest(command=path, option=name):
                    self.assertTrue(f"'{name}:" in arm)
                    short = f" -l {name[2:]} " if name.startswith("--") else f" -s {name[1:]} "
                    self.assertTrue(any(short in line for line in lines))
            for name in commands_of(text):
                self.assertIn(f"'{name}:", arm)

    def test_quotes_are_closed(self):
        # A sentence with a quote in it must not end the word that it stands in.
        for shell in ("zsh", "fish"):
            text = self.script(shell).read_text().replace("'\\''", "").replace("\\'", "")
            for line in text.splitlines():
                self.assertEqual(line.count("'") % 2, 0, line)

    def test_refuses_other_shells(self):
        done = run("completion", "tcsh")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no completion for 'tcsh' – expected bash, zsh or fish", done.stderr)


class Examples(unittest.TestCase):
    def test_examples_are_what_the_program_takes(self):
        shown = 0
        for path, text in COMMANDS:
            for example in re.findall(r"^    tenon (.*)$", text.partition("Examples:\n")[2], re.M):
                shown += 1
                with self.subTest(example=example):
                    words = shlex.split(example.split(" | ")[0].split(" > ")[0])
                    self.assertEqual(tuple(words[:len(path)]), path)
                    for word in words[len(path):]:
                        if word.startswith("-"):
                            self.assertIn(word, options_of(text))
                        if word.startswith("configs/"):
                            self.assertTrue((SOURCE / word).exists())
                    shown_as = example.replace("-", "\\-").replace("~", "\\(ti").partition('"')[0]
                    self.assertIn(f"\\fBtenon {shown_as}", run("man", *path).stdout)
        self.assertGreater(shown, 20)


class Manual(unittest.TestCase):
    def test_every_command_has_a_page(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("man", "--into", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            names = {path.name for path in pathlib.Path(folder).iterdir()}
            self.assertEqual(names, {"-".join(("tenon", *path)) + ".1" for path, _ in COMMANDS})

    def test_pages_name_every_option(self):
        for path, text in COMMANDS:
            with self.subTest(command=path):
                page = run("man", *path).stdout
                self.assertTrue(page.startswith(".TH "))
                for section in ("NAME", "SYNOPSIS", "EXIT STATUS"):
                    self.assertIn(f"\n.SH {section}\n", page)
                for name in options_of(text):
                    escaped = name.replace("-", "\\-")
                    self.assertTrue(re.search(r"(?m)^(\\fB.*, )?\\fB" + re.escape(escaped) + r"\\fR", page), name)
                for line in page.splitlines():
                    self.assertFalse(line.startswith("'"), line)
                    if line.startswith("."):
                        self.assertRegex(line, r'^\.(TH|SH|SS|TP)\b')

    @unittest.skipUnless(shutil.which("groff"), "there is no groff here")
    def test_groff_has_nothing_to_say(self):
        for path, _ in COMMANDS:
            with self.subTest(command=path):
                page = run("man", *path).stdout
                done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, text=True,
                                      capture_output=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_refuses_commands_that_are_none(self):
        done = run("man", "model", "inof")
        self.assertEqual(done.returncode, 1)
        self.assertIn("'inof' is no command of tenon model; did you mean 'info'?", done.stderr)


class Service(unittest.TestCase):
    UNIT = SOURCE / "packaging/systemd/tenon.service"

    def test_the_service_starts_what_the_program_takes(self):
        line = re.search(r"^ExecStart=/usr/bin/tenon (.*)$", self.UNIT.read_text(), re.M).group(1)
        words = line.replace(" $TENON_ARGUMENTS", "").split()
        helped = run(words[0], "--help").stdout
        for word in words[1:]:
            if word.startswith("--"):
                self.assertIn(word, options_of(helped))

    def test_the_service_waits_for_what_is_running(self):
        text = self.UNIT.read_text()
        default = int(re.search(r"--drain-seconds .*?\(default: (\d+)\)", run("serve", "--help").stdout,
                                re.S).group(1))
        stop = int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.M).group(1))
        self.assertGreater(stop, default)
        self.assertRegex(text, r"(?m)^KillSignal=SIGTERM$")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd here")
    def test_systemd_knows_every_setting(self):
        with tempfile.TemporaryDirectory() as folder:
            unit = pathlib.Path(folder) / "tenon.service"
            unit.write_text(self.UNIT.read_text().replace("/usr/bin/tenon", BINARY)
                            .replace("Documentation=man:tenon-serve(1)\n", ""))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True,
                                  text=True, timeout=60, check=False,
                                  env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"})
            said = [line for line in done.stderr.splitlines() if "tenon.service" in line]
            self.assertEqual(said, [])


class Container(unittest.TestCase):
    TEXT = (SOURCE / "packaging/container/Containerfile").read_text()

    def test_it_runs_what_the_program_takes(self):
        words = re.findall(r'"([^"]+)"', re.search(r"^CMD \[(.*)\]$", self.TEXT, re.M).group(1))
        helped = run(words[0], "--help").stdout
        for word in words[1:]:
            if word.startswith("--"):
                self.assertIn(word, options_of(helped))

    def test_it_runs_as_nobody_special(self):
        last_stage = self.TEXT.rsplit("\nFROM ", 1)[1]
        self.assertRegex(last_stage, r"(?m)^USER [1-9]\d*$")
        for copied in re.findall(r"^COPY (?!--from)(\S+)", self.TEXT, re.M):
            self.assertTrue((SOURCE / copied).exists(), copied)


class Cluster(unittest.TestCase):
    """Manifests for Kubernetes, and the compose file: they ask for what there is."""
    MANIFESTS = sorted((SOURCE / "packaging/kubernetes").glob("*.yaml"))
    WORKER = (SOURCE / "packaging/kubernetes/worker.yaml").read_text()
    COMPOSE = (SOURCE / "packaging/container/compose.yaml").read_text()
    APART = (SOURCE / "packaging/container/compose-apart.yaml").read_text()
    CLUSTER_APART = (SOURCE / "packaging/kubernetes/apart.yaml").read_text()

    def test_workers_are_started_with_options_that_exist(self):
        known = options_of(run("serve", "--help").stdout)
        for text in (self.WORKER, self.COMPOSE):
            # The router's own, in the compose file, come after it.
            used = re.findall(r"--[a-z][a-z-]+", re.sub(r"(?m)#.*$", "", text).split("\n  router:")[0])
            self.assertIn("--kv-events", used)
            self.assertLessEqual(set(used), set(known))

    def test_prefill_and_decode_workers_are_told_what_there_is(self):
        workers = self.APART.split("\n  router:")[0]
        self.assertLessEqual(set(re.findall(r"--[a-z][a-z-]+", re.sub(r"(?m)#.*$", "", workers))),
                             set(options_of(run("serve", "--help").stdout)))
        for command in re.findall(r"command:\n((?: +- .*\n)+)", workers):
            values = re.findall(r"- (\S+=\S+)$", command, re.M)
            # Addresses are those of other machines: there is nothing to open here.
            self.assertEqual(run("config", "check", *(part for value in values for part in ("--set", value))).returncode, 0)
        addresses = re.findall(r"disaggregation.address=(\S+):5600", workers)
        self.assertEqual(re.search(r"disaggregation.peers=(\S+)", workers).group(1).split(","), addresses)
        for name in addresses:
            self.assertIn(f"\n  {name}:\n", workers)

    def test_prefill_and_decode_pods_find_each_other(self):
        parts = self.CLUSTER_APART.split("\nkind: ")
        workers = [part for part in parts if part.startswith("StatefulSet")]
        self.assertEqual(len(workers), 2)
        for text in workers:
            arguments = re.findall(r"^            - (\S+)$", text.split("          env:")[0], re.M)
            self.assertLessEqual({word for word in arguments if word.startswith("--")},
                                 set(options_of(run("serve", "--help").stdout)))
            values = [word.replace("$(POD_NAME)", "pod") for word in arguments if "=" in word]
            self.assertEqual(run("config", "check", *(part for value in values for part in ("--set", value))).returncode, 0)
        hosts = {f"{name}-{i}.{service}"
                 for text in workers
                 for name, replicas, service in re.findall(r"  name: (\S+)\n(?:.*\n)*?  replicas: (\d)\n  serviceName: (\S+)",
                                                           text)
                 for i in range(int(replicas))}
        self.assertEqual(len(hosts), 4)
        self.assertEqual(set(re.findall(r"http://(\S+):8000", self.CLUSTER_APART)), hosts)
        peers = re.search(r"disaggregation.peers=(\S+)", self.CLUSTER_APART).group(1).split(",")
        self.assertEqual(set(peers), {host for host in hosts if "prefill" in host})
        services = re.findall(r"Service\nmetadata:\n  name: (\S+)", "".join("kind: " + part for part in parts))
        for host in hosts:
            self.assertIn(host.split(".")[1], services)

    def test_probes_ask_for_paths_that_are_served(self):
        for text in (self.WORKER, self.CLUSTER_APART):
            paths = set(re.findall(r"^\s+path: (/\S+)$", text, re.M))
            self.assertEqual(paths, {"/health", "/ready"})

    def test_ports_are_named_and_used_by_their_names(self):
        for text in (self.WORKER, self.CLUSTER_APART):
            named = set(re.findall(r"- name: (\S+)\n\s+containerPort", text))
            self.assertLessEqual(set(re.findall(r"targetPort: (\S+)", text)), named)
            self.assertLessEqual(set(re.findall(r"^\s+(?:- )?port: ([a-z]\S*)$", text, re.M)), named)

    def test_workers_are_nobody_special_and_write_nowhere(self):
        for words in ("runAsNonRoot: true", "readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false",
                      "drop: [ALL]", "automountServiceAccountToken: false"):
            self.assertIn(words, self.WORKER)
            self.assertIn(words, self.CLUSTER_APART)

    def test_kubernetes_knows_every_field(self):
        try:
            import kubernetes_validate
            import yaml
        except ImportError as error:
            self.skipTest(f"{error} – pip install kubernetes-validate")
        for manifest in self.MANIFESTS:
            for resource in yaml.safe_load_all(manifest.read_text()):
                with self.subTest(f"{manifest.name}: {resource['kind']}"):
                    kubernetes_validate.validate(resource, kubernetes_validate.latest_version(), strict=True)
                    with self.assertRaises(kubernetes_validate.ValidationError):
                        kubernetes_validate.validate(resource | {"nonsense": 1},
                                                     kubernetes_validate.latest_version(), strict=True)

    def test_files_that_are_built_from_are_there(self):
        for name in re.findall(r"dockerfile: (\S+)", self.COMPOSE + self.APART):
            self.assertTrue((SOURCE / name).exists(), name)


if __name__ == "__main__":
    unittest.main()
