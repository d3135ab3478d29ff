// SPDX-License-Identifier: Apache-2.0
// Does the partitioned program compute what the global one does? On seeded inputs, with padding poisoned before every use.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// Runs a per-device program on all its devices: arguments[device][parameter] in, one result per device out.
using RunDevices =
    std::function<std::vector<Literal>(const Program& program, const std::vector<std::vector<Literal>>& arguments)>;

struct CheckOptions {
  std::uint64_t seed = 0;
  /// Loops stop after so many rounds on both sides and their state is compared; reported. With `run` a loop that goes on is an
  /// Error, since nothing stops it there.
  std::int64_t trip_limit = 1000;
  /// How the partitioned program runs; null: reference evaluation in lockstep, with padding filled with NaN or extreme
  /// integers behind every instruction.
  RunDevices run{};
  /// A rewriting of the partitioned program, evaluated in its place: lower(), so that what the runtime executes is checked op by op. Then
  /// the partitioned program must have no shardings (PartitionOptions::keep_shardings): they would not be those of rewritten values.
  std::function<Program(const Program& partitioned)> rewrite{};
  /// Collectives of the partitioned program carry f32 as these (CollectivePassOptions): bounds allow each its roundings, but for bf16
  /// where all is computed in double precision.
  bool carries_bf16 = false;
  bool carries_int8 = false;
  /// Elements outside their bound are failures unless other roundings explain them (CheckReport::ill_conditioned). False: they always are.
  bool accept_ill_conditioned = true;
};

struct CheckReport {
  bool passed = false;
  std::vector<std::string> failures;  // "result 0 f32[7,5] at [3,2]: expected 1.25, got nan (device 1)"
  std::int64_t values_compared = 0;
  double worst = 0;     // largest difference as a share of its bound
  int input_draws = 1;  // inputs are redrawn while most results are not finite
  std::vector<std::string>
      stopped_loops;  // at the trip limit: "while %loop", and where: the global program, the partitioned one
  /// Results whose bound is larger than all their values, as sums of much larger ones are: "result 4 f32[8,2]: 155 at values up to 8".
  std::vector<std::string> loosely_compared;
  /// Constants whose elements the text leaves out: values were drawn for them. "%table of %main".
  std::vector<std::string> drawn_constants;
  /// Elements that differ by more than their bound, and by no more than other roundings change the unpartitioned program's own result, as where
  /// noise is divided by noise: "result 4 f32[8] at [3]: expected 0.5, got -0.5". No failures.
  std::vector<std::string> ill_conditioned;
};

/// Partitions and compares. Integers must be equal, NaN where NaN is due. In lockstep both sides compute in double precision (floats of
/// 8 bits and the bits of floats are those of the module), and floats may differ by 2^-30 of their magnitudes. With `run` the other side
/// is still the reference evaluation of the unpartitioned program as given, and the bound comes
/// from the narrowest dtype in the program and from what its types do to the global program's results. Where that fails, the global program is
/// run again with its roundings changed, and elements may differ by what that changes (docs/debugging.md).
CheckReport check_partition(const Program& program, const CheckOptions& options = {});

/// The same of what `program` was partitioned into before: padding is poisoned where PartitionOptions::keep_shardings was set.
CheckReport check_partitioned(const Program& program, const Partitioned& parts, const CheckOptions& options = {});

/// Seeded arguments for a program's entry: floats around zero, indices also out of range.
std::vector<Literal> seeded_arguments(const Program& program, std::uint64_t seed, double scale = 1);

}  // namespace tessera
