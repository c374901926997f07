#!/usr/bin/env bash
# openai-harmony 0.0.8 does not read back the form in which it writes an answer in JSON. gpt-oss, asked for JSON, ends
# with <|channel|>final <|constrain|>json<|message|>..., and so renders the library a final message whose content type
# is "<|constrain|>json". Its parser takes the word after the channel for the recipient: the message is for
# "<|constrain|>json" and has no content type. A server that asks for the recipient to tell calls from answers sees a
# call of a tool with that name, and rendered again, as the history of the next turn, the answer is a call:
# "assistant to=<|constrain|>json", which ends in <|call|>. After a recipient, the same word is a content type.
#
# Seen on 2026-11-30 (Python 3.11, x86-64):
#   <|channel|>final <|constrain|>json<|message|>{}<|return|>
#     recipient "<|constrain|>json", content type none
#     again: <|start|>assistant to=<|constrain|>json<|channel|>final<|message|>{}<|call|>
#   <|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>
#     recipient "functions.f", content type "<|constrain|>json", and the same again
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cd "$folder"
# The vocabulary (o200k_base) comes out of litellm, which ships it for its own counting; nothing of litellm runs.
"$folder/venv/bin/pip" install -q openai-harmony==0.0.8
"$folder/venv/bin/pip" download -q --no-deps --only-binary :all: litellm==1.106.12
cat > seen.py <<'PYTHON'
import glob
import hashlib
import os
import pathlib
import zipfile

SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"  # of o200k_base.tiktoken
with zipfile.ZipFile(glob.glob("litellm-*.whl")[0]) as wheel:
    ranks = wheel.read("litellm/litellm_core_utils/tokenizers/fb374d419588a4632f3f557e76b4b70aebbca790")
assert hashlib.sha256(ranks).hexdigest() == SHA256
pathlib.Path("o200k_base.tiktoken").write_bytes(ranks)
os.environ["TIKTOKEN_ENCODINGS_BASE"] = os.getcwd()
import openai_harmony as harmony  # noqa: E402

encoding = harmony.load_harmony_encoding(harmony.HarmonyEncodingName.HARMONY_GPT_OSS)
role = harmony.Role.ASSISTANT


def rendered(message):
    return encoding.decode(encoding.render(message))


def read(text):
    tokens = encoding.encode(text.removeprefix("<|start|>assistant"), allowed_special="all")
    message, = encoding.parse_messages_from_completion_tokens(tokens, role)
    return message


final = harmony.Message.from_role_and_content(role, "{}").with_channel("final").with_content_type("<|constrain|>json")
text = rendered(final)
print(text)
assert text == "<|start|>assistant<|channel|>final <|constrain|>json<|message|>{}<|end|>"
for ending in ("<|end|>", "<|return|>"):
    back = read(text.removesuffix("<|end|>") + ending)
    again = rendered(back)
    print(f"recipient {back.recipient}, content type {back.content_type}\n{again}")
    assert (back.channel, back.recipient, back.content_type) == ("final", "<|constrain|>json", None)
    assert again == "<|start|>assistant to=<|constrain|>json<|channel|>final<|message|>{}<|call|>"
call = read("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>")
print(f"recipient {call.recipient}, content type {call.content_type}\n{rendered(call)}")
assert (call.recipient, call.content_type) == ("functions.f", "<|constrain|>json")
assert (read(rendered(call).replace("<|start|>assistant", "")).to_dict() == call.to_dict())
print("as it was seen")
PYTHON
venv/bin/python seen.py
