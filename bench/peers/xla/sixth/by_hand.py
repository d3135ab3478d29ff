#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small HLO modules that show one form each, for compare.py.

  bench/peers/xla/sixth/by_hand.py FOLDER

Convolutions with unusual orders of dims, gathers and scatters whose indices contain an iota, updates of sharded dims,
reductions of several operands, sorts, pads and slices, reshapes, products with several summed dims, loops. Each module
has 2, 4 or 8 devices. The shardings are on the arguments, and in some modules on the result.
"""
import pathlib
import sys

CALLS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }
second { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(b, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=LT }
less_pair { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3) ROOT s = pred[] compare(a, b), direction=LT }
argmax { v = f32[] parameter(0) i = s32[] parameter(1) w = f32[] parameter(2) j = s32[] parameter(3)
  g = pred[] compare(v, w), direction=GE m = f32[] select(g, v, w) k = s32[] select(g, i, j) ROOT t = (f32[], s32[]) tuple(m, k) }
"""
MODULES = {}


def tiles(*counts, replicated=1):
    total = replicated
    for count in counts:
        total *= count
    if replicated > 1:
        return f"sharding={{devices=[{','.join(map(str, counts))},{replicated}]<=[{total}] last_tile_dim_replicate}}"
    return f"sharding={{devices=[{','.join(map(str, counts))}]<=[{total}]}}"


def module(name, devices, body):
    MODULES[f"{name}-{devices}"] = (
        f"HloModule {name}, num_partitions={devices}, allow_spmd_sharding_propagation_to_output={{true}}\n{CALLS}\n"
        f"ENTRY main {{\n{body}\n}}\n")


def convolutions():
    image = "x = f32[{}] parameter(0), {}\nw = f32[{}] parameter(1)\nROOT c = f32[{}] convolution(x, w), {}"
    module("conv_batch_last", 4, image.format("12,12,8,16", tiles(1, 1, 1, 4), "3,3,8,8", "12,12,8,16", "window={size=3x3 pad=1_1x1_1}, dim_labels=01fb_01io->01fb"))
    module("conv_features_first", 4, image.format("8,16,12,12", tiles(1, 4, 1, 1), "8,8,3,3", "8,16,12,12", "window={size=3x3 pad=1_1x1_1}, dim_labels=fb01_oi01->fb01"))
    module("conv_batch_between", 8, image.format("12,16,12,8", tiles(1, 8, 1, 1), "3,3,8,8", "12,16,12,8", "window={size=3x3 pad=1_1x1_1}, dim_labels=0b1f_01io->0b1f"))
    module("conv_rows_last", 4, image.format("4,8,12,16", tiles(1, 1, 1, 4), "8,8,3,3", "4,8,12,16", "window={size=3x3 pad=1_1x1_1}, dim_labels=bf10_oi10->bf10"))
    module("conv_is_product", 4, image.format("16,1,1,32", tiles(4, 1, 1, 1), "1,1,32,24", "16,1,1,24", "window={size=1x1}, dim_labels=b01f_01io->b01f"))
    module("conv_one_by_one_features", 4, image.format("4,8,8,32", tiles(1, 1, 1, 4), "1,1,32,24", "4,8,8,24", "window={size=1x1}, dim_labels=b01f_01io->b01f"))
    module("conv_one_dim_swapped", 4, image.format("16,8,24", tiles(4, 1, 1), "5,8,8", "16,8,24", "window={size=5 pad=2_2}, dim_labels=bf0_0io->bf0"))
    module("conv_result_swapped", 4, image.format("16,12,8", tiles(4, 1, 1), "3,8,8", "8,16,12", "window={size=3 pad=1_1}, dim_labels=b0f_0io->fb0"))
    module("conv_groups_features", 4, image.format("4,8,8,16", tiles(1, 1, 1, 4), "3,3,1,16", "4,8,8,16", "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=16"))


def lookups():
    rows = ("x = f32[8,32,16] parameter(0), {s}\ni = s32[8,4] parameter(1), {t}\nb = s32[8,4,1] {batch}\n"
            "r = s32[8,4,1] reshape(i)\nk = s32[8,4,2] concatenate(b, r), dimensions={{2}}\n")
    gather = "ROOT g = f32[8,4,16] gather(x, k), offset_dims={2}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=2, slice_sizes={1,1,16}"
    iota = "iota(), iota_dimension=0"
    for devices in (2, 4, 8):
        module("gather_iota_rows", devices, rows.format(s=tiles(devices, 1, 1), t=tiles(devices, 1), batch=iota) + gather)
    module("gather_iota_only_table", 4, rows.format(s=tiles(4, 1, 1), t="sharding={replicated}", batch=iota) + gather)
    module("gather_iota_two_axes", 8, rows.format(s=tiles(4, 1, 2), t=tiles(4, 1, replicated=2), batch=iota) + gather)
    scatter = ("x = f32[8,32,16] parameter(0), {s}\ni = s32[8,4] parameter(1), {t}\nu = f32[8,4,16] parameter(2), {u}\n"
               "b = s32[8,4,1] iota(), iota_dimension=0\nr = s32[8,4,1] reshape(i)\nk = s32[8,4,2] concatenate(b, r), dimensions={{2}}\n"
               "ROOT o = f32[8,32,16] scatter(x, k, u), update_window_dims={{2}}, inserted_window_dims={{0,1}}, scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=2, to_apply={f}")
    for devices in (2, 4):
        module("scatter_iota_rows", devices, scatter.format(s=tiles(devices, 1, 1), t=tiles(devices, 1), u=tiles(devices, 1, 1), f="add"))
    module("scatter_iota_assigns", 4, scatter.format(s=tiles(4, 1, 1), t=tiles(4, 1), u=tiles(4, 1, 1), f="second"))
    module("gather_diagonal", 4, f"x = f32[16,16,8] parameter(0), {tiles(4, 1, 1)}\nk = s32[16,2] iota(), iota_dimension=0\n"
           "ROOT g = f32[16,8] gather(x, k), offset_dims={1}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1,8}")
    module("gather_table_rows", 4, f"x = f32[64,16] parameter(0), {tiles(4, 1)}\ni = s32[12] parameter(1)\n"
           "ROOT g = f32[12,16] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}")
    module("scatter_table_rows", 4, f"x = f32[64,16] parameter(0), {tiles(4, 1)}\ni = s32[12] parameter(1), {tiles(4)}\nu = f32[12,16] parameter(2), {tiles(4, 1)}\n"
           "ROOT o = f32[64,16] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add")


def updates():
    update = "x = f32[64,16] parameter(0), {}\nu = f32[{},16] parameter(1)\ni = s32[] parameter(2)\nz = s32[] constant(0)\nROOT d = f32[64,16] dynamic-update-slice(x, u, i, z)"
    module("update_one_row", 4, update.format(tiles(4, 1), 1))
    module("update_rows", 4, update.format(tiles(4, 1), 5))
    module("update_rows_wide", 8, update.format(tiles(4, 2), 24))
    module("update_constant_place", 4, f"x = f32[64,16] parameter(0), {tiles(4, 1)}\nu = f32[8,16] parameter(1), {tiles(4, 1)}\n"
           "i = s32[] constant(20)\nz = s32[] constant(0)\nROOT d = f32[64,16] dynamic-update-slice(x, u, i, z)")
    module("slice_dynamic_row", 4, f"x = f32[64,16] parameter(0), {tiles(4, 1)}\ni = s32[] parameter(1)\nz = s32[] constant(0)\n"
           "ROOT d = f32[1,16] dynamic-slice(x, i, z), dynamic_slice_sizes={1,16}")
    for low, size in ((1, 32), (3, 30), (0, 16)):
        module(f"pad_then_slice_{low}_{size}", 4, f"x = f32[32,8] parameter(0), {tiles(4, 1)}\nz = f32[] constant(0)\n"
               f"p = f32[36,8] pad(x, z), padding=2_2x0_0\nROOT s = f32[{size},8] slice(p), slice={{[{low}:{low + size}], [0:8]}}")
    module("shift_twice", 4, f"x = f32[32,8] parameter(0), {tiles(4, 1)}\nz = f32[] constant(0)\np = f32[32,8] pad(x, z), padding=1_-1x0_0\n"
           "q = f32[32,8] pad(x, z), padding=-1_1x0_0\nROOT s = f32[32,8] add(p, q)")


def reductions():
    pair = "x = f32[{0}] parameter(0), {1}\ni = s32[{0}] iota(), iota_dimension={2}\nl = f32[] constant(-inf)\nz = s32[] constant(0)\nROOT r = (f32[{3}], s32[{3}]) reduce(x, i, l, z), dimensions={{{2}}}, to_apply=argmax"
    module("argmax_over_sharded", 4, pair.format("8,64", tiles(1, 4), 1, "8"))
    module("argmax_over_uneven", 4, pair.format("8,66", tiles(1, 4), 1, "8"))
    module("argmax_over_first", 8, pair.format("64,8", tiles(4, 2), 0, "8"))
    module("reduce_two_dims", 8, f"x = f32[16,24,8] parameter(0), {tiles(2, 4, 1)}\nz = f32[] constant(0)\nROOT r = f32[8] reduce(x, z), dimensions={{0,1}}, to_apply=add")
    module("softmax_over_sharded", 4, f"x = f32[16,64] parameter(0), {tiles(1, 4)}\nl = f32[] constant(-inf)\nz = f32[] constant(0)\n"
           "m = f32[16] reduce(x, l), dimensions={1}, to_apply=max\nb = f32[16,64] broadcast(m), dimensions={0}\nd = f32[16,64] subtract(x, b)\n"
           "e = f32[16,64] exponential(d)\ns = f32[16] reduce(e, z), dimensions={1}, to_apply=add\nc = f32[16,64] broadcast(s), dimensions={0}\nROOT o = f32[16,64] divide(e, c)")
    module("sort_along_sharded", 4, f"x = f32[16,64] parameter(0), {tiles(1, 4)}\nROOT s = f32[16,64] sort(x), dimensions={{1}}, to_apply=less")
    module("sort_lines", 4, f"x = f32[16,64] parameter(0), {tiles(4, 1)}\nROOT s = f32[16,64] sort(x), dimensions={{1}}, to_apply=less")
    module("sort_pairs_along_sharded", 4, f"x = f32[16,64] parameter(0), {tiles(1, 4)}\ni = s32[16,64] iota(), iota_dimension=1\n"
           "ROOT s = (f32[16,64], s32[16,64]) sort(x, i), dimensions={1}, to_apply=less_pair")
    module("cumulative_sum_of_sharded", 4, f"x = f32[8,32] parameter(0), {tiles(1, 4)}\nz = f32[] constant(0)\nROOT r = f32[8,32] reduce-window(x, z), window={{size=1x32 pad=0_0x31_0}}, to_apply=add")
    module("pool_sharded_rows", 4, f"x = f32[2,32,8] parameter(0), {tiles(1, 4, 1)}\nl = f32[] constant(-inf)\nROOT r = f32[2,16,8] reduce-window(x, l), window={{size=1x3x1 stride=1x2x1 pad=0_0x1_0x0_0}}, to_apply=max")


def products():
    dot = "x = f32[{}] parameter(0), {}\nw = f32[{}] parameter(1), {}\nROOT d = f32[{}] dot(x, w), {}"
    module("dot_two_sums", 4, dot.format("8,16,12", tiles(1, 4, 1), "16,12,10", tiles(4, 1, 1), "8,10", "lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}"))
    module("dot_two_sums_two_axes", 8, dot.format("8,16,12", tiles(1, 4, 2), "16,12,10", tiles(4, 2, 1), "8,10", "lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}"))
    module("dot_batches_and_sums", 8, dot.format("4,8,6,12", tiles(4, 1, 1, 2), "4,6,12,10", tiles(4, 1, 2, 1), "4,8,10", "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2,3}, rhs_contracting_dims={1,2}"))
    module("dot_rows_and_columns", 4, dot.format("32,16", tiles(4, 1), "16,24", tiles(1, 4), "32,24", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"))
    module("dot_sum_of_one_side", 4, dot.format("32,16", tiles(1, 4), "16,24", "sharding={replicated}", "32,24", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"))
    reshape = "x = f32[{}] parameter(0), {}\nROOT r = f32[{}] reshape(x)"
    module("reshape_merge_major", 4, reshape.format("8,6,5", tiles(4, 1, 1), "48,5"))
    module("reshape_merge_minor", 4, reshape.format("6,8,5", tiles(1, 4, 1), "48,5"))
    module("reshape_split", 4, reshape.format("48,5", tiles(4, 1), "8,6,5"))
    module("reshape_split_uneven", 4, reshape.format("30,8", tiles(4, 1), "5,6,8"))


def loops():
    state = "(s32[], f32[16,16], f32[16,16])"
    calls = f"""
body {{ t = {state} parameter(0) i = s32[] get-tuple-element(t), index=0 x = f32[16,16] get-tuple-element(t), index=1 w = f32[16,16] get-tuple-element(t), index=2
  one = s32[] constant(1) n = s32[] add(i, one) d = f32[16,16] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} y = f32[16,16] tanh(d) ROOT r = {state} tuple(n, y, w) }}
condition {{ t = {state} parameter(0) i = s32[] get-tuple-element(t), index=0 five = s32[] constant(5) ROOT c = pred[] compare(i, five), direction=LT }}
"""
    for name, left, right in (("rows", tiles(4, 1), "sharding={replicated}"), ("columns", "sharding={replicated}", tiles(1, 4)), ("sums", tiles(1, 4), tiles(4, 1))):
        MODULES[f"loop_of_products_{name}-4"] = (
            f"HloModule loop, num_partitions=4, allow_spmd_sharding_propagation_to_output={{true}}\n{calls}\nENTRY main {{\nx = f32[16,16] parameter(0), {left}\nw = f32[16,16] parameter(1), {right}\n"
            f"z = s32[] constant(0)\nt = {state} tuple(z, x, w)\nl = {state} while(t), condition=condition, body=body\nROOT r = f32[16,16] get-tuple-element(l), index=1\n}}\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for write in (convolutions, lookups, updates, reductions, products, loops):
        write()
    for name, text in MODULES.items():
        (folder / f"{name}.hlo").write_text(text)
    print(len(MODULES), "modules")


if __name__ == "__main__":
    main()
