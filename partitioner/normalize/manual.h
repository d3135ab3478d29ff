// SPDX-License-Identifier: Apache-2.0
// Regions of per-device code in a global program (shard_map). Inside, types are local along the region's manual axes,
// and the code communicates explicitly along these axes.
//
//   %g = f32[6,8] custom-call(%x), custom_call_target="Sharding", sharding={x,?}
//   %l = f32[3,8] custom-call(%g), custom_call_target="SPMDFullToShardShape"      {?,?} manual{x}
//   %r = f32[3,8] all-reduce(%l), replica_groups={{0,2},{1,3}}, …                 {?,?} manual{x}
//   %y = f32[6,8] custom-call(%r), custom_call_target="SPMDShardToFullShape"      {x,?}
//
// Along other axes, a region is partitioned like any code: a value that is never sharded over a manual axis is local
// there.
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// On a value of a region whose shardings no longer name its manual axes: those axes.
inline constexpr std::string_view kManualAxesAttribute = "tessera.manual_axes";
/// On the borders of a region in Shardy's notation: the shardings of the global arrays.
inline constexpr std::string_view kSdyInShardings = "xla.sdy.in_shardings";
inline constexpr std::string_view kSdyOutShardings = "xla.sdy.out_shardings";

/// Whether the program contains a manual region.
bool has_manual_regions(const Program& program);
/// Converts the notations of Shardy and GSPMD to one form: every border is SPMDFullToShardShape or SPMDShardToFullShape
/// of one array and has a placement (border_placement); every value inside has a sharding that names the manual axes. A
/// computation that is called from different regions is copied for each. Evaluation and partitioning both use this
/// form.
Program normalize_manual(const Program& program);
/// The shardings of a value inside and outside of a region.
struct BorderShardings {
  Sharding inside, outside;
};
/// Outside, the axes of the border's placement precede those that shard the value inside. These do not shard a dim
/// whose global tiles would then have uneven sizes. `inside`: the sharding that the value should have inside.
BorderShardings border_shardings(const Sharding& placement, Sharding inside, const Type& global, const Type& local);
/// Whether a value of a normalized program belongs to a region.
bool is_manual(const Instruction& instruction);
/// After propagation: moves manual axes from the shardings to kManualAxesAttribute.
Program without_manual_axes(const Program& program);
/// The union of the axes, sorted.
std::vector<AxisRef> united(std::vector<AxisRef> a, const std::vector<AxisRef>& b);
/// The axes of the attribute; empty outside of regions.
std::vector<AxisRef> manual_axes(const Program& program, const Instruction& instruction);

}  // namespace tessera
