// SPDX-License-Identifier: Apache-2.0
// The exact errors of the front end for wrong tensors: reason, tensors with types and shardings, source line and rank.
#include <gtest/gtest.h>

#include "frontend/on_ranks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/layers.h"
#include "tessera/optim/optimizer.h"

namespace tessera {
namespace {

const Mesh kMesh({{"data", 2}, {"model", 4}});

// Rank 3 of 8 in a job that is only planned.
class FrontendErrors : public ::testing::Test {
 protected:
  FrontendErrors() : context_(3, 8), scope_(context_) { plan_for_devices(8); }

  // Returns the text of the error, with HERE for the line in this file.
  template <class F>
  static void expect(F&& body, const std::string& error, int line = __builtin_LINE()) {
    std::string text = "no error";
    try {
      (void)body();
    } catch (const InternalError& wrong) {
      text = std::string("internal: ") + wrong.what();
    } catch (const Error& right) {
      text = right.what();
    }
    constexpr int kLongestStatement = 8;
    for (int l = line - kLongestStatement; l <= line + kLongestStatement; ++l) {
      const std::string here = fmt::format("errors_test.cpp:{}", l);
      for (auto place = text.find(here); place != std::string::npos; place = text.find(here, place + 1))
        text.replace(place, here.size(), "errors_test.cpp:HERE");
    }
    EXPECT_EQ(text, error) << "line " << line;
  }
  static inline const std::string kHere = "\n  at   errors_test.cpp:HERE, rank 3 of 8";

 private:
  RankContext context_;
  RankScope scope_;
};

Tensor input(Dims dims, const std::string& name = "x") {
  return Tensor::abstract(Type::array(DType::kF32, std::move(dims)), name);
}

TEST_F(FrontendErrors, OfAProductShowOperandsWithShardingsLocationAndRank) {
  const Tensor x = input({128, 64});
  const Tensor w = input({32, 256}, "w");
  mark_sharding(x, kMesh, {"data", {}});
  mark_sharding(w, kMesh, {{}, "model"});
  expect([&] { return matmul(x, w); },
         "matmul: contracting sizes differ: lhs dim 1 is 64, rhs dim 0 is 32\n"
         "  lhs  %x: f32[128,64] {data,-}    errors_test.cpp:HERE\n"
         "  rhs  %w: f32[32,256] {-,model}    errors_test.cpp:HERE" +
             kHere);
}

TEST_F(FrontendErrors, ShowWhereTracedOperandsWereCreated) {
  const Tensor x = input({6, 4});
  const Tensor y = exp(x);
  expect([&] { return y + input({5}, "b"); },
         std::string("add: shapes [6,4] and [5] do not broadcast: sizes 4 and 5 at dim 1 from the end\n"
                     "  lhs  %exponential: f32[6,4]    errors_test.cpp:HERE\n"
                     "  rhs  %b: f32[5]") +
             kHere);
}

TEST_F(FrontendErrors, OfMarkSharding) {
  const Tensor x = input({6, 4});
  const std::string of = "\n  #0   %x: f32[6,4]";
  expect(
      [&] {
        return mark_sharding(x, Mesh({{"data", 2}, {"model", 2}}), {"data", {}});
      },
      "mark_sharding: mesh<data=2, model=2> has 4 devices, but this job has 8: start 4 ranks (mpirun -np 4, or "
      "--virtual_ranks 4), or give a mesh for 8" +
          of + kHere);
  expect(
      [&] {
        return mark_sharding(x, kMesh, {"modle", {}});
      },
      "mark_sharding: partition spec {modle,-}: mesh has no axis \"modle\"; axes are data, model; did you mean "
      "\"model\"?" +
          of + kHere);
  expect(
      [&] { return mark_sharding(x, kMesh, {"data"}); },
      "mark_sharding: partition spec {data} has 1 entry, the tensor has 2 dims; give one entry per dim" + of + kHere);
  expect(
      [&] {
        return mark_sharding(x, kMesh, {"data", {}, {}});
      },
      "mark_sharding: partition spec {data,-,-} has 3 entries, the tensor has 2 dims; give one entry per dim" + of +
          kHere);
  expect(
      [&] {
        return mark_sharding(x, kMesh, {"data", "data"});
      },
      "mark_sharding: partition spec {data,data} uses axis \"data\" of mesh<data=2, model=4> twice; an axis may shard "
      "only one dim" +
          of + kHere);
  mark_sharding(x, kMesh, {"data", {}});
  expect(
      [&] {
        return mark_sharding(x, kMesh, {{}, "model"});
      },
      "mark_sharding: x f32[6,4] is already sharded as {data,-}; clear_sharding() it before marking it as {-,model}" +
          of + " {data,-}" + kHere);
}

TEST_F(FrontendErrors, OfShapes) {
  const Tensor x = input({6, 4});
  const std::string of = "\n  #0   %x: f32[6,4]";
  expect(
      [&] {
        return x.reshape({5, -1});
      },
      "reshape: 24 elements do not divide by 5, the product of the other sizes" + of + kHere);
  expect([&] { return x.reshape({-1, -1}); }, "reshape: only one size may be -1, got [-1,-1]" + of + kHere);
  expect(
      [&] {
        return x.reshape({5, 5});
      },
      "reshape: f32[6,4] has 24 elements, f32[5,5] has 25" + of + "    errors_test.cpp:HERE" + kHere);
  expect([&] { return x.slice(0, 2, 9); }, "slice: [2, 9) is outside dim 0 of f32[6,4]" + of + kHere);
  expect([&] { return x.slice(2, 0, 1); }, "slice: f32[6,4] has no dim 2" + of + kHere);
  expect([&] { return x.select(1, 4); }, "select: index 4 is outside dim 1 of f32[6,4]" + of + kHere);
  expect([&] { return x.squeeze(2); }, "squeeze: f32[6,4] has no dim 2" + of + kHere);
  expect([&] { return x.unsqueeze(5); }, "unsqueeze: f32[6,4] has no position 5 for a new dim" + of + kHere);
  expect([&] { return input({7}).t(); }, "t: needs at least two dims, got f32[7]\n  #0   %x: f32[7]" + kHere);
  expect([&] { return sum(x, {.dims = {0, 0}}); }, "sum: a dim is named twice: [0,0]" + of + kHere);
  expect([&] { return concat({}, 0); }, "concat: needs at least one tensor" + kHere);
}

TEST_F(FrontendErrors, OfTypesAndLabels) {
  const Tensor x = input({6, 4});
  const Tensor labels = input({6}, "labels");
  expect([&] { return cross_entropy(x, labels); },
         "cross_entropy: labels must be integers, got f32[6]\n  lhs  %x: f32[6,4]\n  rhs  %labels: f32[6]" + kHere);
  const Tensor few = Tensor::abstract(Type::array(DType::kS32, {5}), "labels");
  expect([&] { return cross_entropy(x, few); },
         "cross_entropy: logits f32[6,4] need labels [6], got s32[5]\n  lhs  %x: f32[6,4]\n  rhs  %labels: s32[5]" +
             kHere);
  expect([&] { return x + few; },
         "add: operands have element types f32 and s32; convert one with .to()\n"
         "  lhs  %x: f32[6,4]\n  rhs  %labels: s32[5]" +
             kHere);
  expect([&] { return where(x, x, x); },
         "where: the predicate must be pred\n  #0   %x: f32[6,4]\n  #1   %x: f32[6,4]\n"
         "  #2   %x: f32[6,4]" +
             kHere);
  expect([&] { return dropout(x, 1.0); },
         "dropout: the probability must be in [0, 1), got 1\n  #0   %x: f32[6,4]" + kHere);
}

TEST_F(FrontendErrors, OfValuesThatWouldBeTruncatedOrClampedSilently) {
  const auto fails = [](const std::function<void()>& body, const std::string& with) {
    try {
      body();
      ADD_FAILURE() << "no error: " << with;
    } catch (const InternalError& wrong) {
      ADD_FAILURE() << "internal: " << wrong.what();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find(with), 0U) << error.what();
    }
  };
  const Tensor x = input({2, 3});
  const Tensor none;
  const std::string is_null =
      ": a null tensor has no value (a gradient before backward(), or a default-constructed Tensor)";
  fails([&] { (void)(none + x); }, "add" + is_null);
  fails([&] { (void)(0.1 * none); }, "multiply" + is_null);
  fails([&] { (void)sum(none); }, "sum" + is_null);
  fails([&] { (void)matmul(x, none); }, "matmul" + is_null);
  fails([&] { (void)cross_entropy(x, none); }, "cross_entropy" + is_null);
  const Tensor integers = Tensor::from<std::int32_t>({2}, {1, 2});
  fails([&] { (void)(integers * 2.5); },
        "multiply: 2.5 is not an integer, but the other operand is s32[2]; convert it with .to()");
  fails([&] { (void)mean(integers); }, "mean: the mean of s32[2] would be truncated to an integer");
  fails(
      [&] {
        (void)cross_entropy(x, Tensor::from<std::int32_t>({2}, {0, 3}));
      },
      "cross_entropy: label 3 at element 1 is not one of 0..2");
  fails(
      [&] {
        (void)cross_entropy(x, Tensor::from<std::int32_t>({2}, {-1, 0}));
      },
      "cross_entropy: label -1 at element 0 is not one of 0..2");
  EXPECT_NO_THROW((void)cross_entropy(x, Tensor::from<std::int32_t>({2}, {-100, 2})));
  fails([&] { (void)embedding(x, Tensor::from<std::int32_t>({1}, {2})); },
        "embedding: id 2 at element 0 is not one of 0..1");
  fails(
      [&] {
        (void)Tensor::from<float>({6, 5}, std::vector<float>(24));
      },
      "24 values given for f32[6,5], which has 30");
}

class Net : public nn::Callable<Net> {
 public:
  Net() { add_module("up", up_); }
  Tensor forward(const Tensor& x) { return relu(up_(x)); }
  [[nodiscard]] std::string_view class_name() const override { return "Net"; }
  static constexpr int kLine = __LINE__ - 2;

 private:
  nn::Linear up_{4, 3};
};

TEST_F(FrontendErrors, OfAModuleNameItsPathAndTheCallsInUserCode) {
  nn::Linear layer(4, 3);
  const std::string error_of_layer = "Linear of 4 inputs needs x [..., 4], got f32[6,5]";
  const auto text_of = [](auto&& body) {
    try {
      (void)body();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const int line = __LINE__ + 1;
  const std::string direct = text_of([&] { return layer(input({6, 5})); });
  EXPECT_EQ(direct.find(error_of_layer), 0U) << direct;
  EXPECT_NE(direct.find(fmt::format("\n  at   errors_test.cpp:{}, rank 3 of 8", line)), std::string::npos) << direct;
  EXPECT_EQ(direct.find("layers.cpp"), std::string::npos) << direct;
  EXPECT_EQ(direct.find("\n  from "), std::string::npos) << direct;
  Net net;
  const int line_of_net = __LINE__ + 1;
  const std::string nested = text_of([&] { return net(input({6, 5})); });
  EXPECT_NE(nested.find(fmt::format("\n  at   errors_test.cpp:{} in up, rank 3 of 8\n  from errors_test.cpp:{}",
                                    Net::kLine, line_of_net)),
            std::string::npos)
      << nested;
  EXPECT_EQ(nested.find("layers.cpp"), std::string::npos) << nested;
}

TEST_F(FrontendErrors, NameTheFunctionThatWasCalled) {
  const auto first_line = [](auto&& body) {
    std::string text = "no error";
    try {
      (void)body();
    } catch (const Error& error) {
      text = error.what();
    }
    EXPECT_NE(text.find("\n  at   errors_test.cpp:"), std::string::npos) << text;
    return text.substr(0, text.find('\n'));
  };
  const Tensor x = input({6, 4});
  const Tensor integers = Tensor::abstract(Type::array(DType::kS32, {3}), "n");
  EXPECT_TRUE(first_line([&] { return concat({x, input({5, 3})}, 0); }).starts_with("concat: "));
  EXPECT_TRUE(first_line([&] { return softmax(integers, 0); }).starts_with("softmax: "));
  EXPECT_TRUE(first_line([&] { return x.permute({0, 0}); }).starts_with("permute: "));
  EXPECT_EQ(first_line([&] { return pad(x, 1, -3, -2); }),
            "pad: padding -3 before and -2 after dim 1 of f32[6,4] removes more than its 4 elements");
  EXPECT_EQ(first_line([&] { return zeros({-1, 3}); }), "zeros: f32[-1,3]: a dim may not be negative");
  EXPECT_EQ(first_line([&] { return nn::LayerNorm(5)(x); }), "LayerNorm of 5 elements needs x [..., 5], got f32[6,4]");
  EXPECT_EQ(first_line([&] { return nn::Linear(5, 2)(input({})); }), "Linear of 5 inputs needs x [..., 5], got f32[]");
  EXPECT_TRUE(first_line([] { return Tensor().shape(); }).starts_with("shape: a null tensor has no value"));
  Tensor unnamed = Tensor::abstract(Type::array(DType::kF32, {2}));
  EXPECT_EQ(first_line([&] {
              unnamed.assign(x);
              return 0;
            }),
            "assign: the variable is f32[2], the value is f32[6,4]");
}

TEST_F(FrontendErrors, OfBackwardAndReading) {
  const Tensor x = input({6, 4});
  const Tensor loss = sum(x);
  expect([&] { return loss.backward(); },
         "backward: f32[] was computed from no variable with requires_grad\n  #0   %reduce: f32[]    "
         "errors_test.cpp:HERE" +
             kHere);
  expect([&] { return x.item(); }, "item: needs exactly one element, but f32[6,4] has 24\n  #0   %x: f32[6,4]" + kHere);
  expect([&] { return loss.item(); },
         "read of f32[] at errors_test.cpp:HERE: this process only plans (plan_for_devices) and cannot run programs");
}

}  // namespace
}  // namespace tessera
