# SPDX-License-Identifier: Apache-2.0
"""Programs for `held_out.py`: models, optimizers, numerics and inference steps that `corpus.py` has not.

A case is a function of a `Kit` k that gives (function, arguments). A size is drawn with k.n(usual), so that a variant has odd
ones; an argument is k.a("btc", b, t, c): one letter a dim. k.c(x, "btc") constrains a value in variants that do so. The letters in
CASES are those that mesh axes are given to.
"""
import held_out_transformers
import held_out_models
import held_out_numerics
import held_out_training

CASES = {**held_out_transformers.CASES, **held_out_models.CASES, **held_out_numerics.CASES, **held_out_training.CASES}
