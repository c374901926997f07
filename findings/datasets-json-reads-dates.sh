#!/usr/bin/env bash
# datasets 5.2.0 reads a JSON file and guesses from the rows what its texts are. A column whose texts all look like
# dates ("1969-07-20") comes back as datetime: a prompt shows "1969-07-20 00:00:00", and an exact match against it, as
# evaluations make it, counts the right answer as wrong. An offset is turned into UTC and dropped, so that ten o'clock
# becomes eight. It happens inside of lists and of the arguments of tool calls too, and one row with another text
# ("unknown") turns the whole column back into texts, so that two splits of one benchmark have different answers.
# Whole numbers are floats if one row has a fraction: an identifier of 17 digits becomes another one. Nothing is said.
# Dataset.from_list keeps the dates of the same rows as texts, and spoils something else: tools are given the union of
# the parameters of all tools, those of others being null, which load_dataset and map leave alone.
#
# Seen on 2026-12-01 (Python 3.11, x86-64), what load_dataset("json") makes of
#   "1969-07-20" in every row                    datetime(1969, 7, 20)     in 12,000 rows before "in spring": an error
#   "1969-07-20" and "unknown"                   texts
#   "1969-07-20T10:00:00+02:00"                  datetime(1969, 7, 20, 8)
#   a call's {"city": "Rome", "on": "2026-12-24"}   "on" a datetime, which tojson of a chat template cannot write
#   12345678901234567 and 1.5                    12345678901234568.0
#   tools weather(city) and send(to, amount)     as they were; from_list: weather(city, to: null, amount: null)
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q datasets==5.2.0
cd "$folder"
HF_HUB_OFFLINE=1 HF_HOME="$folder/home" "$folder/venv/bin/python" - <<'PYTHON'
import datetime
import json

import datasets

datasets.disable_progress_bars()
datasets.logging.set_verbosity_error()


def load(rows):
    load.files += 1
    with open(f"{load.files}.jsonl", "w", encoding="utf-8") as file:
        file.write("\n".join(map(json.dumps, rows)))
    return datasets.load_dataset("json", data_files=f"{load.files}.jsonl", split="train")


load.files = 0


def answers(*texts):
    rows = [{"question": "When?", "answer": text} for text in texts]
    assert [row["answer"] for row in datasets.Dataset.from_list(rows)] == list(texts)
    found = list(load(rows)["answer"])
    print(texts, "->", found)
    return found


assert answers("1969-07-20", "2012-08-25") == [datetime.datetime(1969, 7, 20), datetime.datetime(2012, 8, 25)]
assert answers("1969-07-20", "unknown") == ["1969-07-20", "unknown"]
assert answers("1969-07-20T10:00:00+02:00") == [datetime.datetime(1969, 7, 20, 8)]
assert load([{"choices": ["1969-07-20"]}])[0]["choices"] == [datetime.datetime(1969, 7, 20)]
try:
    load([{"answer": "1969-07-20", "question": "x" * 1000}] * 12000 + [{"answer": "in spring", "question": "y"}])
    raise SystemExit("it was read")
except datasets.exceptions.DatasetGenerationError as error:
    print(error.__cause__)
numbers = list(load([{"id": 12345678901234567}, {"id": 1.5}])["id"])
print(numbers)
assert numbers == [12345678901234568.0, 1.5] and int(numbers[0]) != 12345678901234567

arguments = {"city": "Rome", "on": "2026-12-24"}
call = [{"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": arguments}}]}]
found = load([{"messages": call}])[0]["messages"][0]["tool_calls"][0]["function"]["arguments"]
print(arguments, "->", found)
assert found == {"city": "Rome", "on": datetime.datetime(2026, 12, 24)}
try:
    json.dumps(found)
    raise SystemExit("it was written")
except TypeError as error:
    print(error)

tools = [{"name": "weather", "parameters": {"city": {"type": "string"}}},
         {"name": "send", "parameters": {"to": {"type": "string"}, "amount": {"type": "integer"}}}]
rows = [{"tools": [tool]} for tool in tools]
numbered = datasets.Dataset.from_list([{"row": 0}, {"row": 1}]).map(lambda row: rows[row["row"]])
assert [row["tools"] for row in load(rows)] == [row["tools"] for row in numbered] == [[tool] for tool in tools]
first = datasets.Dataset.from_list(rows)[0]["tools"][0]
print(tools[0], "->", first)
assert first["parameters"] == {"city": {"type": "string"}, "to": None, "amount": None}
print("as it was seen")
PYTHON
