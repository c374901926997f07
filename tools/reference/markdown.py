"""The project's own Markdown as HTML: what its pages use of it, and no more."""

import html
import posixpath
import re


def anchor_of(title):
    """As the places where such pages are read make them of a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", title).lower()).strip().replace(" ", "-")


class Page:
    def __init__(self, path, text, link):
        """`link(target)`: the address of a file that `path` names, or None where it is not shown."""
        self.path, self.link_to = path, link
        self.lines = text.split("\n")
        self.title = next((line[2:] for line in self.lines if line.startswith("# ")), path)

    def inline(self, text):
        parts = re.split(r"(`[^`]+`)", text)
        return "".join(
            f"<code>{html.escape(part[1:-1])}</code>" if part.startswith("`") else part
            for part in self.linked("".join(parts)).split("\0")
        )

    def linked(self, text):
        """Links first: their texts may have code inside. Code is set apart by zero bytes."""

        def target(found):
            shown, address = found.groups()
            href = address if "://" in address else self.address(address)
            return f'<a href="{href}">{shown}</a>' if href else shown

        apart = re.split(r"(`[^`]+`)", text)
        codes = [part for part in apart if part.startswith("`")]
        plain = "".join("\1" if part.startswith("`") else html.escape(part, quote=False) for part in apart)
        plain = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", target, plain)
        plain = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", plain)
        plain = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])", r"<em>\1</em>", plain)
        for code in codes:
            plain = plain.replace("\1", "\0" + code + "\0", 1)
        return plain

    def address(self, address):
        file, _, anchor = address.partition("#")
        if not file:
            return "#" + anchor
        target = self.link_to(posixpath.normpath(posixpath.join(posixpath.dirname(self.path), file)))
        return target and target + ("#" + anchor if anchor else "")

    def html(self):
        made, at = [], 0
        while at < len(self.lines):
            line = self.lines[at]
            if line.startswith("```"):
                end = next(i for i in range(at + 1, len(self.lines) + 1) if self.lines[i].startswith("```"))
                made.append(f"<pre>{html.escape(chr(10).join(self.lines[at + 1 : end]))}</pre>")
                at = end + 1
            elif line.startswith("<!--"):
                file = re.match(r"<!-- file: (\S+) -->", line)
                made.append(f'<p class="from">{file.group(1)}</p>' if file else "")
                at += 1
            elif re.match(r"#+ ", line):
                level, title = len(line.split(" ")[0]), line.split(" ", 1)[1]
                made.append(f'<h{level} id="{anchor_of(title)}">{self.inline(title)}</h{level}>')
                at += 1
            elif line.startswith("|"):
                end = self.end_of(at, lambda text: text.startswith("|"))
                made.append(self.table(self.lines[at:end]))
                at = end
            elif re.match(r"(\d+\.|[-*]) ", line):
                end = self.end_of(at, lambda text: text.startswith(" ") or re.match(r"(\d+\.|[-*]) ", text))
                made.append(self.items(self.lines[at:end]))
                at = end
            elif line.strip():
                end = self.end_of(at, lambda text: text.strip() and not re.match(r"```|<!--|\||#+ |(\d+\.|-) ", text))
                made.append(f"<p>{self.inline(' '.join(self.lines[at:end]))}</p>")
                at = end
            else:
                at += 1
        return "\n".join(made)

    def end_of(self, at, belongs):
        end = at + 1
        while end < len(self.lines) and belongs(self.lines[end]):
            end += 1
        return end

    def table(self, lines):
        rows = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
        made = ["<table>"]
        for index, row in enumerate(rows):
            if index == 1 and all(re.fullmatch(r":?-+:?", cell) for cell in row):
                continue
            tag = "th" if index == 0 else "td"
            made.append("<tr>" + "".join(f"<{tag}>{self.inline(cell)}</{tag}>" for cell in row) + "</tr>")
        return "\n".join([*made, "</table>"])

    def items(self, lines):
        kind = "ol" if lines[0][0].isdigit() else "ul"
        items = []
        for line in lines:
            if re.match(r"(\d+\.|[-*]) ", line):
                items.append(line.split(" ", 1)[1])
            else:
                items[-1] += " " + line.strip()
        return f"<{kind}>" + "".join(f"<li>{self.inline(item)}</li>" for item in items) + f"</{kind}>"
