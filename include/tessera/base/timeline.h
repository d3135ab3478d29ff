// SPDX-License-Identifier: Apache-2.0
// The timeline of a rank: the activities of its threads, as events with a begin and an end. Nothing is recorded unless
// TESSERA_TRACE_FILE or profiler::start_trace() asks for it. The front end writes the timelines of all ranks to one
// file (frontend/execution/profiler.h).
//
//   const TimelineSpan span("compile", "lower");  // an event that lasts as long as the scope
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tessera {

/// The properties that all events of one kind share.
struct EventLabel {
  std::string category;  // docs/debugging.md lists the categories
  std::string name;
  std::vector<std::pair<std::string, std::string>> arguments{};
  std::string number_name{};  // of the number that each event has, such as "step"; "": the events have none
};

struct TimelineOptions {
  int level = 1;                         // 2: also every schedule step
  std::int64_t most_events = 1'000'000;  // further events are only counted; an event takes 32 bytes
};

/// The events of the threads of a rank. Any thread may call all functions.
class Timeline {
 public:
  /// The number of an EventLabel. It stays valid for the life of the timeline.
  using Label = std::uint32_t;
  static constexpr Label kNoLabel = UINT32_MAX;

  Timeline();
  /// The timeline of the current rank.
  static Timeline& current();
  /// The clock of all events: nanoseconds of CLOCK_MONOTONIC, which the processes of a machine share.
  static std::int64_t now();

  /// Discards all events and begins to record. Called by the rank's own thread, whose row is called `main`.
  void start(const TimelineOptions& options = {});
  void stop() { level_.store(0, std::memory_order_relaxed); }
  [[nodiscard]] bool is_on() const { return level() > 0; }
  /// 0: nothing is recorded.
  [[nodiscard]] int level() const { return level_.load(std::memory_order_relaxed); }
  /// Differs from the ids of all other timelines of the process.
  [[nodiscard]] std::uint64_t id() const { return id_; }

  /// Returns the number of the label. Returns kNoLabel if the labels have reached the memory limit for labels.
  Label label(const EventLabel& label) noexcept;
  /// Adds an event to the row of the calling thread. Two events of a row must be nested or disjoint. Has no effect if
  /// nothing is recorded. An event that began before start() begins with it.
  void add(Label label, std::int64_t begin, std::int64_t end, std::int64_t number = 0) noexcept;
  /// Adds an event to a row that belongs to no thread, for work that is not nested in the events of its thread.
  void add_to_row(std::string_view row, const EventLabel& label, std::int64_t begin, std::int64_t end) noexcept;

  struct Event {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t number = 0;
    Label label = 0;
    std::uint32_t row = 0;
  };
  struct Content {
    std::vector<std::string> rows;
    std::vector<EventLabel> labels;
    std::vector<Event> events;  // sorted by begin; of events with the same begin, the longest is first
    std::int64_t dropped = 0;   // events that were not recorded, because there were too many events or labels
  };
  /// Returns everything that was recorded, and forgets the events.
  Content take();

 private:
  friend class NamedThread;
  struct Row {
    std::string name;
    bool is_taken = true;
  };
  std::uint32_t take_row(std::string_view name);  // these need the mutex
  std::uint32_t fixed_row(std::string_view name);
  void give_row_to_this_thread();
  std::uint32_t row_of_this_thread();
  void add_event(const Event& event);

  const std::uint64_t id_;
  std::atomic<int> level_{0};
  std::atomic<std::int64_t> dropped_{0};
  std::mutex mutex_;  // guards everything below
  std::int64_t started_ = 0;
  std::int64_t most_events_ = 0;
  std::size_t label_bytes_ = 0;
  std::deque<Event> events_;
  std::vector<EventLabel> labels_;
  std::unordered_map<std::string, Label> label_numbers_;
  std::vector<Row> rows_;
};

/// The timeline of the current rank, for a thread that gets a RankContext of its own.
std::shared_ptr<Timeline> shared_timeline();
/// Makes `timeline` that of the current context. Call it before the context records events.
void share_timeline(std::shared_ptr<Timeline> timeline);

/// Gives the calling thread a row in the timeline of its rank, for a scope. Threads that live at the same time get
/// different rows: `loader worker`, `loader worker 2`. A later thread gets the row of one that has ended.
class NamedThread {
 public:
  explicit NamedThread(std::string_view name);
  ~NamedThread();
  NamedThread(const NamedThread&) = delete;
  NamedThread& operator=(const NamedThread&) = delete;

 private:
  std::shared_ptr<Timeline> timeline_;
  std::uint32_t row_ = 0;
  std::pair<std::uint64_t, std::uint32_t> previous_;
};

/// Adds an event for a scope to the timeline of the current rank. If nothing is recorded, it reads one atomic variable.
class TimelineSpan {
 public:
  TimelineSpan(std::string_view category, std::string_view name)
      : TimelineSpan([&] { return EventLabel{.category = std::string(category), .name = std::string(name)}; }) {}
  /// `label` returns the EventLabel. It is called only if events are recorded.
  template <class F>
    requires std::is_invocable_r_v<EventLabel, const F&>
  explicit TimelineSpan(const F& label, std::int64_t number = 0) : number_(number) {
    Timeline& timeline = Timeline::current();
    if (!timeline.is_on()) return;
    label_ = timeline.label(label());
    timeline_ = &timeline;
    begin_ = Timeline::now();
  }
  ~TimelineSpan() {
    if (timeline_ != nullptr) timeline_->add(label_, begin_, Timeline::now(), number_);
  }
  TimelineSpan(const TimelineSpan&) = delete;
  TimelineSpan& operator=(const TimelineSpan&) = delete;

 private:
  Timeline* timeline_ = nullptr;  // null: the scope is not recorded
  Timeline::Label label_ = Timeline::kNoLabel;
  std::int64_t number_ = 0;
  std::int64_t begin_ = 0;
};

}  // namespace tessera
