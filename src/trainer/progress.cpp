// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/base/text.h"

namespace tessera::trainer {
namespace {

constexpr int kMostBarCells = 20;
constexpr int kLeastBarCells = 4;
constexpr int kColumns = 80;
constexpr double kRedrawSeconds = 0.1;

// Returns the completed part of a bar, in eighths of a character cell.
std::string bar_text(double done, int cells) {
  static const std::vector<std::string> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::floor(std::clamp(done, 0.0, 1.0) * cells * 8));
  std::string out;
  for (int i = 0; i < eighths / 8; ++i) out += "█";
  out += kEighths[static_cast<std::size_t>(eighths % 8)];
  const int used = eighths / 8 + (eighths % 8 != 0 ? 1 : 0);
  return out + std::string(static_cast<std::size_t>(cells - used), ' ');
}

// Without an exception if it cannot be written: the training is worth more. The exit code reports it.
void put_line(std::FILE* out, const std::string& text) { std::fputs((text + "\n").c_str(), out); }

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto total = static_cast<std::int64_t>(seconds);
  const std::int64_t hours = total / 3600;
  const std::string minutes = fmt::format("{:02}:{:02}", total / 60 % 60, total % 60);
  return hours > 0 ? fmt::format("{}:{}", hours, minutes) : minutes;
}

std::string short_number(double value) {
  static const std::vector<std::string> kUnits = {"", "k", "M", "G", "T", "P"};
  std::size_t unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int digits = std::abs(value) < 9.995 ? 2 : std::abs(value) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, unit == 0 && std::floor(value) == value ? 0 : digits, kUnits[unit]);
}

std::string progress_text(const Progress& progress) {
  const double done =
      progress.total_steps == 0 ? 1 : static_cast<double>(progress.step) / static_cast<double>(progress.total_steps);
  const double left = done > 0 ? progress.seconds * (1 - done) / done : INFINITY;
  std::string rest = fmt::format("| {}/{} [{}<{}] loss {:.4f}  {} {}/s", progress.step, progress.total_steps,
                                 duration_text(progress.seconds), duration_text(left), progress.loss,
                                 short_number(progress.tokens_per_second), progress.unit);
  if (progress.mfu) rest += fmt::format("  MFU {:.1f}%", *progress.mfu * 100);
  const std::string percentage = fmt::format("{:3.0f}%|", std::floor(done * 100));
  const int cells = std::clamp(kColumns - isize(percentage) - isize(rest), kLeastBarCells, kMostBarCells);
  return percentage + bar_text(done, cells) + rest;
}

std::string log_text(const LogEntry& entry, const LogStyle& style) {
  const std::string width = std::to_string(style.last_step);
  std::string out = fmt::format("step {:>{}}  loss {:.4f}  lr {:.3g}  norm {:.2g}  {} {}/s", entry.step, width.size(),
                                entry.loss.value_or(0), entry.learning_rate.value_or(0), entry.grad_norm.value_or(0),
                                short_number(entry.tokens_per_second.value_or(0)), style.unit);
  if (entry.mfu) out += fmt::format("  MFU {:.2g}%", 100 * *entry.mfu);
  if (style.exposed_part) out += fmt::format("  comm {:.0f}%", 100 * *style.exposed_part);
  return out;
}

ProgressBar::ProgressBar(std::FILE* out, std::int64_t lines) : ProgressBar(out, lines, isatty(fileno(out)) != 0) {}

ProgressBar::~ProgressBar() { finish(); }

void ProgressBar::finish() {
  if (drawn_.empty()) return;
  std::fputs("\n", out_);
  std::fflush(out_);
  drawn_.clear();
}

void ProgressBar::erase() {
  if (drawn_.empty()) return;
  std::fputs("\r\x1b[K", out_);
  std::fflush(out_);
  drawn_.clear();
}

void ProgressBar::update(const Progress& progress) {
  const bool is_last = progress.step == progress.total_steps;
  if (!is_terminal_) {
    if (is_last || (lines_ > 0 && progress.step % lines_ == 0)) {
      put_line(out_, progress_text(progress));
      std::fflush(out_);
    }
    return;
  }
  if (!is_last && drawn_at_ >= 0 && progress.seconds - drawn_at_ < kRedrawSeconds) return;
  drawn_at_ = progress.seconds;
  erase();
  drawn_ = progress_text(progress);
  std::fputs(drawn_.c_str(), out_);
  std::fflush(out_);
}

void ProgressBar::print(const std::string& line) {
  const std::string bar = drawn_;
  erase();
  put_line(out_, line);
  drawn_ = bar;
  std::fputs(bar.c_str(), out_);
  std::fflush(out_);
}

void ProgressBar::status(const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  if (!is_terminal_ || (status_at_ && std::chrono::duration<double>(now - *status_at_).count() < kRedrawSeconds))
    return;
  status_at_ = now;
  erase();
  drawn_ = text;
  std::fputs(drawn_.c_str(), out_);
  std::fflush(out_);
}

double training_flops(double tokens, double parameters) { return 6 * tokens * parameters; }

double attention_flops(double tokens, double layers, double width, double length) {
  return 12 * layers * width * length * tokens;
}

double model_flops_utilization(double flops, double seconds, double chips, double peak_flops_per_second) {
  return flops / seconds / chips / peak_flops_per_second;
}

}  // namespace tessera::trainer
