// SPDX-License-Identifier: Apache-2.0
// Passes over the collectives of a per-device program from the partitioner or from elsewhere
// (docs/internals/collective_passes.md). Each is a pure function. It keeps every value (except compress_collectives)
// and never increases the bytes received. Gathers that a user repeats on purpose stay (FSDP's unshards, barriers). A
// pass that finds nothing returns its argument.
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
  /// The most bytes that one combined collective carries (the larger of operands and results). Also the most bytes of
  /// a value that a pass may keep alive longer: a shared, hoisted or completely accumulated gather.
  std::int64_t memory_bound = std::int64_t{30} << 20;
  /// A gather or reduce-scatter outside of FSDP units is combined only with others within this number of
  /// instructions.
  std::int32_t window = 100;
  /// Divides collectives into start and done if there is something to compute between them. Off by default, because
  /// the runtime merges the pairs.
  bool make_asynchronous = false;
  /// Keeps the result of a pass only if no device computes or holds more, and uses idle axes for sums only if no
  /// device holds much more. For programs of moderate size.
  bool save_memory = false;
  /// Mesh axes over which collectives carry f32 as bf16 (compress_collectives).
  std::vector<std::string> bf16_axes{};
  /// Mesh axes over which collectives carry f32 as int8 with scales.
  std::vector<std::string> int8_axes{};
};

/// Simplifies a collective that is next to its inverse or followed by a slice:
///   dynamic-slice(all-gather(x), this device's part) -> x
///   dynamic-slice(all-reduce(x), this device's part) -> reduce-scatter(x)
///   all-gather(reduce-scatter(x)) -> all-reduce(x)
///   a collective in groups of one, a permute of every device to itself -> its operand
/// The pass evaluates a dynamic index for every device to find the part that it selects.
Program simplify_collectives(const Program& program);

/// A reduction of gathered elements, one of each member, by a computation without a name becomes a reduction by the
/// group:
///   reduce(all-gather(x), f) -> all-reduce(x, f)
Program reduce_gathered(const Program& program);

/// Reduces a sum once instead of each summand: add(all-reduce(x), all-reduce(y)) -> all-reduce(add(x, y)). Also for
/// reduce-scatter, for min and max with their own reductions, and along chains of additions (unrolled micro-batches)
/// with other summands between them. Data movement, negation and scaling by powers of two may be between them if that
/// is exact.
Program reassociate_reductions(const Program& program, const CollectivePassOptions& options = {});

/// Moves collectives out of loops: collectives with the same result in every round, together with their operands,
/// before the loop; reductions of values that are only accumulated, acc = add(acc, all-reduce(x)), after the loop.
Program hoist_collectives(const Program& program, const CollectivePassOptions& options = {});

/// Merges gathers of one value that differ only by reshapes and transposes, which then follow the gather.
Program share_gathers(const Program& program, const CollectivePassOptions& options = {});

/// Replaces a collective next to dots by permutes around the ring of the group, each next to a chunk of the dots, if
/// the modelled time of permutes that overlap with chunks is less (never on equal links without latency). As in Wang et al.,
/// Overlap communication with dependent computation via decomposition, 2023:
///   dot(all-gather(x), w) -> dot(x, w), dot(permute(x), w), … each in its place, or added up
///   reduce-scatter(dot(x, w)) -> dot(slice(x), w), permute of it + dot(slice(x), w), …
Program collective_matmul(const Program& program, const MachineModel& machine);

/// Lets collectives over any of `axes` carry f32 as bf16, half the bytes: x -> f32(all-gather(bf16(x))); also
/// permutes and all-to-alls. Sums are accumulated in f32, and each partial value is rounded once:
///   reduce-scatter(x) -> sum(f32(all-to-all(bf16(x))))
///   all-reduce(x)     -> f32(all-gather(bf16(sum(f32(all-to-all(bf16(x)))))))
/// The error is at most 2^-8 of a gathered or moved value; 2^-8 of the sum of the magnitudes for a scattered sum;
/// that and 2^-8 of the sum for a reduced one. Operands below 16 KiB (losses, norms) are not compressed. The pass
/// changes values, so it runs only on request. kInt8: int8 with a scale for each block of 256 numbers, a quarter of
/// the bytes. The error is then 1/254 of the largest magnitude in the block instead of 2^-8 of the number, and a
/// block with an infinity or a NaN arrives as NaNs. Error: an axis that no mesh has.
Program compress_collectives(const Program& program, const std::vector<std::string>& axes,
                             Compression compression = Compression::kBf16);

/// Merges independent collectives of equal kind, element type, reduction and groups into one with several operands:
///   %a = f32[8] all-reduce(%x)     ->  %c = (f32[8], f32[3]) all-reduce(%x, %y)
///   %b = f32[3] all-reduce(%y)         %a = f32[8] get-tuple-element(%c), index=0, %b = …
/// They move up to the first one if all operands are computed before it, else down to the last one. Only inexpensive
/// instructions move along.
Program combine_collectives(const Program& program, const CollectivePassOptions& options = {});

/// Divides collectives into pairs if there are FLOPs between them: the start replaces the collective, and the done
/// comes before the first use.
Program make_asynchronous(const Program& program);

/// Runs all passes in the order of partition(), and merges duplicates. `skip`: names of passes to skip; `dump`:
/// called after each pass.
Program optimize_collectives(const Program& program, const CollectivePassOptions& options = {},
                             const std::vector<std::string>& skip = {},
                             const std::function<void(const std::string& pass, const Program&)>& dump = nullptr,
                             const MachineModel& machine = {});

}  // namespace tessera
