// SPDX-License-Identifier: Apache-2.0
// Passes over the collectives of a per-device program, made by the partitioner or read from elsewhere (docs/collective_passes.md).
// Each is a pure function that keeps every value (but compress_collectives) and never moves more bytes; what a user gathers anew on purpose (FSDP's unshards,
// barriers) stays. A pass that finds nothing returns the program it was given.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/sharding/topology.h"

namespace tessera {

/// What f32 travels as.
enum class Compression : std::uint8_t { kBf16, kInt8 };

struct CollectivePassOptions {
  /// One combined collective moves at most so many bytes (the larger of operands and results); also what a pass may keep alive
  /// longer per value: a gather shared, hoisted or accumulated in full.
  std::int64_t memory_bound = std::int64_t{30} << 20;
  /// A gather or reduce-scatter outside of FSDP units is combined with others at most so many instructions away.
  std::int32_t window = 100;
  /// Collectives become start and done where there is something to compute in between. Off: the runtime joins the pairs again.
  bool make_asynchronous = false;
  /// Keep what a pass made only where no device computes more or holds more for it, and share sums out over idle axes only where
  /// no device holds much more for it (programs of moderate size).
  bool save_memory = false;
  /// Mesh axes over which f32 travels as bf16 (compress_collectives).
  std::vector<std::string> bf16_axes{};
  /// Those over which it travels as int8 with scales.
  std::vector<std::string> int8_axes{};
};

/// A collective next to its inverse, or followed by a cut, is less:
///   dynamic-slice(all-gather(x), this device's part) -> x
///   dynamic-slice(all-reduce(x), this device's part) -> reduce-scatter(x)
///   all-gather(reduce-scatter(x)) -> all-reduce(x)
///   a collective in groups of one, a permute of every device to itself -> its operand
/// Which part a dynamic index means is found by evaluating it for every device.
Program simplify_collectives(const Program& program);

/// What a group's members give one element each of, to be reduced by a computation that has no name, the group reduces:
///   reduce(all-gather(x), f) -> all-reduce(x, f)
Program reduce_gathered(const Program& program);

/// Reduces a sum once instead of its addends: add(all-reduce(x), all-reduce(y)) -> all-reduce(add(x, y)), for reduce-scatter too, with
/// min and max for theirs, along chains of additions (unrolled micro-batches) and with other addends in between. Data movement,
/// negation and scaling by powers of two stand between where that is exact.
Program reassociate_reductions(const Program& program, const CollectivePassOptions& options = {});

/// Takes collectives out of loops: those that give the same in every round, with what they need; and reductions of what is only
/// accumulated, acc = add(acc, all-reduce(x)), which happen once, behind the loop.
Program hoist_collectives(const Program& program, const CollectivePassOptions& options = {});

/// Gathers of one value that differ by reshapes and transposes become one, on which these follow.
Program share_gathers(const Program& program, const CollectivePassOptions& options = {});

/// Collectives next to dots become chains of permutes around the group's ring, each next to a part of the dots, where the modelled
/// time of permutes that overlap with parts is less (never on a uniform topology):
///   dot(all-gather(x), w) -> dot(x, w), dot(permute(x), w), … each in its place, or added up
///   reduce-scatter(dot(x, w)) -> dot(slice(x), w), permute of it + dot(slice(x), w), …
Program collective_matmul(const Program& program, const Topology& topology);

/// Collectives over any of `axes` carry f32 as bf16, half the bytes: x -> f32(all-gather(bf16(x))), permutes and all-to-alls too. Sums are
/// added up in f32, each addend rounded once:
///   reduce-scatter(x) -> sum(f32(all-to-all(bf16(x))))
///   all-reduce(x)     -> f32(all-gather(bf16(sum(f32(all-to-all(bf16(x)))))))
/// What is gathered or moved is off by at most 2^-8 of itself, a scattered sum by 2^-8 of the sum of its addends' magnitudes, a
/// reduced one by that and 2^-8 of itself. Operands below 16 KiB stay as they are (losses, norms). Changes values: only on request.
/// kInt8: numbers travel as int8 with a scale for each block of 256, a quarter of the bytes; the rounding is then 1/254 of the largest magnitude
/// in the block instead of 2^-8 of the number, and a block with an infinity or a NaN arrives as NaNs.
/// Error: an axis that no mesh has.
Program compress_collectives(const Program& program, const std::vector<std::string>& axes,
                             Compression compression = Compression::kBf16);

/// Independent collectives of one kind, element type, reduction and groups become one of several operands:
///   %a = f32[8] all-reduce(%x)     ->  %c = (f32[8], f32[3]) all-reduce(%x, %y)
///   %b = f32[3] all-reduce(%y)         %a = f32[8] get-tuple-element(%c), index=0, %b = …
/// They move up to the first where all they read stands before it, else down to the last; nothing else moves but what costs little.
Program combine_collectives(const Program& program, const CollectivePassOptions& options = {});

/// Collectives become pairs, the start where the collective stood, the done before the first use, where FLOPs lie between.
Program make_asynchronous(const Program& program);

/// All of them in order, as partition() runs them, with duplicates merged and dead code removed. `skip`: names of passes to leave
/// out; `dump`: called behind each.
Program optimize_collectives(const Program& program, const CollectivePassOptions& options = {},
                             const std::vector<std::string>& skip = {},
                             const std::function<void(const std::string& pass, const Program&)>& dump = nullptr,
                             const Topology& topology = {});

}  // namespace tessera
