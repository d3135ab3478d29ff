// SPDX-License-Identifier: Apache-2.0
// Compares the results of the partitioned program with those of the global program. The inputs are random with a seed.
// Padding is overwritten with NaN or extreme integers (poisoned) before every use.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// Runs a per-device program on all its devices. Takes arguments[device][parameter] and returns one result per device.
using RunDevices =
    std::function<std::vector<Literal>(const Program& program, const std::vector<std::vector<Literal>>& arguments)>;

struct CheckOptions {
  std::uint64_t seed = 0;
  /// Loops stop after this number of rounds in both programs. Their states are then compared, and the report lists the
  /// loops. With `run`, a longer loop is an Error, because `run` cannot stop it.
  std::int64_t trip_limit = 1000;
  /// Runs the partitioned program. Null: reference evaluation in lockstep, with padding filled with NaN or extreme
  /// integers after every instruction.
  RunDevices run{};
  /// Rewrites the partitioned program before it is evaluated. With lower(), this checks the program that the runtime
  /// executes op by op. Requires PartitionOptions::keep_shardings to be false, because the shardings would not fit the
  /// rewritten values.
  std::function<Program(const Program& partitioned)> rewrite{};
  /// Collectives of the partitioned program carry f32 in these types (CollectivePassOptions). The bounds allow for
  /// the rounding of each collective, except for bf16 if everything is computed in double precision.
  bool carries_bf16 = false;
  bool carries_int8 = false;
  /// True: an element outside its bound is not a failure if other roundings explain it (CheckReport::ill_conditioned).
  /// False: it is always a failure.
  bool accept_ill_conditioned = true;
};

/// The result of a check.
struct CheckReport {
  bool passed = false;
  std::vector<std::string> failures;  // "result 0 f32[7,5] at [3,2]: expected 1.25, got nan (device 1)"
  /// "result 0 differs between devices 0 and 2", if the comparison failed because the unpartitioned program itself is
  /// wrong: its manual regions must leave equal values on all devices.
  std::string unequal_results;
  std::int64_t values_compared = 0;
  double worst = 0;                        // largest difference as a fraction of its bound
  int input_draws = 1;                     // inputs are redrawn while most results are not finite
  std::vector<std::string> stopped_loops;  // loops that reached the trip limit: "while %loop", and in which program
  /// Results whose bound is larger than all their values, for example small sums of much larger numbers: "result 4
  /// f32[8,2]: 155 at values up to 8".
  std::vector<std::string> loosely_compared;
  /// Constants whose elements the text omits, such as "%table of %main". check drew values for them.
  std::vector<std::string> drawn_constants;
  /// Elements outside their bound that are not failures, because other roundings change the result of the unpartitioned
  /// program as much. An example is noise divided by noise: "result 4 f32[8] at [3]: expected 0.5, got -0.5".
  std::vector<std::string> ill_conditioned;
};

/// Partitions the program and compares both programs. Integers must be equal, and NaN must be in the same places. In
/// lockstep, both programs compute in double precision (except for floats of 8 bits and operations on the bits of
/// floats), and floats may differ by 2^-30 of their magnitudes. With `run`, its results are compared with the reference
/// evaluation of the unpartitioned program. The bound then depends on the narrowest element type in the program and on
/// how much the types change the results. If an element is outside its bound, the global program is evaluated again
/// with other roundings. The element must then be equal or close to one of these values (docs/internals/debugging.md,
/// ill-conditioned results).
CheckReport check_partition(const Program& program, const CheckOptions& options = {});

/// The same for a program that is already partitioned. Padding is poisoned if PartitionOptions::keep_shardings was
/// set.
CheckReport check_partitioned(const Program& program, const Partitioned& parts, const CheckOptions& options = {});

/// Returns random arguments for the entry of a program: floats around zero, and indices of which some are out of range.
std::vector<Literal> seeded_arguments(const Program& program, std::uint64_t seed, double scale = 1);

}  // namespace tessera
