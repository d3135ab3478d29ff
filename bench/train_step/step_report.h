// SPDX-License-Identifier: Apache-2.0
// What train_step says about a step: counts of its program, where its time goes, and the line of JSON.
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

/// The program of the last mark_step that was compiled.
const CompiledProgram& step_program();
/// Floating-point operations of the products and convolutions of a program's entry, as MFU counts them.
double product_flops(const Program& global);
/// Of partitioning and compiling, all programs so far.
double compile_seconds();
/// What a step takes beside its kernels, its collectives and the waits for peers that belong to them: the median over a few steps, each
/// of which begins when `meet` returns (on all ranks at once). Leaves the executable's profile behind.
double host_seconds(const CompiledProgram& compiled, const std::function<void()>& meet,
                    const std::function<void()>& step);
/// Seconds that this rank has spent in each kind of collective (kCollectives), waits for peers included, and not hidden.
inline constexpr std::array<std::string_view, 9> kCollectives = {
    "start",      "all-gather",        "reduce-scatter",     "all-reduce",
    "all-to-all", "ragged-all-to-all", "collective-permute", "collective-broadcast",
    "other"};
using CollectiveSeconds = std::array<double, kCollectives.size()>;
CollectiveSeconds collective_seconds();
/// `{"total": 0.5, "all-gather": 0.3, …}`, without kinds that there are none of.
std::string by_collective(const CollectiveSeconds& seconds);

/// A table of kinds and the longest steps.
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
  /// Of a value that is JSON already.
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
