#!/usr/bin/env python3
"""Makes the fixtures of tests/unit/tokenizer: small tokenizers in the manner of well-known model
families, trained on a few sentences, and what the Hugging Face `tokenizers` library and
`sentencepiece` make of a list of texts.

usage: make_tokenizer_goldens.py OUT_DIR        (made with tokenizers 0.23.3, sentencepiece 0.2.3)
"""
import io
import json
import pathlib
import sys
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

SAMPLE = """The little fox went to the forest. She saw the moon, and the moon saw her.
"Where are you going?" asked the owl. "I'm going home," said the fox; "it's late, isn't it?"
They'll have walked 12 or 2048 steps, we've counted; you're right, he'd said 3.14159 at 07:45.
Der kleine Fuchs lief über die grüne Straße. Él comió una manzana más en el jardín del señor.
Маленькая лиса пошла в лес и увидела луну. Η μικρή αλεπού πήγε στο δάσος.
小さな狐は森へ行きました。小狐狸去了森林，看见了月亮。작은 여우가 숲으로 갔습니다.
for (int i = 0; i < count; ++i) { total += values[i]; }    return total;
def walk(self, steps):\n        if steps == 0:\n            return None\n\treturn self.walk(steps - 1)
the the the and and was was there there then other her here where hello world Hello World
"""

TEXTS = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n ", "a", " a", "a ", "  a  b   c    ",
    "Hello world", " Hello World!", "hello, world.\nThe fox", "I'm you're he'LL we'Ve it'S don't",
    "12345 1,000 3.14 x86 \u00bd \u00b2 \u2460 \u0661\u0662", "caf\u00e9 cafe\u0301 a\u0327\u0301 e\u0301\u0327 \u212b \ufb01",
    "\u5c0f\u72d0\u72f8\u53bb\u4e86\u68ee\u6797 \u5c0f\u3055\u306a\u72d0\u306f \uc791\uc740 \uc5ec\uc6b0", "\u1100\u1161\u11a8 \u0938\u0940\u0916\u0928\u093e",
    "\U0001f98a\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea\U0001f44d\U0001f3fd", "\x00a\x01\x1b\x7f\x85\u00ad\ufeff\ufffd",
    "\u00a0\u3000\u2028\u180e\u200b x", "\u2581\u2581 \u2581a \u0120 \u010a", "<0x41> <0x0A>", "  if x == 0:\n\t\treturn  None\n",
    "http://a.b/c?d=e&f#g @user !!!---===>>> ({[<\u201c\u201d>]})", "THE FOX SAW the\u0130\u017f\u212a\u00df",
    "<s>", "</s><s> a", "a<s>b <s> c</s>", "<|start|>the fox<|end|> \n<|end|>", "<|end|>  <|end|>", "x<tool>y <tool> z", "mask<mask> the <mask> fox",
    "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", "the" * 20, " " * 40 + "x", "\n" * 9 + " fox",
]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+"
          r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+"
         r"[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"\s+$", r"[一-龥ࠀ-一가-퟿]+"]


def special(text, **flags):
    return AddedToken(text, special=True, normalized=flags.pop("normalized", False), **flags)


def split(pattern, behavior="isolated"):
    return pre_tokenizers.Split(Regex(pattern), behavior)


def sequence(*steps):
    return pre_tokenizers.Sequence(list(steps))


def spm_decoder():
    return decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                              decoders.Fuse(), decoders.Strip(" ", 1, 0)])


def byte_level(pre_tokenizer, merges=110, normalizer=None, added=(), **model):
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=256 + merges, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(SAMPLE.splitlines(keepends=True), trainer)
    return finished(tokenizer, added, model)


def spm_like(normalizer, pre_tokenizer, decoder, added=(), size=460, byte_fallback=True, **model):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    if normalizer:
        tokenizer.normalizer = normalizer
    # Trained on words, used on whole texts, as SentencePiece does it.
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", "always", True)
    specials = ["<unk>", "<s>", "</s>"]
    if byte_fallback:
        specials += [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=specials,
                                  limit_alphabet=90)
    tokenizer.train_from_iterator(SAMPLE.splitlines(), trainer)
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = document["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(document))
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    else:
        document = json.loads(tokenizer.to_str())
        document["pre_tokenizer"] = None
        tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.decoder = decoder
    return finished(tokenizer, added, dict(fuse_unk=True, byte_fallback=byte_fallback, **model))


def finished(tokenizer, added, model):
    for token in added:
        tokenizer.add_tokens([token])
    document = json.loads(tokenizer.to_str())
    document["model"].update(model)
    return Tokenizer.from_str(json.dumps(document))


def with_bos(tokenizer, bos, eos=None, byte_level_first=False):
    tokens = [(bos, tokenizer.token_to_id(bos))]
    if eos:
        tokens.append((eos, tokenizer.token_to_id(eos)))
    template = processors.TemplateProcessing(
        single=f"{bos} $A" + (f" {eos}" if eos else ""), special_tokens=tokens)
    if byte_level_first:
        template = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    tokenizer.post_processor = template
    return tokenizer


def with_cls(tokenizer):
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", tokenizer.token_to_id("</s>")), ("<s>", tokenizer.token_to_id("<s>")))
    return tokenizer


def tokenizers():
    no_words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    gpt2_words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    chat = [special("<|start|>"), special("<|end|>"), AddedToken("<tool>", normalized=False)]
    underscore = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])

    yield "gpt2", byte_level(gpt2_words, added=[special("<|end|>")])
    yield "llama3", with_bos(byte_level(sequence(split(LLAMA3), no_words), added=chat,
                                        ignore_merges=True), "<|start|>", byte_level_first=True)
    yield "qwen2", byte_level(sequence(split(LLAMA3.replace("{1,3}", "")), no_words),
                              normalizer=normalizers.NFC(), added=chat)
    yield "o200k", byte_level(sequence(split(O200K), no_words), added=chat, ignore_merges=True)
    yield "deepseek", byte_level(sequence(*map(split, DEEPSEEK), pre_tokenizers.Digits(True),
                                          no_words), added=chat)
    yield "smollm", byte_level(sequence(pre_tokenizers.Digits(True), gpt2_words), added=chat)
    yield "falcon", byte_level(sequence(pre_tokenizers.Punctuation("contiguous"), gpt2_words,
                                        pre_tokenizers.Digits(False), split("[0-9][0-9][0-9]")))
    yield "roberta", with_cls(byte_level(
        pre_tokenizers.ByteLevel(add_prefix_space=True),
        added=[special("<s>"), special("</s>"), special("<mask>", lstrip=True)]))
    yield "neox", byte_level(gpt2_words, normalizer=normalizers.NFC(),
                             added=[AddedToken(" " * n) for n in range(9, 1, -1)])

    yield "llama2", with_bos(spm_like(underscore, None, spm_decoder()), "<s>")
    yield "mistral", with_bos(spm_like(
        None, pre_tokenizers.Metaspace("\u2581", "first", False), spm_decoder()), "<s>")
    yield "gemma", with_bos(spm_like(
        normalizers.Replace(" ", "\u2581"), pre_tokenizers.Split(" ", "merged_with_previous"),
        decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                           decoders.Fuse()])), "<s>")
    yield "phi3", spm_like(underscore, None, spm_decoder(), added=[
        special("<|start|>", rstrip=True), special("<|end|>", rstrip=True),
        AddedToken("<tool>", lstrip=True, rstrip=True)])
    yield "metaspace", with_bos(spm_like(
        None, pre_tokenizers.Metaspace("\u2581", "always", True),
        decoders.Metaspace("\u2581", "always", True), byte_fallback=False, size=220), "<s>", "</s>")
    yield "plain", spm_like(
        normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(),
                              normalizers.Lowercase(), normalizers.Strip(),
                              normalizers.Replace(Regex(" {2,}"), " ")]),
        pre_tokenizers.Whitespace(), None, byte_fallback=False, size=220, added=[
            AddedToken("fox", single_word=True), AddedToken("Moon", normalized=True),
            AddedToken("the", single_word=True, lstrip=True, normalized=True)])


def decoded(tokenizer, ids):
    """None where the library cannot say it: bytes that are no UTF-8."""
    text = tokenizer.decode(ids, skip_special_tokens=False)
    return None if "\ufffd" in text else text


def cases_of(tokenizer):
    specials = {i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    cases = []
    for text in TEXTS:
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(text).ids
        case = {"text": text, "ids": ids, "decoded": decoded(tokenizer, ids),
                "skipped": decoded(tokenizer, [i for i in ids if i not in specials])}
        tokenizer.encode_special_tokens = True
        case["plain"] = tokenizer.encode(text, add_special_tokens=False).ids
        cases.append(case)
    return cases


# Code points in, code points out: lower case, a ligature, spaces of other kinds, nothing.
RULES = """41\t61
212B\tE5
FB01\t66 69
A0\t20
3000\t20
9\t20
200B\t
74 68 65 72 65\t74 68 65 72
"""


def sentencepiece_models():
    def train(**options):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(SAMPLE.splitlines()), model_writer=model, model_type="bpe",
            minloglevel=2, hard_vocab_limit=False, character_coverage=0.98, **options)
        return model.getvalue()

    yield "spm_llama", train(vocab_size=440, byte_fallback=True, normalization_rule_name="identity",
                             remove_extra_whitespaces=False, split_digits=True,
                             allow_whitespace_only_pieces=True)
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.write(RULES)
        rules.flush()
        model = train(vocab_size=230, normalization_rule_tsv=rules.name,
                      user_defined_symbols=["<tool>", "\u2581the", "fox"],
                      control_symbols=["<|end|>"])
    yield "spm_rules", without_path(model)
    # What unknown text is written as is not escaped: its U+2581 stays.
    yield "spm_surface", train(vocab_size=150, normalization_rule_name="identity",
                               unk_piece="[unknown]", unk_surface="\u2581<what?> ")


def without_path(model):
    """The model without the name of the temporary file."""
    parsed = sentencepiece_model_pb2.ModelProto.FromString(model)
    parsed.normalizer_spec.ClearField("normalization_rule_tsv")
    return parsed.SerializeToString()


def cases_of_model(model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    cases = []
    for text in TEXTS:
        ids = processor.encode(text)
        text_back = processor.decode(ids)
        lost = "\ufffd" in text_back
        cases.append({"text": text, "plain": ids, "decoded": None if lost else text_back})
    return cases


CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
# As in the tokenizer.json of each model, or as llama.cpp has them under the name in GGUF files.
SPLITS = {
    "gpt-2": [GPT2],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "gpt-4o": [O200K],
    "deepseek-v3": [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
                    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?"""
                    r"[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "qwen35": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+"
               r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "minicpm5": [r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")],
    "seed-coder": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+"
                   r"|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++"
                   r"[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    "bloom": [" ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"],
    "viking": [" ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+", r"\p{N}"],
    "kimi-k2": [r"[\p{Han}]+|" + "|".join(
        rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}&&[^\p{{Han}}]]{first}"
        rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}&&[^\p{{Han}}]]{then}{CONTRACTIONS}?"
        for first, then in ("*+", "+*"))
        + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    # llama.cpp cuts digits by code of its own.
    "afmoe": [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
              "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf"
              "\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af"
              "\u1100-\u11ff]+",
              r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
              r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "laguna": [r"[^\n]+|[\n]+", LLAMA3.replace("{1,3}", "")],
    "exaone-moe": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
                   r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
    "jais-2": [LLAMA3.replace(r"\s+(?!\S)|\s+", "|".join(
        r"\s{%d}(?!\S)" % n for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}")],
    "youtu": ["[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c"
              "\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
              O200K.replace("{1,3}", "")],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", O200K],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
}
# Digits by threes from the right, and scripts that have their own rules.
MORE_TEXTS = ["1234567 12345678abc 1234\u0e51 x", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e40\u0e21\u0e37\u0e2d\u0e07\u0e44\u0e17\u0e22 \u1019\u1004\u103a\u1039\u1002",
              "\u7530\u4e2dTanaka\u3055\u3093\u3105\u3131 \u201c\u6625\u201d\u2026\uff0c\u3002", "a\n\nb \n c  d   e" + " " * 21 + "f",
              "\uc548\ub155 \ud558\uc138\uc694 caf\u00e9 o\u0301k the'S"]


def splits():
    """{name: [[words of the first text], …]}, of the texts that the cases have and some more."""
    out, texts = {}, TEXTS + MORE_TEXTS
    for name, patterns in SPLITS.items():
        steps = sequence(*map(split, patterns))
        out[name] = [[word for word, _ in steps.pre_tokenize_str(text)] for text in texts]
    return {"texts": texts, "words": out}


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def main(out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for name, tokenizer in tokenizers():
        document = json.loads(tokenizer.to_str())
        if name in ("gpt2", "llama2"):  # merges in the older of the two spellings
            document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]
        write_json(out / f"{name}.json", document)
        write_json(out / f"{name}.cases.json",
                   cases_of(Tokenizer.from_str(json.dumps(document))))
    write_json(out / "splits.json", splits())
    for name, model in sentencepiece_models():
        (out / f"{name}.model").write_bytes(model)
        write_json(out / f"{name}.cases.json", cases_of_model(model))


if __name__ == "__main__":
    main(*sys.argv[1:])
