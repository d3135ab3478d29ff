// SPDX-License-Identifier: Apache-2.0
#include "debug_options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tessera/base/log.h"
#include "tessera/ops/control_flow.h"

namespace tessera::fsdp {
namespace {

// The names of the options that make results wrong.
std::vector<std::string> wrong_options(const FsdpDebugOptions& options) {
  std::vector<std::string> out;
  if (options.dummy_forward_pass) out.emplace_back("dummy_forward_pass");
  if (options.dummy_all_gather_op) out.emplace_back("dummy_all_gather_op");
  if (options.dummy_reduce_scatter_op) out.emplace_back("dummy_reduce_scatter_op");
  return out;
}

// Prints a line for each call of the module.
void print_calls(const DebuggedUnit& unit) {
  if (!is_rank_zero()) return;
  log_line(LogLevel::kInfo,
           fmt::format("{}: unit {} ({}) has {} parameters, with those of units below it", unit.options.msg, unit.name,
                       unit.module->class_name(), unit.module->parameter_count()));
  unit.module->register_forward_pre_hook(
      [msg = unit.options.msg, name = unit.name](nn::Module& module, std::vector<Tensor>& inputs) {
        std::vector<std::string> types;
        for (const Tensor& input : inputs) types.push_back(input.is_null() ? "null" : input.type().str());
        log_line(LogLevel::kInfo, fmt::format("{}: forward pass of unit {} ({}) with {}", msg, name,
                                              module.class_name(), fmt::join(types, ", ")));
      });
}

}  // namespace

std::string dummies_of(const FsdpDebugOptions& options) {
  std::vector<std::string_view> parts;
  if (options.dummy_all_gather_op) parts.push_back(kDummyGather);
  if (options.dummy_reduce_scatter_op) parts.push_back(kDummyReduction);
  if (options.dummy_optimization_barrier_op) parts.push_back(kDummyBarrier);
  return fmt::format("{}", fmt::join(parts, ","));
}

std::vector<std::string> apply_debug_options(const std::vector<DebuggedUnit>& units, const ShardAxes& axes) {
  std::vector<std::string> wrong;
  std::vector<std::string> where;
  for (const DebuggedUnit& unit : units) {
    if (unit.options.print) print_calls(unit);
    if (unit.options.dummy_forward_pass) add_dummy_forward(*unit.module, axes);
    const auto options = wrong_options(unit.options);
    if (!options.empty()) where.push_back(unit.name);
    for (const std::string& option : options)
      if (std::find(wrong.begin(), wrong.end(), option) == wrong.end()) wrong.push_back(option);
  }
  if (wrong.empty()) return {};
  std::string text = fmt::format("debug options of FSDP replace work by dummies ({}), in unit{} {}",
                                 fmt::join(wrong, ", "), where.size() == 1 ? "" : "s", where.front());
  if (where.size() > 1) text += fmt::format(" and {} more", where.size() - 1);
  text += ": ALL RESULTS ARE WRONG, and only memory and time mean anything";
  log_shared_warning("{}", text);
  return {std::move(text)};
}

}  // namespace tessera::fsdp
