// SPDX-License-Identifier: Apache-2.0
// Generation with a cache gives the tokens and logits of the model without one, for every mesh, and compiles two
// programs.
#include "tessera/nn/generation/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "support/sanitizers.h"
#include "tessera/base/text.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/models/gpt2.h"

namespace tessera {
namespace {

using nn::Tokens;

nn::GPT2Config small(DType dtype = DType::kF64) {
  nn::GPT2Config config;
  config.vocab_size = 29;
  config.n_positions = 23;
  config.n_embd = 12;
  config.n_layer = 2;
  config.n_head = 3;
  config.dtype = dtype;
  config.initializer_range = 0.4;
  return config;
}

// The likeliest next token of the last `window` tokens, without a cache.
std::int32_t likeliest_after(nn::CausalLM& model, const Tokens& text, std::int64_t used) {
  const Tokens read(text.end() - used, text.end());
  const Tensor logits = model.logits(Tensor::from<std::int32_t>({1, used}, read));
  return argmax(logits.select(0, 0).select(0, used - 1), 0).to_vector<std::int32_t>().front();
}

const std::vector<Tokens> kPrompts{{3, 1, 4, 1, 5, 9, 2}, {6}, {5, 3, 5}};

TEST(Generation, TheLikeliestTokensAreThoseOfTheModelWithoutACache) {
  const FreshRank rank;
  manual_seed(5);
  nn::GPT2LMHeadModel model(small());
  model.eval();
  for (const std::int64_t chunk : {1, 3, 32}) {
    const auto texts = nn::generate(model, kPrompts, {.max_new_tokens = 9}, {.prompt_chunk = chunk});
    for (std::size_t b = 0; b < kPrompts.size(); ++b) {
      Tokens expected = kPrompts[b];
      for (int i = 0; i < 9; ++i)
        expected.push_back(likeliest_after(model, expected, static_cast<std::int64_t>(expected.size())));
      EXPECT_EQ(texts[b], expected) << "chunk " << chunk << " text " << b;
    }
  }
}

TEST(Generation, StepsGiveTheLogitsOfTheModelWithoutACache) {
  const FreshRank rank;
  manual_seed(5);
  nn::GPT2LMHeadModel model(small());
  model.eval();
  const Tokens text{3, 1, 4, 1, 5, 9, 2, 6};
  const Tensor ids = Tensor::from<std::int32_t>({1, 8}, text);
  const auto expected = model.logits(ids).select(0, 0).to_vector<double>();
  nn::KeyValueCache cache;
  for (int i = 0; i < 2; ++i) {
    cache.keys.push_back(Tensor::zeros(Type::array(DType::kF64, {1, 11, 3, 4})));
    cache.values.push_back(Tensor::zeros(Type::array(DType::kF64, {1, 11, 3, 4})));
  }
  std::int64_t first = 0;
  for (const std::int64_t count : {3, 1, 1, 2, 1}) {
    const auto start = static_cast<std::int32_t>(first);
    std::vector<std::int32_t> positions;
    for (std::int64_t i = 0; i < count; ++i) positions.push_back(static_cast<std::int32_t>(first + i));
    const nn::StepPlace place{.start = Tensor::from<std::int32_t>({}, {start}),
                              .positions = Tensor::from<std::int32_t>({1, count}, positions)};
    const auto got = model.step(ids.slice(1, first, first + count), place, cache).to_vector<double>();
    first += count;
    for (std::int64_t v = 0; v < 29; ++v)
      ASSERT_NEAR(got[static_cast<std::size_t>(v)], expected[static_cast<std::size_t>((first - 1) * 29 + v)], 1e-12)
          << first << " " << v;
  }
}

TEST(Generation, ATextContinuesFromItsLastHalfWhenTheWindowIsFull) {
  const FreshRank rank;
  manual_seed(5);
  nn::GPT2LMHeadModel model(small());
  model.eval();
  nn::Generator generator(model, {.window = 8, .prompt_chunk = 3});
  const Tokens text = generator.generate({{3, 1, 4}}, {.max_new_tokens = 20}).front();
  ASSERT_EQ(text.size(), 23U);
  Tokens expected{3, 1, 4};
  std::int64_t read = 3;
  while (expected.size() < text.size()) {
    if (read > 8) read = 4;
    expected.push_back(likeliest_after(model, expected, read++));
  }
  EXPECT_EQ(text, expected);
}

// The label shift leaves the last position without a label, so its logits are noise.
TEST(Generation, TheLastPositionIsNotUsed) {
  const FreshRank rank;
  manual_seed(5);
  nn::GPT2LMHeadModel model(small());
  const auto with_window = [&](std::int64_t window) {
    return nn::generate(model, {{3, 1, 4}}, {.max_new_tokens = 40}, {.window = window}).front();
  };
  EXPECT_EQ(with_window(0), with_window(22));
  EXPECT_NE(with_window(0), with_window(23));
  nn::Generator generator(model, {});
  EXPECT_EQ(generator.generate({{3, 1, 4}}, {.max_new_tokens = 40}).front(), with_window(22));
}

TEST(Generation, CompilesOneProgramForPromptsAndOneForTokens) {
  const FreshRank rank;
  manual_seed(5);
  nn::GPT2LMHeadModel model(small());
  nn::Generator generator(model, {.batch = 2, .prompt_chunk = 4});
  generator.generate({{1, 2, 3}}, {.max_new_tokens = 3});
  const std::size_t compiled = compiled_programs().size();
  generator.generate({{1, 2, 3, 4, 5, 6, 7, 8, 9}, {4}}, {.max_new_tokens = 12});
  generator.generate({{7, 7}, {1, 4, 4, 4, 4}}, {.max_new_tokens = 6, .stop_tokens = {2}});
  EXPECT_EQ(compiled_programs().size(), compiled);
  EXPECT_TRUE(model.is_training());  // as before
}

TEST(Generation, AStopTokenEndsItsTextOnly) {
  const FreshRank rank;
  manual_seed(5);
  nn::GPT2LMHeadModel model(small());
  const auto all = nn::generate(model, kPrompts, {.max_new_tokens = 8});
  const std::int32_t stop = all[0][9];  // the third new token of the first text
  const auto texts = nn::generate(model, kPrompts, {.max_new_tokens = 8, .stop_tokens = {stop}});
  for (std::size_t b = 0; b < texts.size(); ++b) {
    const auto from = all[b].begin() + static_cast<std::ptrdiff_t>(kPrompts[b].size());
    auto end = std::find(from, all[b].end(), stop);
    if (end != all[b].end()) ++end;
    EXPECT_EQ(texts[b], Tokens(all[b].begin(), end)) << b;
  }
}

TEST(Generation, OnTokenMayEndIt) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(small());
  std::vector<std::int64_t> counts;
  const auto texts = nn::generate(model, {{1}}, {.max_new_tokens = 9, .on_token = [&](std::int64_t count) {
                                                   counts.push_back(count);
                                                   return count < 3;
                                                 }});
  EXPECT_EQ(counts, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(texts[0].size(), 4U);
}

TEST(Generation, AMessageNamesWhatIsOutOfRange) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(small());
  const auto message = [&](const nn::GenerationOptions& options, const std::vector<Tokens>& prompts,
                           const nn::GeneratorOptions& placement) -> std::string {
    try {
      nn::Generator(model, placement).generate(prompts, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message({}, {{}}, {}).find("a prompt must have at least one token"), std::string::npos);
  EXPECT_NE(message({}, {{1}, {2}}, {}).find("2 prompts for a generator with a batch of 1"), std::string::npos);
  EXPECT_NE(message({.temperature = 0}, {{1}}, {}).find("the temperature must be positive, got 0"), std::string::npos);
  EXPECT_NE(message({.top_p = 1.5}, {{1}}, {}).find("top_p must be in (0, 1], got 1.5"), std::string::npos);
  EXPECT_NE(message({}, {{1}}, {.window = 24}).find("must have 2 to 23 tokens, got 24"), std::string::npos);
  EXPECT_NE(message({}, {{29}}, {}).find("29"), std::string::npos);
}

// ---- drawing --------------------------------------------------------------------------------------------------------

// How often each token is drawn, for evenly spaced numbers.
std::vector<int> drawn(const std::vector<float>& logits, const nn::GenerationOptions& options, int count = 1000) {
  std::vector<int> out(logits.size(), 0);
  for (int i = 0; i < count; ++i) ++at(out, nn::draw_token(logits, options, (i + 0.5) / count));
  return out;
}

TEST(Draws, FollowTheProbabilitiesOfTheTokens) {
  const std::vector<float> logits{std::log(0.1F), std::log(0.5F), std::log(0.15F), std::log(0.25F)};
  EXPECT_EQ(drawn(logits, {.do_sample = true}), (std::vector<int>{100, 500, 150, 250}));
  EXPECT_EQ(drawn(logits, {.do_sample = true, .top_k = 2}, 300), (std::vector<int>{0, 200, 0, 100}));
  EXPECT_EQ(drawn(logits, {.do_sample = true, .top_p = 0.7}, 300), (std::vector<int>{0, 200, 0, 100}));
  EXPECT_EQ(drawn(logits, {.do_sample = true, .top_p = 0.01}), (std::vector<int>{0, 1000, 0, 0}));
  EXPECT_EQ(drawn(logits, {.do_sample = true, .known_tokens = 1}), (std::vector<int>{1000, 0, 0, 0}));
  EXPECT_EQ(drawn(logits, {}), (std::vector<int>{0, 1000, 0, 0}));
  // At half the temperature the probabilities are squared.
  EXPECT_EQ(drawn(logits, {.do_sample = true, .temperature = 0.5, .top_k = 2}), (std::vector<int>{0, 800, 0, 200}));
}

TEST(Draws, EqualLogitsAreTakenInOrder) {
  EXPECT_EQ(drawn({1, 2, 2, 2}, {}), (std::vector<int>{0, 1000, 0, 0}));
  EXPECT_EQ(drawn({1, 2, 2, 2}, {.do_sample = true, .top_k = 2}), (std::vector<int>{0, 500, 500, 0}));
}

TEST(Draws, LogitsThatAreNotFiniteAreErrors) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const auto error = [](const std::vector<float>& logits, const nn::GenerationOptions& options) {
    return testing::error_of([&] { (void)nn::draw_token(logits, options, 0.5); });
  };
  for (const bool sample : {false, true}) {
    EXPECT_EQ(error({1, nan, 2}, {.do_sample = sample}), "the logits are not finite: that of token 1 is nan");
    EXPECT_EQ(error({1, 2, infinity}, {.do_sample = sample}), "the logits are not finite: that of token 2 is inf");
    EXPECT_EQ(error({-infinity, -infinity}, {.do_sample = sample}), "the logits are not finite: all of them are -inf");
    EXPECT_EQ(error({1, 2, nan}, {.do_sample = sample, .known_tokens = 2}), "no error");  // a padded vocabulary
  }
  EXPECT_EQ(drawn({-infinity, 1, -infinity}, {.do_sample = true}), (std::vector<int>{0, 1000, 0}));  // excluded tokens
}

TEST(Generation, DrawsDependOnTheSeedAndThePlaceInTheTextOnly) {
  const FreshRank rank;
  manual_seed(5);
  nn::GPT2LMHeadModel model(small());
  const nn::GenerationOptions options{.max_new_tokens = 10, .do_sample = true, .top_k = 20, .seed = 3};
  const auto once = nn::generate(model, kPrompts, options);
  EXPECT_EQ(nn::generate(model, kPrompts, options, {.prompt_chunk = 2}), once);
  nn::GenerationOptions other = options;
  other.seed = 4;
  EXPECT_NE(nn::generate(model, kPrompts, other), once);
}

// ---- layouts --------------------------------------------------------------------------------------------------------

std::vector<Tokens> on_mesh(const std::string& text, bool sample) {
  std::vector<Tokens> out;
  std::mutex guard;
  on_ranks(static_cast<int>(Mesh::parse(text).device_count()), [&](int rank) {
    const Mesh mesh = Mesh::parse(text);
    set_default_mesh(mesh);
    manual_seed(5);
    nn::GPT2LMHeadModel model(small());
    if (mesh.has_axis("model")) nn::shard_tensor_parallel(model, mesh, "model");
    nn::GeneratorOptions placement{.prompt_chunk = 4, .mesh = mesh};
    if (mesh.has_axis("data")) placement.batch_axes = {"data"};
    auto texts = nn::generate(model, kPrompts, {.max_new_tokens = 8, .do_sample = sample, .seed = 2}, placement);
    const std::lock_guard lock(guard);
    if (out.empty()) out = texts;
    EXPECT_EQ(texts, out) << "rank " << rank;
  });
  return out;
}

TEST(Generation, EveryMeshGivesTheSameTexts) {
  for (const bool sample : {false, true}) {
    const auto expected = on_mesh("data=1", sample);
    for (const char* mesh : testing::cases_of<const char*>(
             {"data=2", "data=3", "model=2", "model=3", "data=2,model=2", "data=2,model=3", "data=3,model=2"}))
      EXPECT_EQ(on_mesh(mesh, sample), expected) << mesh;
  }
}

}  // namespace
}  // namespace tessera
