# SPDX-License-Identifier: Apache-2.0
"""The cases of layers.py: classes of torch.nn with arguments and inputs."""
import dataclasses
import itertools
import typing

import torch


@dataclasses.dataclass
class Case:
    name: str
    layer: str  # the name of the class
    options: dict  # the arguments of the class; and is_causal, an argument of the call, and final_norm, which adds a norm
    inputs: typing.Callable  # returns the arguments of the call by their names; reproducible after torch.manual_seed()


def case(layer, options, inputs, label=""):
    arguments = " ".join(f"{key}={value}" for key, value in options.items())
    name = ", ".join(part for part in (layer, label) if part)
    return Case(f"{name}: {arguments}" if arguments else name, layer, options, inputs)


def products(**values):
    """Yields a dict for each combination of the values."""
    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination))


def random(*shape):
    return torch.randn(shape, dtype=torch.float64)


def plain(*shape):
    return lambda: {"input": random(*shape)}


# ---- recurrent layers ---------------------------------------------------------------------------------------------

INPUT, HIDDEN, BATCH, TIME = 5, 4, 3, 7


def recurrent_inputs(layer, given, batch, time, layers, batch_first):
    shape = (batch, time, INPUT) if batch_first else (time, batch, INPUT)
    out = {"input": random(*shape)}
    if given:
        out["h_0"] = random(layers, batch, HIDDEN)
        if layer == "LSTM":
            out["c_0"] = random(layers, batch, HIDDEN)
    return out


def recurrent_cases():
    sizes = {"input_size": INPUT, "hidden_size": HIDDEN}
    kinds = [("RNN", {"nonlinearity": "tanh"}), ("RNN", {"nonlinearity": "relu"}), ("LSTM", {}), ("GRU", {})]
    options = list(products(num_layers=(1, 2), bidirectional=(False, True), batch_first=(False, True), bias=(True, False)))
    for (layer, kind), chosen, given in itertools.product(kinds, options, (False, True)):
        states = chosen["num_layers"] * (2 if chosen["bidirectional"] else 1)
        for batch, time in ((BATCH, TIME), (1, 1)) if chosen["bias"] else ((BATCH, TIME),):
            arguments = (layer, given, batch, time, states, chosen["batch_first"])
            yield case(layer, {**sizes, **kind, **chosen}, lambda a=arguments: recurrent_inputs(*a),
                       f"{'with' if given else 'without'} a state, b={batch} t={time}")


def cell_inputs(layer, given):
    out = {"input": random(BATCH, INPUT)}
    if given:
        out["h_0"] = random(BATCH, HIDDEN)
        if layer == "LSTMCell":
            out["c_0"] = random(BATCH, HIDDEN)
    return out


def cell_cases():
    kinds = [("RNNCell", {"nonlinearity": "tanh"}), ("RNNCell", {"nonlinearity": "relu"}), ("LSTMCell", {}), ("GRUCell", {})]
    for (layer, kind), bias, given in itertools.product(kinds, (True, False), (False, True)):
        options = {"input_size": INPUT, "hidden_size": HIDDEN, "bias": bias, **kind}
        yield case(layer, options, lambda a=(layer, given): cell_inputs(*a), f"{'with' if given else 'without'} a state")


# ---- transformers -------------------------------------------------------------------------------------------------

WIDTH, HEADS, SOURCE, TARGET = 12, 3, 7, 5
SIZES = {"d_model": WIDTH, "nhead": HEADS, "dim_feedforward": 10, "dropout": 0.0}


def padding(length):
    """The rows of the batch end with 0, 2, 4, … positions of padding."""
    return torch.tensor([[i >= length - 2 * row for i in range(length)] for row in range(BATCH)])


def added_causal(size):
    return torch.full((size, size), float("-inf"), dtype=torch.float64).triu(1)


def booleans(t, s):
    """Masks that hide about a third of the keys, but never the first one."""
    mask = torch.tensor([[(3 * i + 2 * j) % 3 == 1 for j in range(s)] for i in range(t)])
    mask[:, 0] = False
    return mask


def masks(prefix, t, s):
    """By label: the masks of an attention, as arguments of the call and as is_causal."""
    mask, padded, causal = f"{prefix}_mask", f"{prefix}_key_padding_mask", f"{prefix}_is_causal"
    yield "no mask", {}, {}
    yield "padding", {padded: lambda: padding(s)}, {}
    yield "is_causal", {}, {causal: True}
    yield "is_causal and padding", {padded: lambda: padding(s)}, {causal: True}
    yield "boolean mask", {mask: lambda: booleans(t, s)}, {}
    yield "boolean mask and padding", {mask: lambda: booleans(t, s), padded: lambda: padding(s)}, {}
    yield "added mask", {mask: lambda: random(t, s)}, {}
    yield "added mask and padding", {mask: lambda: random(t, s), padded: lambda: padding(s)}, {}
    yield "added mask of each head", {mask: lambda: random(BATCH * HEADS, t, s)}, {}
    if t == s:
        yield "added causal mask and padding", {mask: lambda: added_causal(t), padded: lambda: padding(s)}, {}


def call_inputs(batch_first, sequences, given):
    out = {}
    for name, length in sequences.items():
        out[name] = random(BATCH, length, WIDTH) if batch_first else random(length, BATCH, WIDTH)
    return out | {name: make() for name, make in given.items()}


def transformer_case(layer, options, sequences, given, flags, label):
    arguments = (options.get("batch_first", False), sequences, given)
    return case(layer, {**SIZES, **options, **flags}, lambda: call_inputs(*arguments), label)


def encoder_masks():
    for label, given, flags in masks("src", SOURCE, SOURCE):
        yield label, given, {"is_causal" if key == "src_is_causal" else key: value for key, value in flags.items()}


def decoder_masks():
    for label, given, flags in masks("tgt", TARGET, TARGET):
        yield f"target {label}", given, flags
    for label, given, flags in masks("memory", TARGET, SOURCE):
        if given or flags:
            yield f"memory {label}", given, flags
    both = {"tgt_key_padding_mask": lambda: padding(TARGET), "memory_key_padding_mask": lambda: padding(SOURCE),
            "memory_mask": lambda: random(TARGET, SOURCE)}
    yield "all masks", both, {"tgt_is_causal": True}


LAYER_OPTIONS = list(products(norm_first=(False, True), activation=("relu", "gelu"), batch_first=(False, True)))
LAYER_OPTIONS += [{"norm_first": first, "bias": False, "layer_norm_eps": 1e-2} for first in (False, True)]


def layer_cases():
    for options in LAYER_OPTIONS:
        for mask in encoder_masks():
            yield transformer_case("TransformerEncoderLayer", options, {"src": SOURCE}, *mask[1:], mask[0])
    for options in LAYER_OPTIONS:
        for mask in decoder_masks():
            yield transformer_case("TransformerDecoderLayer", options, {"tgt": TARGET, "memory": SOURCE}, *mask[1:], mask[0])


STACK_OPTIONS = [{"norm_first": False, "batch_first": True}, {"norm_first": True, "activation": "gelu"},
                 {"norm_first": True, "bias": False, "layer_norm_eps": 1e-2}]


def stack_cases():
    for options, norm in itertools.product(STACK_OPTIONS, (False, True)):
        stack = {**options, "num_layers": 2, "final_norm": norm}
        for mask in encoder_masks():
            yield transformer_case("TransformerEncoder", stack, {"src": SOURCE}, *mask[1:], mask[0])
        for mask in list(decoder_masks())[::3]:
            yield transformer_case("TransformerDecoder", stack, {"tgt": TARGET, "memory": SOURCE}, *mask[1:], mask[0])
    for options in STACK_OPTIONS:
        layers = {**options, "num_encoder_layers": 2, "num_decoder_layers": 1}
        both = {"src": SOURCE, "tgt": TARGET}
        for label, given, flags in masks("src", SOURCE, SOURCE):
            yield transformer_case("Transformer", layers, both, given, flags, f"source {label}")
        for label, given, flags in list(decoder_masks())[1:]:
            yield transformer_case("Transformer", layers, both, given, flags, label)


# ---- normalizations, pools, shapes --------------------------------------------------------------------------------

def norm_cases():
    for affine, eps in itertools.product((False, True), (1e-5, 1e-2)):
        options = {"num_features": 3, "affine": affine, "eps": eps}
        for length in (2, 7):
            yield case("InstanceNorm1d", options, plain(2, 3, length), f"length {length}")
        for size in ((1, 3), (4, 5)):
            yield case("InstanceNorm2d", options, plain(2, 3, *size), f"{size[0]}x{size[1]}")
    for bias, dims in itertools.product((True, False), ((), (4,), (2, 3), (2, 1, 3))):
        options = {"in1_features": 3, "in2_features": 5, "out_features": 2, "bias": bias}
        yield case("Bilinear", options, lambda d=dims: {"input1": random(*d, 3), "input2": random(*d, 5)}, f"dims {list(dims)}")


def pool_cases():
    for length, kernel, stride, pad, ceil in itertools.product((11, 12), (2, 3, 5), (None, 1, 2, 3), (0, 1, 2), (False, True)):
        if 2 * pad > kernel:
            continue
        options = {"kernel_size": kernel, "padding": pad, "ceil_mode": ceil} | ({"stride": stride} if stride else {})
        yield case("MaxPool1d", options, plain(2, 3, length), f"length {length}")
        for count in (True, False):
            yield case("AvgPool1d", {**options, "count_include_pad": count}, plain(2, 3, length), f"length {length}")
    yield case("MaxPool1d", {"kernel_size": 3, "stride": 2, "padding": 1},
               lambda: {"input": random(2, 3, 12).clamp(min=0.5)}, "equal elements")
    for length, size in itertools.product((1, 5, 7, 11, 12), (1, 2, 3, 5, 7, 13)):
        yield case("AdaptiveAvgPool1d", {"output_size": size}, plain(2, 3, length), f"length {length}")


def shape_cases():
    for factor in (1, 2, 3):
        yield case("PixelShuffle", {"upscale_factor": factor}, plain(2, 2 * factor * factor, 3, 5))
    for factor in (1, 2, 3, (3, 2), (1, 4)):
        yield case("Upsample", {"scale_factor": factor}, plain(2, 3, 4, 5))
    for pad in (0, 2, -1, (1, 2, 3, 0), (1, -2, -1, 3), (-1, -1, -2, 0)):
        yield case("ZeroPad2d", {"padding": pad}, plain(2, 3, 4, 5))


# ---- activations --------------------------------------------------------------------------------------------------

# 0 and the places where a formula changes; small numbers; large ones, where a formula may overflow.
ZERO = [0.0, -0.0, 3.0, -3.0, 1.0, -1.0]
SMALL = [sign * 10.0 ** -n for n in (1, 4, 8, 12, 16, 30) for sign in (1, -1)]
LARGE = [sign * x for x in (5.0, 8.0, 15.0, 30.0, 60.0, 88.0, 100.0, 700.0, 1e4) for sign in (1, -1)]


def activations():
    for layer in ("ReLU", "SiLU", "Tanh", "Sigmoid", "SELU", "Hardsigmoid", "Hardswish", "Mish", "Identity", "LeakyReLU",
                  "ELU"):
        yield layer, {}
    yield "LeakyReLU", {"negative_slope": 0.2}
    yield "ELU", {"alpha": 0.7}
    yield "GELU", {"approximate": "none"}
    yield "GELU", {"approximate": "tanh"}
    for beta in (1.0, 2.5, 0.3):  # Tessera's has no threshold. Beyond 35, the linear function is exact.
        yield "Softplus", {"beta": beta, "threshold": 35.0}


def activation_cases():
    for layer, options in activations():
        yield case(layer, options, lambda: {"input": 2 * random(5, 7)}, "normal")
        for label, values in (("zero", ZERO[:2]), ("edges", ZERO), ("small", SMALL), ("large", LARGE)):
            yield case(layer, options, lambda v=values: {"input": torch.tensor(v, dtype=torch.float64)}, label)
        # One sign: values near 0 are not hidden by large ones.
        yield case(layer, options, lambda: {"input": torch.tensor(LARGE[1::2], dtype=torch.float64)}, "large negative")
    for layer, dim in itertools.product(("Softmax", "LogSoftmax"), (0, 1, -1)):
        yield case(layer, {"dim": dim}, lambda: {"input": 3 * random(3, 5, 2)}, "normal")
        yield case(layer, {"dim": dim}, lambda: {"input": 300 * random(3, 5, 2)}, "large")


def cases():
    """All of them. Their names are unique."""
    parts = (recurrent_cases, cell_cases, layer_cases, stack_cases, norm_cases, pool_cases, shape_cases, activation_cases)
    out = [one for part in parts for one in part()]
    assert len({one.name for one in out}) == len(out)
    return out
