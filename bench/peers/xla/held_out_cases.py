# SPDX-License-Identifier: Apache-2.0
"""Programs for `held_out.py`: models, optimizers, numerics and inference steps that are not in `corpus.py`.

A case is a function of a `Kit` k that returns (function, arguments). k.n(usual) draws a size, so that some variants
have odd ones. k.a("btc", b, t, c) is an argument, with one letter for each dim. k.c(x, "btc") constrains a value in
variants with constraints. CASES lists the letters to which mesh axes are assigned.
"""
import held_out_transformers
import held_out_models
import held_out_numerics
import held_out_training

CASES = {**held_out_transformers.CASES, **held_out_models.CASES, **held_out_numerics.CASES, **held_out_training.CASES}
