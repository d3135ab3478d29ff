#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints how the MFU of a GPT-2 under FSDP changes with the number of devices and with the batch, and draws both curves.

usage: bench/scaling/scaling.py [--preset 2b] [--devices 4,8,16,32,64,128,256,512] [--tokens 131072] [--svg FILE] [--bin build/release/bin]

All numbers are plans of `plan_gpt2` (TPU v4, bf16, recomputed blocks); nothing is trained. The MFU is that of a step in which no
communication is hidden. Strong scaling keeps the tokens of a step, weak scaling those of a device.
"""
import argparse
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEAK = 275e12  # FLOP/s of a chip
SPEED = 173.7  # TFLOP/s, fitted to the published trainings (tessera plan --table1)
LINKS = 300  # GB/s of a chip
SEQUENCE = 1024
WIDTH, HEIGHT, MARGIN = 420, 300, 50


def utilization(plan, preset, devices, tokens):
    """The MFU of a step of `tokens` tokens, and its seconds."""
    text = subprocess.run([plan, "--preset", preset, "--devices", str(devices), "--batch_tokens", str(tokens), "--peak_teraflops", str(SPEED),
                           "--gigabytes_per_second", str(LINKS)], capture_output=True, text=True, check=True).stdout
    flops = float(re.search(r"([\d.e+-]+) PFLOP by 6 N T", text)[1]) * 1e15
    seconds = float(re.search(r"([\d.e+-]+) s$", text, re.M)[1])
    return flops / seconds / devices / PEAK, seconds


def panel(left, title, xs, ys, label):
    """One curve. The x axis is logarithmic."""
    top = max(ys) * 1.15
    place = [(left + MARGIN + (WIDTH - 2 * MARGIN) * i / max(1, len(xs) - 1), HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * y / top) for i, y in enumerate(ys)]
    out = [f'<text x="{left + WIDTH / 2}" y="24" text-anchor="middle">{title}</text>',
           f'<text x="{left + WIDTH / 2}" y="{HEIGHT - 10}" text-anchor="middle">{label}</text>',
           f'<text x="{left + MARGIN - 8}" y="{MARGIN - 6}" text-anchor="end">MFU</text>',
           f'<path d="M{left + MARGIN},{MARGIN} V{HEIGHT - MARGIN} H{left + WIDTH - MARGIN}" fill="none" stroke="black"/>',
           '<polyline fill="none" stroke="#1f6fb2" stroke-width="2" points="' + " ".join(f"{x:.1f},{y:.1f}" for x, y in place) + '"/>']
    for (x, y), name, value in zip(place, xs, ys, strict=True):
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#1f6fb2"/>', f'<text x="{x:.1f}" y="{y - 8:.1f}" text-anchor="middle">{100 * value:.0f}%</text>',
                f'<text x="{x:.1f}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle">{name}</text>']
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="2b")
    parser.add_argument("--devices", default="4,8,16,32,64,128,256,512")
    parser.add_argument("--tokens", type=int, default=512 * SEQUENCE, help="of a step, in strong scaling")
    parser.add_argument("--svg")
    parser.add_argument("--bin", default="build/release/bin")
    arguments = parser.parse_args()
    plan = ROOT / arguments.bin / "plan_gpt2"
    devices = [int(count) for count in arguments.devices.split(",")]
    rows = [2**i for i in range(6)]  # of a device
    of_a_device = arguments.tokens // max(devices)
    print("| devices | MFU, strong scaling | seconds | MFU, weak scaling | seconds |\n|---|---|---|---|---|")
    strong = []
    for count in devices:
        fixed, weak = utilization(plan, arguments.preset, count, arguments.tokens), utilization(plan, arguments.preset, count, count * of_a_device)
        strong.append(fixed[0])
        print(f"| {count} | {100 * fixed[0]:.1f}% | {fixed[1]:.3g} | {100 * weak[0]:.1f}% | {weak[1]:.3g} |", flush=True)
    middle = devices[len(devices) // 2]
    print(f"\n| rows of {SEQUENCE} tokens on each of {middle} devices | MFU |\n|---|---|")
    batches = [utilization(plan, arguments.preset, middle, middle * count * SEQUENCE)[0] for count in rows]
    for count, value in zip(rows, batches, strict=True):
        print(f"| {count} | {100 * value:.1f}% |")
    if arguments.svg:
        body = panel(0, f"{arguments.preset}, {arguments.tokens} tokens in a step", devices, strong, "devices")
        body += panel(WIDTH, f"{arguments.preset}, {middle} devices", rows, batches, "rows of a device")
        pathlib.Path(arguments.svg).write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
                                               'font-size="11">\n' + "\n".join(body) + "\n</svg>\n")


if __name__ == "__main__":
    main()
