// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>

#include "tessera/base/rank_context.h"

namespace tessera {
namespace {

constexpr std::size_t kMostLabelBytes = std::size_t{16} << 20;

// The timeline of a rank. Contexts of its threads may share it.
struct TimelineOfRank {
  std::shared_ptr<Timeline> timeline = std::make_shared<Timeline>();
};

std::uint64_t next_timeline_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// The row of the calling thread: the id of the timeline, and the row in it. A timeline has no id 0.
thread_local std::pair<std::uint64_t, std::uint32_t> row_of_thread{0, 0};

// Equal labels have equal keys. Texts do not contain the byte 0.
std::string key_of(const EventLabel& label) {
  std::string out = label.category;
  (out += '\0') += label.name;
  (out += '\0') += label.number_name;
  for (const auto& [name, value] : label.arguments) {
    (out += '\0') += name;
    (out += '\0') += value;
  }
  return out;
}

}  // namespace

Timeline::Timeline() : id_(next_timeline_id()) {}

Timeline& Timeline::current() { return *RankContext::current().get<TimelineOfRank>().timeline; }
std::shared_ptr<Timeline> shared_timeline() { return RankContext::current().get<TimelineOfRank>().timeline; }
void share_timeline(std::shared_ptr<Timeline> timeline) {
  RankContext::current().get<TimelineOfRank>().timeline = std::move(timeline);
}

std::int64_t Timeline::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Timeline::start(const TimelineOptions& options) {
  const std::scoped_lock lock(mutex_);
  events_.clear();
  dropped_ = 0;
  most_events_ = options.most_events;
  started_ = now();
  if (row_of_thread.first != id_) row_of_thread = {id_, take_row("main")};
  level_.store(options.level, std::memory_order_relaxed);
}

Timeline::Label Timeline::label(const EventLabel& label) noexcept {
  try {
    std::string key = key_of(label);
    const std::scoped_lock lock(mutex_);
    if (const auto found = label_numbers_.find(key); found != label_numbers_.end()) return found->second;
    if (label_bytes_ + key.size() > kMostLabelBytes) return kNoLabel;
    label_bytes_ += key.size();
    labels_.push_back(label);
    const auto number = static_cast<Label>(labels_.size() - 1);
    label_numbers_.emplace(std::move(key), number);
    return number;
  } catch (const std::exception&) {  // there is no memory
    return kNoLabel;
  }
}

void Timeline::add(Label label, std::int64_t begin, std::int64_t end, std::int64_t number) noexcept {
  if (!is_on()) return;
  try {
    give_row_to_this_thread();
    const std::scoped_lock lock(mutex_);
    add_event({.begin = begin, .end = end, .number = number, .label = label, .row = row_of_this_thread()});
  } catch (const std::exception&) {  // there is no memory
    ++dropped_;
  }
}

void Timeline::add_to_row(std::string_view row, const EventLabel& label, std::int64_t begin,
                          std::int64_t end) noexcept {
  if (!is_on()) return;
  const Label number = this->label(label);
  try {
    const std::scoped_lock lock(mutex_);
    add_event({.begin = begin, .end = end, .number = 0, .label = number, .row = fixed_row(row)});
  } catch (const std::exception&) {  // there is no memory
    ++dropped_;
  }
}

void Timeline::add_event(const Event& event) {
  if (event.label == kNoLabel || static_cast<std::int64_t>(events_.size()) >= most_events_) {
    ++dropped_;
    return;
  }
  if (event.end < started_) return;  // of an earlier recording
  events_.push_back(event);
  events_.back().begin = std::max(event.begin, started_);
}

Timeline::Content Timeline::take() {
  const std::scoped_lock lock(mutex_);
  Content out{{}, labels_, {events_.begin(), events_.end()}, dropped_};
  for (const Row& row : rows_) out.rows.push_back(row.name);
  events_.clear();
  std::stable_sort(out.events.begin(), out.events.end(), [](const Event& a, const Event& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  return out;
}

// ---- rows ---------------------------------------------------------------------------------------------------------------

std::uint32_t Timeline::take_row(std::string_view name) {
  for (int number = 1;; ++number) {
    const std::string row = number == 1 ? std::string(name) : fmt::format("{} {}", name, number);
    const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Row& known) { return known.name == row; });
    if (found == rows_.end()) {
      rows_.push_back({row, true});
      return static_cast<std::uint32_t>(rows_.size() - 1);
    }
    if (!std::exchange(found->is_taken, true)) return static_cast<std::uint32_t>(found - rows_.begin());
  }
}

std::uint32_t Timeline::fixed_row(std::string_view name) {
  const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Row& known) { return known.name == name; });
  return found != rows_.end() ? static_cast<std::uint32_t>(found - rows_.begin()) : take_row(name);
}

// A thread without a name has a row until it ends.
void Timeline::give_row_to_this_thread() {
  if (row_of_thread.first == id_ || shared_timeline().get() != this) return;
  thread_local std::optional<NamedThread> row;
  row.reset();
  row.emplace("thread");
}

std::uint32_t Timeline::row_of_this_thread() {
  if (row_of_thread.first != id_) row_of_thread = {id_, take_row("thread")};
  return row_of_thread.second;
}

NamedThread::NamedThread(std::string_view name) : timeline_(shared_timeline()), previous_(row_of_thread) {
  const std::scoped_lock lock(timeline_->mutex_);
  row_ = timeline_->take_row(name);
  row_of_thread = {timeline_->id_, row_};
}

NamedThread::~NamedThread() {
  row_of_thread = previous_;
  const std::scoped_lock lock(timeline_->mutex_);
  timeline_->rows_[row_].is_taken = false;
}

}  // namespace tessera
