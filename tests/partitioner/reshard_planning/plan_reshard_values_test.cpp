// SPDX-License-Identifier: Apache-2.0
// Runs emitted reshards in lockstep: every device must end with its part of the value, for any content of the padding,
// and the program must have the collectives that the plan counts. TESSERA_LONG_TESTS=1 checks all pairs of shardings
// instead of a sample.
#include <gtest/gtest.h>

#include "partitioner/reshard_planning/reshard_cases.h"
#include "tessera/base/text.h"

namespace tessera::testing {
namespace {

// Checks a fixed sample of all pairs, and stops after several errors.
void check_pairs(const Type& global, const std::vector<Sharding>& sources, const std::vector<Sharding>& targets,
                 std::size_t sample) {
  const auto count = sources.size() * targets.size();
  int wrong = 0;
  for (std::size_t i = 0; i < count && wrong < 5; i += stride_of(count, sample)) {
    const std::string message = check_reshard(global, sources[i / targets.size()], targets[i % targets.size()]);
    if (message.empty()) continue;
    ADD_FAILURE() << message;
    ++wrong;
  }
}

struct MeshAndDims {
  const char* mesh;
  std::vector<Dims> dims;
};
const MeshAndDims kCases[] = {
    {"x=2,y=3", {{12}, {7}, {1}, {6, 12}, {5, 7}, {10, 3}, {6, 6, 12}, {5, 3, 7}}},
    {"x=4,y=2", {{16}, {11}, {3}, {8, 16}, {7, 10}, {2, 13}, {8, 8, 8}, {5, 2, 9}}},
    {"x=2,y=2,z=2", {{8}, {13}, {8, 8}, {7, 9}, {10, 3}, {8, 4, 16}, {5, 3, 7}}},
};

TEST(PlanReshardValues, EveryShardingReachesEveryOther) {
  for (const auto& [text, all_dims] : kCases)
    for (const Dims& dims : all_dims) {
      const auto shardings = all_shardings(Mesh::parse(text), isize(dims), false);
      check_pairs(Type::array(DType::kF32, dims), shardings, shardings, 30);
    }
}

TEST(PlanReshardValues, PartialSumsReachEveryShardingAndStayPartialOnRequest) {
  for (const auto& [text, all_dims] : kCases)
    for (const Dims& dims : all_dims) {
      const auto shardings = all_shardings(Mesh::parse(text), isize(dims), true);
      check_pairs(Type::array(DType::kF32, dims), shardings, shardings, 30);
    }
}

TEST(PlanReshardValues, EveryReductionIsFinishedBeforeAnotherBegins) {
  const Mesh mesh = Mesh::parse("x=2,y=3");
  const Reduction reductions[] = {Reduction::kSum, Reduction::kProduct, Reduction::kMin,
                                  Reduction::kMax, Reduction::kAnd,     Reduction::kOr};
  for (const Reduction from : reductions)
    for (const Reduction to : reductions)
      check_pairs(Type::array(DType::kS64, {5, 7}), all_shardings(mesh, 2, true, from),
                  all_shardings(mesh, 2, true, to), 15);
}

TEST(PlanReshardValues, EveryElementTypeIsResharded) {
  const Mesh mesh = Mesh::parse("x=2,y=2");
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto dtype = static_cast<DType>(t);
    const auto reduction = dtype == DType::kPred ? Reduction::kOr : Reduction::kMax;
    const auto shardings = all_shardings(mesh, 2, true, reduction);
    check_pairs(Type::array(dtype, {3, 5}), shardings, shardings, 12);
  }
}

TEST(PlanReshardValues, SupportsPrimeSizesOnAnyNumberOfDevices) {
  for (const char* text : {"x=1", "x=2", "x=3", "x=4", "x=6", "x=8"})
    for (const std::int64_t size : {1, 2, 3, 5, 7, 11, 13}) {
      const auto shardings = all_shardings(Mesh::parse(text), 2, true);
      check_pairs(Type::array(DType::kF64, {size, 5}), shardings, shardings, 20);
    }
}

TEST(PlanReshardValues, SupportsEmptyArraysAndScalars) {
  const Mesh mesh = Mesh::parse("x=2,y=3");
  const auto shardings = all_shardings(mesh, 2, true);
  check_pairs(Type::array(DType::kF32, {0, 5}), shardings, shardings, 40);
  const auto scalars = all_shardings(mesh, 0, true);
  check_pairs(Type::array(DType::kF32, {}), scalars, scalars, 40);
}

// Returns shardings over the sub-axes x:(1)a, x:(a)b … of an axis.
std::vector<Sharding> sub_axis_shardings(const Mesh& mesh, const std::vector<AxisRef>& parts, int ndim) {
  std::vector<MeshAxis> axes;
  for (const AxisRef& part : parts) axes.push_back({fmt::format("p{}", axes.size()), part.size});
  std::vector<Sharding> out = all_shardings(Mesh(axes), ndim, true);
  const auto translate = [&](std::vector<AxisRef>& list) {
    for (AxisRef& ref : list) ref = at(parts, ref.axis);
    std::sort(list.begin(), list.end());
  };
  for (Sharding& sharding : out) {
    sharding.mesh = mesh;
    for (auto& dim : sharding.dims)
      for (AxisRef& ref : dim.axes) ref = at(parts, ref.axis);
    translate(sharding.partial);
  }
  return out;
}

TEST(PlanReshardValues, SubAxesAreIndependentAxes) {
  const Mesh mesh({{"x", 6}, {"y", 2}});
  const auto two_three = sub_axis_shardings(mesh, {{0, 1, 2}, {0, 2, 3}, {1, 1, 2}}, 2);
  const auto three_two = sub_axis_shardings(mesh, {{0, 1, 3}, {0, 3, 2}, {1, 1, 2}}, 2);
  for (const Dims& dims : {Dims{12, 6}, Dims{7, 5}}) {
    const Type global = Type::array(DType::kF32, dims);
    check_pairs(global, two_three, two_three, 30);
    check_pairs(global, two_three, three_two, 30);  // their tile boundaries do not nest
  }
}

TEST(PlanReshardValues, SupportsMeshesOfOtherAxesAndDeviceOrders) {
  const Mesh meshes[] = {
      Mesh::parse("x=2,y=3"),
      Mesh::parse("u=3,v=2"),
      Mesh::parse("w=6"),
      Mesh({{"x", 2}, {"y", 3}}, {5, 4, 3, 2, 1, 0}),
      Mesh({{"x", 2}, {"y", 3}}, {0, 2, 4, 1, 3, 5}),  // devices in transposed order
      Mesh({{"u", 3}, {"v", 2}}, {3, 0, 5, 1, 4, 2}),
  };
  for (const Mesh& from : meshes)
    for (const Mesh& to : meshes)
      for (const Dims& dims : {Dims{12, 6}, Dims{7, 5}})
        check_pairs(Type::array(DType::kF32, dims), all_shardings(from, 2, true), all_shardings(to, 2, true), 12);
}

TEST(PlanReshardValues, SupportsValuesOnOneDevice) {
  const Mesh mesh({{"x", 2}, {"y", 3}}, {5, 4, 3, 2, 1, 0});
  const std::vector<Sharding> maximal{Sharding::maximal(mesh, 0), Sharding::maximal(mesh, 4)};
  const auto shardings = all_shardings(mesh, 2, true);
  const Type global = Type::array(DType::kF32, {7, 5});
  check_pairs(global, maximal, shardings, 1000);
  check_pairs(global, shardings, maximal, 1000);
  check_pairs(global, maximal, maximal, 1000);
}

}  // namespace
}  // namespace tessera::testing
