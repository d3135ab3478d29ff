// SPDX-License-Identifier: Apache-2.0
// Regions of per-device code in a global program (shard_map): inside, types are local along the region's manual axes, and the
// code moves data along these itself.
//
//   %g = f32[6,8] custom-call(%x), custom_call_target="Sharding", sharding={x,?}
//   %l = f32[3,8] custom-call(%g), custom_call_target="SPMDFullToShardShape"      {?,?} manual{x}
//   %r = f32[3,8] all-reduce(%l), replica_groups={{0,2},{1,3}}, …                 {?,?} manual{x}
//   %y = f32[6,8] custom-call(%r), custom_call_target="SPMDShardToFullShape"      {x,?}
//
// Along other axes a region is partitioned like any code: a value that no sharding ever tiles over a manual axis is local there.
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// On a value of a region, once shardings name its manual axes no more: those axes.
inline constexpr std::string_view kManualAxesAttribute = "tessera.manual_axes";

/// Whether anything enters a region.
bool has_manual_regions(const Program& program);
/// Shardy's and GSPMD's spellings in one: every border is SPMDFullToShardShape or SPMDShardToFullShape of one array and says
/// where it cuts (border_placement); every value inside has a sharding that names the manual axes. Computations called from
/// different regions become one for each. What evaluates and partitions alike.
Program normalize_manual(const Program& program);
/// Whether a value of a normalised program is one of a region's.
bool is_manual(const Instruction& instruction);
/// After propagation: manual axes leave the shardings for kManualAxesAttribute.
Program without_manual_axes(const Program& program);
/// The axes of both, each once, sorted.
std::vector<AxisRef> united(std::vector<AxisRef> a, const std::vector<AxisRef>& b);
/// The attribute's axes; none outside of regions.
std::vector<AxisRef> manual_axes(const Program& program, const Instruction& instruction);

}  // namespace tessera
