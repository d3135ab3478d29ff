// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/execution/environment.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>

#include "compile/build_id.h"
#include "tessera/base/cpus.h"
#include "tessera/base/instruction_set.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/device.h"

namespace tessera {
namespace {

// `4 processes on 2 nodes: node7 (2), node8 (2)`.
std::string ranks_text(const JobInfo& job) {
  if (job.is_virtual) return fmt::format("{} threads of one process", job.ranks);
  std::map<std::string, int> counts;
  for (const std::string& host : job.hosts) ++counts[host];
  std::vector<std::string> hosts;
  for (const auto& [host, count] : counts) hosts.push_back(fmt::format("{} ({})", host, count));
  return fmt::format("{} process{} on {} node{}: {}", job.ranks, job.ranks == 1 ? "" : "es", job.nodes,
                     job.nodes == 1 ? "" : "s", fmt::join(hosts, ", "));
}

std::string exchange_text(const JobInfo& job) {
  if (job.ranks == 1) return "none";
  if (job.is_virtual) return "memory of the process";
  if (!job.shares_memory) return "MPI";
  constexpr std::pair<std::string_view, std::string_view> kModes[] = {{"1", "shared memory, in place"},
                                                                      {"staged", "shared memory, staging buffers"},
                                                                      {"files", "shared files, staging buffers"}};
  std::string out = options().text("TESSERA_SHARED_MEMORY");
  for (const auto& [value, text] : kModes)
    if (out == value) out = text;
  return out + (job.nodes > 1 ? "; MPI between nodes" : "");
}

std::vector<std::pair<std::string, std::string>> variables_that_are_set() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const OptionRow& row : Options::table()) {
    const std::string name(row.name);
    const char* value = std::getenv(name.c_str());
    if (value != nullptr && *value != '\0') out.emplace_back(name, printable(value));
  }
  return out;
}

}  // namespace

Environment environment() {
  Environment out;
  out.build = build_id();
  out.backend = options().text("PJRT_DEVICE");
  out.instruction_set = instruction_set_name(instruction_set());
  out.best_instruction_set = instruction_set_name(best_instruction_set());
  out.job = job_info();
  out.exchange = exchange_text(out.job);
  out.threads = options().integer("TESSERA_NUM_THREADS");
  out.cores = usable_cpu_count();
  out.memory = shared_limits();
  out.memory_limit = options().text("TESSERA_MEMORY_LIMIT");
  out.variables = variables_that_are_set();
  return out;
}

std::string Environment::str() const {
  std::string out;
  const auto line = [&](std::string_view name, const std::string& text) {
    out += fmt::format("{:<10}{}\n", name, text);
  };
  line("build", build);
  line("backend", fmt::format("{}, device {}", backend, device().str()));
  line("kernels", fmt::format("{} (the processor supports {})", instruction_set, best_instruction_set));
  line("ranks", ranks_text(job));
  line("exchange", exchange);
  line("threads", fmt::format("{} for each rank; {} may use {} core{}", threads, job.ranks == 1 ? "it" : "rank 0",
                              cores, cores == 1 ? "" : "s"));
  if (!job.oversubscription.empty()) line("note", job.oversubscription);
  for (const SharedLimit& limit : memory)
    line("memory", fmt::format("{}: {} of {} are in use", limit.what, format_bytes(static_cast<double>(limit.used)),
                               format_bytes(static_cast<double>(limit.limit))));
  if (!memory_limit.empty()) line("limit", memory_limit + " for each rank (TESSERA_MEMORY_LIMIT)");
  for (const auto& [name, value] : variables) line("variable", fmt::format("{}={}", name, value));
  return out;
}

}  // namespace tessera
