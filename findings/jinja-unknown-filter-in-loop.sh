#!/usr/bin/env bash
# jinja2 looks a filter up when it is reached where it stands directly in an `if`, as its
# documentation says, but refuses the whole template where a loop (or `with`) stands in between, even
# if the `if` is never true. So transformers refuses chat templates that read a call's arguments with
# llama.cpp's filter `from_json` in a loop over the calls, for conversations without any call too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jinja2==3.1.6 transformers==5.23.0
"$folder/venv/bin/python" - <<'PYTHON'
import jinja2
import transformers
from transformers.utils.chat_template_utils import render_jinja_template

assert jinja2.__version__ == "3.1.6" and transformers.__version__ == "5.23.0"


def outcome(template):
    try:
        return render_jinja_template([[{"role": "user", "content": "Hello"}]], chat_template=template)[0][0]
    except jinja2.TemplateAssertionError as error:
        return f"refused: {error}"


directly = "{% if messages[0].calls %}{{ messages[0].calls | from_json }}{% endif %}{{ messages[0].content }}"
in_a_loop = ("{% if messages[0].calls %}{% for call in messages[0].calls %}{{ call | from_json }}{% endfor %}{% endif %}"
             "{{ messages[0].content }}")
in_with = ("{% if messages[0].calls %}{% with call = messages[0].calls %}{{ call | from_json }}{% endwith %}{% endif %}"
           "{{ messages[0].content }}")
seen = {name: outcome(template) for name, template in
        [("directly in the if", directly), ("in a loop in the if", in_a_loop), ("in a with in the if", in_with)]}
for name, text in seen.items():
    print(f"{name}: {text}")
assert seen == {"directly in the if": "Hello",
                "in a loop in the if": "refused: No filter named 'from_json'.",
                "in a with in the if": "refused: No filter named 'from_json'."}, seen
PYTHON
