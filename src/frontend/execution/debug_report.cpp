// SPDX-License-Identifier: Apache-2.0
#include "execution/debug_report.h"

#include <cstdio>
#include <set>

#include "execution/doctor_record.h"
#include "tessera/base/call_stack.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

constexpr std::int64_t kCompilations = 1;  // the PT_XLA_DEBUG_LEVEL from which on compilations are reported
constexpr std::int64_t kExecutions = 2;
constexpr std::string_view kSync = "sync::";  // the start of the counters of reasons

bool is_asked_for(std::int64_t level) { return RankContext::current().rank() == 0 && debug_level() >= level; }

// Writes to the file PT_XLA_DEBUG_FILE, or to standard error.
void say(const std::string& text) {
  const std::string& path = options().text("PT_XLA_DEBUG_FILE");
  if (path.empty())
    std::fputs(text.c_str(), stderr);
  else
    write_for_option("PT_XLA_DEBUG_FILE", [&] { append_file(path, text); });
}

// Every line begins with the name of the block, so that grep finds it among other output.
class Block {
 public:
  explicit Block(std::string name) : name_(std::move(name)) { rule(); }
  template <class... Args>
  Block& line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format("{}: {}\n", name_, fmt::format(format, std::forward<Args>(args)...));
    return *this;
  }
  void print() {
    rule();
    say(text_);
  }

 private:
  void rule() { line("{}", std::string(80, '=')); }
  std::string name_;
  std::string text_;
};

void add_graph(Block& block, const Program& global) {
  const Computation& entry = global.entry_computation();
  block.line("Graph Info:")
      .line("  Graph Name: {}", global.name)
      .line("  Graph Hash: {:016x}", global.hash())
      .line("  Number of Graph Inputs: {}", entry.parameters.size())
      .line("  Number of Graph Outputs: {}", entry.root_type().leaf_count());
}

// The calls of the user that led to the compilation or execution.
void add_frames(Block& block) {
  const auto most = static_cast<std::size_t>(options().integer("PT_XLA_DEBUG_MAX_FRAME"));
  block.line("C++ Frame Triggered Execution:");
  for (const std::string& frame : user_frames(call_stack(), most)) block.line("  {}", frame);
}

// ---- advice -------------------------------------------------------------------------------------------------------------

struct Said {
  std::set<std::string, std::less<>> subjects;  // the lines up to their first number
  std::set<std::string, std::less<>> lines;
};

std::vector<std::string> advice() {
  return performance_advice(metrics(), metrics().counter_value("MarkStep").value_or(0));
}

// Prints the advice on each new subject. With `again`, also prints advice that has changed since.
void advise(bool again) {
  if (!is_asked_for(kCompilations)) return;
  Said& said = RankContext::current().get<Said>();
  std::string text;
  for (const std::string& line : advice()) {
    const bool is_new = said.subjects.insert(line.substr(0, line.find_first_of("0123456789"))).second;
    if ((is_new || again) && said.lines.insert(line).second) text += line + "\n";
  }
  if (!text.empty()) say(text);
}

// ---- metrics ------------------------------------------------------------------------------------------------------------

void add_metrics(std::string_view when) {
  std::string path = options().text("XLA_METRICS_FILE");
  if (path.empty()) return;
  if (const int rank = RankContext::current().rank(); rank > 0) path += fmt::format(".{}", rank);
  write_for_option("XLA_METRICS_FILE",
                   [&] { append_file(path, fmt::format("[MetricsData; {}]\n{}\n", when, metrics_report())); });
}

}  // namespace

void report_compilation(const Program& global, const CompiledProgram& compiled) {
  log_debug("rank {} compiled {} for {}: {} instructions, arena of {}", RankContext::current().rank(), global.name,
            compiled.reason, compiled.program.instruction_count(),
            format_bytes(static_cast<double>(compiled.memory.arena)));
  record_compilation(global, compiled);
  if (!is_asked_for(kCompilations)) return;
  Block block("Compilation Analysis");
  block.line("Compilation Cause").line("  {}", compiled.reason);
  add_graph(block, global);
  add_frames(block);
  block.print();
  constexpr double kGigabyte = 1e9;
  const auto gigabytes = [&](std::int64_t bytes) { return static_cast<double>(bytes) / kGigabyte; };
  const ExecutableMemory& memory = compiled.memory;
  Block("Post Compilation Analysis")
      .line("Graph input size: {:.6f} GB", gigabytes(memory.arguments))
      .line("Graph output size: {:.6f} GB", gigabytes(memory.results))
      .line("Aliased input size: {:.6f} GB", gigabytes(memory.aliased))
      .line("Intermediate tensor size: {:.6f} GB", gigabytes(memory.arena))
      .line("Kernel workspace size: {:.6f} GB", gigabytes(memory.workspace))
      .line("Compiled program size: {:.6f} GB", gigabytes(memory.constants))
      .print();
}

void report_execution(const Program& global, const RunReason& reason) {
  metrics().count(reason.counter);
  if (!is_asked_for(kExecutions)) return;
  Block block("Execution Analysis");
  block.line("Execution Cause").line("  {}: {}", reason.counter.substr(kSync.size()), reason.text);
  add_graph(block, global);
  add_frames(block);
  block.print();
}

void report_step() {
  advise(false);
  record_step();
  if (!options().text("XLA_METRICS_FILE").empty())
    add_metrics(fmt::format("step={}", metrics().counter_value("MarkStep").value_or(0)));
}

void report_end() noexcept {
  try {
    record_end();
    advise(true);
    if (metrics().counter_value("MarkStep")) add_metrics("end");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "warning: %s\n", error.what());
  }
}

}  // namespace tessera
