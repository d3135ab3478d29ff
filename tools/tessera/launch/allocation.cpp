// SPDX-License-Identifier: Apache-2.0
#include "launch/allocation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"

namespace tessera::command {
namespace {

constexpr std::size_t kMostHosts = 65536;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A number of digits only, at most nine.
std::optional<std::int64_t> number_in(std::string_view text) {
  constexpr std::size_t kMostDigits = 9;
  std::int64_t out = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool is_number = code == std::errc() && end == text.data() + text.size() && text.size() <= kMostDigits;
  return is_number && text.front() != '-' ? std::optional(out) : std::nullopt;
}

// Divides `a[1,3],b` at the commas outside of brackets.
std::vector<std::string> entries_of(std::string_view text) {
  std::vector<std::string> out(1);
  bool is_inside = false;
  for (const char c : text) {
    if (c == '[' || c == ']') {
      require(is_inside == (c == ']'), "\"{}\" has an unmatched bracket", text);
      is_inside = c == '[';
    }
    if (c == ',' && !is_inside)
      out.emplace_back();
    else
      out.back() += c;
  }
  require(!is_inside, "\"{}\" has an unmatched bracket", text);
  return out;
}

// The numbers of `01-03,7`, with the zeros before them.
std::vector<std::string> numbers_of(const std::string& ranges) {
  std::vector<std::string> out;
  for (const std::string& range : split(ranges, ',')) {
    const auto dash = range.find('-');
    const std::string first = range.substr(0, dash);
    const auto begin = number_in(first);
    const auto end = dash == std::string::npos ? begin : number_in(std::string_view(range).substr(dash + 1));
    require(begin && end && *begin <= *end, "\"[{}]\" must contain numbers and ranges such as 01-04, got \"{}\"",
            ranges, range);
    require(static_cast<std::size_t>(*end - *begin) < kMostHosts - out.size(), "\"[{}]\" has more than {} numbers",
            ranges, kMostHosts);
    for (std::int64_t i = *begin; i <= *end; ++i) out.push_back(fmt::format("{:0{}}", i, first.size()));
  }
  require(!out.empty(), "\"[]\" must contain numbers and ranges such as 01-04");
  return out;
}

// The hosts of an entry with any number of brackets, such as `rack[1-2]n[01-16]-ib`.
std::vector<std::string> hosts_of_entry(const std::string& entry) {
  std::vector<std::string> out = {""};
  std::size_t at = 0;
  for (auto open = entry.find('['); open != std::string::npos; open = entry.find('[', at)) {
    const auto close = entry.find(']', open);
    const std::vector<std::string> numbers = numbers_of(entry.substr(open + 1, close - open - 1));
    require(out.size() * numbers.size() <= kMostHosts, "\"{}\" has more than {} hosts", entry, kMostHosts);
    const std::string_view literal = std::string_view(entry).substr(at, open - at);
    std::vector<std::string> longer;
    for (const std::string& host : out)
      for (const std::string& number : numbers) longer.push_back(fmt::format("{}{}{}", host, literal, number));
    out = std::move(longer);
    at = close + 1;
  }
  for (std::string& host : out) host += entry.substr(at);
  return out;
}

// The numbers of ranks on these hosts. In an interactive step of a job, SLURM_TASKS_PER_NODE is about the step.
std::vector<std::int64_t> slots_of_hosts(std::size_t hosts) {
  std::vector<std::int64_t> counts = counts_of_nodes(variable("SLURM_TASKS_PER_NODE"));
  if (counts.size() == hosts) return counts;
  counts = counts_of_nodes(variable("SLURM_NTASKS_PER_NODE"));
  return std::vector<std::int64_t>(hosts, counts.size() == 1 ? counts.front() : 0);
}

Allocation slurm_allocation(const std::string& list) {
  Allocation out{"Slurm", {}};
  const std::vector<std::string> names = hosts_of_node_list(list);
  const std::vector<std::int64_t> slots = slots_of_hosts(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) out.hosts.push_back({names[i], names[i], slots[i]});
  return out;
}

Allocation pbs_allocation(const std::string& file) {
  if (const std::string reason = why_unreadable(file); !reason.empty()) throw Error("PBS_NODEFILE: " + reason);
  Allocation out{"PBS", hosts_in({"--hostfile", file})};
  require(!out.hosts.empty(), "PBS_NODEFILE: {} names no host", file);
  for (Host& host : out.hosts) host.slots = std::max<std::int64_t>(host.slots, 1);  // a line is a rank
  return out;
}

}  // namespace

std::int64_t Allocation::ranks() const {
  std::int64_t out = 0;
  for (const Host& host : hosts) {
    if (host.slots < 1) return 0;
    out += host.slots;
  }
  return out;
}

std::vector<std::string> Allocation::options() const {
  std::vector<std::string> entries;
  for (const Host& host : hosts)
    entries.push_back(host.slots > 0 ? fmt::format("{}:{}", host.name, host.slots) : host.name + ":*");
  return {"--host", fmt::format("{}", fmt::join(entries, ","))};
}

std::string Allocation::str() const {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(kShown, hosts.size()); ++i)
    shown.push_back(hosts[i].slots > 0 ? fmt::format("{} ({})", hosts[i].name, hosts[i].slots) : hosts[i].name);
  if (hosts.size() > kShown) shown.emplace_back("…");
  return fmt::format("{} host{} of the {} job: {}", hosts.size(), hosts.size() == 1 ? "" : "s", scheduler,
                     fmt::join(shown, ", "));
}

std::vector<std::string> hosts_of_node_list(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string& entry : entries_of(text)) {
    require(!entry.empty(), "\"{}\" has an entry without a host", text);
    const std::vector<std::string> hosts = hosts_of_entry(entry);
    require(hosts.size() <= kMostHosts - out.size(), "\"{}\" has more than {} hosts", text, kMostHosts);
    out.insert(out.end(), hosts.begin(), hosts.end());
  }
  return out;
}

std::vector<std::int64_t> counts_of_nodes(std::string_view text) {
  std::vector<std::int64_t> out;
  if (text.empty()) return out;
  for (const std::string& entry : split(text, ',')) {
    const auto open = entry.find("(x");
    const auto count = number_in(std::string_view(entry).substr(0, open));
    const bool repeats = open != std::string::npos && entry.ends_with(')');
    const auto times = open == std::string::npos
                           ? std::optional<std::int64_t>(1)
                           : number_in(std::string_view(entry).substr(open + 2, entry.size() - open - 3));
    const bool is_good = count && times && (repeats || open == std::string::npos);
    require(is_good, "\"{}\" must contain numbers such as 4 or 4(x2), got \"{}\"", text, entry);
    require(static_cast<std::size_t>(*times) <= kMostHosts - out.size(), "\"{}\" has more than {} numbers", text,
            kMostHosts);
    out.insert(out.end(), static_cast<std::size_t>(*times), *count);
  }
  return out;
}

std::optional<Allocation> allocation_of_job() {
  std::string list = variable("SLURM_JOB_NODELIST");
  try {
    if (!list.empty()) return slurm_allocation(list);
  } catch (const Error& error) {
    throw Error(fmt::format("the variables of Slurm: {}", error.what()));
  }
  const std::string file = variable("PBS_NODEFILE");
  return file.empty() ? std::nullopt : std::optional(pbs_allocation(file));
}

}  // namespace tessera::command
