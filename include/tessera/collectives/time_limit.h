// SPDX-License-Identifier: Apache-2.0
// A time limit for the collectives of a scope.
#pragma once

#include <chrono>
#include <optional>

namespace tessera {

/// During its lifetime, each collective of this rank waits at most `most`, instead of TESSERA_COLLECTIVE_TIMEOUT. After
/// this time it throws an Error that names the ranks that have not arrived. The groups cannot be used after that.
class TimeLimit {
 public:
  explicit TimeLimit(std::chrono::seconds most);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  /// The limit of the innermost TimeLimit of this rank; nullopt if there is none.
  static std::optional<std::chrono::seconds> current();

 private:
  std::optional<std::chrono::seconds> previous_;
};

}  // namespace tessera
