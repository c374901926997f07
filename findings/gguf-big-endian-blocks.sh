#!/usr/bin/env bash
# gguf 0.19.0 has two ways to a big-endian file of quantised weights, and they disagree about its
# bytes: GGUFWriter turns F16 and F32 tensors round but leaves the scales inside quantised blocks
# little-endian, gguf-convert-endian turns those as well. GGUFReader and gguf.quants read the
# writer's file right and take other values from the converter's.
#
# Seen on 2026-11-29 (Python 3.11, x86-64), a row of 0.0155 and -0.0155 in turn (the scale is 2^-13), its first four bytes
# as Q8_0, those of an F16 tensor, and what gguf.quants.dequantize gives:
#   little-endian file             00087f81 003800b8   [0.0155, -0.0155]
#   GGUFWriter, big endian         00087f81 3800b800   [0.0155, -0.0155]
#   gguf-convert-endian ... big    08007f81 3800b800   [6.05e-05, -6.05e-05]
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q gguf==0.19.0 numpy==2.4.6
cd "$folder"
cat > write.py <<'PYTHON'
import numpy as np
from gguf import GGMLQuantizationType as Type, GGUFEndian, GGUFWriter, quants

row = np.array([[127.0, -127.0] * 16], np.float32) * np.float32(2.0**-13)
for name, order in (("little", GGUFEndian.LITTLE), ("big", GGUFEndian.BIG)):
    writer = GGUFWriter(f"{name}.gguf", "llama", endianess=order)
    writer.add_tensor("blocks", quants.quantize(row, Type.Q8_0), raw_dtype=Type.Q8_0)
    writer.add_tensor("plain", np.array([[0.5, -0.5]], np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
PYTHON
venv/bin/python write.py
cp little.gguf converted.gguf
echo YES | venv/bin/gguf-convert-endian converted.gguf big > /dev/null 2>&1
cat > read.py <<'PYTHON'
from gguf import GGUFReader, quants

seen = {}
for name in ("little", "big", "converted"):
    blocks, plain = GGUFReader(f"{name}.gguf").tensors
    values = quants.dequantize(blocks.data, blocks.tensor_type)[0, :2].tolist()
    seen[name] = (blocks.data.tobytes()[:4].hex(), plain.data.tobytes()[:4].hex(), values)
    print(name, *seen[name])
right = [127 * 2.0**-13, -127 * 2.0**-13]
wrong = [127 * 2.0**-21, -127 * 2.0**-21]  # 0x0008 as a half is 2^-21
assert seen == {"little": ("00087f81", "003800b8", right), "big": ("00087f81", "3800b800", right),
                "converted": ("08007f81", "3800b800", wrong)}, seen
print("as it was seen")
PYTHON
venv/bin/python read.py
