# SPDX-License-Identifier: Apache-2.0
"""python by_hand.py FOLDER: texts as PyTorch/XLA 2.0 to 2.5 printed them, and forms of shardings that JAX does not write."""
import pathlib, sys
F = pathlib.Path(sys.argv[1])
F.mkdir(parents=True, exist_ok=True)
sys.modules["by_hand"] = sys.modules["__main__"]
def m(name, text): (F / f"hand_{name}.hlo").write_text(text.lstrip("\n"))

m("torch_linear_sgd-4", '''
HloModule IrToHlo.58, input_output_alias={ {1}: (2, {}, must-alias), {2}: (1, {}, must-alias) }, entry_computation_layout={(f32[24,16]{1,0}, f32[8]{0}, f32[8,16]{1,0}, s64[24]{0}, f32[])->(f32[], f32[8,16]{1,0}, f32[8]{0})}, replica_count=1, num_partitions=4

%MaxComputation.9 (x.10: f32[], y.11: f32[]) -> f32[] {
  %x.10 = f32[] parameter(0)
  %y.11 = f32[] parameter(1)
  ROOT %maximum.12 = f32[] maximum(f32[] %x.10, f32[] %y.11)
}

%AddComputation.18 (x.19: f32[], y.20: f32[]) -> f32[] {
  %x.19 = f32[] parameter(0)
  %y.20 = f32[] parameter(1)
  ROOT %add.21 = f32[] add(f32[] %x.19, f32[] %y.20)
}

ENTRY %IrToHlo.58 (p0.1: f32[24,16], p1.2: f32[8], p2.3: f32[8,16], p3.4: s64[24], p4.5: f32[]) -> (f32[], f32[8,16], f32[8]) {
  %p0.1 = f32[24,16]{1,0} parameter(0), sharding={devices=[4,1]0,1,2,3}, metadata={op_type="xla__device_data" op_name="xla__device_data" source_file="train.py" source_line=12}
  %p2.3 = f32[8,16]{1,0} parameter(2), sharding={devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}
  %transpose.6 = f32[16,8]{0,1} transpose(f32[8,16]{1,0} %p2.3), dimensions={1,0}, metadata={op_type="aten__permute" op_name="aten__permute" source_file="linear.py" source_line=125}
  %dot.7 = f32[24,8]{1,0} dot(f32[24,16]{1,0} %p0.1, f32[16,8]{0,1} %transpose.6), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_type="aten__addmm" op_name="aten__addmm"}
  %p1.2 = f32[8]{0} parameter(1), sharding={replicated}
  %reshape.8 = f32[1,8]{1,0} reshape(f32[8]{0} %p1.2)
  %broadcast.8b = f32[1,8]{1,0} broadcast(f32[1,8]{1,0} %reshape.8), dimensions={0,1}
  %reshape.9 = f32[8]{0} reshape(f32[1,8]{1,0} %broadcast.8b)
  %broadcast.10 = f32[24,8]{1,0} broadcast(f32[8]{0} %reshape.9), dimensions={1}
  %add.13 = f32[24,8]{1,0} add(f32[24,8]{1,0} %dot.7, f32[24,8]{1,0} %broadcast.10)
  %constant.14 = f32[] constant(-inf)
  %reduce.15 = f32[24]{0} reduce(f32[24,8]{1,0} %add.13, f32[] %constant.14), dimensions={1}, to_apply=%MaxComputation.9
  %broadcast.16 = f32[24,8]{1,0} broadcast(f32[24]{0} %reduce.15), dimensions={0}
  %subtract.17 = f32[24,8]{1,0} subtract(f32[24,8]{1,0} %add.13, f32[24,8]{1,0} %broadcast.16)
  %exponential.18 = f32[24,8]{1,0} exponential(f32[24,8]{1,0} %subtract.17)
  %constant.19 = f32[] constant(0)
  %reduce.20 = f32[24]{0} reduce(f32[24,8]{1,0} %exponential.18, f32[] %constant.19), dimensions={1}, to_apply=%AddComputation.18
  %log.21 = f32[24]{0} log(f32[24]{0} %reduce.20)
  %broadcast.22 = f32[24,8]{1,0} broadcast(f32[24]{0} %log.21), dimensions={0}
  %subtract.23 = f32[24,8]{1,0} subtract(f32[24,8]{1,0} %subtract.17, f32[24,8]{1,0} %broadcast.22)
  %p3.4 = s64[24]{0} parameter(3), sharding={devices=[4]0,1,2,3}
  %broadcast.24 = s64[24,8]{1,0} broadcast(s64[24]{0} %p3.4), dimensions={0}
  %iota.25 = s64[8]{0} iota(), iota_dimension=0
  %broadcast.26 = s64[24,8]{1,0} broadcast(s64[8]{0} %iota.25), dimensions={1}
  %compare.27 = pred[24,8]{1,0} compare(s64[24,8]{1,0} %broadcast.24, s64[24,8]{1,0} %broadcast.26), direction=EQ
  %convert.28 = f32[24,8]{1,0} convert(pred[24,8]{1,0} %compare.27)
  %multiply.29 = f32[24,8]{1,0} multiply(f32[24,8]{1,0} %convert.28, f32[24,8]{1,0} %subtract.23)
  %reduce.30 = f32[] reduce(f32[24,8]{1,0} %multiply.29, f32[] %constant.19), dimensions={0,1}, to_apply=%AddComputation.18
  %constant.31 = f32[] constant(24)
  %negate.32 = f32[] negate(f32[] %reduce.30)
  %divide.33 = f32[] divide(f32[] %negate.32, f32[] %constant.31)
  %exponential.34 = f32[24,8]{1,0} exponential(f32[24,8]{1,0} %subtract.23)
  %subtract.35 = f32[24,8]{1,0} subtract(f32[24,8]{1,0} %exponential.34, f32[24,8]{1,0} %convert.28)
  %broadcast.36 = f32[24,8]{1,0} broadcast(f32[] %constant.31), dimensions={}
  %divide.37 = f32[24,8]{1,0} divide(f32[24,8]{1,0} %subtract.35, f32[24,8]{1,0} %broadcast.36)
  %transpose.38 = f32[8,24]{0,1} transpose(f32[24,8]{1,0} %divide.37), dimensions={1,0}
  %dot.39 = f32[8,16]{1,0} dot(f32[8,24]{0,1} %transpose.38, f32[24,16]{1,0} %p0.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %p4.5 = f32[] parameter(4), sharding={replicated}
  %broadcast.40 = f32[8,16]{1,0} broadcast(f32[] %p4.5), dimensions={}
  %multiply.41 = f32[8,16]{1,0} multiply(f32[8,16]{1,0} %dot.39, f32[8,16]{1,0} %broadcast.40)
  %subtract.42 = f32[8,16]{1,0} subtract(f32[8,16]{1,0} %p2.3, f32[8,16]{1,0} %multiply.41), sharding={devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}
  %reduce.43 = f32[8]{0} reduce(f32[24,8]{1,0} %divide.37, f32[] %constant.19), dimensions={0}, to_apply=%AddComputation.18
  %broadcast.44 = f32[8]{0} broadcast(f32[] %p4.5), dimensions={}
  %multiply.45 = f32[8]{0} multiply(f32[8]{0} %reduce.43, f32[8]{0} %broadcast.44)
  %subtract.46 = f32[8]{0} subtract(f32[8]{0} %p1.2, f32[8]{0} %multiply.45)
  ROOT %tuple.57 = (f32[], f32[8,16]{1,0}, f32[8]{0}) tuple(f32[] %divide.33, f32[8,16]{1,0} %subtract.42, f32[8]{0} %subtract.46)
}
''')

m("torch_sharding_call-8", '''
HloModule IrToHlo.20, entry_computation_layout={(f32[32,64]{1,0}, f32[16,32]{1,0})->(f32[16,64]{1,0})}, num_partitions=8

ENTRY %IrToHlo.20 (p0.1: f32[32,64], p1.3: f32[16,32]) -> (f32[16,64]) {
  %p1.3 = f32[16,32]{1,0} parameter(1), sharding={devices=[4,1,2]0,1,2,3,4,5,6,7 last_tile_dim_replicate}
  %custom-call.4 = f32[16,32]{1,0} custom-call(f32[16,32]{1,0} %p1.3), custom_call_target="Sharding", sharding={devices=[4,2]0,1,2,3,4,5,6,7}
  %p0.1 = f32[32,64]{1,0} parameter(0), sharding={devices=[1,2,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}
  %dot.5 = f32[16,64]{1,0} dot(f32[16,32]{1,0} %custom-call.4, f32[32,64]{1,0} %p0.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %custom-call.6 = f32[16,64]{1,0} custom-call(f32[16,64]{1,0} %dot.5), custom_call_target="Sharding", sharding={devices=[4,2]0,1,2,3,4,5,6,7}, backend_config="unspecified_dims=[1]"
  %tanh.7 = f32[16,64]{1,0} tanh(f32[16,64]{1,0} %custom-call.6)
  ROOT %tuple.19 = (f32[16,64]{1,0}) tuple(f32[16,64]{1,0} %tanh.7)
}
''')

m("torch_batch_norm-4", '''
HloModule IrToHlo.30, entry_computation_layout={(f32[8,4,16,6]{3,2,1,0}, f32[4]{0}, f32[4]{0})->(f32[8,4,16,6]{3,2,1,0}, f32[4]{0}, f32[4]{0})}, num_partitions=4

ENTRY %IrToHlo.30 (p0.1: f32[8,4,16,6], p1.2: f32[4], p2.3: f32[4]) -> (f32[8,4,16,6], f32[4], f32[4]) {
  %p0.1 = f32[8,4,16,6]{3,2,1,0} parameter(0), sharding={devices=[2,1,2,1]0,1,2,3}
  %p1.2 = f32[4]{0} parameter(1)
  %p2.3 = f32[4]{0} parameter(2)
  %bn.4 = (f32[8,4,16,6]{3,2,1,0}, f32[4]{0}, f32[4]{0}) batch-norm-training(f32[8,4,16,6]{3,2,1,0} %p0.1, f32[4]{0} %p1.2, f32[4]{0} %p2.3), epsilon=1e-05, feature_index=1
  %gte.5 = f32[8,4,16,6]{3,2,1,0} get-tuple-element(%bn.4), index=0
  %gte.6 = f32[4]{0} get-tuple-element(%bn.4), index=1
  %gte.7 = f32[4]{0} get-tuple-element(%bn.4), index=2
  %bng.8 = (f32[8,4,16,6]{3,2,1,0}, f32[4]{0}, f32[4]{0}) batch-norm-grad(%p0.1, %p1.2, %gte.6, %gte.7, %gte.5), epsilon=1e-05, feature_index=1
  %gte.9 = f32[8,4,16,6]{3,2,1,0} get-tuple-element(%bng.8), index=0
  %gte.10 = f32[4]{0} get-tuple-element(%bng.8), index=1
  %inf.11 = f32[8,4,16,6]{3,2,1,0} batch-norm-inference(%gte.9, %p1.2, %p2.3, %gte.6, %gte.7), epsilon=1e-05, feature_index=1
  ROOT %tuple.12 = (f32[8,4,16,6]{3,2,1,0}, f32[4]{0}, f32[4]{0}) tuple(%inf.11, %gte.10, %gte.7)
}
''')

for n, s in (("maximal-4", "{maximal device=2}"), ("replicated-4", "{replicated}")):
    m("mixed_" + n, f'''
HloModule mixed, entry_computation_layout={{(f32[8,12]{{1,0}}, f32[12,8]{{1,0}}, f32[8]{{0}})->(f32[8,8]{{1,0}}, f32[8]{{0}})}}, num_partitions=4

ENTRY main {{
  x = f32[8,12] parameter(0), sharding={{devices=[2,2]<=[4]}}
  w = f32[12,8] parameter(1), sharding={{devices=[2,2]<=[2,2]T(1,0)}}
  b = f32[8] parameter(2), sharding={s}
  d = f32[8,8] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  c = f32[8,8] broadcast(b), dimensions={{1}}
  e = f32[8] exponential(b)
  s = f32[8,8] add(d, c), sharding={{devices=[2,2]<=[4]}}
  ROOT t = (f32[8,8], f32[8]) tuple(s, e), sharding={{{{devices=[2,2]<=[4]}}, {{replicated}}}}
}}
''')

m("manual_subgroup-8", '''
HloModule manual, num_partitions=8

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[16,24] parameter(0), sharding={devices=[4,2]<=[8]}
  s = f32[16,24] custom-call(x), custom_call_target="Sharding", sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}, backend_config="unspecified_dims=[1]"
  l = f32[4,24] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={devices=[1,1,4,2]<=[8] last_tile_dims={manual, replicated}}, backend_config="unspecified_dims=[1]"
  y = f32[4,24] multiply(l, l)
  z = f32[4,24] all-reduce(y), replica_groups={{0,2,4,6},{1,3,5,7}}, channel_id=1, use_global_device_ids=true, to_apply=sum
  c = f32[4,24] custom-call(z), custom_call_target="Sharding", sharding={devices=[1,1,4,2]<=[8] last_tile_dims={manual, replicated}}, backend_config="unspecified_dims=[1]"
  f = f32[16,24] custom-call(c), custom_call_target="SPMDShardToFullShape", sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}, backend_config="unspecified_dims=[1]"
  ROOT r = f32[16,24] add(f, x)
}
''')

m("shard_groups-4", '''
HloModule groups, num_partitions=4, allow_spmd_sharding_propagation_to_output={true,true}

ENTRY main {
  x = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}
  y = f32[8,16] parameter(1)
  k = f32[8,16] constant({...})
  a = f32[8,16] tanh(x), sharding={unknown shard_as 7}
  i = f32[8,16] iota(), iota_dimension=1
  m = f32[8,16] multiply(i, y)
  b = f32[8,16] custom-call(m), custom_call_target="Sharding", sharding={unknown shard_as 7}
  c = f32[8,16] custom-call(b), custom_call_target="ShardBarrierFrom", custom_call_has_side_effect=true
  d = f32[8,16] custom-call(a), custom_call_target="ShardBarrierTo", custom_call_has_side_effect=true
  e = f32[8,16] add(c, d)
  g = f32[8,16] negate(y), sharding={unknown shard_like 9}
  h = f32[8,16] cosine(x), sharding={devices=[2,2]<=[4] shard_like 9}
  j = f32[8,16] add(g, h)
  ROOT t = (f32[8,16], f32[8,16]) tuple(e, j)
}
'''.replace("  k = f32[8,16] constant({...})\n", ""))

m("tuple_parameter_while-4", '''
HloModule loop, entry_computation_layout={((f32[8,8]{1,0}, f32[8,8]{1,0}), s32[])->(f32[8,8]{1,0}, s32[])}, num_partitions=4

%cond (c: (s32[], f32[8,8], f32[8,8])) -> pred[] {
  %c = (s32[], f32[8,8], f32[8,8]) parameter(0)
  %i = s32[] get-tuple-element(%c), index=0
  %n = s32[] constant(6)
  ROOT %lt = pred[] compare(%i, %n), direction=LT
}

%body (b: (s32[], f32[8,8], f32[8,8])) -> (s32[], f32[8,8], f32[8,8]) {
  %b = (s32[], f32[8,8], f32[8,8]) parameter(0)
  %i = s32[] get-tuple-element(%b), index=0
  %one = s32[] constant(1)
  %i1 = s32[] add(%i, %one)
  %x = f32[8,8] get-tuple-element(%b), index=1
  %w = f32[8,8] get-tuple-element(%b), index=2
  %d = f32[8,8] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %t = f32[8,8] tanh(%d)
  ROOT %r = (s32[], f32[8,8], f32[8,8]) tuple(%i1, %t, %w)
}

ENTRY %main (p: (f32[8,8], f32[8,8]), q: s32[]) -> (f32[8,8], s32[]) {
  %p = (f32[8,8], f32[8,8]) parameter(0), sharding={{devices=[2,1,2]<=[4] last_tile_dim_replicate}, {devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}}
  %q = s32[] parameter(1)
  %x = f32[8,8] get-tuple-element(%p), index=0
  %w = f32[8,8] get-tuple-element(%p), index=1
  %init = (s32[], f32[8,8], f32[8,8]) tuple(%q, %x, %w)
  %loop = (s32[], f32[8,8], f32[8,8]) while(%init), condition=%cond, body=%body, sharding={{replicated}, {devices=[2,2]<=[4]}, {devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}}
  %y = f32[8,8] get-tuple-element(%loop), index=1
  %k = s32[] get-tuple-element(%loop), index=0
  ROOT %out = (f32[8,8], s32[]) tuple(%y, %k)
}
''')

m("rng_topk_misc-4", '''
HloModule misc, num_partitions=4

cmp {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT gt = pred[] compare(a, b), direction=GT, type=TOTALORDER
}

ENTRY main {
  x = f32[8,16] parameter(0), sharding={devices=[2,2]<=[4]}
  s = u64[2] parameter(1)
  r = (u64[2], u32[8,16]) rng-bit-generator(s), algorithm=rng_three_fry
  bits = u32[8,16] get-tuple-element(r), index=1
  sh = u32[] constant(9)
  shb = u32[8,16] broadcast(sh), dimensions={}
  small = u32[8,16] shift-right-logical(bits, shb), sharding={devices=[4,1]<=[4]}
  f = f32[8,16] convert(small)
  i = s32[8,16] iota(), iota_dimension=1
  srt = (f32[8,16], s32[8,16]) sort(x, i), dimensions={1}, is_stable=true, to_apply=cmp
  v = f32[8,16] get-tuple-element(srt), index=0
  vi = s32[8,16] get-tuple-element(srt), index=1
  tk = (f32[8,3], s32[8,3]) topk(x), k=3, largest=true
  tv = f32[8,3] get-tuple-element(tk), index=0
  rp = f32[8,16] reduce-precision(x), exponent_bits=5, mantissa_bits=7
  lo = f32[] constant(-0.5)
  hi = f32[] constant(0.5)
  cl = f32[8,16] clamp(lo, rp, hi)
  ROOT t = (f32[8,16], f32[8,16], s32[8,16], f32[8,3], f32[8,16]) tuple(f, v, vi, tv, cl)
}
''')

m("grouped_conv_batch-4", '''
HloModule conv, num_partitions=4

ENTRY main {
  x = f32[4,12,12,8]{3,2,1,0} parameter(0), sharding={devices=[1,4,1,1]<=[4]}
  k = f32[3,3,2,8]{3,2,1,0} parameter(1)
  g = f32[12,12,8,4]{3,2,1,0} parameter(2), sharding={devices=[2,1,1,1,2]<=[4] last_tile_dim_replicate}
  a = f32[4,12,12,8] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=4
  b = f32[4,6,6,8] convolution(a, k), window={size=3x3 stride=2x2 pad=0_1x0_1 rhs_reversal=1x1}, dim_labels=b01f_01io->b01f, feature_group_count=4
  c = f32[3,3,8,8] convolution(x, a), window={size=12x12 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf
  ROOT t = (f32[4,6,6,8], f32[3,3,8,8]) tuple(b, c), sharding={{devices=[1,1,2,1,2]<=[4] last_tile_dim_replicate}, {replicated}}
}
''')

import by_hand_ops  # noqa: E402, F401: writes the others
print(len(list(F.glob("hand_*.hlo"))))
