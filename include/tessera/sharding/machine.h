// SPDX-License-Identifier: Apache-2.0
// The speed and the memory of the devices of a machine, and the speed of the links between them. The partitioner
// compares candidates by the cost that this model predicts.
//
//   {"name": "node", "memory_gigabytes_per_second": 20, "memory_gigabytes": 64, "file_gigabytes_per_second": 1,
//    "gigaflops": {"f32": {"wide_product": 120, "narrow_product": 40, "other": 8}},
//    "links": {"other": {"latency_us": 2, "gigabytes_per_second": 10}}}
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/sharding/topology.h"
#include "tessera/tensor/dtype.h"

namespace tessera {

/// The cost of a candidate on one device: the time of work and communication, and the peak memory.
struct Cost {
  double seconds = 0;
  std::int64_t peak_bytes = 0;
  friend bool operator==(const Cost&, const Cost&) = default;
};

/// Kinds of work that devices do at different speeds. A product is wide if every one of its three extents (rows,
/// columns, summed elements) is at least MachineModel::kWideExtent on a device.
enum class WorkClass : std::uint8_t { kWideProduct, kNarrowProduct, kOther };
inline constexpr int kWorkClassCount = 3;
/// "wide_product", "narrow_product", "other": the keys of a profile.
std::string_view work_class_name(WorkClass work);

/// The model of a machine.
class MachineModel {
 public:
  static constexpr std::int64_t kWideExtent = 64;
  using Rates = std::array<double, kWorkClassCount>;  // FLOP/s by WorkClass

  /// The preset `uniform`.
  MachineModel();
  /// The presets, in alphabetical order: `cpu-node`, `tpu-v4`, `uniform`.
  static std::vector<std::string> presets();
  /// Error unless the text is a preset (the error names the nearest one), a path, or the name of a file that exists.
  static void check_name(const std::string& preset_or_path);
  /// Returns a preset, or reads a profile from a file. Errors: that of check_name(); as FileErrors, that the file
  /// cannot be read, and those of parse().
  static MachineModel load(const std::string& preset_or_path);
  /// Errors: not JSON, unknown keys (with the nearest ones), speeds that are not positive and finite, an element type
  /// that does not exist.
  static MachineModel parse(std::string_view text, const std::string& origin = "machine");
  /// The uniform model with these links.
  static MachineModel with_links(Topology links);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Topology& links() const { return links_; }
  /// FLOP/s of one device. An element type without its own speed has that of f32.
  [[nodiscard]] double flops_per_second(DType dtype, WorkClass work) const;
  /// Bytes that one device reads or writes in a second.
  [[nodiscard]] double memory_bytes_per_second() const { return memory_bytes_per_second_; }
  /// Bytes that one device writes to or reads from a file of its host in a second.
  [[nodiscard]] double file_bytes_per_second() const { return file_bytes_per_second_; }
  /// The memory of one device; nullopt if the profile does not give it.
  [[nodiscard]] std::optional<std::int64_t> memory_bytes() const { return memory_bytes_; }
  /// Returns the seconds plus the time to write the peak memory once, as one number for comparisons. If two candidates
  /// take equally long, the one with less peak memory costs less.
  [[nodiscard]] double weight(const Cost& cost) const {
    return cost.seconds + static_cast<double>(cost.peak_bytes) / memory_bytes_per_second_;
  }
  /// Converts a result of reshard_cost() to seconds. It is in bytes if the links are equal and have no latency, else it
  /// is in seconds already.
  [[nodiscard]] double seconds_of_moved(double moved) const {
    return links_.is_uniform() ? moved / links_.other().bytes_per_second : moved;
  }

  void set_name(std::string name) { name_ = std::move(name); }
  void set_rates(DType dtype, const Rates& rates);
  void set_memory(double bytes_per_second, std::optional<std::int64_t> bytes);
  void set_links(Topology links) { links_ = std::move(links); }
  /// The profile as JSON, which parse() reads.
  [[nodiscard]] std::string str() const;
  friend bool operator==(const MachineModel&, const MachineModel&) = default;

 private:
  explicit MachineModel(std::string name);
  static MachineModel from_json(const JsonObject& json);

  std::string name_;
  std::vector<std::pair<DType, Rates>> rates_;  // f32 is always there
  double memory_bytes_per_second_ = 0;
  double file_bytes_per_second_ = 1e9;  // a solid-state disk that the devices of a node share
  std::optional<std::int64_t> memory_bytes_;
  Topology links_;
};

}  // namespace tessera
