// SPDX-License-Identifier: Apache-2.0
// The report of train_step: counts of its program, the distribution of its time, and the line of JSON.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tessera/frontend/execution/runtime.h"

namespace tessera::bench {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
double median(std::vector<double> values);

/// Returns the program of the last mark_step that was compiled.
const CompiledProgram& step_program();
/// Returns the floating-point operations of the products and convolutions in a program's entry, as MFU counts them.
double product_flops(const Program& global);
/// Returns the time for partitioning and compiling all programs so far.
double compile_seconds();
/// Returns the time of a step outside of its kernels, its collectives and their waits for peers: the median over a few
/// steps, each of which starts when `meet` returns (on all ranks together). Leaves the profile of the executable
/// available.
double host_seconds(const CompiledProgram& compiled, const std::function<void()>& meet,
                    const std::function<void()>& step);
/// The kinds of collectives for which collective_seconds() returns the time that this rank has spent, including waits
/// for peers, and not hidden.
inline constexpr std::array<std::string_view, 9> kCollectives = {
    "start",      "all-gather",        "reduce-scatter",     "all-reduce",
    "all-to-all", "ragged-all-to-all", "collective-permute", "collective-broadcast",
    "other"};
using CollectiveSeconds = std::array<double, kCollectives.size()>;
CollectiveSeconds collective_seconds();
/// Returns `{"total": 0.5, "all-gather": 0.3, …}`, without kinds that do not occur.
std::string by_collective(const CollectiveSeconds& seconds);

/// Writes a table of kinds and of the longest steps.
void write_profile(const CompiledProgram& compiled, const std::string& path);

/// An object on one line.
class JsonLine {
 public:
  JsonLine& add(std::string_view key, const char* text) { return add(key, std::string(text)); }
  JsonLine& add(std::string_view key, const std::string& text) { return append(key, '"' + text + '"'); }
  JsonLine& add(std::string_view key, bool value) { return append(key, value ? "true" : "false"); }
  JsonLine& add(std::string_view key, double value) { return append(key, fmt::format("{:.6g}", value)); }
  template <class Integer>
  JsonLine& add(std::string_view key, Integer value) {
    return append(key, fmt::format("{}", value));
  }
  /// Adds a value that is already JSON.
  JsonLine& add_json(std::string_view key, const std::string& value) { return append(key, value); }
  [[nodiscard]] std::string str() const { return "{" + text_ + "}"; }

 private:
  JsonLine& append(std::string_view key, const std::string& value) {
    text_ += fmt::format("{}\"{}\": {}", text_.empty() ? "" : ", ", key, value);
    return *this;
  }
  std::string text_;
};

}  // namespace tessera::bench
