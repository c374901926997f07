#!/usr/bin/env bash
# openai-harmony 0.0.8, which writes tools for gpt-oss as TypeScript, knows oneOf but not anyOf, $ref or numbers in an
# enum. These are what pydantic makes of Optional and Union, of a model or an Enum in a model, and of Literal[1, 2],
# and pydantic makes the tools of most programs in Python. Such a parameter becomes "any" (or plain "number"), without
# an error: the model is not told what it may be, nor the names of a nested model's members. The same is said in full
# with oneOf, a list of types, the $ref resolved and numbers as texts.
#
# Seen on 2026-11-30 (Python 3.11, x86-64, pydantic 2.14.4), the parameters as the model reads them:
#   limit: Optional[int] = None      limit?: any, // default: null
#   either: Union[str, list[str]]    either: any,
#   where: a model with a city       where: any,                       (city is nowhere)
#   colour: Enum of two texts        colour: any,
#   level: Literal[1, 2]             level: number,
#   unit: Literal["c", "f"]          unit: "c" | "f",
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cd "$folder"
# The vocabulary (o200k_base) comes out of litellm, which ships it for its own counting; nothing of litellm runs.
"$folder/venv/bin/pip" install -q openai-harmony==0.0.8 pydantic==2.14.4
"$folder/venv/bin/pip" download -q --no-deps --only-binary :all: litellm==1.106.12
cat > seen.py <<'PYTHON'
import enum
import glob
import hashlib
import os
import pathlib
import typing
import zipfile

import pydantic

SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"  # of o200k_base.tiktoken
with zipfile.ZipFile(glob.glob("litellm-*.whl")[0]) as wheel:
    ranks = wheel.read("litellm/litellm_core_utils/tokenizers/fb374d419588a4632f3f557e76b4b70aebbca790")
assert hashlib.sha256(ranks).hexdigest() == SHA256
pathlib.Path("o200k_base.tiktoken").write_bytes(ranks)
os.environ["TIKTOKEN_ENCODINGS_BASE"] = os.getcwd()
import openai_harmony as harmony  # noqa: E402

encoding = harmony.load_harmony_encoding(harmony.HarmonyEncodingName.HARMONY_GPT_OSS)


class Colour(enum.Enum):
    red = "red"
    blue = "blue"


class Place(pydantic.BaseModel):
    city: str


class Asked(pydantic.BaseModel):
    limit: typing.Optional[int] = None
    either: typing.Union[str, list[str]]
    where: Place
    colour: Colour
    level: typing.Literal[1, 2]
    unit: typing.Literal["c", "f"]


def told(schema):
    tool = harmony.ToolDescription.new("look", "Looks it up.", parameters=schema)
    content = harmony.DeveloperContent.new().with_function_tools([tool])
    return encoding.decode(encoding.render(harmony.Message.from_role_and_content(harmony.Role.DEVELOPER, content)))


text = told(Asked.model_json_schema())
lines = [line for line in text.splitlines() if line.split(":")[0].rstrip("?") in Asked.model_fields]
print("\n".join(lines))
assert lines == ["limit?: any, // default: null", "either: any,", "where: any,", "colour: any,", "level: number,",
                 'unit: "c" | "f",'] and "city" not in text
plain = told({"type": "object", "properties": {
    "limit": {"type": ["integer", "null"]}, "either": {"oneOf": [{"type": "string"}, {"type": "array"}]},
    "where": {"type": "object", "properties": {"city": {"type": "string"}}},
    "level": {"type": "string", "enum": ["1", "2"]}}})
assert all(part in plain for part in ("limit?: number | null", " | string", "city?: string", '"1" | "2"')), plain
print("as it was seen")
PYTHON
venv/bin/python seen.py
