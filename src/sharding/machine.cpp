// SPDX-License-Identifier: Apache-2.0
#include "tessera/sharding/machine.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr double kGiga = 1e9;
constexpr WorkClass kWorkClasses[] = {WorkClass::kWideProduct, WorkClass::kNarrowProduct, WorkClass::kOther};

double positive(const JsonObject& json, const std::string& where, std::string_view key, double value) {
  json.read(key, value);
  require(std::isfinite(value) && value > 0, "{}: {} must be above 0, got {}", where, key, value);
  return value;
}

struct Preset {
  const char* name;
  const char* profile;
};

// uniform: equal links without latency, on which the plan of fewest bytes is the fastest.
// cpu-node: one core of a server of 2023 for each device.
// tpu-v4: Jouppi et al., "TPU v4" (ISCA 2023), table 4: 275 TFLOP/s in bf16, 1.2 TB/s and 32 GiB of HBM; six links of
// 50 GB/s, two for each of three mesh axes. There is no f32 unit; a product in f32 takes several passes in bf16.
constexpr Preset kPresets[] = {
    {"cpu-node", R"({"memory_gigabytes_per_second": 10, "memory_gigabytes": 8,
      "gigaflops": {"f32": {"wide_product": 80, "narrow_product": 25, "other": 5},
                    "f64": {"wide_product": 40, "narrow_product": 12, "other": 2.5},
                    "bf16": {"wide_product": 80, "narrow_product": 25, "other": 4}},
      "links": {"other": {"latency_us": 2, "gigabytes_per_second": 5}}})"},
    {"tpu-v4", R"({"memory_gigabytes_per_second": 1200, "memory_gigabytes": 34.359738368,
      "gigaflops": {"f32": {"wide_product": 45000, "narrow_product": 12000, "other": 4000},
                    "bf16": {"wide_product": 275000, "narrow_product": 70000, "other": 4000}},
      "links": {"other": {"latency_us": 1, "gigabytes_per_second": 100}}})"},
    {"uniform", R"({"memory_gigabytes_per_second": 20,
      "gigaflops": {"f32": {"wide_product": 100, "narrow_product": 100, "other": 100}},
      "links": {"other": {"gigabytes_per_second": 10}}})"},
};

const Preset* preset_of(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kPresets), std::end(kPresets), [&](const Preset& p) { return name == p.name; });
  return found == std::end(kPresets) ? nullptr : found;
}

}  // namespace

std::string_view work_class_name(WorkClass work) {
  switch (work) {
    case WorkClass::kWideProduct: return "wide_product";
    case WorkClass::kNarrowProduct: return "narrow_product";
    case WorkClass::kOther: return "other";
  }
  return "";
}

MachineModel::MachineModel() {
  static const MachineModel kUniform = load("uniform");
  *this = kUniform;
}

MachineModel::MachineModel(std::string name) : name_(std::move(name)) {}

std::vector<std::string> MachineModel::presets() {
  std::vector<std::string> out;
  for (const Preset& preset : kPresets) out.emplace_back(preset.name);
  return out;
}

void MachineModel::check_name(const std::string& preset_or_path) {
  std::error_code ignored;
  const bool is_known = preset_of(preset_or_path) != nullptr || looks_like_path(preset_or_path) ||
                        std::filesystem::exists(preset_or_path, ignored);
  require(is_known, "there is no machine profile \"{}\": give a file that `tessera calibrate` wrote, or a preset{}",
          preset_or_path, [&] { return suggest_name(preset_or_path, presets()); });
}

MachineModel MachineModel::load(const std::string& preset_or_path) {
  if (const Preset* preset = preset_of(preset_or_path)) return parse(preset->profile, preset->name);
  check_name(preset_or_path);
  return reading_file([&] { return from_json(JsonObject::from_file(preset_or_path)); });
}

MachineModel MachineModel::parse(std::string_view text, const std::string& origin) {
  return from_json(JsonObject::parse(text, origin));
}

MachineModel MachineModel::from_json(const JsonObject& json) {
  json.require_known(
      {"name", "gigaflops", "memory_gigabytes_per_second", "memory_gigabytes", "file_gigabytes_per_second", "links"});
  const std::string& where = json.origin();
  MachineModel out(where);
  json.read("name", out.name_);
  JsonObject speeds;
  require(json.read("gigaflops", speeds), "{}: gigaflops is missing; it gives the speed of a device by element type",
          where);
  for (const std::string& name : speeds.keys()) {
    require(is_dtype_name(name), "{}: gigaflops: there is no element type \"{}\"", where, name);
    JsonObject own;
    speeds.read(name, own);
    const std::string of = fmt::format("{}: gigaflops of {}", where, name);
    own.require_known({"wide_product", "narrow_product", "other"});
    Rates rates{};
    for (const WorkClass work : kWorkClasses) {
      require(own.has(work_class_name(work)), "{}: {} is missing", of, work_class_name(work));
      rates[static_cast<std::size_t>(work)] = kGiga * positive(own, of, work_class_name(work), 0);
    }
    out.set_rates(dtype_from_name(name), rates);
  }
  require(speeds.has(dtype_name(DType::kF32)), "{}: gigaflops has no f32, which other element types refer to", where);
  require(json.has("memory_gigabytes_per_second"), "{}: memory_gigabytes_per_second is missing", where);
  out.memory_bytes_per_second_ = kGiga * positive(json, where, "memory_gigabytes_per_second", 0);
  if (json.has("memory_gigabytes"))
    out.memory_bytes_ = static_cast<std::int64_t>(std::llround(kGiga * positive(json, where, "memory_gigabytes", 0)));
  if (json.has("file_gigabytes_per_second"))
    out.file_bytes_per_second_ = kGiga * positive(json, where, "file_gigabytes_per_second", 0);
  JsonObject links;
  if (json.read("links", links)) out.links_ = Topology::from_json(links);
  return out;
}

MachineModel MachineModel::with_links(Topology links) {
  MachineModel out;
  out.set_links(std::move(links));
  return out;
}

double MachineModel::flops_per_second(DType dtype, WorkClass work) const {
  const auto of = [&](DType wanted) {
    return std::find_if(rates_.begin(), rates_.end(), [&](const auto& entry) { return entry.first == wanted; });
  };
  auto found = of(dtype);
  if (found == rates_.end()) found = of(DType::kF32);
  return found->second[static_cast<std::size_t>(work)];
}

void MachineModel::set_rates(DType dtype, const Rates& rates) {
  for (auto& [known, speeds] : rates_)
    if (known == dtype) {
      speeds = rates;
      return;
    }
  rates_.emplace_back(dtype, rates);
}

void MachineModel::set_memory(double bytes_per_second, std::optional<std::int64_t> bytes) {
  memory_bytes_per_second_ = bytes_per_second;
  memory_bytes_ = bytes;
}

std::string MachineModel::str() const {
  JsonObject speeds;
  for (const auto& [dtype, rates] : rates_) {
    JsonObject own;
    for (const WorkClass work : kWorkClasses)
      own.set(work_class_name(work), rates[static_cast<std::size_t>(work)] / kGiga);
    speeds.set(dtype_name(dtype), own);
  }
  JsonObject out;
  out.set("name", name_);
  out.set("gigaflops", speeds);
  out.set("memory_gigabytes_per_second", memory_bytes_per_second_ / kGiga);
  if (memory_bytes_) out.set("memory_gigabytes", static_cast<double>(*memory_bytes_) / kGiga);
  out.set("file_gigabytes_per_second", file_bytes_per_second_ / kGiga);
  out.set("links", links_.json());
  return out.str();
}

}  // namespace tessera
