"""Comments as HTML: paragraphs, lists, drawings, links to what they name, and who checks them."""

import html
import re

TAG = re.compile(r"\[(control|step|worker|any)\]")
# What is marked up while it is still text; these letters stand in no header.
BEGIN, END, STOP = "\ue000", "\ue001", "\ue002"


def flat(lines):
    return re.sub(r"\s+", " ", " ".join(lines)).strip()


def blocks(lines):
    """("paragraph" | "drawing" | "list", lines): drawings keep theirs, a list has one an item."""
    found, kind = [], None
    for line in [*lines, ""]:
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            kind = None
        elif re.match(r"\s*- ", line) and kind != "drawing":
            if kind != "list":
                found.append(("list", []))
            found[-1][1].append(line.strip()[2:])
            kind = "list"
        elif kind == "list" and indent >= 2:
            found[-1][1][-1] += " " + line.strip()
        elif indent >= 2:
            if kind != "drawing":
                found.append(("drawing", []))
            found[-1][1].append(line)
            kind = "drawing"
        else:
            if kind != "paragraph":
                found.append(("paragraph", []))
            found[-1][1].append(line.strip())
            kind = "paragraph"
    return found


class Symbols:
    """Where each name is explained: "Scheduler", "KvUsage::free_tokens", "first_visible"."""

    def __init__(self):
        self.places = {}  # name -> [(page, anchor)]
        self.pages = {}  # "tenon/types.h" -> page
        self.checks = []  # (interface, case, header, promise)

    def add(self, name, page, anchor):
        self.places.setdefault(name, []).append((page, anchor))

    def find(self, name, page):
        """The place of `name`, seen from `page`; None where it has none, or several elsewhere."""
        places = self.places.get(name, [])
        here = [place for place in places if place[0] == page]
        boundary = [place for place in places if "/sdk/" not in place[0]]
        for some in (here, boundary, places):
            if some:
                return some[0] if len(set(some)) == 1 or some is here else None
        return None


def relative(target, page):
    """A link from `page` to `target`, both from the root of the reference."""
    if target == page:
        return ""
    return "../" * page.count("/") + target


class Writer:
    """Writes what stands on one page."""

    def __init__(self, symbols, page, header=""):
        self.symbols = symbols
        self.page = page
        self.header = header
        self.local = {}  # method -> anchor, of the page's own types

    def link(self, place, text):
        page, anchor = place
        return f'<a href="{relative(page, self.page)}{"#" + anchor if anchor else ""}">{text}</a>'

    def name(self, text, shown=None):
        """A name with the link to what it names, where that is known."""
        shown = html.escape(shown or text)
        place = self.symbols.find(text, self.page)
        if place is None and text in self.local:
            place = (self.page, self.local[text])
        return self.link(place, shown) if place else shown

    def code(self, text):
        """A declaration: every type in it is a link."""
        parts = re.split(r"([A-Za-z_]\w*(?:::\w+)?)", text)
        return "".join(self.word(part) if index % 2 else html.escape(part) for index, part in enumerate(parts))

    def word(self, text):
        known = text if text in self.symbols.places else text.split("::")[0]
        if known[:1].isupper() or re.match(r"k[A-Z]", known):
            return self.name(known, text)
        return html.escape(text)

    def inline(self, text):
        parts = re.split(r"(`[^`]+`)", self.mark(text))
        made = [self.quoted(part) if part.startswith("`") else self.plain(part) for part in parts]
        return self.unmark("".join(made))

    def quoted(self, part):
        inside = re.sub(f"{BEGIN}[\\d,]+{STOP}|{END}", "", part[1:-1])
        around = re.findall(f"{BEGIN}[\\d,]+{STOP}|{END}", part)
        before = "".join(mark for mark in around if mark != END)
        after = "".join(mark for mark in around if mark == END)
        known = re.match(r"[\w:]+", inside)
        word = known.group(0) if known else ""
        linked = self.name(word) + html.escape(inside[len(word) :]) if word else html.escape(inside)
        return f"{before}<code>{linked}</code>{after}"

    def plain(self, text):
        pattern = (
            r"(&lt;tenon/[\w/]+\.h&gt;|docs/[\w/-]+\.md|\b[A-Z]\w*::\w+(?:::\w+)?"
            r"|\b[A-Z][a-z0-9]+(?:[A-Z]\w*)+|\bKV[A-Z]\w+|\bk[A-Z]\w+|\[(?:control|step|worker|any)\])"
        )
        return re.sub(pattern, lambda found: self.named(found.group(0)), html.escape(text, quote=False))

    def named(self, text):
        if text.startswith("&lt;"):
            page = self.symbols.pages.get(html.unescape(text)[1:-1])
            return f"<code>{self.link((page, ''), text)}</code>" if page else text
        if text.startswith("docs/"):
            page = self.symbols.pages.get(text)
            return self.link((page, ""), text) if page else text
        if TAG.match(text):
            return f'<span class="thread">{text[1:-1]}</span>'
        return f"<code>{self.name(text)}</code>" if self.symbols.find(text, self.page) else text

    def mark(self, text):
        """Surrounds the promises that cases hold plugins to; those that overlap are one."""
        spans = []
        for index, (_, _, header, promise) in enumerate(self.symbols.checks):
            at = text.find(promise) if header == self.header else -1
            if at >= 0:
                spans.append((at, at + len(promise), [index]))
        joined = []
        for start, stop, cases in sorted(spans):
            if joined and start < joined[-1][1]:
                joined[-1] = (joined[-1][0], max(stop, joined[-1][1]), joined[-1][2] + cases)
            else:
                joined.append((start, stop, cases))
        for start, stop, cases in reversed(joined):
            begin = BEGIN + ",".join(map(str, cases)) + STOP
            text = f"{text[:start]}{begin}{text[start:stop]}{END}{text[stop:]}"
        return text

    def unmark(self, text):
        target = relative("checks.html", self.page)

        def begin(found):
            cases = [self.symbols.checks[int(index)][1] for index in found.group(1).split(",")]
            ticks = "".join(
                f'<a class="check" href="{target}#{case}" title="checked by {case}">✓</a>' for case in cases
            )
            return ticks + '<span class="held">'

        return re.sub(f"{BEGIN}([\\d,]+){STOP}", begin, text).replace(END, "</span>")

    def comment(self, lines):
        made = []
        for kind, content in blocks(lines):
            if kind == "paragraph":
                made.append(f"<p>{self.inline(flat(content))}</p>")
            elif kind == "list":
                items = "".join(f"<li>{self.inline(item)}</li>" for item in content)
                made.append(f"<ul>{items}</ul>")
            else:
                indent = min(len(line) - len(line.lstrip()) for line in content)
                text = "\n".join(line[indent:] for line in content)
                made.append(f"<pre>{html.escape(text)}</pre>")
        return "\n".join(made)
