// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/timeline.h"

#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "tessera/base/rank_context.h"

namespace tessera {
namespace {

// A rank whose timeline nothing else uses.
class TimelineOfTest : public ::testing::Test {
 protected:
  static Timeline& timeline() { return Timeline::current(); }

 private:
  RankContext context_{0, 1};
  RankScope scope_{context_};
};

std::vector<std::string> names_of(const Timeline::Content& content) {
  std::vector<std::string> out;
  for (const auto& event : content.events) out.push_back(content.labels[event.label].name);
  return out;
}

TEST_F(TimelineOfTest, NothingIsRecordedBeforeTheStartAndAfterTheStop) {
  { const TimelineSpan span("test", "before"); }
  timeline().start();
  { const TimelineSpan span("test", "during"); }
  const TimelineSpan open("test", "open at the stop");
  timeline().stop();
  { const TimelineSpan span("test", "after"); }
  EXPECT_EQ(names_of(timeline().take()), std::vector<std::string>{"during"});
}

TEST_F(TimelineOfTest, TheTextOfALabelIsMadeOnlyIfItIsRecorded) {
  int made = 0;
  const auto label = [&] {
    ++made;
    return EventLabel{.category = "test", .name = "event"};
  };
  { const TimelineSpan span(label); }
  EXPECT_EQ(made, 0);
  timeline().start();
  { const TimelineSpan span(label); }
  EXPECT_EQ(made, 1);
}

TEST_F(TimelineOfTest, AnOuterEventComesBeforeTheInnerOneThatBeginsWithIt) {
  timeline().start();
  const std::int64_t now = Timeline::now();
  const auto add = [&](const char* name, std::int64_t begin, std::int64_t end) {
    timeline().add(timeline().label({.category = "test", .name = name}), now + begin, now + end);
  };
  add("inner", 10, 20);
  add("outer", 10, 50);
  add("first", 5, 6);
  EXPECT_EQ(names_of(timeline().take()), (std::vector<std::string>{"first", "outer", "inner"}));
}

TEST_F(TimelineOfTest, AnEventThatBeganBeforeTheStartBeginsWithIt) {
  const std::int64_t before = Timeline::now();
  timeline().start();
  const std::int64_t start = Timeline::now();
  timeline().add_to_row("tracing", {.category = "test", .name = "long"}, before - 1000, start + 5);
  timeline().add_to_row("tracing", {.category = "test", .name = "over"}, before - 1000, before - 10);
  const auto content = timeline().take();
  ASSERT_EQ(names_of(content), std::vector<std::string>{"long"});
  EXPECT_GE(content.events[0].begin, before);
  EXPECT_EQ(content.events[0].end, start + 5);
}

TEST_F(TimelineOfTest, EventsBeyondTheBoundAreCounted) {
  timeline().start({.most_events = 7});
  for (int i = 0; i < 20; ++i) const TimelineSpan span("test", "event");
  const auto content = timeline().take();
  EXPECT_EQ(content.events.size(), 7U);
  EXPECT_EQ(content.dropped, 13);
  timeline().start();
  EXPECT_EQ(timeline().take().dropped, 0);
}

TEST_F(TimelineOfTest, LabelsHaveABoundToo) {
  timeline().start();
  constexpr std::size_t kMegabyte = std::size_t{1} << 20;
  for (char c = 'a'; c <= 'z'; ++c) const TimelineSpan span("test", std::string(kMegabyte, c));
  { const TimelineSpan known("test", std::string(kMegabyte, 'a')); }
  const auto content = timeline().take();
  EXPECT_GE(content.labels.size(), 10U);
  EXPECT_EQ(content.events.size(), content.labels.size() + 1);
  EXPECT_EQ(content.events.size() + static_cast<std::size_t>(content.dropped), 27U);
  EXPECT_GT(content.dropped, 0);
}

TEST_F(TimelineOfTest, EqualEventsShareTheirLabelAndDifferInTheirNumber) {
  timeline().start();
  for (const std::int64_t step : {3, 5}) {
    const TimelineSpan span(
        [] {
          return EventLabel{.category = "step", .name = "train", .arguments = {{"a", "b"}}, .number_name = "step"};
        },
        step);
  }
  const auto content = timeline().take();
  ASSERT_EQ(content.labels.size(), 1U);
  ASSERT_EQ(content.events.size(), 2U);
  EXPECT_EQ(content.events[0].number, 3);
  EXPECT_EQ(content.events[1].number, 5);
}

// ---- rows ---------------------------------------------------------------------------------------------------------------

// Returns the row of the event that the calling thread adds.
std::string row_of_event(Timeline& timeline, const std::string& name) {
  { const TimelineSpan span("test", name); }
  const auto content = timeline.take();
  return content.events.size() == 1 ? content.rows[content.events[0].row] : "no single event";
}

TEST_F(TimelineOfTest, LivingThreadsHaveRowsOfTheirOwnAndLaterOnesReuseThem) {
  timeline().start();
  EXPECT_EQ(row_of_event(timeline(), "a"), "main");
  RankContext& context = RankContext::current();
  std::latch both(2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      const RankScope scope(context);
      const NamedThread name("worker");
      both.arrive_and_wait();
      const TimelineSpan span("test", "b");
    });
  for (auto& thread : threads) thread.join();
  const auto content = timeline().take();
  ASSERT_EQ(content.events.size(), 2U);
  EXPECT_EQ(content.rows, (std::vector<std::string>{"main", "worker", "worker 2"}));
  EXPECT_NE(content.events[0].row, content.events[1].row);
  std::thread([&] {
    const RankScope scope(context);
    const NamedThread name("worker");
    EXPECT_EQ(row_of_event(timeline(), "c"), "worker");
  }).join();
  std::thread([&] {
    const RankScope scope(context);
    EXPECT_EQ(row_of_event(timeline(), "d"), "thread");
  }).join();
  EXPECT_EQ(row_of_event(timeline(), "e"), "main");
}

TEST_F(TimelineOfTest, AThreadWithAContextOfItsOwnMayShareTheTimeline) {
  timeline().start();
  std::thread([shared = shared_timeline()] {
    RankContext own(0, 1);
    const RankScope scope(own);
    { const TimelineSpan span("test", "lost"); }
    share_timeline(shared);
    const NamedThread name("saver");
    const TimelineSpan span("test", "kept");
  }).join();
  const auto content = timeline().take();
  ASSERT_EQ(names_of(content), std::vector<std::string>{"kept"});
  EXPECT_EQ(content.rows[content.events[0].row], "saver");
}

TEST_F(TimelineOfTest, NoEventOfSeveralThreadsIsLost) {
  timeline().start();
  RankContext& context = RankContext::current();
  constexpr int kThreads = 4;
  constexpr int kEvents = 500;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      const RankScope scope(context);
      const NamedThread name("worker");
      for (int event = 0; event < kEvents; ++event) const TimelineSpan span("test", std::to_string(event % 7));
    });
  std::int64_t taken = 0;
  for (int i = 0; i < 10; ++i) taken += std::ssize(timeline().take().events);
  for (auto& thread : threads) thread.join();
  taken += std::ssize(timeline().take().events);
  EXPECT_EQ(taken, kThreads * kEvents);
}

}  // namespace
}  // namespace tessera
