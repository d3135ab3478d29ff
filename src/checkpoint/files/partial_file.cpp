// SPDX-License-Identifier: Apache-2.0
#include "partial_file.h"

#include <fmt/format.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill() of POSIX
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "file_names.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// `.partial-1a2b3c4d-`. Hosts may share the folder, but a process is known only on its own host.
std::string suffix_of_host() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return fmt::format("{}-{:08x}-", kPartial, static_cast<std::uint32_t>(hash_text(host.data())));
}

// The process in the end of a name, `4711-0`.
std::optional<pid_t> process_in(std::string_view end) {
  pid_t process = 0;
  int number = 0;
  const char* last = end.data() + end.size();
  const auto first = std::from_chars(end.data(), last, process);
  if (first.ec != std::errc() || process <= 0 || first.ptr == last || *first.ptr != '-') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, last, number);
  const bool is_name = second.ec == std::errc() && second.ptr == last && number >= 0;
  return is_name ? std::optional(process) : std::nullopt;
}

bool has_ended(pid_t process) { return kill(process, 0) != 0 && errno == ESRCH; }

std::vector<fs::path> files_left_for(const std::string& path) {
  const fs::path target(path);
  const std::string start = target.filename().string() + suffix_of_host();
  std::vector<fs::path> out;
  std::error_code error;  // if the folder cannot be read, its files stay
  for (const auto& entry : fs::directory_iterator(target.has_parent_path() ? target.parent_path() : ".", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start)) continue;
    const auto process = process_in(std::string_view(name).substr(start.size()));
    if (process && has_ended(*process)) out.push_back(entry.path());
  }
  return out;
}

}  // namespace

std::string partial_file_name(const std::string& path, pid_t process, int number) {
  return fmt::format("{}{}{}-{}", path, suffix_of_host(), process, number);
}

std::string create_partial_file(const std::string& path) {
  std::error_code ignored;
  for (const fs::path& left : files_left_for(path))
    if (fs::remove(left, ignored)) log_warning("deleted {}, which an interrupted save left", left.string());
  for (int number = 0;; ++number)
    if (std::string name = partial_file_name(path, getpid(), number); create_new_file(name)) return name;
}

}  // namespace tessera
