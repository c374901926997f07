#!/usr/bin/env python3
"""Makes the reference for plugin authors out of the headers.

    make.py SOURCE_FOLDER OUT

Fails with a line for each fault where a public declaration of the boundary says nothing, a page
names something that is not there, or a promise that a case checks cannot be found in its header.
"""

import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cases
import header
import pages
import prose

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENTS = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md", "sdk/**/*.md", "core/README.md"]


def read_notes(path):
    lines = [line for line in path.read_text().split("\n") if line and line[0] != "#"]
    return dict(line.split(": ", 1) for line in lines)


class Reference:
    def __init__(self, source):
        self.symbols = prose.Symbols()
        self.symbols.checks = cases.read(source / "core/conformance/cases")
        self.notes = read_notes(HERE / "notes.txt")
        self.used = set()
        self.broken = []
        self.version = re.search(r"project\(tenon VERSION ([\d.]+)", (source / "CMakeLists.txt").read_text()).group(1)
        ids = (source / "core/include/tenon/descriptor.h").read_text()
        self.interfaces = {one.split("/")[0]: one for one in re.findall(r'k\w+Interface = "(\w+/\d+)"', ids)}
        files = []
        for folder in (source / "core/include", source / "sdk/include"):
            found = sorted(path for path in folder.rglob("*.h"))
            files += [(path, path.relative_to(folder).as_posix()) for path in found]
        self.headers = [header.read(path, name) for path, name in files]
        found = {path for pattern in DOCUMENTS for path in source.glob(pattern)}
        self.documents = {path.relative_to(source).as_posix(): path.read_text() for path in sorted(found)}
        self.collect()

    def collect(self):
        symbols = self.symbols
        for path in self.documents:
            symbols.pages[path] = self.document_page(path)
        for one in self.headers:
            page = symbols.pages[one.name] = self.page_of(one.name)
            for declaration in one.everything():
                symbols.add(declaration.key.replace(".", "::"), page, declaration.anchor)

    def page_of(self, name):
        return name.removesuffix(".h") + ".html"

    def document_page(self, path):
        return path.removesuffix(".md") + ".html"

    def own_note(self, one):
        return self.notes.get(one.key)

    def note(self, one):
        for key in (one.key, f"*.{one.name}"):
            if key in self.notes and (one.parent or not key.startswith("*")):
                self.used.add(key)
                return self.notes[key]
        return None

    def undocumented(self):
        """Public declarations of the boundary that nothing is said of."""
        for page in self.headers:
            if "/sdk/" in page.name:
                if not page.contract:
                    yield f"{page.name}: its first lines do not say what it is for"
                continue
            contract = " ".join(page.contract)
            for one in page.declarations:
                inherits = one.kind == "class" and one.name in contract.split(":")[0]
                if not (one.comment or one.covered or inherits or self.note(one)):
                    yield f"{page.name}:{one.line}: '{one.name}' has no comment"
                around = contract + " ".join(one.comment)
                for member in one.members:
                    spoken = one.kind == "enum" or f"`{member.name}`" in around
                    if not (member.comment or self.note(member) or spoken):
                        yield f"{page.name}:{member.line}: '{member.key}' has no comment"

    def faults(self, written):
        yield from self.undocumented()
        yield from self.broken
        for key in sorted(self.notes.keys() - self.used):
            yield f"notes.txt: '{key}' explains nothing: there is no such declaration, or it has a comment"
        for of, case, where, promise in self.symbols.checks:
            name = "tenon/" + where
            text = [prose.flat(page.contract) for page in self.headers if page.name == name]
            text += [prose.flat(one.comment) for page in self.headers if page.name == name for one in page.everything()]
            if not any(promise in one for one in text):
                yield f"{case}: <{name}> does not say '{promise}'"
        yield from broken_links(written)


def broken_links(written):
    """Addresses inside the reference that lead nowhere."""
    anchors = {page: set(re.findall(r'id="([^"]+)"', text)) for page, text in written.items()}
    for page, text in written.items():
        for address in re.findall(r'href="([^"]+)"', re.sub(r"<script>.*?</script>", "", text, flags=re.S)):
            if "://" in address or address.startswith("mailto:"):
                continue
            file, _, anchor = address.partition("#")
            parts = (page.split("/")[:-1] + file.split("/")) if file else page.split("/")
            while ".." in parts:
                at = parts.index("..")
                del parts[at - 1 : at + 1]
            target = "/".join(parts)
            if target != "style.css" and target not in written:
                yield f"{page}: '{address}' leads nowhere"
            elif anchor and anchor not in anchors[target]:
                yield f"{page}: '{address}': there is no such place on that page"


def write(reference, out):
    written = {"index.html": pages.index_page(reference), "checks.html": pages.checks_page(reference)}
    for one in reference.headers:
        written[reference.page_of(one.name)] = pages.HeaderPage(reference, one).html()
    for path, text in reference.documents.items():
        written[reference.document_page(path)] = pages.document_page(reference, path, text)
    for page, text in written.items():
        (out / page).parent.mkdir(parents=True, exist_ok=True)
        (out / page).write_text(text)
    shutil.copy(HERE / "style.css", out / "style.css")
    return written


def main():
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    reference = Reference(source)
    shutil.rmtree(out, ignore_errors=True)
    written = write(reference, out)
    faults = list(reference.faults(written))
    print("\n".join(faults[:60]))
    if faults:
        raise SystemExit(f"{len(faults)} faults")
    print(f"{len(written)} pages in {out}: begin with {out / 'index.html'}")


if __name__ == "__main__":
    main()
