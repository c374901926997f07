#!/usr/bin/env python3
"""Holds grammars of JSON Schema against the public test suite.

    git clone https://github.com/json-schema-org/JSON-Schema-Test-Suite
    tests/schema_suite/schema_suite.py build/dev/bin/schema_probe JSON-Schema-Test-Suite [--answers 40] [-v]

Needs the packages jsonschema and referencing. For each schema of drafts 7, 2019-09 and 2020-12: it is refused
by name, or no instance that the suite calls invalid gets through, and every answer drawn at random from the
masks validates. Valid instances that do not get through are counted: a grammar writes JSON in one way, and may
be narrower than its schema, never wider.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

import jsonschema

DRAFTS = {"draft7": jsonschema.Draft7Validator, "draft2019-09": jsonschema.Draft201909Validator,
          "draft2020-12": jsonschema.Draft202012Validator}
# Numbers beyond doubles, and draft 7's optional look into strings, which later drafts took away.
LEFT_OUT = ("bignum", "float-overflow", "content")
# Where the validator reads patterns as Python does, and not as ECMA 262 says: the suite alone judges.
UNJUDGED = ("ecmascript-regex",)


def groups(suite, draft):
    folder = suite / "tests" / draft
    for path in sorted([*folder.glob("*.json"), *folder.glob("optional/*.json"),
                        *folder.glob("optional/format/*.json")]):
        if path.stem in LEFT_OUT and path.parent != folder:
            continue
        for group in json.loads(path.read_text()):
            yield str(path.relative_to(folder)), group


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("probe")
    flags.add_argument("suite", type=pathlib.Path)
    flags.add_argument("--answers", type=int, default=40)
    flags.add_argument("-v", "--verbose", action="store_true")
    flags = flags.parse_args()
    probe = subprocess.Popen([flags.probe], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    counts, refusals, failures, narrow = (collections.Counter(), collections.Counter(), [],
                                          collections.Counter())
    for draft, validator in DRAFTS.items():
        for file, group in groups(flags.suite, draft):
            where = f"{draft}/{file}: {group['description']}"
            asserts = "format" in file and "optional" in file
            schema = group["schema"]
            order = {"schema": json.dumps(schema), "answers": flags.answers, "seed": 1,
                     "instances": [json.dumps(test["data"], ensure_ascii=False) for test in group["tests"]]}
            probe.stdin.write(json.dumps(order) + "\n")
            probe.stdin.flush()
            found = json.loads(probe.stdout.readline())
            counts["schemas"] += 1
            if "refused" in found:
                counts["refused"] += 1
                refusals[found["refused"].split(" – ")[0]] += 1
                continue
            for test, accepted in zip(group["tests"], found["accepts"]):
                kind = "valid" if test["valid"] else "invalid"
                counts[f"{kind} instances"] += 1
                counts[f"{kind} instances that pass"] += accepted
                if accepted and not test["valid"]:
                    failures.append(f"{where}: lets {json.dumps(test['data'])} through ({test['description']})")
                if test["valid"] and not accepted:
                    narrow[f"{where}: {test['description']}: {json.dumps(test['data'])}"] += 1
            judge = validator(schema, format_checker=validator.FORMAT_CHECKER if asserts else None)
            for text in found["answers"]:
                if pathlib.Path(file).stem in UNJUDGED:
                    break
                counts["answers"] += 1
                try:
                    problems = list(judge.iter_errors(json.loads(text)))
                except Exception as error:  # pylint: disable=broad-except
                    problems = [error]
                if problems:
                    failures.append(f"{where}: {json.dumps(schema)} is answered by {text!r}: "
                                    f"{str(problems[0]).splitlines()[0]}")
            counts["schemas without an answer"] += not found["answers"] and flags.answers > 0
    probe.stdin.close()
    for name, count in counts.items():
        print(f"{count:8} {name}")
    if flags.verbose:
        for text, count in refusals.most_common():
            print(f"{count:8} refused: {text}")
        for text in narrow:
            print(f"  narrow: {text}")
    for failure in failures:
        print("WRONG", failure)
    print(f"{len(failures)} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
