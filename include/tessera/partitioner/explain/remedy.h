// SPDX-License-Identifier: Apache-2.0
// A change that would remove a collective. Passes record it as data, with_estimated_remedies() estimates its effect,
// and text() returns it as a text for users.
//
//   {.kind = kChange, .value = "x", .spec = "{-,-}"}    change the annotation of %x to {-,-}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// A change, usually of an annotation, that would remove a collective.
struct Remedy {
  enum class Kind : std::uint8_t {
    kUnknown,         // no remedy is known, as for collectives of the input
    kNone,            // there is no remedy: `detail` gives the reason
    kAnnotate,        // annotate `value` with `spec`
    kAnnotateResult,  // the same for a value that is the result of a computation
    kChange,          // change the annotation of `value`, or of the result if there is no name, to `spec`
    kChangeEither,    // both sides are annotated: change one of the annotations `detail`
    kGiveSharding,    // in the HLO text, give `detail` the sharding `spec`
    kGiveSummed,      // pass `value` to the program already summed, with the sharding `spec`
    kKeepDims,        // do not shard the dims that `detail` sums over: remove the axes `spec` from its operands
    kKeepDim,         // do not shard a dim: `detail`
    kChangeSize       // choose another size of a dim: make `detail`
  };
  /// The estimated effect of the remedy.
  enum class Trial : std::uint8_t {
    kNone,        // the remedy names no annotation, or no test was requested
    kSkipped,     // too many remedies were tested before this one, or the estimate does not know the value
    kImpossible,  // it contradicts other annotations
    kWorks,       // the collective is gone, with fewer collectives and bytes in all
    kHelps,       // fewer bytes
    kFails        // as many bytes or more
  };
  Kind kind = Kind::kUnknown;
  std::string value{};   // as the argument of --annotate
  std::string spec{};    // a sharding: {data,-}
  std::string mesh{};    // the mesh of the axes in `spec`: mesh<data=2, model=2>
  std::string detail{};  // text for people
  Trial trial = Trial::kNone;
  bool removes_collective = false;  // of kHelps: true if the collective is gone
  std::int64_t bytes_saved = 0;     // fewer bytes received by one device; negative: more bytes
  double work = 1;                  // operations of a device with the remedy, divided by those without

  /// The value of --annotate that applies the remedy; nullopt if --annotate cannot express it.
  [[nodiscard]] std::optional<std::string> annotation() const;
  /// The text for people; "" for kUnknown.
  [[nodiscard]] std::string text() const;
  /// `annotate_result`, `keep_dims`, …: the kind in JSON.
  [[nodiscard]] std::string_view kind_name() const;
  /// `none`, `skipped`, `works`, …: the trial in JSON.
  [[nodiscard]] std::string_view trial_name() const;

  /// The value of the frontend attribute `tessera.remedy`: fields separated by `|`.
  [[nodiscard]] std::string attribute() const;
  /// The inverse of attribute().
  static Remedy from_attribute(std::string_view text);

  friend bool operator==(const Remedy&, const Remedy&) = default;
};

}  // namespace tessera
