// SPDX-License-Identifier: Apache-2.0
// Weights in Hugging Face's folders: saved under one sharding and loaded under another, with every rank reading only its
// shards; and folders that are damaged.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "checkpoint/small_gpt2.h"
#include "frontend/on_ranks.h"
#include "support/system_limits.h"
#include "support/temporary_folder.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/bert.h"
#include "tessera/tensor/safetensors.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

const std::vector<Layout> kLayouts = {{1, "data=1", false, false},       {2, "fsdp=2", true, false},
                                      {3, "model=3", false, true},       {4, "data=2,fsdp=2", true, false},
                                      {6, "fsdp=2,model=3", true, true}, {8, "fsdp=8", true, false}};

TEST(Pretrained, WeightsSavedUnderEachLayoutLoadUnderEachOther) {
  const TemporaryFolder folder;
  std::map<std::string, Literal> expected;
  {
    const FreshRank rank;
    nn::GPT2LMHeadModel model(small_gpt2());
    expected = values_of(model);
    save_pretrained(model, folder.file("0"));
  }
  for (std::size_t i = 0; i < kLayouts.size(); ++i) {
    const std::string from = folder.file(std::to_string(i));
    const std::string to = folder.file(std::to_string(i + 1));
    on_ranks(kLayouts[i].ranks, [&](int) {
      const auto model = from_pretrained<nn::GPT2LMHeadModel>(from);
      shard(*model, kLayouts[i]);
      EXPECT_EQ(values_of(*model), expected) << kLayouts[i].mesh;
      save_pretrained(*model, to, {.max_shard_bytes = i % 2 == 0 ? 2000 : 1 << 20});
    });
  }
}

TEST(Pretrained, ARankReadsOnlyItsShards) {
  const TemporaryFolder folder;
  std::int64_t file_bytes = 0;
  {
    const FreshRank rank;
    nn::GPT2Config config = small_gpt2();
    config.n_embd = 96;
    nn::GPT2LMHeadModel model(config);
    save_pretrained(model, folder.file("m"));
    file_bytes = static_cast<std::int64_t>(fs::file_size(folder.file("m") + "/model.safetensors"));
  }
  on_ranks(4, [&](int) {
    const auto model = from_pretrained<nn::GPT2LMHeadModel>(folder.file("m"));
    const auto header_bytes = static_cast<std::int64_t>(bytes_read_from_files());
    EXPECT_LT(header_bytes, file_bytes / 20);
    const Mesh mesh({{"fsdp", 4}});
    set_default_mesh(mesh);
    fully_shard(*model, {.mesh = mesh});
    for (const auto& entry : model->state_dict().entries()) (void)entry.tensor.local_shard();
    EXPECT_LT(static_cast<std::int64_t>(bytes_read_from_files()) - header_bytes, file_bytes * 26 / 100);
  });
}

// Two folders as on local disks: the model of the second one was trained further.
TEST(Pretrained, RanksThatLoadDifferentWeightsAreAnError) {
  const TemporaryFolder folder;
  {
    const FreshRank rank;
    nn::GPT2LMHeadModel model(small_gpt2());
    save_pretrained(model, folder.file("0"));
    optim::AdamW optimizer(model.parameters(), {.learning_rate = 0.01});
    train_step(model, optimizer, 1);
    save_pretrained(model, folder.file("1"));
  }
  for (const bool is_different : {false, true})
    for (const auto& [ranks, mesh, fsdp, tensor_parallel] :
         {Layout{2, "data=2", false, false}, kLayouts[1], kLayouts[4]})
      on_ranks(ranks, [&](int rank) {
        const auto model = from_pretrained<nn::GPT2LMHeadModel>(folder.file(is_different && rank == 1 ? "1" : "0"));
        shard(*model, {ranks, mesh, fsdp, tensor_parallel});
        std::string error;
        try {
          optim::AdamW optimizer(model->parameters(), {.learning_rate = 0.01});
          for (int step = 0; step < 2; ++step) train_step(*model, optimizer, step);
        } catch (const Error& problem) {
          error = problem.what();
        }
        EXPECT_EQ(!error.empty(), is_different) << mesh << error;
        if (is_different) {
          EXPECT_NE(error.find(" was not read from the same file on all ranks: "), std::string::npos) << error;
        }
      });
}

TEST(Pretrained, FilesHaveHuggingFacesNamesAndLayouts) {
  const FreshRank rank;
  const TemporaryFolder folder;
  nn::GPT2LMHeadModel model(small_gpt2());
  save_pretrained(model, folder.file("m"), {.max_shard_bytes = 4000});
  const JsonObject config = JsonObject::from_file(folder.file("m/config.json"));
  std::string type;
  EXPECT_TRUE(config.read("model_type", type) && type == "gpt2");
  EXPECT_TRUE(config.read("dtype", type) && type == "float32");
  const JsonObject index = JsonObject::from_file(folder.file("m/model.safetensors.index.json"));
  JsonObject map;
  ASSERT_TRUE(index.read("weight_map", map));
  EXPECT_FALSE(map.has("lm_head.weight"));
  std::string file;
  ASSERT_TRUE(map.read("transformer.h.1.attn.c_attn.weight", file));
  const SafetensorsFile read = read_safetensors(folder.file("m/" + file));
  const Literal* weight = read.find("transformer.h.1.attn.c_attn.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->type(), Type::array(DType::kF32, {12, 36}));
  EXPECT_EQ(read.metadata.at("format"), "pt");
  for (const auto& entry : fs::directory_iterator(folder.file("m")))
    EXPECT_EQ(entry.path().string().find(".partial"), std::string::npos) << entry.path();
}

// transformers 5 converts the weights to "dtype" when it loads them, earlier versions to "torch_dtype". A folder of
// transformers 5 names the type of its own weights.
TEST(Pretrained, TheConfigurationHasTheTypeOfTheSavedWeights) {
  const FreshRank rank;
  const TemporaryFolder folder;
  save_pretrained(nn::GPT2LMHeadModel(small_gpt2()), folder.file("a"));
  JsonObject config = JsonObject::from_file(folder.file("a/config.json"));
  config.set("dtype", "bfloat16");
  write_file(folder.file("a/config.json"), config.str());
  for (const auto& [dtype, name] :
       {std::pair{DType::kF32, "float32"}, {DType::kF64, "float64"}, {DType::kBF16, "bfloat16"}}) {
    const auto model = from_pretrained<nn::GPT2LMHeadModel>(folder.file("a"));
    model->to(dtype);
    save_pretrained(*model, folder.file("b"));
    const JsonObject saved = JsonObject::from_file(folder.file("b/config.json"));
    for (const char* key : {"dtype", "torch_dtype"}) {
      std::string type;
      EXPECT_TRUE(saved.read(key, type) && type == name) << key << " " << type;
    }
  }
}

// The file of GPT2Model has no prefix, masks that nothing needs, and may have 16-bit floats.
TEST(Pretrained, FilesOfTheBodyAloneAndOfOtherFloatsAreConverted) {
  const FreshRank rank;
  const TemporaryFolder folder;
  nn::GPT2LMHeadModel model(small_gpt2());
  SafetensorsFile file;
  for (const auto& [name, value] : values_of(model)) {
    const NamedTensor entry = *model.state_dict().find(name);
    Literal half(Type::array(DType::kBF16, entry.exported_dims));
    for (std::int64_t i = 0; i < value.type().element_count(); ++i)
      half.mutable_data<BFloat16>()[static_cast<std::size_t>(i)] =
          static_cast<BFloat16>(value.data<float>()[static_cast<std::size_t>(i)]);
    file.tensors.emplace_back(name.substr(std::string("transformer.").size()), std::move(half));
  }
  file.tensors.emplace_back("h.0.attn.bias", Literal(Type::array(DType::kPred, {1, 1, 7, 7})));
  fs::create_directory(folder.file("m"));
  write_safetensors(folder.file("m/model.safetensors"), file);
  nn::GPT2LMHeadModel loaded(small_gpt2());
  EXPECT_EQ(load_pretrained(loaded, folder.file("m")).converted_from, std::set<DType>{DType::kBF16});
  for (const auto& [name, value] : values_of(loaded)) {
    const Literal original = values_of(model).at(name);
    for (std::size_t i = 0; i < value.data<float>().size(); ++i)
      ASSERT_EQ(value.data<float>()[i], static_cast<float>(static_cast<BFloat16>(original.data<float>()[i]))) << name;
  }
}

std::string error_of_loading(const std::string& folder) {
  nn::GPT2LMHeadModel model(small_gpt2());
  try {
    load_pretrained(model, folder);
    (void)values_of(model);
  } catch (const InternalError& error) {
    return std::string("internal: ") + error.what();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class DamagedFolder : public ::testing::Test {
 protected:
  DamagedFolder() {
    nn::GPT2LMHeadModel model(small_gpt2());
    save_pretrained(model, path_, {.max_shard_bytes = 4000});
  }
  void replace(const std::string& file, const std::string& from, const std::string& to) {
    std::string text = read_file(path_ + "/" + file);
    const auto place = text.find(from);
    ASSERT_NE(place, std::string::npos);
    write_file(path_ + "/" + file, text.replace(place, from.size(), to));
  }
  // The second of several files.
  [[nodiscard]] std::string second_file() const {
    for (const auto& entry : fs::directory_iterator(path_))
      if (entry.path().filename().string().starts_with("model-00002-of-")) return entry.path().string();
    return "";
  }
  FreshRank rank_;
  TemporaryFolder folder_;
  std::string path_ = folder_.file("m");
};

TEST_F(DamagedFolder, AnIndexMustNotLeaveItsFolder) {
  replace("model.safetensors.index.json", "\"model-00001-", "\"../m/model-00001-");
  EXPECT_EQ(error_of_loading(path_).find(path_ + "/model.safetensors.index.json: weight_map names the file \"../m/"),
            0U);
}

TEST_F(DamagedFolder, AnIndexThatNamesATensorTwiceIsRefused) {
  replace("model.safetensors.index.json", "\"transformer.ln_f.bias\"", "\"transformer.ln_f.weight\"");
  EXPECT_EQ(error_of_loading(path_),
            path_ + "/model.safetensors.index.json: the key \"transformer.ln_f.weight\" occurs twice in an object");
}

TEST_F(DamagedFolder, AMissingFileIsNamed) {
  const std::string file = second_file();
  fs::remove(file);
  EXPECT_EQ(error_of_loading(path_), "cannot read " + file + ": No such file or directory");
}

TEST_F(DamagedFolder, ALinkToNothingIsNamed) {
  const std::string file = path_ + "/model.safetensors";
  fs::create_symlink("/no/such", file);
  const std::string what = " is a symbolic link to /no/such, which does not exist";
  EXPECT_EQ(error_of_loading(path_), "cannot read " + file + ": " + file + what);
  fs::create_symlink("/no/such", path_ + "-link");
  EXPECT_EQ(error_of_loading(path_ + "-link"), path_ + "-link" + what);
}

TEST_F(DamagedFolder, ATruncatedFileIsNamed) {
  const std::string file = second_file();
  fs::resize_file(file, 2000);
  EXPECT_TRUE(error_of_loading(path_).starts_with(file + ": tensor ")) << error_of_loading(path_);
}

TEST_F(DamagedFolder, PickleFilesAreRefusedWithTheWayToConvertThem) {
  for (const auto& entry : fs::directory_iterator(path_)) fs::remove(entry.path());
  write_file(path_ + "/pytorch_model.bin", "PK");
  EXPECT_NE(
      error_of_loading(path_).find("has only pytorch_model.bin, a pickle file that could run any code; convert it "
                                   "with: python3 -c"),
      std::string::npos)
      << error_of_loading(path_);
}

TEST(Pretrained, AFolderThatCannotBeWrittenIsAnErrorOnAllRanks) {
  std::vector<std::string> errors(3);
  on_ranks(3, [&](int rank) {
    nn::GPT2LMHeadModel model(small_gpt2());
    try {
      save_pretrained(model, "/proc/nothing/here");
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  for (const auto& error : errors)
    EXPECT_EQ(error.find("cannot save to /proc/nothing/here: rank 0 on host "), 0U) << error;
}

TEST(Pretrained, AFullDiskKeepsTheOldFilesAndLeavesNoOthers) {
  const TemporaryFolder folder;
  const std::string path = folder.file("m");
  on_ranks(3, [&](int rank) {
    nn::GPT2LMHeadModel model(small_gpt2());
    save_pretrained(model, path);
    const std::string before = read_file(path + "/model.safetensors");
    std::optional<testing::LoweredLimit> limit;
    if (rank == 0) limit.emplace(RLIMIT_FSIZE, 3000);
    const std::string error = testing::error_of([&] { save_pretrained(model, path); });
    EXPECT_NE(error.find("model.safetensors.partial: File too large"), std::string::npos) << error;
    EXPECT_EQ(read_file(path + "/model.safetensors"), before);
  });
  EXPECT_EQ(std::distance(fs::directory_iterator(path), {}), 2);  // with config.json
}

TEST(Pretrained, OnlyFilesOfAnEarlierSaveAreReplaced) {
  const TemporaryFolder folder;
  const FreshRank rank;
  const std::string path = folder.file("m");
  nn::GPT2LMHeadModel model(small_gpt2());
  save_pretrained(model, path, {.max_shard_bytes = 3000});
  write_file(path + "/model-mine.safetensors", "x");
  EXPECT_TRUE(fs::exists(path + "/model.safetensors.index.json"));
  save_pretrained(model, path);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) names.insert(entry.path().filename().string());
  EXPECT_EQ(names, (std::set<std::string>{"config.json", "model-mine.safetensors", "model.safetensors"}));
}

// As in Hugging Face, whose later save of one file leaves the index of an earlier one.
TEST(Pretrained, ASingleFileComesBeforeAnIndex) {
  const TemporaryFolder folder;
  const FreshRank rank;
  nn::GPT2LMHeadModel model(small_gpt2());
  save_pretrained(model, folder.file("m"), {.max_shard_bytes = 2000});
  ASSERT_TRUE(fs::exists(folder.file("m/model.safetensors.index.json")));
  model.parameters().front().assign(model.parameters().front() + 1.0);
  mark_step();
  save_pretrained(model, folder.file("one"));
  fs::copy_file(folder.file("one/model.safetensors"), folder.file("m/model.safetensors"));
  EXPECT_EQ(values_of(*from_pretrained<nn::GPT2LMHeadModel>(folder.file("m"))), values_of(model));
}

// What loading a folder into a model with a tied head prints.
std::string warning_of_loading(const std::string& folder) {
  nn::GPT2LMHeadModel tied(small_gpt2());
  ::testing::internal::CaptureStderr();
  load_pretrained(tied, folder);
  return ::testing::internal::GetCapturedStderr();
}

TEST(Pretrained, AHeadThatAModelIgnoresIsTold) {
  const TemporaryFolder folder;
  const FreshRank rank;
  nn::GPT2Config config = small_gpt2();
  config.tie_word_embeddings = false;
  nn::GPT2LMHeadModel untied(config);
  save_pretrained(untied, folder.file("m"));
  EXPECT_EQ(
      warning_of_loading(folder.file("m")),
      "warning: " + folder.file("m/model.safetensors") +
          ": lm_head.weight is ignored, because the model ties it to transformer.wte.weight, which has other values "
          "in the file; if the model was trained untied, set tie_word_embeddings to false in config.json\n");
  Tensor head = untied.head_weight();
  head.assign(untied.transformer().wte().weight());
  save_pretrained(untied, folder.file("equal"));
  EXPECT_EQ(warning_of_loading(folder.file("equal")), "");
}

nn::BertConfig untied_bert() {
  nn::BertConfig config = nn::BertConfig::tiny(7);
  config.tie_word_embeddings = false;
  return config;
}

// Before transformers 5, the decoder's bias was always the one of the predictions, and files contain it once.
TEST(Pretrained, TheBiasOfAnUntiedBertIsSavedAndReadFromOlderFiles) {
  const TemporaryFolder folder;
  const FreshRank rank;
  nn::BertForMaskedLM model(untied_bert());
  const std::string unused = "cls.predictions.bias", used = "cls.predictions.decoder.bias";
  model.parameter(unused).assign(Tensor::from<float>({7}, {1, 2, 3, 4, 5, 6, 7}));
  model.parameter(used).assign(Tensor::from<float>({7}, {7, 6, 5, 4, 3, 2, 1}));
  save_pretrained(model, folder.file("m"));
  const auto biases = [&] {
    const auto loaded = from_pretrained<nn::BertForMaskedLM>(folder.file("m"));
    return std::pair(loaded->parameter(unused).to_vector<float>(), loaded->parameter(used).to_vector<float>());
  };
  EXPECT_EQ(biases(), std::pair(std::vector<float>({1, 2, 3, 4, 5, 6, 7}), std::vector<float>({7, 6, 5, 4, 3, 2, 1})));
  SafetensorsFile older = read_safetensors(folder.file("m/model.safetensors"));
  std::erase_if(older.tensors, [&](const auto& entry) { return entry.first == used; });
  write_safetensors(folder.file("m/model.safetensors"), older);
  EXPECT_EQ(biases(), std::pair(std::vector<float>({1, 2, 3, 4, 5, 6, 7}), std::vector<float>({1, 2, 3, 4, 5, 6, 7})));
}

TEST(Pretrained, ACheckpointIsNoModelFolder) {
  const TemporaryFolder folder;
  const FreshRank rank;
  nn::GPT2LMHeadModel model(small_gpt2());
  save_checkpoint(folder.file("c"), {.states = {{"model", model.state_dict()}}, .documents = {}});
  const std::string error = testing::error_of([&] { load_pretrained(model, folder.file("c")); });
  EXPECT_NE(error.find("is a checkpoint, not a model folder; write one with: tessera checkpoint consolidate"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace tessera
