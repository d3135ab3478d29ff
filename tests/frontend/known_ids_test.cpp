// SPDX-License-Identifier: Apache-2.0
// Ids, labels and offsets that the host has passed are checked before and after they are sharded, and at each call of a
// compiled function.
#include <gtest/gtest.h>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/embedding.h"
#include "tessera/nn/linear_cross_entropy.h"
#include "tessera/nn/losses.h"

namespace tessera {
namespace {

using Ids = std::vector<std::int32_t>;

Tensor id_tensor(const Ids& ids) { return Tensor::from<std::int32_t>({static_cast<std::int64_t>(ids.size())}, ids); }

std::string first_line_of_error(const std::function<void()>& body) {
  const std::string text = testing::error_of(body);
  return text.substr(0, text.find('\n'));
}

TEST(KnownIds, AreCheckedAfterTheyAreSharded) {
  on_ranks(2, [](int) {
    const Mesh mesh({{"data", 2}});
    set_default_mesh(mesh);
    const Tensor table = Tensor::from<float>({4, 1}, {1, 2, 3, 4});
    const auto message = [&](const Ids& values) {
      const Tensor ids = id_tensor(values);
      mark_sharding(ids, mesh, {"data"});
      return first_line_of_error([&] { (void)embedding(table, ids); });
    };
    EXPECT_EQ(message({0, 3, 1, 2}), "no error");
    EXPECT_EQ(message({0, 3, 9, 2}), "embedding: id 9 at element 2 is not one of 0..3");
    EXPECT_EQ(message({0, -1, 1, 2}), "embedding: id -1 at element 1 is not one of 0..3");
  });
}

TEST(KnownIds, OneValueMayBeIgnoredInShardedLabels) {
  on_ranks(2, [](int) {
    const Mesh mesh({{"data", 2}});
    set_default_mesh(mesh);
    const Tensor logits = Tensor::from<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
    const auto message = [&](const Ids& values, std::int64_t ignored) {
      const Tensor labels = id_tensor(values);
      mark_sharding(labels, mesh, {"data"});
      return first_line_of_error([&] { (void)cross_entropy(logits, labels, ignored); });
    };
    EXPECT_EQ(message({0, -100, 1, -100}, -100), "no error");
    EXPECT_EQ(message({0, 255, 255, 1}, 255), "no error");
    EXPECT_EQ(message({0, -100, 1, -7}, -100), "cross_entropy: label -7 at element 3 is not one of 0..1");
    EXPECT_EQ(message({255, 0, 254, 1}, 255), "cross_entropy: label 254 at element 2 is not one of 0..1");
  });
}

TEST(KnownIds, AreCheckedAtEachCallOfACompiledFunction) {
  const FreshRank rank;
  const Tensor table = Tensor::from<float>({4, 1}, {1, 2, 3, 4});
  Tensor kept = id_tensor({0, 0});
  CompiledFunction f = compile([&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{embedding(table, in[0]) + embedding(table, kept)};
  });
  EXPECT_EQ(f({id_tensor({0, 1})})[0].to_vector<float>(), (std::vector<float>{2, 3}));
  EXPECT_EQ(first_line_of_error([&] { f({id_tensor({0, 9})}); }), "embedding: id 9 at element 1 is not one of 0..3");
  EXPECT_EQ(f({id_tensor({3, 2})})[0].to_vector<float>(), (std::vector<float>{5, 4}))
      << "the failed call has no effect";
  kept.assign(id_tensor({7, 1}));
  EXPECT_EQ(first_line_of_error([&] { f({id_tensor({0, 1})}); }), "embedding: id 7 at element 0 is not one of 0..3");
  EXPECT_EQ(f.form_count(), 1);
}

TEST(KnownIds, AreCheckedByEveryFormOfCrossEntropy) {
  const FreshRank rank;
  const Tensor logits = Tensor::from<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(first_line_of_error([&] {
              (void)nn::cross_entropy(logits, id_tensor({0, 2}), {.label_smoothing = 0.1});
            }),
            "cross_entropy: label 2 at element 1 is not one of 0..1");
  EXPECT_EQ(first_line_of_error([&] {
              (void)nn::linear_cross_entropy(logits, logits, id_tensor({0, 5}), {.chunks = 2});
            }),
            "linear_cross_entropy: label 5 at element 1 is not one of 0..1");
}

TEST(KnownIds, OffsetsOfBagsAreCheckedAfterTheyAreSharded) {
  on_ranks(2, [](int) {
    const Mesh mesh({{"data", 2}});
    set_default_mesh(mesh);
    nn::EmbeddingBag bags(5, 3);
    const Tensor ids = id_tensor({0, 1, 2, 3, 4});
    const auto message = [&](const Ids& values) {
      const Tensor offsets = id_tensor(values);
      mark_sharding(offsets, mesh, {"data"});
      return first_line_of_error([&] { (void)bags(ids, offsets); });
    };
    EXPECT_EQ(message({0, 2, 4, 5}), "no error");
    EXPECT_EQ(message({1, 2, 4, 5}), "EmbeddingBag: the first offset must be 0, got 1");
    EXPECT_EQ(message({0, 2, 4, 6}), "EmbeddingBag: offset 6 at element 3 is above 5, the number of ids");
  });
}

TEST(KnownIds, OffsetsOfBagsAreCheckedAtEachCallOfACompiledFunction) {
  const FreshRank rank;
  nn::EmbeddingBag bags(5, 3);
  const Tensor ids = id_tensor({0, 1, 2, 3});
  CompiledFunction f = compile([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{bags(ids, in[0])}; });
  EXPECT_EQ(f({id_tensor({0, 2})})[0].dims(), (Dims{2, 3}));
  EXPECT_EQ(first_line_of_error([&] {
              f({id_tensor({0, 7})});
            }),
            "EmbeddingBag: offset 7 at element 1 is above 4, the number of ids");
}

TEST(KnownIds, ComputedIdsReadTheNearestRow) {
  const FreshRank rank;
  const Tensor table = Tensor::from<float>({4, 1}, {1, 2, 3, 4});
  EXPECT_EQ(embedding(table, id_tensor({-3, 8}) + 1).to_vector<float>(), (std::vector<float>{1, 4}));
}

}  // namespace
}  // namespace tessera
