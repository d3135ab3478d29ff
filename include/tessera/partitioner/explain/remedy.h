// SPDX-License-Identifier: Apache-2.0
// A change that would remove a collective, as data. Passes store it, trials evaluate it, and text() prints it for
// users.
//
//   {.kind = kChange, .value = "x", .spec = "{-,-}"}    change the annotation of %x to {-,-}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

struct Remedy {
  enum class Kind : std::uint8_t {
    kUnknown,         // no remedy is known, as for collectives of the input
    kNone,            // there is no remedy: `detail` gives the reason
    kAnnotate,        // annotate `value` with `spec`
    kAnnotateResult,  // the same for a value that is the result of a computation
    kChange,          // change the annotation of `value`, or of the result if there is no name, to `spec`
    kChangeEither,    // both sides are annotated: change one of `detail`
    kGiveSharding,    // give `detail` the sharding `spec` in the text
    kGiveSummed,      // give `value` summed, as `spec`
    kKeepDims,        // do not shard the dims that `detail` sums over: remove the axes `spec` from its operands
    kKeepDim          // do not shard a dim: `detail`
  };
  /// The result of partitioning with the remedy.
  enum class Trial : std::uint8_t {
    kNone,        // it names no annotation, or no trial was requested
    kSkipped,     // too many were tried before
    kImpossible,  // it contradicts other annotations
    kWorks,       // the collective is gone, with fewer collectives and bytes in all
    kHelps,       // fewer bytes
    kFails        // as many bytes or more
  };
  Kind kind = Kind::kUnknown;
  std::string value{};   // as the argument of --annotate
  std::string spec{};    // a sharding: {data,-}
  std::string mesh{};    // of which these are axes: mesh<data=2, model=2>
  std::string detail{};  // text for people
  Trial trial = Trial::kNone;
  bool removes_collective = false;  // of kHelps: the collective is gone, and others receive the remaining bytes
  std::int64_t bytes_saved = 0;     // received by one device; negative: more
  double work = 1;                  // operations of a device with the remedy, divided by those without

  /// The option value for --annotate, if the remedy is an annotation; nullopt if it is not, or cannot be written as
  /// one.
  [[nodiscard]] std::optional<std::string> annotation() const;
  /// The text for people; "" for kUnknown.
  [[nodiscard]] std::string text() const;
  /// `annotate_result`, `keep_dims`, …: the kind in JSON.
  [[nodiscard]] std::string_view kind_name() const;
  /// `none`, `skipped`, `works`, …: the trial in JSON.
  [[nodiscard]] std::string_view trial_name() const;

  /// The value of the frontend attribute `tessera.remedy`: fields separated by `|`.
  [[nodiscard]] std::string attribute() const;
  static Remedy from_attribute(std::string_view text);

  friend bool operator==(const Remedy&, const Remedy&) = default;
};

}  // namespace tessera
