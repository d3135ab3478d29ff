// SPDX-License-Identifier: Apache-2.0
#include "tessera/sharding/machine.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "tessera/base/error.h"

namespace tessera::testing {
namespace {

constexpr std::string_view kProfile = R"({"name": "node", "memory_gigabytes_per_second": 20, "memory_gigabytes": 3,
  "gigaflops": {"f32": {"wide_product": 120, "narrow_product": 40, "other": 8},
                "f64": {"wide_product": 60, "narrow_product": 20, "other": 4}},
  "links": {"axes": {"data": {"latency_us": 30, "gigabytes_per_second": 2}}, "other": {"latency_us": 5}}})";

std::string message_of(const std::string& text) {
  try {
    (void)MachineModel::parse(text, "m.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MachineModel, HasSpeedsByElementTypeAndKindOfWork) {
  const MachineModel machine = MachineModel::parse(kProfile);
  EXPECT_DOUBLE_EQ(machine.flops_per_second(DType::kF64, WorkClass::kWideProduct), 60e9);
  EXPECT_DOUBLE_EQ(machine.flops_per_second(DType::kF64, WorkClass::kNarrowProduct), 20e9);
  EXPECT_DOUBLE_EQ(machine.flops_per_second(DType::kF32, WorkClass::kOther), 8e9);
  EXPECT_DOUBLE_EQ(machine.flops_per_second(DType::kBF16, WorkClass::kOther), 8e9) << "as f32";
  EXPECT_DOUBLE_EQ(machine.memory_bytes_per_second(), 20e9);
  EXPECT_EQ(machine.memory_bytes(), 3'000'000'000);
  EXPECT_DOUBLE_EQ(machine.links().link("data").latency_seconds, 30e-6);
  EXPECT_DOUBLE_EQ(machine.links().link("model").latency_seconds, 5e-6);
}

TEST(MachineModel, ReadsTheProfileThatItWrites) {
  MachineModel machine = MachineModel::parse(kProfile);
  machine.set_rates(DType::kBF16, {1.1e12, 1.0 / 3.0, 7});
  EXPECT_EQ(MachineModel::parse(machine.str()), machine);
  const TemporaryFolder folder;
  EXPECT_EQ(MachineModel::load(folder.write("m.json", machine.str())), machine);
  EXPECT_EQ(machine.name(), "node");
}

TEST(MachineModel, EveryPresetIsAProfile) {
  EXPECT_EQ(MachineModel::presets(), (std::vector<std::string>{"cpu-node", "tpu-v4", "uniform"}));
  for (const std::string& name : MachineModel::presets()) {
    const MachineModel machine = MachineModel::load(name);
    EXPECT_EQ(machine.name(), name);
    EXPECT_EQ(MachineModel::parse(machine.str()), machine);
    EXPECT_EQ(machine.links().is_uniform(), name == "uniform");
  }
  EXPECT_EQ(MachineModel(), MachineModel::load("uniform"));
  EXPECT_DOUBLE_EQ(MachineModel::load("tpu-v4").flops_per_second(DType::kBF16, WorkClass::kWideProduct), 275e12);
}

TEST(MachineModel, OfTwoCostsWithTheSameTimeTheOneWithLessMemoryIsLower) {
  const MachineModel machine = MachineModel::parse(kProfile);
  EXPECT_LT(machine.weight({1e-3, 100}), machine.weight({1e-3, 101}));
  EXPECT_LT(machine.weight({1e-3, 1'000'000}), machine.weight({2e-3, 0}));
  EXPECT_DOUBLE_EQ(machine.weight({0.5, 20'000'000'000}), 1.5);
}

TEST(MachineModel, AmountsAreBytesOnEqualLinksAndElseSeconds) {
  EXPECT_DOUBLE_EQ(MachineModel().seconds_of_moved(5e9), 0.5) << "10 GB/s";
  EXPECT_DOUBLE_EQ(MachineModel::parse(kProfile).seconds_of_moved(5e-3), 5e-3);
}

TEST(MachineModel, ErrorsNameTheKey) {
  EXPECT_NE(message_of("{}").find("m.json: gigaflops is missing"), std::string::npos);
  const std::string speeds = R"("gigaflops": {"f32": {"wide_product": 1, "narrow_product": 1, "other": 1}})";
  EXPECT_NE(message_of("{" + speeds + "}").find("memory_gigabytes_per_second is missing"), std::string::npos);
  EXPECT_NE(message_of("{" + speeds + R"(, "memory_gigabytes_per_second": -1})").find("must be above 0, got -1"),
            std::string::npos);
  EXPECT_NE(message_of(R"({"gigaflops": {"f33": {}}})").find("no element type \"f33\""), std::string::npos);
  EXPECT_NE(message_of(R"({"gigaflops": {"f32": {"wide_product": 1, "other": 1}}})").find("narrow_product is missing"),
            std::string::npos);
  EXPECT_NE(message_of(R"({"gigaflop": {}})").find("gigaflops"), std::string::npos) << "the nearest key";
  EXPECT_THROW((void)MachineModel::load("tpu-v5"), Error);
}

}  // namespace
}  // namespace tessera::testing
