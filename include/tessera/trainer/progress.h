// SPDX-License-Identifier: Apache-2.0
// The progress of a run: a bar that is redrawn on a terminal, or separate lines if the output is not a terminal.
//
//    42%|████▉       | 420/1000 [01:03<01:27] loss 2.0812  8.12k tokens/s  MFU 31.2%
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/trainer/trainer_state.h"

namespace tessera::trainer {

/// The figures that a progress bar shows.
struct Progress {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  double seconds = 0;  // since the first step began
  double loss = 0;
  double tokens_per_second = 0;
  std::optional<double> mfu{};  // 0..1
  std::string_view unit = "tokens";
};

/// Returns the line, without a line break: 80 columns wide, unless numbers are very long.
std::string progress_text(const Progress& progress);
/// How log_text() shows an entry.
struct LogStyle {
  std::string unit = "tokens";
  std::int64_t last_step = 0;            // of the run, which determines the width of steps
  std::optional<double> exposed_part{};  // exposed communication as a fraction of the time; nullopt: one rank
};
/// The line of an entry of the log, at most 80 columns wide:
/// `step  50  loss 2.0812  lr 0.001  norm 0.512  8.12k tokens/s  MFU 31.2%`.
std::string log_text(const LogEntry& entry, const LogStyle& style);
/// 75.3 -> "01:15", 3700 -> "1:01:40".
std::string duration_text(double seconds);
/// 8123.4 -> "8.12k": three digits and k, M, G, T.
std::string short_number(double value);

/// Draws the progress of a run.
class ProgressBar {
 public:
  /// Draws to `out`. If `out` is not a terminal, prints a separate line every `lines` updates and at the end.
  explicit ProgressBar(std::FILE* out = stderr, std::int64_t lines = 50);
  /// For tests: overrides whether `out` is a terminal.
  ProgressBar(std::FILE* out, std::int64_t lines, bool is_terminal)
      : out_(out), lines_(lines), is_terminal_(is_terminal) {}
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Redraws at most ten times a second on a terminal.
  void update(const Progress& progress);
  /// Prints `line` above the bar.
  void print(const std::string& line);
  /// Shows an activity, such as "held out: 64 of 1024 samples", in place of the bar until erase(). Only on a terminal,
  /// at most ten times a second.
  void status(const std::string& text);
  void erase();
  /// Keeps the bar and begins a new line, for other output.
  void finish();

 private:
  std::FILE* out_;
  std::int64_t lines_;
  bool is_terminal_;
  double drawn_at_ = -1;
  std::optional<std::chrono::steady_clock::time_point> status_at_;
  std::string drawn_;
};

/// The floating-point operations of a training step: 6 x tokens x parameters (Kaplan et al., 2020).
double training_flops(double tokens, double parameters);
/// 12 L d S T: the products of queries with keys and of scores with values, forward and backward, in `layers` layers of
/// `width` for texts of `length` tokens (PaLM, Chowdhery et al., 2022, appendix B). Masked positions count.
double attention_flops(double tokens, double layers, double width, double length);
/// flops / seconds / (chips x peak of one chip), in 0..1.
double model_flops_utilization(double flops, double seconds, double chips, double peak_flops_per_second);

}  // namespace tessera::trainer
