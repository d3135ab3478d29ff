// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/call_stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/stacktrace.hpp>
#include <string_view>

namespace tessera {
namespace {

// True for `tessera::mark_step(…)`, and for `double tessera::sum<double>(…)`: names of templates begin with the type
// of the result.
bool is_of_a_library(std::string_view frame) {
  constexpr std::string_view kDeduced = "decltype(auto) ";
  if (frame.starts_with(kDeduced)) frame.remove_prefix(kDeduced.size());
  const std::string_view name = frame.substr(0, frame.find_first_of("(<"));
  for (const std::string_view library : {"tessera::", "std::", "__gnu_cxx::"})
    if (name.starts_with(library) || name.find(fmt::format(" {}", library)) != std::string_view::npos) return true;
  return name.starts_with("__libc_start") || name.starts_with("_start");
}

}  // namespace

std::vector<std::string> call_stack() {
  std::vector<std::string> out;
  for (const boost::stacktrace::frame& frame : boost::stacktrace::stacktrace(1, 64)) {
    std::string name = frame.name();
    if (name.empty()) continue;
    if (const std::string file = frame.source_file(); !file.empty())
      name += fmt::format(" ({}:{})", file.substr(file.rfind('/') + 1), frame.source_line());
    out.push_back(std::move(name));
  }
  return out;
}

std::vector<std::string> user_frames(const std::vector<std::string>& stack, std::size_t most) {
  std::vector<std::string> out;
  std::copy_if(stack.begin(), stack.end(), std::back_inserter(out),
               [](const std::string& frame) { return !is_of_a_library(frame); });
  if (out.empty()) out = stack;
  out.resize(std::min(out.size(), most));
  return out;
}

}  // namespace tessera
