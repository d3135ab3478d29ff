// SPDX-License-Identifier: Apache-2.0
// What would spare a collective, as data: passes hand it on, trials judge it, and text() renders it for people.
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
    kUnknown,         // nothing is said, as of collectives of the input
    kNone,            // nothing spares it: `detail` says why
    kAnnotate,        // annotate `value` with `spec`
    kAnnotateResult,  // the same of a value that is the result of a computation
    kChange,          // change the annotation of `value`, or of the result where there is no name, to `spec`
    kChangeEither,    // both sides are annotated: change one of `detail`
    kGiveSharding,    // give `detail` the sharding `spec` in the text
    kGiveSummed,      // give `value` summed, as `spec`
    kKeepDims,        // keep the dims that `detail` sums over whole: take the axes `spec` off its operands
    kKeepDim          // keep a dim whole: `detail`
  };
  /// What partitioning with the remedy did.
  enum class Trial : std::uint8_t {
    kNone,        // it names no annotation, or none was asked for
    kSkipped,     // too many were tried before
    kImpossible,  // it contradicts what else is said
    kWorks,       // the collective is gone, with fewer collectives and bytes in all
    kHelps,       // fewer bytes
    kFails        // as many bytes or more
  };
  Kind kind = Kind::kUnknown;
  std::string value{};   // as --annotate names it
  std::string spec{};    // a sharding: {data,-}
  std::string mesh{};    // of which these are axes: mesh<data=2, model=2>
  std::string detail{};  // words for people
  Trial trial = Trial::kNone;
  bool spares_collective = false;  // of kHelps: others bring the bytes that are left
  std::int64_t bytes_spared = 0;   // received by one device; negative: more
  double work = 1;                 // operations of a device with it, of those without

  /// The sharding as --annotate takes it, of a remedy that is an annotation; none: it is none, or cannot be spelled so.
  [[nodiscard]] std::optional<std::string> annotation() const;
  /// For people; "" of kUnknown.
  [[nodiscard]] std::string text() const;
  /// `annotate_result`, `keep_dims`, …: the kind in JSON.
  [[nodiscard]] std::string_view kind_name() const;
  /// `none`, `skipped`, `works`, …: the trial in JSON.
  [[nodiscard]] std::string_view trial_name() const;

  /// As the frontend attribute `tessera.remedy` carries it: fields between `|`.
  [[nodiscard]] std::string attribute() const;
  static Remedy from_attribute(std::string_view text);

  friend bool operator==(const Remedy&, const Remedy&) = default;
};

}  // namespace tessera
