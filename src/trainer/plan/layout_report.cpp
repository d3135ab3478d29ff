// SPDX-License-Identifier: Apache-2.0
// Prints layouts: a table, JSON, and calls of mark_sharding.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "plan/step_plan.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/trainer/clm.h"
#include "tessera/trainer/layout_search.h"

namespace tessera::trainer {
namespace {

std::string milliseconds(double seconds) {
  constexpr double kMilli = 1e3;
  return fmt::format("{:.4g}", seconds * kMilli);
}

// `data 1.2, fsdp 30.4`
std::string by_axes(const std::map<std::string, double>& seconds) {
  std::vector<std::string> out;
  for (const auto& [axes, value] : seconds)
    if (value > 0) out.push_back(fmt::format("{} {}", axes, milliseconds(value)));
  return out.empty() ? "none" : fmt::format("{}", fmt::join(out, ", "));
}

// `{"fsdp", {}}`
std::string spec_text(const Sharding& sharding) {
  std::vector<std::string> dims;
  for (const DimSharding& dim : sharding.dims) {
    std::vector<std::string> axes;
    for (const AxisRef& axis : dim.axes) axes.push_back(fmt::format("\"{}\"", sharding.mesh.axis_text(axis)));
    if (axes.size() == 1)
      dims.push_back(axes.front());
    else
      dims.push_back(fmt::format("{{{}}}", fmt::join(axes, ", ")));
  }
  return fmt::format("{{{}}}", fmt::join(dims, ", "));
}

}  // namespace

std::string layout_table(const std::vector<LayoutPlan>& plans, std::size_t most) {
  std::string out = " ms/step      work  communication      memory  flags of run_clm; ms of communication by axes\n";
  for (std::size_t i = 0; i < std::min(most, plans.size()); ++i) {
    const LayoutPlan& plan = plans[i];
    out += fmt::format("{:>8}  {:>8}  {:>13}  {:>10}  {}{}\n", milliseconds(plan.cost.seconds),
                       milliseconds(plan.work_seconds), milliseconds(plan.cost.seconds - plan.work_seconds),
                       format_bytes(static_cast<double>(plan.cost.peak_bytes)), plan.layout.flags(),
                       plan.fits ? "" : "  (does not fit)");
    out += fmt::format("{:47}{}\n", "", by_axes(plan.communication_seconds));
  }
  return out;
}

std::string layout_json(const std::vector<LayoutPlan>& plans, std::size_t most) {
  boost::json::array out;
  for (std::size_t i = 0; i < std::min(most, plans.size()); ++i) {
    const LayoutPlan& plan = plans[i];
    boost::json::object seconds;
    boost::json::object bytes;
    for (const auto& [axes, value] : plan.communication_seconds) seconds[axes] = value;
    for (const auto& [axes, value] : plan.received_bytes) bytes[axes] = value;
    out.push_back({{"mesh", plan.layout.mesh()},
                   {"flags", plan.layout.flags()},
                   {"fits", plan.fits},
                   {"seconds", plan.cost.seconds},
                   {"work_seconds", plan.work_seconds},
                   {"communication_seconds", std::move(seconds)},
                   {"received_bytes", std::move(bytes)},
                   {"peak_bytes", plan.cost.peak_bytes}});
  }
  return boost::json::serialize(out) + "\n";
}

std::string layout_calls(const LayoutSearchOptions& options, const Layout& layout) {
  TrainingArguments arguments = options.arguments;
  arguments.dry_run = true;
  layout.apply_to(arguments);
  RankContext context(0, 1);
  const RankScope scope(context);
  const ClmModel setup = make_clm_model(arguments);
  std::string out = fmt::format("const Mesh mesh = Mesh::parse(\"{}\", {});\n", layout.mesh(), options.devices);
  const std::vector<std::string> blocks = block_paths(*setup.network);
  for (const auto& parameter : setup.network->named_parameters()) {
    const auto in_block = [&](const std::string& path) { return parameter.name.starts_with(path); };
    const auto block = std::find_if(blocks.begin(), blocks.end(), in_block);
    if (block != blocks.end() && block != blocks.begin()) continue;
    const auto sharding = parameter.tensor.sharding();
    if (!sharding || sharding->is_replicated()) continue;
    out += fmt::format("mark_sharding({}, mesh, {});  // {}{}\n", parameter.name, spec_text(*sharding),
                       parameter.tensor.type().str(), block == blocks.end() ? "" : ", and so in each block");
  }
  return out;
}

}  // namespace tessera::trainer
