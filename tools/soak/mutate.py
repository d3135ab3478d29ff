# SPDX-License-Identifier: Apache-2.0
"""Changes an HLO text: bytes, tokens, numbers, lines, shardings. Makes few changes, so that many texts remain valid
programs.
"""
import re

NUMBERS = ["0", "1", "2", "3", "5", "7", "8", "-1", "64", "127", "255", "65536", "2147483647", "2147483648", "4294967296",
           "9223372036854775807", "9223372036854775808", "18446744073709551615", "-9223372036854775808", "1e39", "nan", "inf"]
TYPES = ["pred", "s4", "s8", "s32", "s64", "u8", "u32", "u64", "bf16", "f16", "f32", "f64", "c64", "f8e4m3fn"]
TOKEN = re.compile(r"[A-Za-z_][\w.-]*|-?\d+(?:\.\d+)?|\s+|.", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.%-])-?\d+(?![\w.])")
SHARDING = re.compile(r"sharding=(?:\{\{.*?\}\}|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})")


def bytes_changed(random, text, _):
    at = random.randrange(len(text))
    size = random.choice([1, 1, 2, 5, 40])
    how = random.randrange(4)
    if how == 0:
        return text[:at] + text[at + size:]
    if how == 1:
        return text[:at] + chr(random.choice([0, 9, 32, 34, 37, 123, 125, 40, 41, 44, 61, 255, 0x1F600])) + text[at + 1:]
    if how == 2:
        return text[:at] + text[at:at + size] + text[at:]
    return text[:at]


def tokens_changed(random, text, _):
    tokens = TOKEN.findall(text)
    words = [i for i, token in enumerate(tokens) if token.strip()]
    one, other = random.choice(words), random.choice(words)
    how = random.randrange(4)
    if how == 0:
        tokens[one], tokens[other] = tokens[other], tokens[one]
    elif how == 1:
        tokens[one] = tokens[other]
    elif how == 2:
        tokens[one] = ""
    else:
        same_kind = [i for i in words if tokens[i][0].isalpha() == tokens[one][0].isalpha()]
        tokens[one] = tokens[random.choice(same_kind)]
    return "".join(tokens)


def number_changed(random, text, _):
    found = list(NUMBER.finditer(text))
    if not found:
        return text
    at = random.choice(found)
    value = int(at.group())
    new = random.choice([str(value + 1), str(value - 1), str(2 * value), random.choice(NUMBERS), random.choice(found).group()])
    return text[:at.start()] + new + text[at.end():]


def type_changed(random, text, _):
    found = list(re.finditer(r"\b(?:" + "|".join(TYPES) + r")(?=\[)", text))
    if not found:
        return text
    at = random.choice(found)
    if random.randrange(2):  # replaces all occurrences, so that the types agree
        return re.sub(rf"\b{at.group()}(?=\[)", random.choice(TYPES), text)
    return text[:at.start()] + random.choice(TYPES) + text[at.end():]


def lines_changed(random, text, others):
    lines = text.splitlines()
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    how = random.randrange(4)
    if how == 0:
        del lines[one]
    elif how == 1:
        lines.insert(other, lines[one])
    elif how == 2:
        lines[one], lines[other] = lines[other], lines[one]
    else:
        lines.insert(one, random.choice(random.choice(others).splitlines()))
    return "\n".join(lines)


def random_sharding(random, devices):
    kind = random.randrange(9)
    fixed = ["sharding={replicated}", "sharding={manual}", "sharding={unknown}",
             f"sharding={{maximal device={random.randrange(devices + 1)}}}"]
    if kind < len(fixed):
        return fixed[kind]
    dims, left = [], devices
    for _ in range(random.randrange(1, 4)):
        dims.append(random.choice([size for size in range(1, left + 1) if left % size == 0]))
        left //= dims[-1]
    order = f"<=[{devices}]"
    if random.randrange(3) == 0:
        order = ",".join(map(str, random.sample(range(devices), devices)))
    last = ""
    if left > 1 or random.randrange(6) == 0:
        dims.append(left)
        last = random.choice([" last_tile_dim_replicate"] * 3 + [" last_tile_dims={manual}", " last_tile_dims={replicated}",
                                                                " last_tile_dims={unreduced}"])
    return f"sharding={{devices=[{','.join(map(str, dims))}]{order}{last}}}"


def sharding_changed(random, text, _):
    devices = re.search(r"num_partitions=(\d+)", text)
    count = min(int(devices.group(1)), 64) if devices and int(devices.group(1)) > 0 else 4
    found = list(SHARDING.finditer(text))
    how = random.randrange(3)
    if found and how == 0:
        at = random.choice(found)
        return text[:at.start()] + random_sharding(random, count) + text[at.end():]
    if devices and how == 1:
        new = random.choice([1, 2, 3, 4, 6, 8])
        text = text[:devices.start(1)] + str(new) + text[devices.end(1):]
        return SHARDING.sub(lambda _: random_sharding(random, new), text)
    lines = text.splitlines()
    places = [i for i, line in enumerate(lines) if " = " in line and "sharding=" not in line and line.rstrip().endswith(")")]
    if places:
        lines[random.choice(places)] += ", " + random_sharding(random, count)
    if not devices and lines[0].startswith("HloModule"):
        lines[0] += f", num_partitions={count}"
    return "\n".join(lines)


CHANGES = [bytes_changed, tokens_changed, number_changed, number_changed, type_changed, type_changed, lines_changed,
           *[sharding_changed] * 5]


def mutated(random, texts):
    text = random.choice(texts)
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        if text.strip():
            text = random.choice(CHANGES)(random, text, texts)
    return text
