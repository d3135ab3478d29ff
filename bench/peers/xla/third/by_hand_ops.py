# SPDX-License-Identifier: Apache-2.0
"""Texts of by_hand.py for single ops, calls and old syntax."""
from by_hand import m

m("gather_scatter_batching-6", '''
HloModule gs, num_partitions=6

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[12,10,6] parameter(0), sharding={devices=[3,1,2]<=[6]}
  i = s32[12,5,1] parameter(1), sharding={devices=[3,1,1,2]<=[6] last_tile_dim_replicate}
  u = f32[12,5,6] parameter(2), sharding={devices=[2,1,3]<=[3,2]T(1,0)}
  g = f32[12,5,6] gather(x, i), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,6}
  s = f32[12,10,6] scatter(x, i, u), update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=add
  ROOT t = (f32[12,5,6], f32[12,10,6]) tuple(g, s)
}
''')

m("call_conditional_tuple-4", '''
HloModule cc, num_partitions=4

helper {
  a = f32[8,8] parameter(0)
  b = f32[8,8] parameter(1)
  m = f32[8,8] multiply(a, b)
  n = f32[8,8] negate(m)
  ROOT t = (f32[8,8], f32[8,8]) tuple(m, n)
}
yes {
  p = (f32[8,8], f32[8,8]) parameter(0)
  a = f32[8,8] get-tuple-element(p), index=0
  b = f32[8,8] get-tuple-element(p), index=1
  ROOT d = f32[8,8] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={1}
}
no {
  p = (f32[8,8], f32[8,8]) parameter(0)
  a = f32[8,8] get-tuple-element(p), index=0
  ROOT d = f32[8,8] transpose(a), dimensions={1,0}
}
ENTRY main {
  x = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}
  y = f32[8,8] parameter(1), sharding={devices=[1,4]<=[4]}
  q = pred[] parameter(2)
  h = (f32[8,8], f32[8,8]) call(x, y), to_apply=helper
  h0 = f32[8,8] get-tuple-element(h), index=0
  h1 = f32[8,8] get-tuple-element(h), index=1
  arg = (f32[8,8], f32[8,8]) tuple(h0, h1)
  ob = (f32[8,8], f32[8,8]) opt-barrier(arg)
  r = f32[8,8] conditional(q, ob, ob), true_computation=yes, false_computation=no
  ROOT s = f32[8,8] add(r, h1), sharding={devices=[2,2]<=[2,2]T(1,0)}
}
''')

m("device_orders-8", '''
HloModule orders, num_partitions=8

ENTRY main {
  x = f32[16,8] parameter(0), sharding={devices=[4,2]5,0,3,6,1,7,2,4}
  y = f32[16,8] parameter(1), sharding={devices=[4,2]<=[2,4]T(1,0)}
  z = f32[8,16] parameter(2), sharding={devices=[2,2,2]<=[2,2,2]T(2,0,1) last_tile_dim_replicate}
  a = f32[16,8] add(x, y)
  ROOT d = f32[16,16] dot(a, z), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[2,4]<=[8]}
}
''')

m("side_effects-2", '''
HloModule fx, num_partitions=2

ENTRY main {
  x = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}
  tok = token[] after-all()
  in = ((f32[4,4], s32[]), token[]) infeed(tok), sharding={{maximal device=0}, {maximal device=0}, {maximal device=0}}
  data = (f32[4,4], s32[]) get-tuple-element(in), index=0
  v = f32[4,4] get-tuple-element(data), index=0, sharding={maximal device=0}
  d = f32[8,4] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[8,4] tanh(d), sharding={devices=[2,1]<=[2]}
}
''')

m("types-4", '''
HloModule types, num_partitions=4

addb { a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT c = bf16[] add(a, b) }
ENTRY main {
  x = bf16[8,16] parameter(0), sharding={devices=[4,1]<=[4]}
  y = f8e4m3fn[16,8] parameter(1), sharding={devices=[1,4]<=[4]}
  z = s8[8,16] parameter(2), sharding={devices=[2,2]<=[4]}
  c = c64[8,16] parameter(3), sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}
  yb = bf16[16,8] convert(y)
  d = f32[8,8] dot(x, yb), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = bf16[] constant(0)
  r = bf16[16] reduce(x, zero), dimensions={0}, to_apply=addb
  zi = s32[8,8] dot(z, z), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  re = f32[8,16] real(c)
  im = f32[8,16] imag(c)
  ab = f32[8,16] abs(c)
  at = f32[8,16] atan2(re, im)
  s = f32[8,16] add(ab, at)
  ROOT t = (f32[8,8], bf16[16], s32[8,8], f32[8,16]) tuple(d, r, zi, s)
}
''')

m("old_syntax-4", '''
HloModule old

%add_F32.3 (lhs.4: f32[], rhs.5: f32[]) -> f32[] {
  %lhs.4 = f32[] parameter(0)
  %rhs.5 = f32[] parameter(1)
  ROOT %add.6 = f32[] add(f32[] %lhs.4, f32[] %rhs.5)
}

// a comment
ENTRY %main.20 (x.1: f32[16,24], y.2: f32[24]) -> (f32[16], /*index=1*/f32[24,16]) {
  %x.1 = f32[16,24]{0,1} parameter(0), parameter_replication={false}, sharding={devices=[4,1]0,1,2,3}, frontend_attributes={foo="bar"}
  %y.2 = f32[24]{0} parameter(1), parameter_replication={true}
  %b.3 = f32[16,24]{1,0} broadcast(f32[24]{0} %y.2), dimensions={1}
  %m.4 = f32[16,24]{1,0} multiply(f32[16,24]{0,1} %x.1, f32[16,24]{1,0} %b.3), metadata={op_type="mul" op_name="jit(f)/mul" source_file="a.py" source_line=3}
  %z.5 = f32[] constant(0)
  %r.6 = f32[16]{0} reduce(f32[16,24]{1,0} %m.4, f32[] %z.5), dimensions={1}, to_apply=%add_F32.3
  %t.7 = f32[24,16]{1,0} transpose(f32[16,24]{1,0} %m.4), dimensions={1,0}, sharding={devices=[2,2]0,2,1,3}
  ROOT %tuple.8 = (f32[16]{0}, /*index=1*/f32[24,16]{1,0}) tuple(f32[16]{0} %r.6, f32[24,16]{1,0} %t.7)
}
''')

m("fusion_call-4", '''
HloModule fused, num_partitions=4

fused_computation {
  p0 = f32[8,16] parameter(0)
  p1 = f32[16] parameter(1)
  b = f32[8,16] broadcast(p1), dimensions={1}
  a = f32[8,16] add(p0, b)
  ROOT t = f32[8,16] tanh(a)
}

ENTRY main {
  x = f32[8,16] parameter(0), sharding={devices=[2,2]<=[4]}
  b = f32[16] parameter(1)
  f = f32[8,16] fusion(x, b), kind=kLoop, calls=fused_computation
  ROOT c = f32[16,8] transpose(f), dimensions={1,0}, sharding={devices=[2,2]<=[2,2]T(1,0)}
}
''')
m("variadic_reduce_window-4", '''
HloModule vr, num_partitions=4

argmax {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GE
  v = f32[] select(gt, a, b)
  k = s32[] select(gt, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k)
}

ENTRY main {
  x = f32[16,16] parameter(0), sharding={devices=[4,1]<=[4]}
  i = s32[16,16] iota(), iota_dimension=0
  ninf = f32[] constant(-inf)
  zero = s32[] constant(0)
  rw = (f32[8,8], s32[8,8]) reduce-window(x, i, ninf, zero), window={size=2x2 stride=2x2}, to_apply=argmax
  rv = f32[8,8] get-tuple-element(rw), index=0
  ri = s32[8,8] get-tuple-element(rw), index=1
  r = (f32[16], s32[16]) reduce(x, i, ninf, zero), dimensions={0}, to_apply=argmax
  r0 = f32[16] get-tuple-element(r), index=0
  r1 = s32[16] get-tuple-element(r), index=1
  ROOT t = (f32[8,8], s32[8,8], f32[16], s32[16]) tuple(rv, ri, r0, r1)
}
''')
m("torch_masked_fill_view-6", '''
HloModule IrToHlo.33, entry_computation_layout={(f32[4,6,10]{2,1,0}, pred[4,6,10]{2,1,0}, f32[10,12]{1,0})->(f32[24,12]{1,0}, f32[4,6,2,6]{3,2,1,0})}, num_partitions=6

ENTRY %IrToHlo.33 (p0.1: f32[4,6,10], p1.2: pred[4,6,10], p2.3: f32[10,12]) -> (f32[24,12], f32[4,6,2,6]) {
  %p0.1 = f32[4,6,10]{2,1,0} parameter(0), sharding={devices=[2,3,1]0,1,2,3,4,5}
  %p1.2 = pred[4,6,10]{2,1,0} parameter(1), sharding={devices=[1,3,1,2]0,3,1,4,2,5 last_tile_dim_replicate}
  %p2.3 = f32[10,12]{1,0} parameter(2), sharding={devices=[1,6]0,1,2,3,4,5}
  %constant.4 = f32[] constant(-1e9)
  %broadcast.5 = f32[4,6,10]{2,1,0} broadcast(f32[] %constant.4), dimensions={}
  %select.6 = f32[4,6,10]{2,1,0} select(pred[4,6,10]{2,1,0} %p1.2, f32[4,6,10]{2,1,0} %broadcast.5, f32[4,6,10]{2,1,0} %p0.1)
  %reshape.7 = f32[24,10]{1,0} reshape(f32[4,6,10]{2,1,0} %select.6)
  %dot.8 = f32[24,12]{1,0} dot(f32[24,10]{1,0} %reshape.7, f32[10,12]{1,0} %p2.3), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %reshape.9 = f32[4,6,2,6]{3,2,1,0} reshape(f32[24,12]{1,0} %dot.8)
  ROOT %tuple.10 = (f32[24,12]{1,0}, f32[4,6,2,6]{3,2,1,0}) tuple(f32[24,12]{1,0} %dot.8, f32[4,6,2,6]{3,2,1,0} %reshape.9)
}
''')
