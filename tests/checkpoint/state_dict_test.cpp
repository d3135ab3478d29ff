// SPDX-License-Identifier: Apache-2.0
// State dicts in memory: names, tied parameters, and the messages about states that do not fit.
#include <gtest/gtest.h>

#include "checkpoint/small_gpt2.h"
#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/optim/optimizer.h"

namespace tessera {
namespace {

using testing::error_of;

TEST(StateDicts, AModelTakesTheValuesOfAnother) {
  const FreshRank rank;
  nn::GPT2LMHeadModel first(small_gpt2());
  manual_seed(7);
  nn::GPT2LMHeadModel second(small_gpt2());
  ASSERT_NE(values_of(first), values_of(second));
  const LoadStateResult result = second.load_state_dict(first.state_dict());
  EXPECT_TRUE(result.missing_keys.empty() && result.unexpected_keys.empty());
  EXPECT_EQ(values_of(first), values_of(second));
}

TEST(StateDicts, ATiedParameterIsOneEntryWithAnAlias) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(small_gpt2());
  const StateDict state = model.state_dict();
  const NamedTensor* head = state.find("lm_head.weight");
  ASSERT_NE(head, nullptr);
  EXPECT_EQ(head->name, "transformer.wte.weight");
  EXPECT_EQ(state.find("lm_head"), nullptr);
}

TEST(StateDicts, OneMessageListsAllThatDoesNotFit) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(small_gpt2());
  StateDict wrong;
  for (NamedTensor entry : model.state_dict().entries()) {
    if (entry.name == "transformer.ln_f.bias") entry.name = "transformer.ln_f.bais";
    if (entry.name == "transformer.wpe.weight") {
      entry.tensor = Tensor::zeros(Type::array(DType::kF32, {3, 12}));
      entry.exported_dims = {3, 12};
    }
    wrong.add(std::move(entry));
  }
  EXPECT_EQ(error_of([&] { model.load_state_dict(wrong); }),
            "GPT2LMHeadModel does not fit the state that it loads:\n"
            "  shape of transformer.wpe.weight: f32[7,12] is needed, the source has f32[3,12]\n"
            "  missing transformer.ln_f.bias; did you mean \"transformer.ln_f.bais\"?\n"
            "  unexpected transformer.ln_f.bais; did you mean \"transformer.ln_f.bias\"?");
}

TEST(StateDicts, ALongListOfShapesIsTruncated) {
  const FreshRank rank;
  StateDict state;
  StateDict wrong;
  for (int i = 0; i < 11; ++i) {
    const std::string name = "x" + std::to_string(i);
    state.add({name, Tensor::zeros(Type::array(DType::kF32, {2})), {}});
    wrong.add({name, Tensor::zeros(Type::array(DType::kF32, {3})), {}});
  }
  const std::string text = error_of([&] { load_state(state, wrong, "the state"); });
  EXPECT_NE(text.find("\n  shape of x7: f32[2] is needed, the source has f32[3]\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("shape of x8"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\n  and 3 more shapes or element types")) << text;
}

// The names of the other parameters are not suggested, however similar they are.
TEST(StateDicts, AMissingNameSuggestsOnlyNamesThatAreUnexpected) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(small_gpt2());
  StateDict smaller;
  for (NamedTensor entry : model.state_dict().entries())
    if (entry.name != "transformer.wpe.weight") smaller.add(std::move(entry));
  EXPECT_EQ(error_of([&] { model.load_state_dict(smaller); }),
            "GPT2LMHeadModel does not fit the state that it loads:\n  missing transformer.wpe.weight");
}

TEST(StateDicts, WithoutStrictNamesMayDiffer) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(small_gpt2());
  StateDict other;
  other.add({"transformer.ln_f.bias", Tensor::full(Type::array(DType::kF32, {12}), 3), {}});
  other.add({"score.weight", Tensor::full(Type::array(DType::kF32, {12}), 3), {}});
  const LoadStateResult result = model.load_state_dict(other, {.strict = false});
  EXPECT_EQ(result.unexpected_keys, std::vector<std::string>{"score.weight"});
  EXPECT_EQ(result.missing_keys.size(), model.state_dict().entries().size() - 1);
  EXPECT_EQ(model.parameter("transformer.ln_f.bias").to_vector<float>(), std::vector<float>(12, 3.0F));
}

// The state continues a run: three steps are equal to two steps, a move to another model and optimizer, and one step.
TEST(StateDicts, OptimizerStateContinuesARun) {
  const FreshRank rank;
  nn::GPT2LMHeadModel first(small_gpt2());
  optim::AdamW first_optimizer(first.parameters(), {.learning_rate = 0.01, .weight_decay = 0.1});
  for (int i = 0; i < 2; ++i) train_step(first, first_optimizer, i);
  nn::GPT2LMHeadModel second(small_gpt2());
  optim::AdamW second_optimizer(second.parameters(), {.learning_rate = 0.01, .weight_decay = 0.1});
  second.load_state_dict(first.state_dict());
  second_optimizer.load_state_dict(first_optimizer.state_dict());
  mark_step();
  EXPECT_EQ(second_optimizer.step_count(), 2);
  train_step(first, first_optimizer, 2);
  train_step(second, second_optimizer, 2);
  EXPECT_EQ(values_of(first), values_of(second));
}

}  // namespace
}  // namespace tessera
