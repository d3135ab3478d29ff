// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/model_names.h"

#include <gtest/gtest.h>

#include "support/error_of.h"
#include "support/temporary_folder.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/data/token_file.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;

class ModelNames : public ::testing::Test {
 protected:
  ModelNames() : scope_(context_) {
    (void)cache_.write("models--gpt2/refs/main", "abc\n");
    (void)cache_.write("models--gpt2/snapshots/abc/config.json", "{}");
    (void)cache_.write("models--gpt2/snapshots/older/config.json", "{}");
    (void)cache_.write("models--meta--llama/snapshots/one/config.json", "{}");
    (void)cache_.write("plain/config.json", "{}");
    (void)home_.write("hub/models--google-bert--bert-large-uncased/snapshots/x/config.json", "{}");
    (void)home_.write("hub/models--gpt2/snapshots/of_hub/config.json", "{}");
    options().set("HF_HOME", home_.path());
  }

  // The folder that the name becomes.
  std::string found(const std::string& name, bool with_cache = true) {
    TrainingArguments arguments;
    if (with_cache) arguments.cache_dir = cache_.path();
    arguments.model_name_or_path = name;
    find_named_models(arguments);
    return arguments.model_name_or_path;
  }

  RankContext context_{0, 1};
  RankScope scope_;
  TemporaryFolder cache_;
  TemporaryFolder home_;
};

TEST_F(ModelNames, AreFoundInTheCacheAndThenInTheHub) {
  EXPECT_EQ(found("gpt2"), cache_.file("models--gpt2/snapshots/abc"));
  EXPECT_EQ(found("gpt2", false), home_.file("hub/models--gpt2/snapshots/of_hub"));
  EXPECT_EQ(found("meta/llama"), cache_.file("models--meta--llama/snapshots/one"));
  EXPECT_EQ(found("llama"), cache_.file("models--meta--llama/snapshots/one"));
  EXPECT_EQ(found("bert-large-uncased"), home_.file("hub/models--google-bert--bert-large-uncased/snapshots/x"));
  EXPECT_EQ(found("plain"), cache_.file("plain"));
}

TEST_F(ModelNames, OfWhichThereIsNoFolderStayAsTheyAre) {
  for (const std::string name :
       {"", "bytes", "bpe:512", "other/gpt2", "gpt", "/absent/gpt2", "../gpt2", "large-uncased"})
    EXPECT_EQ(found(name), name);
  const std::string too_long(5000, 'x');
  EXPECT_EQ(found(too_long), too_long);
  options().set("HF_HOME", "");
  EXPECT_EQ(found("bert-large-uncased"), "bert-large-uncased");
  EXPECT_EQ(found(cache_.file("plain")), cache_.file("plain"));
}

TEST_F(ModelNames, OfSeveralOrganizationsAreAnError) {
  (void)cache_.write("models--mine--llama/snapshots/two/config.json", "{}");
  EXPECT_EQ(error_of([&] { found("llama"); }),
            "--model_name_or_path llama: 2 models in " + cache_.path() +
                " have this name, such as models--meta--llama and models--mine--llama; give ORGANIZATION/NAME");
  EXPECT_EQ(found("mine/llama"), cache_.file("models--mine--llama/snapshots/two"));
}

TEST_F(ModelNames, GiveTheTokenizerUnlessAFlagDoes) {
  const auto tokenizer = [&](std::vector<std::string> flags, const std::string& train_file = "t.txt") {
    flags.insert(flags.begin(),
                 {"run_clm", "--model_name_or_path", "gpt2", "--cache_dir", cache_.path(), "--train_file", train_file});
    std::vector<const char*> words;
    for (const std::string& flag : flags) words.push_back(flag.c_str());
    return parse_training_arguments(static_cast<int>(words.size()), words.data(), "run_clm", "", {})->tokenizer_name;
  };
  EXPECT_EQ(tokenizer({}), "bytes");
  (void)cache_.write("models--gpt2/snapshots/abc/tokenizer.json", "{}");
  EXPECT_EQ(tokenizer({}), cache_.file("models--gpt2/snapshots/abc"));
  EXPECT_EQ(tokenizer({"--tokenizer_name", "bytes"}), "bytes");
  TrainingArguments found;
  found.model_name_or_path = cache_.file("models--gpt2/snapshots/abc");
  use_tokenizer_of_model(found);
  EXPECT_TRUE(found.json().is_null("tokenizer_name")) << "another model after the file has another tokenizer";
  const std::string tokens = cache_.file("t.tokens");
  data::TokenFileWriter writer(tokens, *data::make_tokenizer("bytes", ""));
  writer.append(std::vector<std::int32_t>{1, 2, 3});
  writer.end_document(3);
  writer.finish();
  EXPECT_EQ(tokenizer({}, tokens), cache_.file("models--gpt2/snapshots/abc")) << "that of the file must be the same";
}

TEST_F(ModelNames, WithSeveralRevisionsNeedTheMainOne) {
  (void)cache_.write("models--two/snapshots/a/config.json", "{}");
  (void)cache_.write("models--two/snapshots/b/config.json", "{}");
  EXPECT_EQ(found("two"), "two");
  (void)cache_.write("models--two/refs/main", "b");
  EXPECT_EQ(found("two"), cache_.file("models--two/snapshots/b"));
  (void)cache_.write("models--two/refs/main", std::string(5000, 'x'));  // a damaged reference
  EXPECT_EQ(found("two"), "two");
}

}  // namespace
}  // namespace tessera::trainer
