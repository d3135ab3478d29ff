// SPDX-License-Identifier: Apache-2.0
// Both wrap policies on a small GPT-2: the modules that become units, their sizes, and one training step:
//
//   fsdp_auto_wrap --virtual_ranks 4          or          mpirun -np 4 fsdp_auto_wrap
#include <cstdio>

#include "tessera/base/argument_parser.h"
#include "tessera/tessera.h"

namespace ts = tessera;

namespace {

ts::nn::GPT2Config small_config() {
  ts::nn::GPT2Config config;
  config.vocab_size = 256;
  config.n_positions = 32;
  config.n_embd = 64;
  config.n_layer = 3;
  config.n_head = 4;
  config.tie_word_embeddings = false;  // tied weights would have to share a unit
  return config;
}

void show(const ts::Runtime& runtime, const char* title, const ts::WrapPolicy& policy) {
  ts::manual_seed(1);
  ts::nn::GPT2LMHeadModel model(small_config());
  ts::FullyShardedDataParallel wrapped(model, {.auto_wrap_policy = policy});
  ts::optim::AdamW optimizer(wrapped.parameters(), {.learning_rate = 1e-3});
  std::vector<std::int32_t> text;
  for (int i = 0; i < 4 * 32; ++i) text.push_back(i % 50);
  const ts::Tensor tokens = ts::Tensor::from<std::int32_t>({4, 32}, text);
  const ts::Mesh mesh = ts::default_mesh();
  ts::mark_sharding(tokens, mesh, {mesh.axes().front().name, {}});
  const ts::Tensor loss = wrapped(tokens, tokens);
  loss.backward();
  optimizer.step();
  optimizer.zero_grad();
  ts::mark_step();
  if (!runtime.is_master()) return;
  std::printf("%s\n%s\nloss of the first step: %.6f\n\n", title, wrapped.str().c_str(), loss.item());
}

int wrap(int argc, char** argv) {
  const ts::Runtime runtime(argc, argv);
  std::int64_t virtual_ranks = 0;  // launch() reads it
  ts::ArgumentParser parser("fsdp_auto_wrap", "Wraps a small GPT-2 by both policies.");
  parser.flag("virtual_ranks", virtual_ranks, "run this many ranks as threads of this process");
  if (!parser.parse(argc, argv)) {
    if (runtime.is_master()) std::fputs(parser.help().c_str(), stdout);
    return 0;
  }
  ts::set_default_mesh(ts::Mesh({{"fsdp", runtime.rank_count()}}));
  show(runtime,
       "size_based_auto_wrap_policy(20000): every module with at least 20000 parameters that are in no unit yet",
       ts::size_based_auto_wrap_policy(20000));
  show(runtime, "transformer_auto_wrap_policy({GPT2Block})", ts::transformer_auto_wrap_policy({"GPT2Block"}));
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return tessera::launch(argc, argv, wrap); }
