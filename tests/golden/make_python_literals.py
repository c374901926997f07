#!/usr/bin/env python3
"""Makes tests/unit/chat/data/python_literals.json: literals of Python, what ast.literal_eval makes of
them, and null where that is nothing that JSON has, or where a character is named (\\N), which Tenon does
not read.

usage: make_python_literals.py OUT_DIR        (made with Python 3.11; needs nothing else)
"""
import ast
import json
import math
import pathlib
import random
import sys
import warnings

warnings.simplefilter("ignore")

BY_HAND = r"""
0 00 0_0 7 -7 +7 - 7 1_000 0x10 0XfF 0x_ff 0o17 0b1_01 0B1 -0x10 07 1__0 1_ 0x 0b2 0o8 12abc
18446744073709551616 -99999999999999999999999 0xffffffffffffffffffffffff
.5 5. 1.5 1_0.2_5 1e5 1E+5 1e-5 1_0e1_0 -1.5 +.5 07.5 00.5 1.e3 .e3 1e 1e400 1e-400 5.0e-324 nan inf
True False None -True not 1j 1+2j ... ()
'a' "a" 'a\'b' "a\"b" 'a\\' '\n\t\r\a\b\f\v\0' '\x41\u00e9\U0001F600\101' '\q' '\x4' '\u12' '\8'
'' "" '''''' '''a''' "é" 'ü\xfc' '\ud83d\ude00' '\ud83d' '\N{DIGIT ONE}'
r'\n' R"\d+" u'a' U"a" b'a' B"\x41" b'\xc3\xa9' b'\xff' br'\x' Rb"\n" rb'' bR'a' ur'a' b'é' b'\u0041' f'a' f'{1}'
'a''b' 'a' "b" r'\a' '\n' b'a' b'b' 'a' b'b' "a" '''b'''
[] [1] [1,] [1, 2] [1 2] [,] [[]] [[1], [2, [3]]] [1, 'a', None, True]
() (1) (1,) (1, 2) ((1)) ((1,),) ('a' 'b') (,) ([1]) (-1) (-1,) -(1)
{} {1} {1, 2} {1, 1} {'a', 'b', 'a'} {'a': 1} {'a': 1,} {1: 2} {1.5: 1} {True: 1} {None: 2} {(1, 2): 3} {'a': {'b': []}}
{'a': 1, 'a': 2} {'a': 1, 'b': 2, 'a': 3} {[1]: 2} {{1}} {,} {'a'} {'a':} {'a' 1} {-1: 1} {'a' 'b': 1} {b'a': 1}
set() set([]) dict() list() {**{}} [*[]] a 'a'.b 1 + 1 'a' + 'b' 'a' * 2 [1][0] (1 if 1 else 2) lambda: 1 not True
""".strip()
LINES = [
    '"""a\nb"""', "'''it's\n\"quoted\"\n'''", '"""a\\\nb"""', "'a\\\nb'", '"""a"b""c\\"""d"""', '""""a"""', '"""a""""',
    "[1, # one\n 2]", "{'a': 1, # don't\n 'b': 2}", "(1\n,\n2)", "[\n]", "('a'\n 'b')", "['a' # x\n 'b']", "[1,\\\n2]",
    '"""\r\n"""', "'''a\rb'''", "[ 1 , 2 ]", "  1", "1  ", "\t[1]", "{ 'a' : 1 }", "[1, (2, {'k': {3}})]", "[[[[[[1]]]]]]",
    "r'''\\d\n'''", "b'''a\nb'''", "'tab\there'", "'a#b'", "\"it's\"", "'say \"hi\"'", "['#', '[', ')', '}']",
    '"""x = {"a": [1, 2]}\nprint("(")\n"""', "{'code': '''def f():\n    return \"\"\"doc\"\"\"\n'''}",
]


class Refused(Exception):
    pass


def text(value):
    try:
        return value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeError:
        raise Refused


def to_json(node):
    """Of a tree that literal_eval takes; in the order in which sets are written."""
    if isinstance(node, ast.Set):
        members = []
        for item in node.elts:
            value = to_json(item)
            if not any(same(value, other) for other in members):
                members.append(value)
        return members
    if isinstance(node, (ast.List, ast.Tuple)):
        return [to_json(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        made = {}
        for key, value in zip(node.keys, node.values):
            key, value = to_json(key), to_json(value)
            if isinstance(key, (list, dict)):
                raise Refused
            made[key if isinstance(key, str) else json.dumps(key)] = value
        return made
    if isinstance(node, ast.Call):
        return []
    value = ast.literal_eval(node)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeError:
            raise Refused
    if isinstance(value, str):
        return text(value)
    if isinstance(value, complex) or value is ... or (isinstance(value, float) and not math.isfinite(value)):
        raise Refused
    return value


def same(a, b):
    return type(a) is type(b) and a == b


def case(written):
    try:
        if "\\N{" in written:
            raise Refused
        ast.literal_eval(written.strip(" \t"))
        value = json.dumps(to_json(ast.parse(written.strip(" \t"), mode="eval").body), ensure_ascii=False, allow_nan=False)
    except (Refused, ValueError, SyntaxError, TypeError, MemoryError):
        value = None
    return {"literal": written, "json": value}


def is_bare_tuple(written):
    """"1, 2" is a tuple for literal_eval, and two arguments in a call."""
    try:
        tree = ast.parse(written.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return False
    return isinstance(tree, ast.Tuple) and tree.col_offset == 0 and not written.strip().startswith("(")


def random_text(rng):
    characters = rng.choices(["a", "b", " ", "'", '"', "\\", "\n", "#", "(", ")", "[", "]", "{", "}", ",", "=", "é", "😀", "\t", "\0"],
                             k=rng.randrange(8))
    return "".join(characters)


def random_quoted(rng, value):
    kind = rng.randrange(4)
    if kind == 0:
        return repr(value)
    if kind == 1:
        return json.dumps(value)
    quotes = rng.choice(['"""', "'''"])
    escaped = value.replace("\\", "\\\\").replace("\0", "\\0").replace(quotes[0], "\\" + quotes[0])
    if kind == 2:
        return quotes + escaped + quotes
    cut = rng.randrange(len(value) + 1)
    return repr(value[:cut]) + rng.choice(["", " ", "\n"]) + repr(value[cut:])


def random_number(rng):
    number = rng.choice([rng.randrange(10), rng.randrange(-10**6, 10**6), rng.randrange(2**70)])
    sign = "-" if number < 0 else ""
    return sign + rng.choice([str, hex, oct, bin, lambda n: f"{n:_}", lambda n: f"{n}.5", lambda n: f"{n}e-3"])(abs(number))


def random_literal(rng, depth):
    kind = rng.randrange(8 if depth else 4)
    if kind == 0:
        return rng.choice(["True", "False", "None"])
    if kind == 1:
        return random_number(rng)
    if kind < 4:
        quoted = random_quoted(rng, random_text(rng))
        return "(" + quoted + ")" if "\n" in quoted else quoted
    items = [random_literal(rng, depth - 1) for _ in range(rng.randrange(4))]
    space = rng.choice(["", " ", "\n"])
    comma = rng.choice(["", ","]) if items else ""
    if kind == 4:
        return "[" + ("," + space).join(items) + comma + "]"
    if kind == 5:
        return "(" + ("," + space).join(items) + ("," if len(items) == 1 else comma) + ")"
    keys = [random_quoted(rng, random_text(rng)) for _ in items]
    return "{" + ("," + space).join(f"{key}:{space}{item}" for key, item in zip(keys, items)) + comma + "}"


def main():
    words = [word for line in BY_HAND.splitlines() for word in [line, *line.split()]]
    # Neighbours too, so that pieces with spaces in them are met.
    pairs = [f"{a} {b}" for line in BY_HAND.splitlines() for a, b in zip(line.split(), line.split()[1:])]
    rng = random.Random(41)
    written = list(dict.fromkeys([*words, *pairs, *LINES, *(random_literal(rng, 3) for _ in range(400))]))
    out = pathlib.Path(sys.argv[1]) / "python_literals.json"
    cases = [case(one) for one in written if not is_bare_tuple(one)]
    out.write_text("[\n" + ",\n".join(json.dumps(one) for one in cases) + "\n]\n")


main()
