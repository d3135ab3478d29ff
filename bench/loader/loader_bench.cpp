// SPDX-License-Identifier: Apache-2.0
// The tokens per second that a Loader gives to a training over a token file, as tensors. Compare items_per_second with
// the tokens/s of the training.
//
//   loader_bench --benchmark_filter=workers:4
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>

#include "tessera/base/rank_context.h"
#include "tessera/data/loader.h"
#include "tessera/data/packing.h"
#include "tessera/data/padding.h"

namespace tessera::data {
namespace {

constexpr std::int64_t kRows = 8;
constexpr std::int64_t kBlock = 1024;
constexpr int kVocabulary = 50257;  // GPT-2's
constexpr std::int64_t kDocuments = 4000;

// The ids of GPT-2's vocabulary, without their texts.
class Ids final : public Tokenizer {
 public:
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view /*text*/) const override { return {}; }
  [[nodiscard]] std::string decode(std::span<const std::int32_t> /*ids*/) const override { return {}; }
  [[nodiscard]] int vocab_size() const override { return kVocabulary; }
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const override { return kVocabulary - 1; }
  [[nodiscard]] const std::string& name() const override { return name_; }

 private:
  std::string name_ = "ids";
};

// A token file of about 2 million tokens that is deleted at the end.
class Corpus {
 public:
  Corpus() {
    std::string pattern = (std::filesystem::temp_directory_path() / "loader_bench_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    const std::string path = (folder_ / "ids.tokens").string();
    TokenFileWriter writer(path, Ids());
    std::uint64_t random = 1;
    std::vector<std::int32_t> document;
    for (std::int64_t i = 0; i < kDocuments; ++i) {
      document.resize(static_cast<std::size_t>(20 + i * 37 % 1000));
      for (auto& id : document) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        id = static_cast<std::int32_t>((random >> 33U) % (kVocabulary - 1));
      }
      writer.append(document);
      writer.end_document(static_cast<std::int64_t>(document.size()));
    }
    writer.finish();
    file_ = std::make_shared<const TokenFile>(TokenFile::open(path));
  }
  ~Corpus() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Corpus(const Corpus&) = delete;
  Corpus& operator=(const Corpus&) = delete;
  [[nodiscard]] const std::shared_ptr<const TokenFile>& file() const { return file_; }

 private:
  std::filesystem::path folder_;
  std::shared_ptr<const TokenFile> file_;
};

const Corpus& corpus() {
  static const Corpus kCorpus;
  return kCorpus;
}

// Takes batches of kRows rows as tensors.
void measure(benchmark::State& state, std::shared_ptr<const Source> source, std::shared_ptr<const Collator> collator) {
  RankContext context(0, 1);
  const RankScope scope(context);
  Loader loader(std::move(source), {.batch_size = kRows,
                                    .shuffle = true,
                                    .drop_last = true,
                                    .num_workers = static_cast<int>(state.range(0)),
                                    .collator = std::move(collator)});
  std::int64_t tokens = 0;
  for (auto round : state) {
    const Batch batch = loader.next_batch();
    tokens += batch.field("input_ids").type.element_count();
    benchmark::DoNotOptimize(batch.tensor("input_ids"));
    benchmark::DoNotOptimize(batch.tensor("labels"));
  }
  state.SetItemsProcessed(tokens);
}

void blocks(benchmark::State& state) {
  const auto& file = corpus().file();
  const BlockDataset data(file, {0, file->info().tokens}, kBlock);
  measure(state, std::make_shared<BlockSource>(data), nullptr);
}
void packed(benchmark::State& state) {
  measure(state,
          std::make_shared<PackedSource>(std::make_shared<DocumentSource>(corpus().file()),
                                         PackingOptions{.length = kBlock}),
          nullptr);
}
void mlm(benchmark::State& state) {
  const MlmOptions options{.mask_token_id = 1, .vocab_size = kVocabulary};
  measure(state, std::make_shared<DocumentSource>(corpus().file()),
          std::make_shared<MlmCollator>(PaddingOptions{.pad_to_multiple_of = 64}, options));
}

BENCHMARK(blocks)->ArgName("workers")->Arg(0)->Arg(1)->Arg(4)->UseRealTime();
BENCHMARK(packed)->ArgName("workers")->Arg(0)->Arg(4)->UseRealTime();
BENCHMARK(mlm)->ArgName("workers")->Arg(0)->Arg(4)->UseRealTime();

}  // namespace
}  // namespace tessera::data

BENCHMARK_MAIN();
