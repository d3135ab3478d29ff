#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares 50 updates of the optimizers with those of PyTorch and transformers, and the schedules with transformers.

    optimizers.py OPTIMIZER_VALUES      the program of optimizer_values.cpp; needs torch and transformers

The largest difference of a parameter, over all updates, must be at most 1e-5 times the largest parameter. Lion is in
neither library: its formula from the paper is below. Muon in PyTorch iterates in bf16; it is compared with the iteration
in the type of the parameters, and also in bf16 as it is, where roundings differ.
"""
import json
import math
import subprocess
import sys
import types

import torch
import transformers
from torch.optim import _muon
from transformers.optimization import Adafactor, get_scheduler

RATE, DECAY, WARMUP, TOTAL, STEPS = 1e-2, 0.1, 5, 40, 50
TOLERANCE = 1e-5


def numbers(shape, first, dtype):
    out = []
    for i in range(math.prod(shape)):
        turned = (first + i + 1) * 0.6180339887498949
        out.append(turned - math.floor(turned) - 0.5)
    return torch.tensor(out, dtype=torch.float64).to(dtype).reshape(shape)


class Lion(torch.optim.Optimizer):
    def __init__(self, groups, lr, betas):
        super().__init__(groups, {'lr': lr, 'weight_decay': 0.0})
        self.betas = betas

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group['params']:
                m = self.state[p].setdefault('m', torch.zeros_like(p))
                p.mul_(1 - group['lr'] * group['weight_decay'])
                p.sub_(group['lr'] * torch.sign(self.betas[0] * m + (1 - self.betas[0]) * p.grad))
                m.mul_(self.betas[1]).add_(p.grad, alpha=1 - self.betas[1])


class Both:
    def __init__(self, *parts):
        self.parts = parts

    def step(self):
        for part in self.parts:
            part.step()

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad()


def groups(matrices, bias):
    return [{'params': matrices, 'weight_decay': DECAY}, {'params': [bias], 'weight_decay': 0.0}]


def adafactor(lr=None, **options):
    return lambda m, b: Adafactor(groups(m, b), lr=lr, **options)


def of_torch(name, **options):
    return lambda m, b: getattr(torch.optim, name)(groups(m, b), lr=RATE, **options)


def muon(ns_dtype, **options):
    def make(matrices, bias):
        # The module reads the name torch.bfloat16 at each step.
        names = {name: getattr(torch, name) for name in dir(torch)}
        names['bfloat16'] = ns_dtype or matrices[0].dtype
        _muon.torch = types.SimpleNamespace(**names)
        return Both(torch.optim.Muon([{'params': matrices}], lr=RATE, weight_decay=DECAY, **options),
                    torch.optim.AdamW([bias], lr=RATE, weight_decay=0.0))
    return make


OPTIMIZERS = {
    'adamw_torch:': lambda m, b: torch.optim.AdamW(groups(m, b), lr=RATE),
    'adamw_torch:amsgrad=true,beta1=0.8': lambda m, b: torch.optim.AdamW(groups(m, b), lr=RATE, betas=(0.8, 0.999),
                                                                         amsgrad=True),
    'adam:eps=1e-6': lambda m, b: torch.optim.Adam(groups(m, b), lr=RATE, eps=1e-6),
    'sgd:momentum=0.9,dampening=0.5': lambda m, b: torch.optim.SGD(groups(m, b), lr=RATE, momentum=0.9, dampening=0.5),
    'sgd:momentum=0.9,nesterov=true': lambda m, b: torch.optim.SGD(groups(m, b), lr=RATE, momentum=0.9, nesterov=True),
    'adagrad:': of_torch('Adagrad'),
    'adagrad:lr_decay=0.1,initial_accumulator_value=0.2,eps=1e-6': of_torch('Adagrad', lr_decay=0.1, eps=1e-6,
                                                                           initial_accumulator_value=0.2),
    'rmsprop:': of_torch('RMSprop'),
    'rmsprop:alpha=0.9,momentum=0.5,eps=1e-4': of_torch('RMSprop', alpha=0.9, momentum=0.5, eps=1e-4),
    'rmsprop:centered=true,eps=1e-3': of_torch('RMSprop', centered=True, eps=1e-3),
    'adadelta:': of_torch('Adadelta'),
    'adadelta:rho=0.7,eps=1e-4': of_torch('Adadelta', rho=0.7, eps=1e-4),
    'adamax:': of_torch('Adamax'),
    'adamax:beta1=0.8,beta2=0.95,eps=1e-4': of_torch('Adamax', betas=(0.8, 0.95), eps=1e-4),
    'nadam:': of_torch('NAdam'),
    'nadam:momentum_decay=0.1,decoupled_weight_decay=true': of_torch('NAdam', momentum_decay=0.1,
                                                                    decoupled_weight_decay=True),
    'radam:': of_torch('RAdam'),
    'radam:beta2=0.9,decoupled_weight_decay=true': of_torch('RAdam', betas=(0.9, 0.9), decoupled_weight_decay=True),
    'adafactor:': adafactor(lr=RATE, scale_parameter=False, relative_step=False),
    'adafactor:scale_parameter=true,relative_step=true,warmup_init=true': adafactor(warmup_init=True),
    'adafactor:scale_parameter=true,relative_step=true': adafactor(),
    'adafactor:beta1=0.9,clip_threshold=0.5,decay_rate=-0.5': adafactor(lr=RATE, scale_parameter=False, relative_step=False,
                                                                       beta1=0.9, clip_threshold=0.5, decay_rate=-0.5),
    'lion:beta2=0.99': lambda m, b: Lion(groups(m, b), RATE, (0.9, 0.99)),
    'muon:': muon(None),
    'muon:nesterov=false,momentum=0.8,adjust_lr_fn=match_rms_adamw': muon(None, nesterov=False, momentum=0.8,
                                                                         adjust_lr_fn='match_rms_adamw'),
    'muon:adjust_lr_fn=spectral_unclamped,ns_steps=3': muon(None, adjust_lr_fn='spectral_unclamped', ns_steps=3),
    'muon:ns_dtype=bfloat16': muon(torch.bfloat16),
}
LOOSE = {'muon:ns_dtype=bfloat16': 0.05}

SCHEDULES = {
    'linear:': {}, 'cosine:': {}, 'cosine:num_cycles=1.5': {'num_cycles': 1.5}, 'cosine_with_restarts:': {},
    'cosine_with_restarts:num_cycles=3': {'num_cycles': 3}, 'polynomial:': {},
    'polynomial:lr_end=1e-3,power=2': {'lr_end': 1e-3, 'power': 2}, 'constant:': {}, 'constant_with_warmup:': {},
    'inverse_sqrt:': {}, 'inverse_sqrt:timescale=20': {'timescale': 20},
    'reduce_lr_on_plateau:patience=2,factor=0.5': {'patience': 2, 'factor': 0.5},
    'reduce_lr_on_plateau:mode=max,patience=1,cooldown=3,threshold_mode=abs,threshold=0.01,min_lr=0.002':
        {'mode': 'max', 'patience': 1, 'cooldown': 3, 'threshold_mode': 'abs', 'threshold': 0.01, 'min_lr': 0.002},
    'cosine_with_min_lr:min_lr=1e-3': {'min_lr': 1e-3}, 'cosine_with_min_lr:min_lr_rate=0.2': {'min_lr_rate': 0.2},
    'cosine_warmup_with_min_lr:min_lr_rate=0.2': {'min_lr_rate': 0.2},
    'cosine_warmup_with_min_lr:min_lr=1e-3,warmup_lr_rate=0.1': {'min_lr': 1e-3, 'warmup_lr_rate': 0.1},
    'warmup_stable_decay:num_decay_steps=12': {'num_decay_steps': 12},
    'warmup_stable_decay:num_decay_steps=12,warmup_type=cosine,decay_type=1-sqrt,min_lr_ratio=0.1':
        {'num_decay_steps': 12, 'warmup_type': 'cosine', 'decay_type': '1-sqrt', 'min_lr_ratio': 0.1},
    'warmup_stable_decay:num_decay_steps=9,num_stable_steps=11,warmup_type=1-sqrt,decay_type=linear':
        {'num_decay_steps': 9, 'num_stable_steps': 11, 'warmup_type': '1-sqrt', 'decay_type': 'linear'},
}


def trajectory(make, dtype):
    w1, w2, bias = numbers((7, 13), 0, dtype), numbers((13, 5), 100, dtype), numbers((13,), 200, dtype)
    for p in (w1, w2, bias):
        p.requires_grad_()
    optimizer = make([w1, w2], bias)
    out = []
    for step in range(STEPS):
        optimizer.zero_grad()
        hidden = torch.tanh(numbers((6, 7), 300 + 42 * step, dtype) @ w1 + bias)
        ((hidden @ w2 - numbers((6, 5), 1000 + 30 * step, dtype)) ** 2).mean().backward()
        optimizer.step()
        out.append(torch.cat([p.detach().double().flatten() for p in (w1, w2, bias)]))
    return torch.stack(out)


def rates(name, options):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    schedule = get_scheduler(name, optimizer, WARMUP, TOTAL, options)
    out = []
    for step in range(TOTAL + 5):
        out.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        schedule.step(*([math.cos(0.3 * step) + 1.5] if name == 'reduce_lr_on_plateau' else []))
    return torch.tensor(out, dtype=torch.float64)


def main():
    cases = ['optimizer:' + name for name in OPTIMIZERS] + ['schedule:' + name for name in SCHEDULES]
    ours = json.loads(subprocess.run([sys.argv[1], *cases], check=True, capture_output=True, text=True).stdout)
    print(f'torch {torch.__version__}, transformers {transformers.__version__}')
    print(f'largest relative difference of a parameter over {STEPS} updates       float64   float32')
    failed = 0
    for name, make in OPTIMIZERS.items():
        found = []
        for dtype in (torch.float64, torch.float32):
            expected = trajectory(make, dtype)
            values = torch.tensor(ours[f'optimizer:{name} {str(dtype)[6:]}'], dtype=torch.float64)
            found.append(((values - expected).abs().max() / expected.abs().max()).item())
        bad = max(found) > LOOSE.get(name, TOLERANCE)
        failed += bad
        print(f'{name:68} {found[0]:9.1e} {found[1]:9.1e}{"  DIFFERENT" if bad else ""}')
    worst = 0
    for name, options in SCHEDULES.items():
        expected = rates(name.split(':')[0], options)
        difference = ((torch.tensor(ours['schedule:' + name], dtype=torch.float64) - expected).abs().max() / RATE).item()
        worst = max(worst, difference)
        if difference > 1e-12:
            failed += 1
            print(f'{name}  {difference:.1e}  DIFFERENT')
    print(f'{len(SCHEDULES)} schedules, {TOTAL + 5} steps each: largest difference {worst:.1e} of the first rate')
    print(f'{len(OPTIMIZERS)} optimizers, {failed} differences')
    sys.exit(failed > 0)


if __name__ == '__main__':
    main()
