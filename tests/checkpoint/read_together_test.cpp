// SPDX-License-Identifier: Apache-2.0
// Loading shards with other columns than the saved parts: ranks read the blocks together.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <fstream>
#include <random>
#include <sstream>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/base/files.h"
#include "tessera/base/random_access.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"

namespace tessera {
namespace {

using testing::TemporaryFolder;

struct Case {
  Dims dims;
  int saved_ranks;
  Mesh saved_mesh;
  PartitionSpec saved;
  Mesh loaded_mesh;
  PartitionSpec loaded;
};

std::int64_t elements(const Case& one) { return Type::array(DType::kF32, one.dims).element_count(); }

StateDict numbered(const Case& one, DType dtype, const Mesh& mesh, const PartitionSpec& spec, double first) {
  const Type flat = Type::array(dtype, {elements(one)});
  const Tensor x = (Tensor::iota(flat, 0) + first).reshape(one.dims);
  mark_sharding(x, mesh, spec);
  mark_step();
  StateDict out;
  out.add({"x", x, {}});
  return out;
}

// Saves a tensor and loads it with another sharding. Returns the bytes that all ranks read, divided by those of all shards.
double read_per_needed(const Case& one, DType dtype) {
  const TemporaryFolder folder;
  const std::string saved = folder.file("checkpoint-1");
  on_ranks(one.saved_ranks, [&](int) {
    save_checkpoint(saved,
                    {.states = {{"model", numbered(one, dtype, one.saved_mesh, one.saved, 3)}}, .documents = {}});
  });
  double read = 0;
  double needed = 0;
  on_ranks(static_cast<int>(one.loaded_mesh.device_count()), [&](int rank) {
    const StateDict state = numbered(one, dtype, one.loaded_mesh, one.loaded, 0);
    const std::uint64_t before = bytes_read_from_files();
    load_checkpoint(saved, {{"model", state}});
    const auto shard = stored_shard(state.find("x")->tensor).shard.bytes().size();
    const std::string all = fmt::format("{} {}", bytes_read_from_files() - before, shard);
    for (const std::string& text : gather_texts(*joined_world(), all)) {
      std::istringstream in(text);
      double r = 0;
      double n = 0;
      in >> r >> n;
      if (rank == 0) read += r, needed += n;
    }
    const Literal x = state.find("x")->tensor.to_host();
    if (rank != 0) return;
    for (std::int64_t i = 0; i < elements(one); i += 997)
      EXPECT_EQ(element_as_double(x, i), static_cast<double>(i) + 3) << i;
    EXPECT_EQ(element_as_double(x, elements(one) - 1), static_cast<double>(elements(one)) + 2);
  });
  return read / needed;
}

TEST(ReadTogether, ColumnsOfRowsAreReadOnce) {
  const Case one{{801, 1200}, 2, Mesh({{"data", 2}}), {"data", {}}, Mesh({{"model", 5}}), {{}, "model"}};
  EXPECT_LT(read_per_needed(one, DType::kF64), 1.02);
}

TEST(ReadTogether, BothDimsChange) {
  const Case one{{2003, 1990},     3, Mesh({{"model", 3}}), {{}, "model"}, Mesh({{"data", 2}, {"model", 3}}),
                 {"model", "data"}};
  EXPECT_LT(read_per_needed(one, DType::kF64), 1.02);
}

TEST(ReadTogether, AReplicatedAxisBesideColumns) {
  const Case one{{31, 197, 300},   4, Mesh({{"data", 4}}), {"data", {}, {}}, Mesh({{"data", 2}, {"model", 3}}),
                 {{}, {}, "model"}};
  EXPECT_LT(read_per_needed(one, DType::kF64), 1.02);
}

TEST(ReadTogether, AFirstDimOfOneElement) {
  const Case one{{1, 1701, 900}, 2, Mesh({{"data", 2}}), {{}, "data", {}}, Mesh({{"model", 4}}), {{}, {}, "model"}};
  EXPECT_LT(read_per_needed(one, DType::kF64), 1.02);
}

TEST(ReadTogether, UnevenColumnsOfWhichTheLastRankHasNone) {
  const Case one{{2000, 5}, 2, Mesh({{"data", 2}}), {"data", {}}, Mesh({{"model", 4}}), {{}, "model"}};
  EXPECT_LT(read_per_needed(one, DType::kF64), 2);  // a list of checksums and a header for each rank
}

TEST(ReadTogether, RandomLayouts) {
  std::mt19937 random(7);
  const std::vector<Mesh> meshes = {Mesh({{"a", 2}, {"b", 3}}), Mesh({{"a", 3}, {"b", 2}}), Mesh({{"a", 1}, {"b", 5}}),
                                    Mesh({{"a", 4}, {"b", 2}}), Mesh({{"a", 1}, {"b", 1}})};
  const auto spec = [&](std::size_t dims) {
    std::vector<std::string> axes(dims);
    axes[random() % dims] = "a";
    if (auto& other = axes[random() % dims]; other.empty()) other = "b";
    std::string text;
    for (const std::string& axis : axes) text += (text.empty() ? "" : ",") + (axis.empty() ? "-" : axis);
    return PartitionSpec::parse(text);
  };
  for (int trial = 0; trial < 12; ++trial) {
    const Dims dims = random() % 2 == 0 ? Dims{1 + static_cast<std::int64_t>(random() % 300), 211}
                                        : Dims{1 + static_cast<std::int64_t>(random() % 9), 53, 61};
    const Mesh& saved = meshes[random() % meshes.size()];
    const Mesh& loaded = meshes[random() % meshes.size()];
    const Case one{dims, static_cast<int>(saved.device_count()), saved, spec(dims.size()), loaded, spec(dims.size())};
    read_per_needed(one, trial % 3 == 0 ? DType::kF32 : DType::kF64);
  }
}

TEST(ReadTogether, DamageIsReportedOnAllRanks) {
  const TemporaryFolder folder;
  const std::string saved = folder.file("checkpoint-1");
  const Case one{{801, 1200}, 2, Mesh({{"data", 2}}), {"data", {}}, Mesh({{"model", 3}}), {{}, "model"}};
  on_ranks(2, [&](int) {
    save_checkpoint(saved,
                    {.states = {{"model", numbered(one, DType::kF64, one.saved_mesh, one.saved, 3)}}, .documents = {}});
  });
  const std::string file = saved + "/state-00002-of-00002.safetensors";
  {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(3'000'000);
    out.put('\x55');
  }
  on_ranks(3, [&](int) {
    const StateDict state = numbered(one, DType::kF64, one.loaded_mesh, one.loaded, 0);
    const std::string error = testing::error_of([&] { load_checkpoint(saved, {{"model", state}}); });
    EXPECT_NE(error.find(file + ": damaged: the bytes"), std::string::npos) << error;
    EXPECT_EQ(error.find(saved + " is damaged: "), 0U) << error;
  });
}

}  // namespace
}  // namespace tessera
