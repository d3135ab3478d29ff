// SPDX-License-Identifier: Apache-2.0
// Continues prompts with a causal language model, over a mesh of ranks:
//
//   generate --model_name_or_path gpt2 --prompt "In the beginning" --do_sample --top_k 40
//   mpirun -np 4 generate --model_name_or_path gpt2 --prompt "In the beginning" --mesh data=2,model=2
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "tessera/base/argument_parser.h"
#include "tessera/base/command_line.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/collectives/world.h"
#include "tessera/data/tokenizer.h"
#include "tessera/nn/generation/generate.h"
#include "tessera/nn/models/registry.h"
#include "tessera/sharding/mesh_text.h"
#include "tessera/tessera.h"
#include "tessera/trainer/model_names.h"

namespace ts = tessera;

namespace {

struct Arguments {
  std::string model_name_or_path;
  std::string config_name;
  std::string tokenizer_name;
  std::string prompt;
  std::int64_t batch = 1;
  std::string mesh;
  std::int64_t virtual_ranks = 0;  // launch() reads it
  bool report = false;
  std::int64_t window = 0;
  std::int64_t seed = 0;
  ts::nn::GenerationOptions options;
};

ts::ArgumentParser parser_of(Arguments& a) {
  ts::ArgumentParser parser("generate", "Continues a prompt with a causal language model, over a mesh of ranks.");
  parser.group("model")
      .flag("model_name_or_path", a.model_name_or_path,
            "folder with config.json and model.safetensors, or the name of a model in $HF_HOME/hub")
      .flag("config_name", a.config_name, "config.json of a model with random weights, instead of model_name_or_path")
      .flag("tokenizer_name", a.tokenizer_name,
            "bytes, a file, or the folder of one; default: the folder of the model, or bytes with config_name");
  parser.group("text")
      .flag("prompt", a.prompt, "text to continue")
      .flag("batch", a.batch, "number of texts that continue the prompt; with do_sample they differ")
      .flag("max_new_tokens", a.options.max_new_tokens, "number of tokens to add to each text")
      .flag("do_sample", a.options.do_sample, "draw tokens at random; otherwise take the token with the largest logit")
      .flag("temperature", a.options.temperature, "the logits are divided by this number")
      .flag("top_k", a.options.top_k,
            "draw only from this many tokens, those with the largest logits; 0: from all tokens")
      .flag("top_p", a.options.top_p,
            "draw only from the smallest set of most likely tokens whose probabilities add up to at least this number")
      .flag("window", a.window,
            "the most tokens on which a new token depends, from which the size of the cache follows; 0: one less "
            "than the number of positions of the model, whose last position has no label in training")
      .flag("seed", a.seed, "seed of the draws and of random weights");
  parser.group("devices")
      .flag("mesh", a.mesh,
            "axes and sizes, as in data=2,model=2: the batch is sharded over data, heads over model; default: model=-1")
      .flag("virtual_ranks", a.virtual_ranks, "run this many ranks as threads of this process")
      .flag("report", a.report,
            "print the time of the first token and the tokens per second as JSON, instead of the texts");
  return parser;
}

void check(const Arguments& a) {
  ts::require(a.model_name_or_path.empty() != a.config_name.empty(),
              "give either --model_name_or_path or --config_name");
  ts::require(!a.prompt.empty(), "give a text to continue with --prompt");
  ts::require(a.batch > 0, "--batch must be positive, got {}", a.batch);
  ts::nn::check_generation(a.options);
  if (!a.mesh.empty()) ts::read_option("--mesh", [&] { (void)ts::mesh_axes(a.mesh); });
  ts::require(!a.tokenizer_name.starts_with("bpe:"),
              "--tokenizer_name {} is trained on a text, but there is none; give the file or the folder of the "
              "vocabulary, such as the --output_dir of the training",
              a.tokenizer_name);
}

// The folders of models that are given by name.
void find_models(Arguments& a) {
  const auto find = [](std::string& name, const char* flag) {
    if (std::string found = ts::trainer::named_model_folder(name, "", flag); !found.empty()) name = std::move(found);
  };
  find(a.model_name_or_path, "model_name_or_path");
  find(a.tokenizer_name, "tokenizer_name");
}

std::unique_ptr<ts::nn::CausalLM> model_of(const Arguments& a) {
  ts::manual_seed(static_cast<std::uint64_t>(a.seed));
  const std::string& folder = a.model_name_or_path;
  const std::string config = folder.empty() ? a.config_name : folder + "/config.json";
  ts::require(std::filesystem::exists(config),
              "cannot read {}; --model_name_or_path must be a folder, or the name of a model in "
              "$HF_HOME/hub, and --config_name a file",
              config);
  auto model = ts::nn::make_causal_lm(ts::read_file(config), config, ts::DType::kF32, "gpt2");
  if (!folder.empty()) ts::load_pretrained(*model, folder);
  return model;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The first run compiles and reads the weights. Of a further run with one token and of one with all, the difference is
// the time of the other tokens.
void report(const ts::Runtime& runtime, ts::nn::Generator& generator, const std::vector<ts::nn::Tokens>& prompts,
            ts::nn::GenerationOptions options) {
  ts::nn::GenerationOptions one = options;
  one.max_new_tokens = 2;
  generator.generate(prompts, one);
  one.max_new_tokens = 1;
  const double first = seconds_of([&] { generator.generate(prompts, one); });
  const double all = seconds_of([&] { generator.generate(prompts, options); });
  const auto more = static_cast<double>(options.max_new_tokens - 1) * static_cast<double>(prompts.size());
  if (runtime.is_master())
    std::printf("{\"first_token_seconds\": %.6f, \"seconds\": %.6f, \"tokens_per_second\": %.3f}\n", first, all,
                more / (all - first));
}

int run(int argc, char** argv) {
  const ts::Runtime runtime(argc, argv);
  Arguments a;
  parser_of(a).parse(argc, argv);
  check(a);
  find_models(a);
  const ts::Mesh mesh =
      a.mesh.empty() ? ts::Mesh({{"model", runtime.rank_count()}}) : ts::Mesh::parse(a.mesh, runtime.rank_count());
  ts::set_default_mesh(mesh);
  const auto model = model_of(a);
  if (mesh.has_axis("model") && mesh.device_count() > 1) model->shard_tensor_parallel(mesh, "model");
  const std::string name = !a.tokenizer_name.empty() ? a.tokenizer_name
                           : a.config_name.empty()   ? a.model_name_or_path
                                                     : "bytes";
  const auto tokenizer = ts::data::make_tokenizer(name, "");
  a.options.known_tokens = std::min<std::int64_t>(tokenizer->vocab_size(), model->shape().vocabulary);
  a.options.seed = static_cast<std::uint64_t>(a.seed);
  if (const auto end = tokenizer->end_of_text(); end && !a.report) a.options.stop_tokens = {*end};
  ts::nn::Tokens prompt = tokenizer->document_prefix();
  for (const std::int32_t id : tokenizer->encode(a.prompt)) prompt.push_back(id);
  const std::vector<ts::nn::Tokens> prompts(static_cast<std::size_t>(a.batch), prompt);
  ts::nn::GeneratorOptions placement{.batch = a.batch, .window = a.window, .mesh = mesh};
  if (mesh.has_axis("data")) placement.batch_axes = {"data"};
  ts::nn::Generator generator(*model, placement);
  if (a.report) {
    a.options.known_tokens = 0;
    report(runtime, generator, prompts, a.options);
    return 0;
  }
  for (const auto& text : generator.generate(prompts, a.options))
    if (runtime.is_master()) std::printf("%s\n", tokenizer->decode(text).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // Errors of the command line are reported once, before ranks exist.
  try {
    Arguments a;
    ts::ArgumentParser parser = parser_of(a);
    if (!parser.parse(argc, argv)) {
      std::fputs(parser.help().c_str(), stdout);
      return ts::status_after_output(0);
    }
    ts::read_option("", [&] { check(a); });
  } catch (const std::exception& error) {
    return ts::fail_before_world(fmt::format("generate: {}", ts::message_for_user(error)), ts::exit_code_of(error));
  }
  return ts::launch(argc, argv, run);
}
