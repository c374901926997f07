"""The pages: one a header, one of all cases, an index, and the project's own documents."""

import html
import json
import pathlib

from markdown import Page
from prose import Writer, relative

HERE = pathlib.Path(__file__).resolve().parent
TUTORIALS = {"kv_cache": "kv-cache"}
KINDS = {"member": "Members", "value": "Values", "function": "Functions"}


def frame(title, page, content, contents=""):
    root = "../" * page.count("/")
    links = [("Reference", "index.html"), ("Checks", "checks.html"), ("Course", "docs/plugins/README.html")]
    top = "".join(f'<a href="{root}{target}">{name}</a>' for name, target in links)
    side = f"<nav>{contents}</nav>" if contents else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title><link rel="stylesheet" href="{root}style.css"></head>
<body><header><a href="{root}index.html"><strong>Tenon</strong></a>{top}</header>
<div class="page">{side}<main>
{content}
</main></div></body></html>
"""


class HeaderPage:
    def __init__(self, reference, header):
        self.reference, self.header = reference, header
        self.page = reference.page_of(header.name)
        short = header.name.removeprefix("tenon/")
        self.writer = Writer(reference.symbols, self.page, short)
        self.interface = short.removesuffix(".h") if short.removesuffix(".h") in reference.interfaces else ""
        for one in header.declarations:
            for member in one.members:
                self.writer.local.setdefault(member.name, member.anchor)

        self.placed = set()

    def place(self, one):
        """The place of a declaration on the page: overloads share that of the first one."""
        if one.anchor in self.placed:
            return ""
        self.placed.add(one.anchor)
        return f' id="{html.escape(one.anchor)}"'

    def facts(self):
        """What stands beside an interface's contract: its revision, its tutorial, who checks it."""
        symbols, name = self.reference.symbols, self.interface
        tutorial = f"docs/plugins/{TUTORIALS.get(name, name)}.html"
        cases = [case for of, case, _, _ in symbols.checks if of == name]
        common = [case for of, case, _, _ in symbols.checks if of == ""]
        link = relative("checks.html", self.page)
        listed = ", ".join(f'<a href="{link}#{case}">{case.split(".")[1]}</a>' for case in cases)
        more = ", ".join(f'<a href="{link}#{case}">{case.split(".")[1]}</a>' for case in common)
        rows = [
            ("Revision", f"<code>{self.reference.interfaces[name]}</code>"),
            ("Tutorial", f'<a href="{relative(tutorial, self.page)}">{name}: from an empty folder</a>'),
            ("Begin", f"<code>tenon plugins new {name} acme.mine</code>"),
            ("Check", f"<code>tenon plugins check libacme.so</code>: {listed}; of every plugin {more}"),
        ]
        lines = "".join(f"<tr><td>{name}</td><td>{text}</td></tr>" for name, text in rows)
        return f'<table class="facts">{lines}</table>'

    def said(self, one):
        """The comment of a declaration, or the note that stands for it."""
        if one.comment:
            return self.writer.comment(one.comment)
        note = self.reference.note(one)
        return f'<p class="note">{self.writer.inline(note)}</p>' if note else ""

    def members(self, one):
        made, kind = [], None
        for member in one.members:
            if member.kind != kind:
                made += ["</table>" if made else "", f"<table><tr><th>{KINDS.get(member.kind, 'Types')}</th><th></th></tr>"]
                kind = member.kind
            made.append(
                f'<tr{self.place(member)}><td class="what"><pre>'
                f"{self.writer.code(member.signature)}</pre></td><td>{self.said(member)}</td></tr>"
            )
        return "\n".join([*made, "</table>" if made else ""])

    def group(self, group):
        """Declarations that one comment covers."""
        first = group[0]
        titles = ", ".join(html.escape(one.name) for one in group)
        signatures = "\n".join(
            f'<span{self.place(one)}>{self.writer.code(one.signature)}</span>' for one in group
        )
        made = [f"<h2>{titles}</h2>", f'<pre class="declared">{signatures}</pre>']
        made.append(f'<div class="said">{self.said(first)}</div>')
        if not first.comment and first.kind == "class" and self.header.contract:
            made.append('<p class="note">Its contract stands <a href="#contract">at the top</a>.</p>')
        for one in group:
            if one is not first and (one.comment or self.reference.own_note(one)):
                made.append(f'<div class="said"><code>{html.escape(one.name)}</code>: {self.said(one)}</div>')
            made.append(self.members(one))
        made.append(f'<p class="from">{self.header.name}:{first.line}</p>')
        return "\n".join(made)

    def groups(self):
        groups = []
        for one in self.header.declarations:
            if groups and one.covered:
                groups[-1].append(one)
            else:
                groups.append([one])
        return groups

    def html(self):
        groups = self.groups()
        made = [f"<h1>&lt;{self.header.name}&gt;</h1>"]
        if self.interface:
            made.append(self.facts())
        made.append(f'<section id="contract">{self.writer.comment(self.header.contract)}</section>')
        made += [self.group(group) for group in groups]
        side = "".join(
            f'<li><a href="#{html.escape(one.anchor)}"><code>{html.escape(one.name)}</code></a></li>'
            for group in groups
            for one in group
        )
        return frame(self.header.name, self.page, "\n".join(made), f"<ul>{side}</ul>")


def checks_page(reference):
    writer = Writer(reference.symbols, "checks.html")
    made = ["<h1>What <code>tenon plugins check</code> holds a plugin to</h1>"]
    made.append(
        "<p>Each case looks at one promise of one plugin, in a process of its own. "
        "<code>tenon plugins check libacme.so --case NAME --seed N</code> runs one again.</p>"
    )
    last = None
    for of, case, header, promise in reference.symbols.checks:
        if of != last:
            made += ["</table>" if last is not None else "", f"<h2>{of or 'every interface'}</h2><table>"]
            last = of
        page = relative(reference.page_of("tenon/" + header), "checks.html")
        made.append(
            f'<tr id="{case}"><td><code>{case}</code></td><td>“{writer.inline(promise)}” '
            f'<a class="from" href="{page}">&lt;tenon/{header}&gt;</a></td></tr>'
        )
    return frame("Checks", "checks.html", "\n".join([*made, "</table>"]))


def index_page(reference):
    symbols = reference.symbols
    writer = Writer(symbols, "index.html")
    rows, boundary, sdk = [], [], []
    for header in reference.headers:
        page, name = reference.page_of(header.name), html.escape(f"<{header.name}>")
        short = header.name.removeprefix("tenon/").removesuffix(".h")
        line = f'<tr><td><a href="{page}"><code>{name}</code></a></td><td>{writer.inline(header.summary)}</td>'
        if short in reference.interfaces:
            cases = sum(of == short for of, _, _, _ in symbols.checks)
            tutorial = f"docs/plugins/{TUTORIALS.get(short, short)}.html"
            rows.append(
                f"{line}<td><code>{reference.interfaces[short]}</code></td>"
                f'<td><a href="{tutorial}">tutorial</a></td><td class="short">{cases} cases</td></tr>'
            )
        else:
            (sdk if "/sdk/" in header.name else boundary).append(line + "</tr>")
    names = [
        [one.key.replace(".", "::"), reference.page_of(header.name), one.anchor, header.name]
        for header in reference.headers
        for one in header.everything()
    ]
    listed = json.dumps(names, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    content = f"""<h1>Reference for plugin authors</h1>
<p>Made from the headers of Tenon {reference.version}: what stands in them, and nothing beside, but for notes in grey,
which explain and promise nothing. A <span class="check">✓</span> leads from a <span class="held">promise</span> to the
case of <a href="checks.html"><code>tenon plugins check</code></a> that holds plugins to it.
New here? The <a href="docs/plugins/README.html">course</a> begins with an empty folder.</p>
<p><input id="search" type="search" placeholder="Find a name: Grant, max_rows, …" autofocus></p><ul id="found"></ul>
<h2>Interfaces</h2><table>{"".join(rows)}</table>
<h2>What they share</h2><table>{"".join(boundary)}</table>
<h2>The SDK</h2><p>Parts to take or to leave: they are compiled into a plugin, and never cross the boundary.</p>
<table>{"".join(sdk)}</table>
<script>const names = {listed};
{(HERE / "search.js").read_text()}</script>"""
    return frame("Tenon: reference for plugin authors", "index.html", content)


def document_page(reference, path, text):
    page = reference.document_page(path)

    def link(target):
        for candidate in (target, target.rstrip("/") + "/README.md"):
            if candidate in reference.documents:
                return relative(reference.document_page(candidate), page) or page.split("/")[-1]
        if target.endswith(".md"):
            reference.broken.append(f"{path}: '{target}' is not there")
        return None

    made = Page(path, text, link)
    return frame(made.title, page, made.html())
