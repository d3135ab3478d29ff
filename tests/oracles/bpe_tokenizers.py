# SPDX-License-Identifier: Apache-2.0
"""BPE tokenizers give the ids of Hugging Face's tokenizers: for tokenizer.json files with the steps of GPT-2, Qwen, Llama 2 and 3,
and Mistral, which are trained here on a small text, for the one that run_clm writes, and for texts in many scripts with odd characters.

    bpe_tokenizers.py TESSERA [KIND…]        needs tokenizers; TESSERA is build/release/bin/tessera

A kind is a function in KINDS that returns the object of a tokenizer.json.
"""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TESSERA = sys.argv[1]
FOLDER = pathlib.Path(tempfile.mkdtemp())
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MARK = "\u2581"
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN.replace(r"\p{N}| ?", r"\p{N}{1,3}| ?")
NEMO = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SENTENCES = ["Die Größe des Netzes hängt von der Übertragung ab.", "L'été dernier, nous avons mesuré les fréquences à Orléans.",
             "Быстрая проверка распределённых вычислений.", "ファイルを読み込み、結果を比較します。", "我们比较两个程序的结果。",
             "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "한국어 문장을 나눕니다.", "Ελληνικά γράμματα", "Tiếng Việt có nhiều dấu."]
failures = 0


def training_lines():
    text = "\n".join(path.read_text() for path in sorted((REPOSITORY / "docs").glob("*.md")))
    return text.splitlines() + SENTENCES * 20


def odd_texts(count):
    """Texts of all scripts, with runs of blanks and line ends, digits, contractions, marks, controls and added tokens."""
    draw = random.Random(5)
    ranges = [(0x20, 0x7e), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x5ff), (0x600, 0x6ff), (0x900, 0x97f), (0x1e00, 0x1fff), (0x2000, 0x206f),
              (0x2100, 0x2bff), (0x3000, 0x30ff), (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0x1100, 0x11ff), (0xf900, 0xfaff), (0x1d400, 0x1d7ff),
              (0x1f300, 0x1f6ff), (0x20000, 0x2a6df), (0xe000, 0xe010), (0x1, 0x1f), (0x660, 0x669), (0x2150, 0x218f)]
    words = [" ", "  ", "   ", "\n", "\r\n", "\n\n ", "\t", " \n", "don't", "WE'LL", "'S", "'re", "12345", "x1y22", "3.14", "e\u0301", "A\u030a",
             "\u1112\u1161\u11ab", "\u0323\u0307q", "q\u0307\u0323", "\u212b", MARK, MARK + "the", " the", "the ", "The mesh", "devices", "!!!", "...\n", "<s>",
             "</s>", "<|endoftext|>", "<0x0A>", "[X]", " [X] ", "l\u00e9 mesh", "le\u0301 mesh", "wörter", "\u00a0", "\u3000", "\u2028", "\x85", "\u180e"] + SENTENCES
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(draw.randrange(1, 25)):
            low, high = draw.choice(ranges)
            parts.append(draw.choice(words) if draw.random() < 0.6 else chr(draw.randrange(low, high + 1)))
        texts.append("".join(parts))
    return texts + [" ", "\n", "a", " a", "  a", "a ", MARK, " " * 1000, "a" * 1000, "\n" * 300 + "x", "the " * 300] + SENTENCES


def trained(tokenizer, size=700, alphabet=None):
    options = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()} if alphabet is None else {"limit_alphabet": alphabet}
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, **options)
    tokenizer.train_from_iterator(training_lines(), trainer)
    return tokenizer


def byte_level(pattern=None, normalizer=None, steps=()):
    tokenizer = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None and not steps)
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated")] if pattern else []
    everything = [*splits, *steps, level]
    tokenizer.pre_tokenizer = level if len(everything) == 1 else pre_tokenizers.Sequence(everything)
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    return trained(tokenizer)


def gpt2():
    tokenizer = byte_level()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=True)])
    return json.loads(tokenizer.to_str())


def trained_by_run_clm():
    """The tokenizer.json that a run with --tokenizer_name bpe:700 writes."""
    folder = FOLDER / "run"
    folder.mkdir()
    (folder / "text.txt").write_text("\n".join(training_lines()))
    (folder / "gpt2.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 8, "n_head": 1, "n_layer": 1, "n_positions": 16,
                                                  "vocab_size": 700}))
    subprocess.run([pathlib.Path(TESSERA).resolve().parent / "run_clm", "--config_name", "gpt2.json", "--train_file", "text.txt",
                    "--tokenizer_name", "bpe:700", "--block_size", "16", "--max_steps", "1", "--output_dir", "out", "--report_to", "none",
                    "--sample_tokens", "0"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return json.loads((folder / "out" / "tokenizer.json").read_text())


def qwen():
    tokenizer = byte_level(QWEN, normalizers.NFC())
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>"])
    tokenizer.add_tokens([AddedToken("[X]", normalized=False)])
    return json.loads(tokenizer.to_str())


def llama3():
    tokenizer = byte_level(LLAMA3)
    tokenizer.add_special_tokens(["<s>", "</s>"])
    begin = tokenizer.token_to_id("<s>")
    template = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", begin)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    out = json.loads(tokenizer.to_str())
    out["model"]["ignore_merges"] = True
    del out["model"]["merges"][5::7]  # so that whole pieces are tokens that merges do not make
    return out


def nemo():
    return json.loads(byte_level(NEMO).to_str())


def digits():
    return json.loads(byte_level(steps=[pre_tokenizers.Digits(individual_digits=True)]).to_str())


def added():
    """Added tokens that take white space, and some that are found in the normalized text."""
    tokenizer = byte_level(QWEN, normalizers.NFC())
    tokenizer.add_tokens([AddedToken("[X]", lstrip=True, rstrip=True, normalized=False), AddedToken("l\u00e9 mesh", normalized=True),
                          AddedToken("devices", normalized=True), AddedToken("the", normalized=False)])
    return json.loads(tokenizer.to_str())


def characters(within_words, metaspace=None, byte_fallback=True, fuse_unk=True, normalizer=True):
    """As SentencePiece: the vocabulary has the unknown token, <s>, </s>, and the bytes before the trained tokens."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    if within_words:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    trained(tokenizer, 600, 90)
    out = json.loads(tokenizer.to_str())
    first = ["<unk>", "<s>", "</s>"] + ([f"<0x{byte:02X}>" for byte in range(256)] if byte_fallback else [])
    own = [token for token in sorted(out["model"]["vocab"], key=out["model"]["vocab"].get) if token not in first]
    own += [] if MARK in own else [MARK]
    out["model"].update(vocab={token: i for i, token in enumerate(first + own)}, byte_fallback=byte_fallback, fuse_unk=fuse_unk)
    out["added_tokens"] = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                            "special": True} for i, token in enumerate(first[:3])]
    out["post_processor"] = json.loads(processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)]).__getstate__())
    out["pre_tokenizer"] = metaspace
    if not normalizer:
        out["normalizer"] = None
    return out


def space(scheme, split):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": split}


KINDS = {
    "gpt2": gpt2,
    "trained": trained_by_run_clm,
    "qwen": qwen,
    "llama3": llama3,
    "nemo": nemo,
    "digits": digits,
    "added": added,
    "llama2": lambda: characters(True),
    "llama2_across_words": lambda: characters(False),
    "mistral": lambda: characters(True, space("first", False), normalizer=False),
    "metaspace_always": lambda: characters(True, space("always", True), normalizer=False),
    "metaspace_never": lambda: characters(False, space("never", True), normalizer=False),
    "unknown_fused": lambda: characters(True, byte_fallback=False),
    "unknown": lambda: characters(True, byte_fallback=False, fuse_unk=False),
}


def read_tokens(path):
    """The documents of a token file, without the end of text."""
    data = path.read_bytes()
    magic, _, width, tokens, documents, _, end, _, name, vocabulary, _ = struct.unpack_from("<8sIIQQQqQIIQ", data)
    assert magic == b"tsrtoken"
    begin = (72 + name + vocabulary + 63) // 64 * 64
    ids = struct.unpack_from(f"<{tokens}{'H' if width == 2 else 'I'}", data, begin)
    places = struct.unpack_from(f"<{documents}Q", data, (begin + tokens * width + 7) // 8 * 8)
    out = [list(ids[start:stop]) for start, stop in zip([0, *places], places)]
    assert end < 0 or all(document[-1] == end for document in out)
    return [document[:-1] for document in out] if end >= 0 else out


def compare(kind, texts):
    global failures
    folder = FOLDER / kind
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(KINDS[kind](), ensure_ascii=False))
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    subprocess.run([TESSERA, "tokenize", folder / "texts.jsonl", "--tokenizer", folder / "tokenizer.json", "-o", folder / "out.tokens"],
                   check=True, stdout=subprocess.DEVNULL)
    theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ours = read_tokens(folder / "out.tokens")
    assert len(ours) == len(texts), (len(ours), len(texts))
    wrong = [(text, mine, theirs.encode(text).ids) for text, mine in zip(texts, ours) if mine != theirs.encode(text).ids]
    failures += bool(wrong)
    print(f"{'FAIL' if wrong else 'ok  '}  {kind}: {len(texts) - len(wrong)} of {len(texts)} texts have equal ids", flush=True)
    for text, mine, expected in wrong[:3]:
        print("      ", [hex(ord(c)) for c in text][:60], [theirs.id_to_token(i) for i in mine][:60], [theirs.id_to_token(i) for i in expected][:60])


def main():
    texts = odd_texts(3000)
    for kind in sys.argv[2:] or KINDS:
        compare(kind, texts)
    print(f"tokenizers {tokenizers.__version__}")
    sys.exit(failures > 0)


main()
