// SPDX-License-Identifier: Apache-2.0
// Every device sends its own shard, without padding, wherever the outfeed is and whatever the order of the devices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/rows.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/sharding/hlo_sharding.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

using Floats = std::vector<float>;
using Sent = std::vector<std::vector<Floats>>;  // [device][outfeed]

constexpr std::int64_t kSentRows = 5;
constexpr std::int64_t kSentColumns = 7;

Literal numbered() {
  Floats values;
  for (int i = 0; i < kSentRows * kSentColumns; ++i) values.push_back(static_cast<float>(i));
  return Literal::from<float>({kSentRows, kSentColumns}, values);
}

// What the devices of the partitioned program send if %x, its only parameter, is numbered().
Sent sent_by(const std::string& text) {
  const Program local = partition(parse_program(text, op_table(), {.file_name = "in.hlo"})).program;
  const Computation& entry = local.entry_computation();
  const ShardingRef& sharding = entry[entry.parameters.front()].sharding;
  std::vector<std::vector<Literal>> arguments;
  for (std::int64_t device = 0; device < local.num_partitions; ++device)
    arguments.push_back({sharding ? take_shard(numbered(), sharding->front(), device) : numbered()});
  Sent out(arguments.size());
  std::map<std::tuple<std::int64_t, const Computation*, Id>, Floats> known;
  EvaluateOptions options;
  options.observe = [&](std::int64_t device, const Computation& computation, Id id, Literal& value) {
    const Instruction& instruction = computation[id];
    if (instruction.op == &rows::kOutfeed)
      at(out, device).push_back(known.at({device, &computation, instruction.operands[0]}));
    if (!instruction.type.is_array() || instruction.type.dtype() != DType::kF32) return;
    const auto values = value.data<float>();
    known[{device, &computation, id}] = Floats(values.begin(), values.end());
  };
  evaluate_lockstep(local, arguments, options);
  return out;
}

// The shards that `devices` devices send one after another, with these shardings.
Sent shards(std::int64_t devices, const std::vector<std::string>& shardings) {
  Sent out(static_cast<std::size_t>(devices));
  std::vector<Mesh> meshes;
  const Type type = numbered().type();
  for (const std::string& text : shardings) {
    const Placement placement =
        placement_of(type, to_axes({{parse_hlo_sharding(text).front(), 2}}, devices, meshes).front());
    for (std::int64_t device = 0; device < devices; ++device) {
      Floats& values = at(out, device).emplace_back();
      const Interval rows = placement.interval(device, 0);
      const Interval columns = placement.interval(device, 1);
      for (auto i = rows.start; i < rows.limit; ++i)
        for (auto j = columns.start; j < columns.limit; ++j) values.push_back(static_cast<float>(i * kSentColumns + j));
    }
  }
  return out;
}

std::string outfeeds_of(const std::string& data, const std::vector<std::string>& shardings) {
  std::string out;
  for (std::size_t k = 0; k < shardings.size(); ++k)
    out += fmt::format(
        "  o{} = token[] outfeed({}, o{}), outfeed_shape=f32[5,7]{{1,0}}, sharding={{{}, {{maximal device=0}}}}\n",
        k + 1, data, k, shardings[k]);
  return out;
}

// Outfeeds of %x in the entry computation, after `before`.
std::string in_entry(std::int64_t devices, const std::vector<std::string>& shardings, const std::string& before = "") {
  return fmt::format(
      "HloModule m, num_partitions={}\nENTRY e {{\n  x = f32[5,7] parameter(0)\n{}  o0 = token[] "
      "after-all()\n{}  ROOT r = f32[5,7] negate(x) }}\n",
      devices, before, outfeeds_of("x", shardings));
}

// The same in a loop of two rounds.
std::string in_loop(std::int64_t devices, const std::vector<std::string>& shardings, const std::string& of_parameter) {
  return fmt::format(R"(HloModule m, num_partitions={}
cond {{ s = (s32[], f32[5,7], token[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)
  ROOT lt = pred[] compare(i, n), direction=LT }}
body {{ s = (s32[], f32[5,7], token[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[5,7] get-tuple-element(s), index=1
  o0 = token[] get-tuple-element(s), index=2
  one = s32[] constant(1)
{}  j = s32[] add(i, one)
  ROOT r = (s32[], f32[5,7], token[]) tuple(j, v, o{}) }}
ENTRY e {{ x = f32[5,7] parameter(0){}
  k = token[] after-all()
  z = s32[] constant(0)
  t = (s32[], f32[5,7], token[]) tuple(z, x, k)
  w = (s32[], f32[5,7], token[]) while(t), condition=cond, body=body
  ROOT r = f32[5,7] get-tuple-element(w), index=1 }}
)",
                     devices, outfeeds_of("v", shardings), shardings.size(), of_parameter);
}

TEST(Outfeed, UnevenShardsAreSentFromALoop) {
  for (const auto& [devices, sharding] : std::map<std::int64_t, std::string>{
           {2, "{devices=[2,1]<=[2]}"}, {4, "{devices=[4,1]<=[4]}"}, {6, "{devices=[3,2]<=[6]}"}})
    for (const std::string& parameter :
         {std::string(), ", sharding={devices=[1," + std::to_string(devices) + "]<=[" + std::to_string(devices) + "]}"})
      EXPECT_EQ(sent_by(in_loop(devices, {sharding}, parameter)), shards(devices, {sharding, sharding}))
          << sharding << parameter;
}

TEST(Outfeed, DevicesMayHaveAnotherOrderInEachOutfeed) {
  const auto expect_shards = [](std::int64_t devices, const std::vector<std::string>& shardings) {
    EXPECT_EQ(sent_by(in_entry(devices, shardings)), shards(devices, shardings))
        << fmt::to_string(fmt::join(shardings, " "));
  };
  expect_shards(2, {"{devices=[2,1]<=[2]}", "{devices=[2,1]1,0}"});
  expect_shards(6, {"{devices=[3,2]<=[6]}", "{devices=[2,3]5,4,3,2,1,0}"});
  expect_shards(6, {"{devices=[6,1]<=[6]}", "{devices=[2,3]5,4,3,2,1,0}",
                    "{devices=[1,3,2]2,4,0,1,5,3 last_tile_dim_replicate}"});
  expect_shards(8, {"{devices=[2,2,2]<=[2,2,2]T(2,0,1) last_tile_dim_replicate}", "{devices=[4,2]7,1,2,3,4,5,6,0}"});
  const std::vector<std::string> both = {"{devices=[2,1]<=[2]}", "{devices=[2,1]1,0}"};
  EXPECT_EQ(sent_by(in_loop(2, both, "")), shards(2, {both[0], both[1], both[0], both[1]}));
}

// The token of the region is the result of the branch, and the branch is not part of the region.
TEST(Outfeed, UnevenShardsAreSentFromABranch) {
  const std::string sharding = "{devices=[3,2]<=[6]}";
  for (const char* parameter : {"", ", sharding={devices=[2,3]<=[6]}"})
    EXPECT_EQ(sent_by(fmt::format(R"(HloModule m, num_partitions=6
yes {{ s = (f32[5,7], token[]) parameter(0)
  v = f32[5,7] get-tuple-element(s), index=0
  o0 = token[] get-tuple-element(s), index=1
{}  ROOT r = token[] after-all(o1) }}
no {{ s = (f32[5,7], token[]) parameter(0)
  ROOT k = token[] get-tuple-element(s), index=1 }}
ENTRY e {{ x = f32[5,7] parameter(0){}
  k = token[] after-all()
  s = (f32[5,7], token[]) tuple(x, k)
  z = f32[] constant(0)
  m = f32[] reduce-precision(z), exponent_bits=8, mantissa_bits=23
  p = pred[] is-finite(m)
  c = token[] conditional(p, s, s), true_computation=yes, false_computation=no
  ROOT r = f32[5,7] negate(x) }}
)",
                                  outfeeds_of("v", {sharding}), parameter)),
              shards(6, {sharding}))
        << parameter;
}

// The program's own region determines the mesh.
TEST(Outfeed, AnotherOrderThanThatOfAManualRegionIsSent) {
  const std::string region =
      R"(  m = f32[5,7] custom-call(x), custom_call_target="Sharding", sharding={devices=[1,3]2,0,1}
  l = f32[5,3] custom-call(m), custom_call_target="SPMDFullToShardShape", sharding={manual}
  h = f32[5,3] negate(l), sharding={manual}
  g = f32[5,9] custom-call(h), custom_call_target="SPMDShardToFullShape", sharding={devices=[1,3]2,0,1}
)";
  const std::vector<std::string> orders = {"{devices=[3,1]<=[3]}", "{devices=[1,3]2,0,1}", "{devices=[3,1]1,0,2}"};
  EXPECT_EQ(sent_by(in_entry(3, orders, region)), shards(3, orders));
}

}  // namespace
}  // namespace tessera
