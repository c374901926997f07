"""The cases of `tenon plugins check`, read out of their lists: who holds a plugin to which promise."""

import pathlib
import re

CASE = re.compile(
    r'\{\s*"(?P<name>[a-z_]+\.[a-z_0-9]+)",\s*(?P<of>kOf|\{\}),\s*(?P<header>kHeader|"[a-z_]+\.h"),'
    r'\s*(?P<promise>(?:"(?:\\.|[^"\\])*"\s*)+),\s*&',
)


def read(folder):
    """[(interface or "", case, header, promise)]: those of every interface first."""
    found = []
    for path in sorted(pathlib.Path(folder).rglob("*_cases.cc")):
        text = path.read_text()
        own = dict(re.findall(r'\b(kOf|kHeader) = "([^"]+)"', text))
        listed = [(one.group("name"), one) for one in CASE.finditer(text)]
        named = set(re.findall(r'\{\s*"([a-z_]+\.[a-z_0-9]+)",\s*(?:kOf|\{\}),', text))
        if named != {name for name, _ in listed} or not listed:
            raise SystemExit(f"{path.name}: cannot read the cases {named - {name for name, _ in listed}}")
        for name, one in listed:
            interface = own["kOf"] if one.group("of") == "kOf" else ""
            header = own["kHeader"] if one.group("header") == "kHeader" else one.group("header")[1:-1]
            promise = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', one.group("promise")))
            found.append((interface, name, header, promise.replace('\\"', '"')))
    return sorted(found, key=lambda one: one[0])
