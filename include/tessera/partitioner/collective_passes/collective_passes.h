// SPDX-License-Identifier: Apache-2.0
// Passes over the collectives of a per-device program, which may also come from another partitioner
// (docs/internals/collective_passes.md). Each pass is a pure function. It keeps every value (except
// compress_collectives) and never increases the bytes received. It keeps gathers that the user repeats on purpose
// (FSDP's unshards, barriers). A pass that changes nothing returns its argument.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/sharding/machine.h"

namespace tessera {

/// The type in which collectives carry f32.
enum class Compression : std::uint8_t { kBf16, kInt8 };

struct CollectivePassOptions {
  /// The most bytes of one combined collective (the larger of operands and results). Also the most bytes of a gather
  /// that a pass may keep alive longer, because it shares, hoists or accumulates the gather.
  std::int64_t memory_bound = std::int64_t{30} << 20;
  /// A gather or reduce-scatter outside of FSDP units is combined only with others within this number of
  /// instructions.
  std::int32_t window = 100;
  /// Runs make_asynchronous(). Off by default, because the runtime merges the pairs again.
  bool make_asynchronous = false;
  /// Keeps the result of a pass only if it increases neither the bytes received nor the FLOPs nor the peak memory.
  /// Shards sums over otherwise idle axes only if that does not increase peak memory much. Has no effect on very large
  /// programs, because it counts the program after each pass.
  bool save_memory = false;
  /// Mesh axes over which collectives carry f32 as bf16 (compress_collectives).
  std::vector<std::string> bf16_axes{};
  /// Mesh axes over which collectives carry f32 as int8 with scales.
  std::vector<std::string> int8_axes{};
};
/// Error if an axis is both in bf16_axes and in int8_axes.
void check_compressed_axes(const CollectivePassOptions& options);

/// For debugging FSDP: replaces collectives with a mark tessera.dummy by values of the same shape without
/// communication, so results are wrong. A gather repeats the device's own shard, a reduce-scatter becomes a slice of
/// the operand, and other collectives return their operand.
Program dummy_collectives(const Program& program);

/// Simplifies a collective that is next to its inverse or followed by a slice:
///   dynamic-slice(all-gather(x), this device's part) -> x
///   dynamic-slice(all-reduce(x), this device's part) -> reduce-scatter(x)
///   all-gather(reduce-scatter(x)) -> all-reduce(x)
///   a collective in groups of one, a permute of every device to itself -> its operand
/// The pass evaluates a dynamic index for every device to find the part that it selects.
Program simplify_collectives(const Program& program);

/// Replaces a reduction over gathered elements, one from each member, by an all-reduce. For associative computations
/// that are not in Reduction:
///   reduce(all-gather(x), f) -> all-reduce(x, f)
Program reduce_gathered(const Program& program);

/// Replaces the collectives of several summands by one collective of their sum: add(all-reduce(x), all-reduce(y)) ->
/// all-reduce(add(x, y)). Also applies to reduce-scatter, and to min and max with their own reductions. The additions
/// may form a chain with other summands in between (unrolled micro-batches). Data movement, negation and scaling by
/// powers of two may be between the collectives and the additions if the result is exact.
Program reassociate_reductions(const Program& program, const CollectivePassOptions& options = {});

/// Moves collectives out of loops. A collective with the same result in every round moves before the loop, together
/// with its operands. A reduction whose result is only accumulated, acc = add(acc, all-reduce(x)), moves after the
/// loop.
Program hoist_collectives(const Program& program, const CollectivePassOptions& options = {});

/// Merges gathers of one value that differ only by reshapes and transposes, which then follow the gather.
Program share_gathers(const Program& program, const CollectivePassOptions& options = {});

/// Replaces a collective that produces or consumes a dot by permutes around the ring of the group. Each permute
/// overlaps with a chunk of the dot. The pass does this only if it reduces the modelled time, which is never the case
/// on equal links without latency. (Wang et al., Overlap communication with dependent computation via decomposition,
/// 2023)
///   dot(all-gather(x), w) -> dot(x, w), dot(permute(x), w), … each written to its place, or summed
///   reduce-scatter(dot(x, w)) -> dot(slice(x), w), permute of it + dot(slice(x), w), …
Program collective_matmul(const Program& program, const MachineModel& machine);

/// Lets collectives over any of `axes` carry f32 as bf16, which halves the bytes. An all-gather becomes
/// f32(all-gather(bf16(x))); permutes and all-to-alls change in the same way. Sums are accumulated in f32, and each
/// partial value is rounded once:
///   reduce-scatter(x) -> sum(f32(all-to-all(bf16(x))))
///   all-reduce(x)     -> f32(all-gather(bf16(sum(f32(all-to-all(bf16(x)))))))
/// The error of a gathered or moved value is at most 2^-8 of the value. The error of a reduce-scatter is at most 2^-8
/// of the sum of the magnitudes. An all-reduce adds at most 2^-8 of the sum to that. Operands below 16 KiB (losses,
/// norms) are not compressed. The pass changes values, so it runs only on request. With kInt8, collectives carry int8
/// with a scale for each block of 256 numbers, about a quarter of the bytes. The error is then at most 1/254 of the
/// largest magnitude in the block instead of 2^-8 of the number, and a block with an infinity or a NaN arrives as NaNs.
/// Error: an axis that no mesh has.
Program compress_collectives(const Program& program, const std::vector<std::string>& axes,
                             Compression compression = Compression::kBf16);

/// Merges independent collectives of equal kind, element type, reduction and groups into one with several operands:
///   %a = f32[8] all-reduce(%x)     ->  %c = (f32[8], f32[3]) all-reduce(%x, %y)
///   %b = f32[3] all-reduce(%y)         %a = f32[8] get-tuple-element(%c), index=0, %b = …
/// The combined collective takes the place of the first one if all operands are computed before it, else the place of
/// the last one. Only inexpensive instructions are moved with it.
Program combine_collectives(const Program& program, const CollectivePassOptions& options = {});

/// Splits a collective into a start and a done if there are FLOPs between it and its first use. The start replaces the
/// collective, and the done is before the first use.
Program make_asynchronous(const Program& program);

/// Runs all passes in the order of partition(), and merges duplicates. Skips the passes that `skip` names. Calls `dump`
/// after each pass.
Program optimize_collectives(const Program& program, const CollectivePassOptions& options = {},
                             const std::vector<std::string>& skip = {},
                             const std::function<void(const std::string& pass, const Program&)>& dump = nullptr,
                             const MachineModel& machine = {});

}  // namespace tessera
