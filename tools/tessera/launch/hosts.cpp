// SPDX-License-Identifier: Apache-2.0
#include "launch/hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "tessera/base/cpus.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"

namespace tessera::command {
namespace {

bool is_host_option(const std::string& word) { return word == "--host" || word == "-host" || word == "-H"; }

bool is_hostfile_option(const std::string& word) {
  return word == "--hostfile" || word == "-hostfile" || word == "--machinefile" || word == "-machinefile";
}

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> out = split(text, separator);
  std::erase(out, "");
  return out;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// NAME, NAME:SLOTS, or NAME:* for as many slots as cores.
Host host_of_entry(const std::string& entry) {
  const auto colon = entry.find(':');
  const std::string name = entry.substr(0, colon);
  return {name, name, colon == std::string::npos ? 1 : std::atoll(entry.c_str() + colon + 1)};
}

// NAME KEY=VALUE..., with optional blanks around `=`. Empty if the line is a comment or excludes a host (`^NAME`).
std::optional<Host> host_of_line(const std::string& line) {
  std::string text = line.substr(0, line.find('#'));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '=' || c == '\t' || c == '\r'; }, ' ');
  const std::vector<std::string> words = parts_of(text, ' ');
  if (words.empty() || std::string_view("^/*").find(words[0].front()) != std::string_view::npos) return std::nullopt;
  Host out{words[0], words[0]};
  for (std::size_t i = 1; i + 1 < words.size(); i += 2) {
    const std::string& key = words[i];
    if (key == "slots" || key == "count" || key == "cpu") out.slots = std::atoll(words[i + 1].c_str());
    if (key == "username" || key == "user_name" || key == "user-name") out.address = words[i + 1] + "@" + out.name;
  }
  return out;
}

// A host that is named several times has a slot for each time.
void add(std::vector<Host>& hosts, Host host) {
  const auto it = std::find_if(hosts.begin(), hosts.end(), [&](const Host& one) { return one.name == host.name; });
  if (it == hosts.end())
    hosts.push_back(std::move(host));
  else
    it->slots = std::max<std::int64_t>(it->slots, 1) + std::max<std::int64_t>(host.slots, 1);
}

void copy_without(const std::string& path, const std::vector<std::string>& names, const std::string& copy) {
  std::ifstream in(path);
  std::ofstream out(copy);
  require(in.is_open(), "cannot read {}", path);
  for (std::string line; std::getline(in, line);) {
    const auto host = host_of_line(line);
    if (!host || !contains(names, host->name)) out << line << "\n";
  }
  require(static_cast<bool>(out.flush()), "cannot write {}", copy);
}

// The value of an MCA parameter of Open MPI; "" if it is not given.
std::string parameter(const std::vector<std::string>& options, const std::string& name) {
  for (std::size_t i = 0; i + 2 < options.size(); ++i)
    if ((options[i] == "--mca" || options[i] == "-mca") && options[i + 1] == name) return options[i + 2];
  const char* value = std::getenv(("OMPI_MCA_" + name).c_str());
  return value == nullptr ? "" : value;
}

}  // namespace

std::vector<Host> hosts_in(const std::vector<std::string>& options) {
  std::vector<Host> listed;
  std::vector<Host> in_files;
  for (std::size_t i = 0; i + 1 < options.size(); ++i) {
    if (is_host_option(options[i]))
      for (const std::string& entry : parts_of(options[i + 1], ',')) {
        if (entry.starts_with("+")) return {};
        add(listed, host_of_entry(entry));
      }
    if (!is_hostfile_option(options[i])) continue;
    std::ifstream file(options[i + 1]);
    for (std::string line; std::getline(file, line);)
      if (auto host = host_of_line(line)) add(in_files, *std::move(host));
  }
  return listed.empty() ? in_files : listed;
}

bool names_hosts(const std::vector<std::string>& options) {
  return std::any_of(options.begin(), options.end(),
                     [](const std::string& word) { return is_host_option(word) || is_hostfile_option(word); });
}

bool needs_oversubscribe(const std::vector<std::string>& options, std::int64_t ranks, std::int64_t cores) {
  if (ranks <= cores || names_hosts(options)) return false;
  return std::none_of(options.begin(), options.end(), [](std::string word) {
    std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
    return word.find("oversubscribe") != std::string::npos || word.find("hwthread") != std::string::npos;
  });
}

std::int64_t usable_core_count() {
  const CpuSet cpus = usable_cpus();
  std::set<std::string> cores;
  for (std::size_t cpu = 0; cpu < cpus.size(); ++cpu) {
    if (!cpus.test(cpu)) continue;
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    std::string threads = fmt::format("{}", cpu);  // if the system does not tell
    std::getline(file, threads);
    cores.insert(std::move(threads));
  }
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(cores.size()));
}

void check_hostfiles(const std::vector<std::string>& options) {
  for (std::size_t i = 0; i + 1 < options.size(); ++i)
    if (is_hostfile_option(options[i]))
      if (const std::string reason = why_unreadable(options[i + 1]); !reason.empty())
        throw Error(fmt::format("{}: {}", options[i], reason));
}

std::vector<std::string> options_without(const std::vector<std::string>& options, const std::vector<std::string>& names,
                                         const std::string& folder) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const bool has_hosts = i + 1 < options.size() && (is_host_option(options[i]) || is_hostfile_option(options[i]));
    if (!has_hosts) {
      out.push_back(options[i]);
      continue;
    }
    std::string value = options[i + 1];
    if (is_host_option(options[i])) {
      std::vector<std::string> entries = parts_of(value, ',');
      std::erase_if(entries, [&](const std::string& entry) { return contains(names, host_of_entry(entry).name); });
      value = fmt::format("{}", fmt::join(entries, ","));
    } else {
      const std::string copy = fmt::format("{}/hostfile.{}", folder, i);
      copy_without(value, names, copy);
      value = copy;
    }
    if (!value.empty()) out.insert(out.end(), {options[i], value});
    ++i;
  }
  return out;
}

RankCount ranks_on(const std::vector<Host>& hosts, std::int64_t wanted, std::int64_t least) {
  if (hosts.empty()) return {0, "the job has no other host"};
  std::int64_t slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  if (slots >= wanted) return {wanted, ""};
  for (const Host& host : hosts)
    if (host.slots < 1)
      return {0, fmt::format("the slots of host {} are not given; write slots=N into the hostfile, or --host {}:N",
                             host.name, host.name)};
  if (least > 0 && slots >= least) return {slots, ""};
  if (least > 0) return {0, fmt::format("the other hosts have {} slots, fewer than --min-ranks {}", slots, least)};
  return {0, fmt::format("the other hosts have {} slots for {} ranks; --min-ranks {} allows fewer ranks", slots, wanted,
                         slots)};
}

std::vector<std::string> launch_agent(const std::vector<std::string>& options) {
  std::vector<std::string> out;
  for (const char* name : {"plm_rsh_agent", "orte_rsh_agent", "pls_rsh_agent"}) {
    const std::string agents = parameter(options, name);  // such as `ssh : rsh`
    if (out.empty()) out = parts_of(agents.substr(0, agents.find(':')), ' ');
  }
  if (out.empty()) out = {"ssh"};
  if (std::filesystem::path(out.front()).filename() == "ssh") out.insert(out.end(), {"-o", "BatchMode=yes"});
  for (std::string& word : parts_of(parameter(options, "plm_rsh_args"), ' ')) out.push_back(std::move(word));
  return out;
}

}  // namespace tessera::command
