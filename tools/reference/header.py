"""Reads a header as a reader does: its first lines, then each declaration with what is said of it.

The headers are read as text, as clang-format leaves them. A comment belongs to the declaration below
it, or stands behind it on its line. Where declarations follow each other without an empty line, the
comment above the first one covers those that have none, but for types with members.
"""

import dataclasses
import pathlib
import re

OPEN, CLOSE = "({[", ")}]"
RECORD = re.compile(r"^(?:template\s*<.*>\s*)?(?:struct|class|union)\b(?!.*\)\s*\{)", re.S)
SKIPPED = re.compile(r"^(friend|static_assert|extern template|using [\w:]+::\w+;|TENON_\w+\()")


@dataclasses.dataclass
class Declaration:
    kind: str  # struct, class, enum, value, function, member, alias, concept, macro
    name: str
    signature: str
    line: int
    comment: list = dataclasses.field(default_factory=list)
    members: list = dataclasses.field(default_factory=list)
    parent: str = ""
    covered: bool = False  # by the comment of the declaration in front of it

    @property
    def key(self):
        """"Scheduler.plan": what notes and messages call it."""
        return f"{self.parent}.{self.name}" if self.parent else self.name

    @property
    def anchor(self):
        return re.sub(r"[<>, ]+", "-", self.key)


@dataclasses.dataclass
class Header:
    name: str  # "tenon/scheduler.h"
    contract: list  # the comment in its first lines
    declarations: list

    @property
    def summary(self):
        """Its first sentence, without the name that it may begin with."""
        return re.sub(r"^[\w/]+: ", "", " ".join(self.contract).split(". ")[0]).rstrip(".")

    def everything(self):
        for one in self.declarations:
            yield one
            yield from one.members


def split_comment(line):
    """The code of a line, and what stands behind its //; None without."""
    quoted = False
    for at, letter in enumerate(line):
        if letter == '"' and line[at - 1 : at] != "\\":
            quoted = not quoted
        if not quoted and line.startswith("//", at):
            return line[:at].rstrip(), line[at + 2 :].removeprefix(" ").rstrip()
    return line.rstrip(), None


def bare(code):
    """Without texts and characters, whose brackets do not count."""
    return re.sub(r"'(\\.|[^'\\])'", "0", re.sub(r'"(\\.|[^"\\])*"', '""', code))


def depth_of(code):
    code = bare(code)
    return sum(code.count(letter) for letter in OPEN) - sum(code.count(letter) for letter in CLOSE)


def tidy(code):
    """A signature as it is shown: no attributes, no body, no indentation of its place."""
    code = re.sub(r"\[\[[^\]]*\]\]\s*", "", code)
    lines = code.strip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[min(indent, len(line) - len(line.lstrip())) :] for line in lines).strip()


def without_body(code):
    """A function up to its body or its list of initialisers."""
    depth, text = 0, bare(code)
    if text != code:  # texts in default arguments: rare, and shown as they are
        return re.split(r"\s*\{", code, maxsplit=1)[0]
    for at, letter in enumerate(code):
        if depth == 0 and letter == "{":
            return code[:at].rstrip()
        if depth == 0 and letter == ":" and code[at - 1] != ":" and code[at + 1 : at + 2] != ":":
            return code[:at].rstrip()
        depth += (letter in "([") - (letter in ")]")
    return code


def function_name(code):
    """The name of the function that `code` declares, or None."""
    text = re.sub(r"\[\[[^\]]*\]\]\s*", "", bare(code))
    text = re.sub(r"^\s*template\s*<(?:[^<>]|<[^<>]*>)*>\s*(requires\s+\([^)]*\)\s*)?", "", text)
    if re.match(r"\s*(using|typedef|concept)\b", text):
        return None
    found = re.search(r"(operator\s*[^\s\w(]+|operator\s+\w+|~?\w+)\s*\(", text)
    equals = text.find("=")
    if found is None or (0 <= equals < found.start() and "operator" not in found.group(1)):
        return None
    if re.match(r"\(\s*\*", text[found.end() - 1 :]):
        return None  # a pointer to a function
    return found.group(1)


class Reader:
    def __init__(self, path, name):
        self.name = name
        self.lines = pathlib.Path(path).read_text().split("\n")
        self.at = 0

    def fail(self, why):
        raise SystemExit(f"{self.name}:{self.at + 1}: {why}")

    def read(self):
        contract = []
        while self.lines[self.at].startswith("//"):
            contract.append(split_comment(self.lines[self.at])[1])
            self.at += 1
        return Header(self.name, contract, self.scope("", public=True))

    def scope(self, parent, public):
        """Declarations up to the brace that closes the scope, or the end of the file."""
        found, pending, adjacent = [], [], False
        while self.at < len(self.lines):
            line = self.lines[self.at]
            code, comment = split_comment(line)
            text = code.strip()
            if text.startswith("}"):
                self.at += 1
                return found
            if text.startswith("#"):
                self.preprocessor(text, pending, found)
                continue
            if not text:
                self.at += 1
                if comment is None:
                    pending, adjacent = [], False
                elif adjacent and found and len(line) - len(line.lstrip()) > 2 * bool(parent) + 1:
                    found[-1].comment.append(comment)  # goes on behind the line above
                else:
                    pending.append(comment)
                continue
            if re.match(r"(public|protected|private):$", text):
                public = text == "public:"
                self.at += 1
                pending, adjacent = [], False
                continue
            inside = re.match(r"(?:inline )?namespace\b\s*([\w:]*)\s*\{$", text)
            if inside:
                self.at += 1
                inner = self.scope(parent, public)
                if inside.group(1) and not inside.group(1).endswith("detail"):
                    found += inner
                pending, adjacent = [], False
                continue
            made = self.statement(parent, pending, public)
            if made is not None:
                types = made.members or (found and found[-1].members)
                made.covered = adjacent and not made.comment and not types
                if public:
                    found.append(made)
            adjacent = made is not None
            pending = []
        return found

    def preprocessor(self, text, pending, found):
        start = self.at
        while self.lines[self.at].endswith("\\"):
            self.at += 1
        self.at += 1
        macro = re.match(r"#define\s+(\w+(\([^)]*\))?)", text)
        if macro and pending:
            name = macro.group(1).split("(")[0]
            found.append(Declaration("macro", name, f"#define {macro.group(1)}", start + 1, pending[:]))
            pending.clear()
        if re.match(r"#el", text):  # the other half says the same in another way
            depth = 1
            while depth:
                word = self.lines[self.at].strip()
                depth += word.startswith("#if")
                depth -= word.startswith("#endif")
                self.at += 1

    def statement(self, parent, pending, public):
        """One declaration, whatever it is; None for what is not shown."""
        start, code, comment = self.at, "", list(pending)
        while True:
            if self.at >= len(self.lines):
                self.fail("a declaration does not end")
            line = self.lines[self.at]
            if line.startswith("#"):
                self.at += 1
                continue
            part, behind = split_comment(line)
            whole = code + ("\n" if code else "") + part
            opens = depth_of(whole)
            head = re.sub(r"\[\[[^\]]*\]\]\s*", "", whole).strip()
            if behind is not None and (opens == 0 or (opens == 1 and "(" in head and "{" not in head)):
                comment.append(behind)
            code = whole
            self.at += 1
            if re.match(r"(template\s*<[^;]*>\s*)?enum\b", head):
                return self.enum(parent, comment, start, code)
            if RECORD.match(head) and head.endswith("{") and opens == 1:
                return self.record(parent, comment, start, head, public)
            if opens == 0 and part.rstrip().endswith((";", "}")):
                break
        return self.plain(parent, comment, start, code)

    def record(self, parent, comment, start, head, public):
        name = re.sub(r"^template\s*<(?:[^<>]|<[^<>]*>)*>\s*", "", head)
        name = re.match(r"(?:struct|class|union)\s+([\w:]+(?:<[^{]*?>)?)\s*(?:final\s*)?[:{]", name)
        if name is None:
            self.fail(f"cannot read '{head}'")
        kind = "class" if re.search(r"\bclass\s+\w", re.sub(r"<[^>]*>", "", head)) else "struct"
        made = Declaration(kind, name.group(1), tidy(head[:-1]), start + 1, comment, parent=parent)
        made.members = self.scope(made.name, public and kind == "struct")
        return made

    def enum(self, parent, comment, start, code):
        """Its values are members; what stands behind a line is said of the last value on it."""
        name = re.search(r"enum(?:\s+class)?\s+(\w+)", code).group(1)
        made = Declaration("enum", name, tidy(code.split("{")[0]), start + 1, comment, parent=parent)
        self.at = start
        above, depth = [], 0
        while True:
            part, behind = split_comment(self.lines[self.at])
            self.at += 1
            depth += depth_of(part)
            values = part.split("{")[-1].split("}")[0] if "{" in part or depth or "}" in part else ""
            words = re.findall(r"(\w+)\s*(=\s*[^,}]+)?(?:,|$)", values.strip())
            if not words and behind is not None and depth:
                above.append(behind)
            for index, (value, number) in enumerate(words):
                said = above + ([behind] if behind is not None and index == len(words) - 1 else [])
                made.members.append(
                    Declaration("value", value, f"{value} {number}".strip(), self.at, said, parent=name)
                )
                above = []
            if depth == 0 and "}" in part:
                return made

    def plain(self, parent, comment, start, code):
        text = re.sub(r"\[\[[^\]]*\]\]\s*", "", code).strip()
        if SKIPPED.match(text) or re.match(r"(struct|class|union) [\w<>, ]+;$", text):
            return None
        if re.match(r"template\s*<>\s*(struct|class)\b.*;$", text, re.S):
            return None
        line = start + 1
        empty = re.match(r"((?:template\s*<.*>\s*)?(struct|class)\s+([\w:]+(?:<.*>)?))\s*\{\s*\};$", text, re.S)
        if empty:
            return Declaration(empty.group(2), empty.group(3), empty.group(1), line, comment, parent=parent)
        if re.match(r"template\s*<.*>\s*(struct|class)\s+\w+;$", text, re.S):
            return None  # declared here, defined for those that fit
        function = function_name(text)
        if function:
            if re.search(rf"\w::{re.escape(function)}\s*\(", text) or re.search(r"=\s*delete;", text):
                return None
            signature = tidy(without_body(code)).removesuffix(";")
            name = re.sub(r"\s+", "", function) if function.startswith("operator") else function
            return Declaration("function", name, signature, line, comment, parent=parent)
        alias = re.match(r"(?:template\s*<(?:[^<>]|<[^<>]*>)*>\s*)?(using|concept)\s+(\w+)\s*=", text)
        if alias:
            kind = "alias" if alias.group(1) == "using" else "concept"
            return Declaration(kind, alias.group(2), tidy(code).removesuffix(";"), line, comment, parent=parent)
        pointer = re.search(r"\(\*\s*(\w+)\)\s*\(", text)
        head = re.split(r"=|\{", text.removesuffix(";"))[0]
        name = pointer or re.search(r"(\w+(?:<\w+>)?)\s*(?:\[[^\]]*\]\s*)*$", head.strip())
        if name is None or text.startswith(("using ", "extern ")):
            return None
        kind = "member" if parent else "value"
        return Declaration(kind, name.group(1), tidy(code).removesuffix(";"), line, comment, parent=parent)


def read(path, name):
    return Reader(path, name).read()
