// SPDX-License-Identifier: Apache-2.0
// Modules: registration, names, calls with any arguments, hooks, containers.
#include <gtest/gtest.h>

#include <string>

#include "frontend/on_ranks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/nn/batch_norm.h"
#include "tessera/nn/convolution.h"
#include "tessera/nn/layers.h"
#include "tessera/nn/models/module_group.h"

namespace tessera::nn {
namespace {

template <class F>
std::string error_of(F&& run) {
  try {
    run();
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  }
  return "no error";
}

class Scaled : public Callable<Scaled> {
 public:
  Scaled() {
    factor_ = register_parameter("factor", Tensor::from<double>({2}, {2, 3}));
    offset_ = register_buffer("offset", Tensor::from<double>({2}, {10, 20}));
  }
  Tensor forward(const Tensor& x) { return x * factor_ + offset_; }

 private:
  Tensor factor_, offset_;
};

class Several : public Callable<Several> {
 public:
  Several() {
    register_module("first", first_);
    shared_ = register_module("second", std::make_shared<Scaled>());
  }
  std::pair<Tensor, int> forward(const Tensor& x, int times, std::string_view name, double shift, bool twice,
                                 std::vector<Tensor>& seen) {
    Tensor out = x;
    for (int i = 0; i < times; ++i) out = first_(out);
    seen.push_back(out);
    if (twice) out = (*shared_)(out);
    return {out + shift, static_cast<int>(name.size())};
  }
  Tensor forward() { return Tensor::full(Type::scalar(DType::kF64), 7); }

 private:
  Scaled first_;
  std::shared_ptr<Scaled> shared_;
};

// Calls a module that it registers only if asked.
class Owner : public Callable<Owner> {
 public:
  Owner(bool registers, bool trains) {
    if (registers) register_module("part", part_);
    for (Tensor parameter : part_.parameters()) parameter.set_requires_grad(trains);
  }
  Tensor forward(const Tensor& x) { return part_(x); }

 private:
  Scaled part_;
};

template <class T>
class Holder : public Module {};

Tensor row(double a, double b) { return Tensor::from<double>({2}, {a, b}); }

TEST(Module, TheClassNameIsTheCppClassWithoutNamespacesAndTemplateArguments) {
  const FreshRank rank;
  EXPECT_EQ(Several().class_name(), "Several");
  EXPECT_EQ((Holder<std::pair<int, Several>>().class_name()), "Holder");
  struct Local : Module {};
  EXPECT_EQ(Local().class_name(), "Local");
}

TEST(Module, ACallTakesAnyNumberAndTypesOfArguments) {
  const FreshRank rank;
  Several several;
  EXPECT_EQ(several().item(), 7);
  std::vector<Tensor> seen;
  const auto [out, length] = several(row(1, 1), 1, "four", 0.5, true, seen);
  EXPECT_EQ(length, 4);
  EXPECT_EQ(seen.front().to_vector<double>(), (std::vector<double>{12, 23}));
  EXPECT_EQ(out.to_vector<double>(), (std::vector<double>{34.5, 89.5}));
}

TEST(Module, RegisteredTensorsAreInTheStateUnderTheirPaths) {
  const FreshRank rank;
  Several several;
  std::vector<std::string> names;
  for (const auto& entry : several.state_dict().entries()) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"first.factor", "second.factor", "first.offset", "second.offset"}));
  EXPECT_EQ(several.parameters().size(), 2U);
  EXPECT_EQ(several.buffers().size(), 2U);
  EXPECT_EQ(several.parameter("second.factor").name(), "second.factor");
}

TEST(Module, ARegisteredParameterIsTrained) {
  const FreshRank rank;
  Scaled scaled;
  sum(scaled(row(5, 7))).backward();
  mark_step();
  EXPECT_EQ(scaled.parameter("factor").grad().to_vector<double>(), (std::vector<double>{5, 7}));
}

// The values of the parameters and buffers of a layer, and its result for x = 1.
template <class Layer>
std::vector<std::vector<double>> values_of(Layer& layer, const Type& input) {
  std::vector<Tensor> all{layer(Tensor::ones(input))};
  for (const auto& entry : layer.state_dict().entries()) all.push_back(entry.tensor);
  mark_step();
  std::vector<std::vector<double>> out;
  for (const Tensor& value : all) {
    const Literal host = value.to_host();
    auto& list = out.emplace_back();
    for (std::int64_t i = 0; i < host.type().element_count(); ++i)
      list.push_back(is_float(value.dtype()) ? element_as_double(host, i)
                                             : static_cast<double>(element_as_int(host, i)));
  }
  return out;
}

TEST(Module, ToConvertsParametersAndBuffersThatAreFloats) {
  const Type images = Type::array(DType::kF64, {2, 3, 4, 4});
  std::vector<std::vector<double>> plain;
  for (const bool is_in_memory : {false, true}) {
    const FreshRank rank;
    Sequential net(std::make_shared<Conv2d>(3, 5, 3), std::make_shared<BatchNorm2d>(5));
    if (is_in_memory) (void)net.parameters().front().to_host();
    net.to(DType::kF64);
    const Tensor weight = net.parameters().front();
    EXPECT_EQ(weight.dtype(), DType::kF64);
    EXPECT_TRUE(weight.requires_grad());
    EXPECT_EQ(net.state_dict().entries().back().tensor.dtype(), DType::kS64);  // num_batches_tracked
    const auto values = values_of(net, images);
    if (plain.empty()) plain = values;
    EXPECT_EQ(values, plain);  // deferred or in memory
  }
  const FreshRank rank;
  Sequential net(std::make_shared<Conv2d>(3, 5, 3), std::make_shared<BatchNorm2d>(5));
  const auto values = values_of(net, images.with_dtype(DType::kF32));
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const bool is_state = i > 0 && i < plain.size() - 3;  // not the result and the statistics of the batch
    for (std::size_t j = 0; j < plain[i].size(); ++j)
      EXPECT_NEAR(plain[i][j], values[i][j], is_state ? 0 : 1e-4) << i << " " << j;
  }
}

TEST(Module, ToIsAnErrorAfterTheFirstBackwardPass) {
  const FreshRank rank;
  Scaled scaled;
  sum(scaled(row(5, 7))).backward();
  try {
    scaled.to(DType::kF32);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_TRUE(
        std::string(error.what())
            .starts_with(
                "convert_variable: convert factor before the first backward(), the optimizer and fully_shard()"))
        << error.what();
  }
  EXPECT_THROW(scaled.to(DType::kS32), Error);
}

TEST(Module, ApplyVisitsChildrenBeforeParents) {
  const FreshRank rank;
  Several several;
  std::string order;
  several.apply([&](Module& module) { order += std::string(module.class_name()) + ":" + module.path() + " "; });
  EXPECT_EQ(order, "Scaled:first Scaled:second Several: ");
}

TEST(Module, NamesMustBeDistinctAndWithoutDots) {
  const FreshRank rank;
  class Wrong : public Module {
   public:
    explicit Wrong(int kind) {
      register_parameter("w", row(1, 2));
      if (kind == 0) register_buffer("w", row(1, 2));
      if (kind == 1) register_module("w", child_);
      if (kind == 2) register_module("a.b", child_);
      if (kind == 3) register_parameter("n", Tensor());
    }

   private:
    Scaled child_;
  };
  const std::string twice = "Wrong: w is registered twice; parameters, buffers and submodules need distinct names";
  EXPECT_EQ(error_of([] { Wrong(0); }), twice);
  EXPECT_EQ(error_of([] { Wrong(1); }), twice);
  EXPECT_EQ(error_of([] { Wrong(2); }),
            "Wrong: the name of a submodule must not be empty or contain a dot, got \"a.b\"");
  EXPECT_EQ(error_of([] { Wrong(3); }), "Wrong: parameter n is null");
}

TEST(Hooks, APreHookReplacesArgumentsAndAHookReplacesResults) {
  const FreshRank rank;
  Several several;
  std::vector<Tensor> seen;
  HookHandle before = several.register_forward_pre_hook([](Module& module, std::vector<Tensor>& inputs) {
    EXPECT_EQ(module.class_name(), "Several");
    ASSERT_EQ(inputs.size(), 1U);
    inputs[0] = inputs[0] * 10.0;
  });
  HookHandle after =
      several.register_forward_hook([](Module&, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
        EXPECT_EQ(inputs[0].to_vector<double>(), (std::vector<double>{10, 20}));
        outputs[0] = outputs[0] + 1000.0;
      });
  EXPECT_EQ(several(row(1, 2), 0, "", 0.0, false, seen).first.to_vector<double>(), (std::vector<double>{1010, 1020}));
  before.remove();
  after.remove();
  after.remove();
  EXPECT_EQ(several(row(1, 2), 0, "", 0.0, false, seen).first.to_vector<double>(), (std::vector<double>{1, 2}));
}

TEST(Hooks, HooksRunInTheOrderOfTheirRegistration) {
  const FreshRank rank;
  Scaled scaled;
  std::string order;
  const auto add = [&](char name) {
    scaled.register_forward_hook([&order, name](Module&, const auto&, std::vector<Tensor>&) { order += name; });
  };
  add('a');
  add('b');
  scaled.register_forward_pre_hook([&](Module&, std::vector<Tensor>&) { order += '<'; });
  (void)scaled(row(1, 2));
  EXPECT_EQ(order, "<ab");
}

TEST(Hooks, AHookMayNotChangeTheNumberOfTensors) {
  const FreshRank rank;
  Scaled scaled;
  scaled.register_forward_hook([](Module&, const auto&, std::vector<Tensor>& outputs) { outputs.clear(); });
  EXPECT_EQ(error_of([&] { (void)scaled(row(1, 2)); }), "a forward hook changed the number of tensors from 1 to 0");
}

TEST(Hooks, AHandleMayOutliveItsModule) {
  const FreshRank rank;
  HookHandle handle;
  {
    Scaled scaled;
    handle = scaled.register_forward_hook([](Module&, const auto&, std::vector<Tensor>&) {});
  }
  handle.remove();
}

// The ops of a hook belong to the unit of the module, so a hook can constrain the activations of units.
TEST(Hooks, AHookOfAUnitShardsItsResult) {
  const FreshRank rank;
  plan_for_devices(3);
  const Mesh mesh({{"model", 3}});
  Linear layer(4, 6);
  layer.set_unit("layer");
  layer.register_forward_hook([&](Module&, const auto&, std::vector<Tensor>& outputs) {
    outputs[0] = with_sharding_constraint(outputs[0], mesh, {{}, "model"});
  });
  const Tensor x = Tensor::abstract(Type::array(DType::kF32, {2, 4}), "x");
  const Tensor y = layer(x);
  ASSERT_TRUE(y.sharding().has_value());
  const StepPlan plan = plan_step();
  EXPECT_EQ(plan.partitioned.program.entry_computation().root_type().leaves().front().dims(), (Dims{2, 2}));
}

TEST(Containers, ASequentialCallsItsModulesInOrder) {
  const FreshRank rank;
  Sequential steps(make<Scaled>(), [](const Tensor& x) { return x * 100.0; });
  steps.emplace<Scaled>();
  EXPECT_EQ(steps.size(), 3);
  EXPECT_EQ(steps(row(1, 1)).to_vector<double>(), (std::vector<double>{2410, 6920}));
  EXPECT_EQ(steps[-1].path(), "2");
  EXPECT_EQ(steps.get<Scaled>(0).named_parameters().front().name, "factor");
  EXPECT_EQ(steps.named_parameters().back().name, "2.factor");
  EXPECT_EQ(error_of([&] { (void)steps[3]; }), "there is no module 3; the Sequential has 3");
  EXPECT_EQ(error_of([&] { (void)steps.get<Linear>(0); }), "Sequential: module 0 is a Scaled");
}

TEST(Containers, AListHoldsModulesOfABaseClass) {
  const FreshRank rank;
  ModuleList<Module> list;
  list.push_back(make<Scaled>());
  list.push_back(make<Linear>(2, 3));
  EXPECT_EQ(list[1].class_name(), "Linear");
  EXPECT_EQ(list.named_parameters().back().name, "1.bias");
  EXPECT_EQ(error_of([&] { (void)list[2]; }), "there is no module 2; the list has 2");
}

TEST(Containers, ADictionaryFindsModulesByName) {
  const FreshRank rank;
  ModuleDict<Linear> heads;
  heads.emplace("masked", 2, 3);
  heads.emplace("next", 2, 2);
  EXPECT_TRUE(heads.contains("next"));
  EXPECT_EQ(heads["masked"].weight().dims(), (Dims{3, 2}));
  EXPECT_EQ(heads.named_parameters().front().name, "masked.weight");
  EXPECT_EQ(error_of([&] { (void)heads["maskd"]; }), "there is no module maskd; did you mean \"masked\"?");
}

TEST(Module, AModuleThatNobodyRegisteredIsNamedOnce) {
  const FreshRank rank;
  const Tensor x = Tensor::from<double>({2}, {1, 1});
  const auto printed = [&](bool registers, bool trains) {
    Owner owner(registers, trains);
    ::testing::internal::CaptureStderr();
    owner(x);
    owner(x);
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string text = printed(false, true);
  EXPECT_TRUE(text.starts_with("warning: Scaled is called within another module (")) << text;
  EXPECT_EQ(text.find("warning:", 1), std::string::npos) << text;
  EXPECT_EQ(printed(true, true), "");
  EXPECT_EQ(printed(false, false), "") << "nothing to train";
}

// The example of docs/reference/nn.md.
struct Block : Module {
  virtual Tensor run(const Tensor& x) = 0;
};
struct Plain : Block {
  Plain() { register_module("dense", dense); }
  Tensor run(const Tensor& x) override { return relu(dense(x)); }
  Linear dense{8, 8};
};
struct Grouped : Callable<Grouped> {
  Grouped() {
    layers.push_back(std::make_shared<Plain>());
    register_module("encoder", encoder);
  }
  Tensor forward(Tensor x) {
    for (const auto& layer : layers) x = layer->run(x);
    return x;
  }
  ModuleList<Block> layers;
  ModuleGroup encoder{"Encoder", {{"layer", &layers}}};
};

TEST(Modules, AGroupPutsMembersUnderACommonName) {
  const FreshRank rank;
  Grouped model;
  EXPECT_EQ(model(ones({2, 8})).dims(), Dims({2, 8}));
  std::vector<std::string> names;
  for (const auto& parameter : model.named_parameters()) names.push_back(parameter.name);
  EXPECT_EQ(names, (std::vector<std::string>{"encoder.layer.0.dense.weight", "encoder.layer.0.dense.bias"}));
}

}  // namespace
}  // namespace tessera::nn
