// SPDX-License-Identifier: Apache-2.0
// Every optimizer gives the same parameters on every mesh as on one rank: its update is a function of the global tensors.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "frontend/on_ranks.h"
#include "support/sanitizers.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/optim/adafactor.h"
#include "tessera/optim/combined_optimizer.h"
#include "tessera/optim/factory.h"
#include "tessera/optim/lion.h"
#include "tessera/optim/muon.h"

namespace tessera::optim {
namespace {

constexpr int kSteps = testing::cases_here(20);

/// Where the parameters and the rows of the batch are sharded. An empty spec: nowhere.
struct Placement {
  std::string mesh;
  std::string rows;    // axis of the batch
  std::string first;   // axis of dim 0 of the matrices, the table, the kernel and the bias
  std::string second;  // axis of dim 1
};

const std::vector<Placement>& placements() {
  static const std::vector<Placement> all{
      {"a=2", "a", "", ""},      {"a=2", "", "a", ""},       {"a=3", "a", "", "a"},     {"a=3", "a", "a", ""},
      {"a=4", "", "", "a"},      {"a=4", "a", "a", ""},      {"a=2,b=2", "a", "b", ""}, {"a=6", "a", "a", ""},
      {"a=2,b=3", "a", "b", ""}, {"a=3,b=2", "a", "a", "b"}, {"a=2,b=3", "", "b", "a"}};
  return all;
}

std::vector<double> waves(std::int64_t count, double shift) {
  std::vector<double> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = 0.4 * std::sin(1.7 * static_cast<double>(i) + shift);
  return out;
}

Tensor parameter(const std::string& name, const Dims& dims, double shift, DType dtype) {
  Tensor out = Tensor::from<double>(dims, waves(product(dims), shift));
  if (dtype != DType::kF64) {
    std::vector<float> narrow;
    for (const double x : waves(product(dims), shift)) narrow.push_back(static_cast<float>(x));
    out = Tensor::from<float>(dims, narrow);
  }
  out.set_name(name);
  return out.set_requires_grad();
}

/// A model with a table [11, 7], a wide and a tall matrix, a kernel with four dims, biases and a scalar.
class Model {
 public:
  Model(const Placement& placement, DType dtype)
      : placement_(placement),
        mesh_(Mesh::parse(placement.mesh)),
        parameters{parameter("table", {11, 7}, 0.1, dtype),       parameter("up", {7, 13}, 0.2, dtype),
                   parameter("up_bias", {13}, 0.3, dtype),        parameter("down", {13, 5}, 0.4, dtype),
                   parameter("kernel", {3, 2, 3, 5}, 0.5, dtype), parameter("scale", {}, 2.5, dtype)} {
    for (const Tensor& p : parameters) {
      if (p.ndim() == 0) continue;
      std::vector<PartitionSpec::Entry> spec(static_cast<std::size_t>(p.ndim()));
      if (!placement.first.empty()) spec[0] = PartitionSpec::Entry(SpecEntry{placement.first});
      if (!placement.second.empty() && p.ndim() > 1) spec[1] = PartitionSpec::Entry(SpecEntry{placement.second});
      mark_sharding(p, mesh_, PartitionSpec(std::move(spec)));
    }
  }

  Tensor loss(int step) const {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 6; ++i) ids.push_back((3 * i + 5 * step) % 11);
    const Tensor rows = Tensor::from<std::int32_t>({6}, ids);
    if (!placement_.rows.empty())
      mark_sharding(rows, mesh_, PartitionSpec(std::vector{PartitionSpec::Entry(SpecEntry{placement_.rows})}));
    const Tensor hidden = tanh(matmul(embedding(parameters[0], rows), parameters[1]) + parameters[2]);
    const Tensor out = matmul(hidden, parameters[3]) * parameters[5];
    const Tensor kernel = sum(parameters[4], {0, 1, 2}) + sum(square(parameters[4]), {0, 1, 2});
    return mean(square(out - kernel));
  }

 private:
  Placement placement_;
  Mesh mesh_;

 public:
  std::vector<Tensor> parameters;
};

using Values = std::vector<std::vector<double>>;
using Making = std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>&)>;

Values train(const Placement& placement, const Making& make, DType dtype) {
  manual_seed(7);
  const Model model(placement, dtype);
  const auto optimizer = make(model.parameters);
  for (int step = 0; step < kSteps; ++step) {
    optimizer->zero_grad();
    model.loss(step).backward();
    clip_grad_norm(model.parameters, 0.5);
    optimizer->step();
    mark_step();
  }
  Values out;
  std::vector<Tensor> wide;
  for (const Tensor& p : model.parameters) wide.push_back(p.detach().to(DType::kF64));
  for (const Literal& value : read_all(wide))
    out.emplace_back(value.data<double>().begin(), value.data<double>().end());
  return out;
}

// |a - b| / |b|
double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

void expect_equal_on_meshes(const Making& make, DType dtype, double tolerance, std::size_t every) {
  Values expected;
  {
    const FreshRank rank;
    expected = train({"a=1", "", "", ""}, make, dtype);
  }
  const std::size_t step = every * testing::kSanitizedShare;
  for (std::size_t i = 0; i < placements().size(); i += step) {
    const Placement& placement = placements()[i];
    SCOPED_TRACE(placement.mesh + " rows " + placement.rows + " dims " + placement.first + "," + placement.second);
    Values values;
    std::mutex guard;
    on_ranks(static_cast<int>(Mesh::parse(placement.mesh).device_count()), [&](int rank) {
      Values mine = train(placement, make, dtype);
      const std::lock_guard lock(guard);
      if (rank == 0) values = std::move(mine);
    });
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t p = 0; p < values.size(); ++p)
      EXPECT_LE(relative_distance(values[p], expected[p]), tolerance) << "parameter " << p;
  }
}

void expect_equal_on_all_meshes(const Making& make) { expect_equal_on_meshes(make, DType::kF64, 1e-9, 1); }

Making by_name(const std::string& name, const std::string& arguments = "") {
  return [=](const std::vector<Tensor>& parameters) {
    return make_optimizer(name,
                          {{{parameters[0], parameters[1], parameters[3]}, 0.1},
                           {{parameters[2], parameters[4], parameters[5]}, 0, 3e-3}},
                          {.learning_rate = 1e-2, .arguments = arguments});
  };
}

TEST(OptimizerLayouts, AdamAndAdamWDoNotDependOnTheMesh) {
  expect_equal_on_all_meshes(by_name("adamw_torch"));
  expect_equal_on_all_meshes(by_name("adam", "amsgrad=true"));
}

TEST(OptimizerLayouts, AdafactorUsesTheRowsAndColumnsOfTheGlobalMatrix) {
  expect_equal_on_all_meshes(by_name("adafactor"));
  expect_equal_on_all_meshes(
      by_name("adafactor", "relative_step=true,scale_parameter=true,warmup_init=true,beta1=0.9"));
}

TEST(OptimizerLayouts, LionDoesNotDependOnTheMesh) { expect_equal_on_all_meshes(by_name("lion")); }

TEST(OptimizerLayouts, MuonOrthogonalizesTheGlobalMatrix) { expect_equal_on_all_meshes(by_name("muon")); }

TEST(OptimizerLayouts, InF32TheMeshesAgreeToRounding) {
  for (const char* name : {"adamw_torch", "adafactor", "muon", "adagrad", "nadam"})
    expect_equal_on_meshes(by_name(name), DType::kF32, 1e-4, 4);
}

TEST(OptimizerLayouts, SgdDoesNotDependOnTheMesh) {
  expect_equal_on_all_meshes(by_name("sgd", "momentum=0.9,nesterov=true"));
}

TEST(OptimizerLayouts, AdagradRmspropAndAdadeltaDoNotDependOnTheMesh) {
  expect_equal_on_all_meshes(by_name("adagrad", "lr_decay=0.1,initial_accumulator_value=0.1"));
  expect_equal_on_all_meshes(by_name("rmsprop", "momentum=0.5,centered=true,eps=1e-3"));
  expect_equal_on_all_meshes(by_name("adadelta"));
}

TEST(OptimizerLayouts, TheVariantsOfAdamDoNotDependOnTheMesh) {
  expect_equal_on_all_meshes(by_name("adamax"));
  expect_equal_on_all_meshes(by_name("nadam"));
  expect_equal_on_all_meshes(by_name("radam", "beta2=0.9"));
}

}  // namespace
}  // namespace tessera::optim
