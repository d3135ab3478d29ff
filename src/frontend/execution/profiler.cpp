// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/execution/profiler.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "execution/clock_offset.h"
#include "execution/execute.h"
#include "execution/gather_from_ranks.h"
#include "execution/recording.h"
#include "execution/trace_file.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

struct Recording {
  std::string path;
  std::string option;       // for warnings about the file
  std::int64_t origin = 0;  // the time 0 of the file, on the clock of rank 0
  std::int64_t most_events = 0;
  ClockOffset clock{};  // at the start
  bool is_on = false;   // false: the file cannot be written
};

constexpr std::string_view kRequested = "TESSERA_TRACE_FILE";

struct RecordingOfRank {
  std::optional<Recording> recording;
  int recordings = 0;  // by start_trace()
};

std::optional<Recording>& recording() { return RankContext::current().get<RecordingOfRank>().recording; }

// What rank 0 tells the others.
struct StartMessage {
  std::uint64_t path_bytes = 0;  // 0: nothing is recorded
  std::int64_t level = 1;
  std::int64_t most_events = 0;
  std::int64_t origin = 0;
  std::int64_t is_on = 0;
};

bool can_write(const std::string& option, const std::string& path) {
  bool is_writable = false;
  write_for_option(option, [&] {
    require(!std::filesystem::is_fifo(path), "cannot write a trace to {}, which is a pipe; give a file", path);
    check_writable(path);
    is_writable = true;
  });
  return is_writable;
}

// Rank 0 decides for all ranks, because mpirun may not pass environment variables to other hosts. "" as the path
// requests nothing.
void begin_trace(std::string path, const std::string& option, const TimelineOptions& options) {
  ProcessGroup& world = *session().world;
  const CollectiveLabel label{0, "the start of a trace"};
  StartMessage start{path.size(), options.level, options.most_events, Timeline::now()};
  if (world.rank() == 0 && !path.empty()) start.is_on = can_write(option, path) ? 1 : 0;
  world.broadcast(std::as_writable_bytes(std::span(&start, 1)), 0, label);
  if (start.path_bytes == 0) return;
  path.resize(start.path_bytes);
  world.broadcast(std::as_writable_bytes(std::span(path)), 0, label);
  Recording made{path, option, start.origin, start.most_events};
  made.is_on = start.is_on != 0;
  if (made.is_on) {
    made.clock = measure_clock_offset(world, session().job.hosts);
    Timeline::current().start({.level = static_cast<int>(start.level), .most_events = start.most_events});
  }
  recording() = std::move(made);
}

// ---- the end ------------------------------------------------------------------------------------------------------------

TraceText text_of(const Recording& ended, const ClockOffset& end_clock) {
  const int rank = RankContext::current().rank();
  const std::vector<std::string>& hosts = session().job.hosts;  // none: the ranks are threads
  std::string process = fmt::format("rank {}", rank);
  if (!hosts.empty()) process += fmt::format(" on {}", at(hosts, rank));
  return {Timeline::current().take(), rank, std::move(process),
          [origin = ended.origin, start = ended.clock, end_clock](std::int64_t time) {
            return on_clock_of_rank_zero(time, start, end_clock) - origin;
          }};
}

const CollectiveLabel kEndOfTrace{0, "the end of the trace"};

// Returns on rank 0 the text of rank `from`.
std::string pass_to_rank_zero(ProcessGroup& world, int from, std::string text) {
  if (from == 0) return text;
  std::uint64_t bytes = text.size();
  world.broadcast(std::as_writable_bytes(std::span(&bytes, 1)), from, kEndOfTrace);
  text.resize(bytes);
  std::string received(bytes, '\0');
  world.permute(std::as_bytes(std::span(text)), std::as_writable_bytes(std::span(received)), {{from, 0}}, kEndOfTrace);
  return received;
}

struct TraceSize {
  std::int64_t blocks = 0;
  std::int64_t has_events = 0;
  std::int64_t dropped = 0;
  std::int64_t uncertainty = 0;
};

TraceSummary summary_of(const std::vector<TraceSize>& ranks) {
  TraceSummary out{.ranks = isize(ranks)};
  for (const TraceSize& rank : ranks) {
    out.dropped += rank.dropped;
    out.clock_uncertainty = std::max(out.clock_uncertainty, rank.uncertainty);
  }
  return out;
}

void warn_of_dropped(const Recording& ended, const TraceSummary& summary) {
  if (summary.dropped > 0)
    log_shared_warning(
        "{}: {} events are missing, because a rank records at most {}; record fewer steps with start_trace() and "
        "stop_trace()",
        ended.path, summary.dropped, ended.most_events);
}

// Rank 0 writes the blocks of one rank after the other. If it cannot, it still receives them.
void write_with_others(const Recording& ended, const TraceText& text, std::int64_t uncertainty, bool is_explicit) {
  ProcessGroup& world = *session().world;
  const auto sizes = gather_from_ranks(
      world, TraceSize{text.block_count(), text.has_events() ? 1 : 0, text.dropped(), uncertainty}, kEndOfTrace);
  // A program that runs nothing, such as `tessera env`, does not replace the trace of the job.
  const bool is_empty =
      std::none_of(sizes.begin(), sizes.end(), [](const TraceSize& size) { return size.has_events != 0; });
  if (is_empty && !is_explicit) return;
  const TraceSummary summary = summary_of(sizes);
  std::optional<TraceFile> file;
  const auto on_rank_zero = [&](const std::function<void()>& write) {
    if (world.rank() == 0) write_for_option(ended.option, write);
  };
  on_rank_zero([&] { file.emplace(ended.path); });
  for (int rank = 0; rank < world.size(); ++rank)
    for (std::int64_t block = 0; block < at(sizes, rank).blocks; ++block) {
      const std::string part = pass_to_rank_zero(world, rank, rank == world.rank() ? text.block(block) : "");
      on_rank_zero([&] { file->add(part); });
    }
  on_rank_zero([&] { file->finish(summary); });
  warn_of_dropped(ended, summary);
}

void write_alone(const Recording& ended, const TraceText& text) noexcept {
  try {
    write_for_option(ended.option, [&] {
      TraceFile file(fmt::format("{}.rank-{}", ended.path, RankContext::current().rank()));
      for (std::int64_t block = 0; block < text.block_count(); ++block) file.add(text.block(block));
      file.finish({.ranks = 1, .dropped = text.dropped(), .clock_uncertainty = ended.clock.uncertainty});
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "warning: %s\n", error.what());
  }
}

}  // namespace

void begin_requested_trace() {
  begin_trace(options().text(kRequested), std::string(kRequested),
              {.level = static_cast<int>(options().integer("TESSERA_TRACE_LEVEL"))});
}

void end_trace(bool is_explicit) {
  const std::optional<Recording> ended = std::exchange(recording(), std::nullopt);
  if (!ended || !ended->is_on) return;
  Timeline::current().stop();
  std::optional<TraceText> text;
  try {
    const ClockOffset end_clock = measure_clock_offset(*session().world, session().job.hosts);
    text = text_of(*ended, end_clock);
    write_with_others(*ended, *text, std::max(ended->clock.uncertainty, end_clock.uncertainty), is_explicit);
  } catch (...) {  // a rank has died
    if (!text) text = text_of(*ended, ended->clock);
    write_alone(*ended, *text);
    throw;
  }
}

void save_own_trace() noexcept {
  try {
    const std::optional<Recording> ended = std::exchange(recording(), std::nullopt);
    if (!ended || !ended->is_on) return;
    Timeline::current().stop();
    write_alone(*ended, text_of(*ended, ended->clock));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "warning: %s\n", error.what());
  }
}

namespace profiler {

void start_trace(const std::string& path, const TraceOptions& given) {
  require(!path.empty(), "start_trace: the path is empty; give the name of a file, such as trace.json");
  require(given.level >= 0 && given.level <= 2, "start_trace: the level must be 1 or 2, got {}", given.level);
  require(given.most_events >= 1, "start_trace: most_events must be at least 1, got {}", given.most_events);
  const std::optional<Recording>& current = recording();
  require(!current || !current->is_on, "start_trace {}: {} is being recorded; call stop_trace() first", path,
          [&] { return current->path; });
  await_execution();
  const auto level = given.level > 0 ? given.level : static_cast<int>(options().integer("TESSERA_TRACE_LEVEL"));
  // Each recording has a name of its own, so that a failure of one does not affect the next.
  const int number = ++RankContext::current().get<RecordingOfRank>().recordings;
  const std::string option = "start_trace " + path + (number == 1 ? "" : fmt::format(" (recording {})", number));
  begin_trace(path, option, {.level = level, .most_events = given.most_events});
}

void stop_trace() {
  require(recording().has_value(), "stop_trace: no trace is being recorded; call start_trace() first");
  await_execution();
  end_trace(true);
}

}  // namespace profiler
}  // namespace tessera
