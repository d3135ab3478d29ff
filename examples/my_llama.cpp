// SPDX-License-Identifier: Apache-2.0
// A Llama written by hand from the layers of the library, trained on the bytes of a text, over any mesh:
//
//   mpirun -np 4 my_llama --train_file build/kjv.txt --mesh data=2,fsdp=2 --steps 200
//
// The library also has this model, with Hugging Face's names and files: nn::LlamaForCausalLM.
#include <cstdio>

#include "tessera/base/argument_parser.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/tessera.h"

namespace ts = tessera;
namespace nn = tessera::nn;
using ts::Tensor;

namespace {

struct Sizes {
  std::int64_t vocabulary = 256, width = 96, inner = 256, layers = 3, heads = 6, groups = 2, time = 64;
  [[nodiscard]] std::int64_t head() const { return width / heads; }
};

class Attention : public nn::Callable<Attention> {
 public:
  explicit Attention(const Sizes& sizes)
      : sizes_(sizes),
        q_(sizes.width, sizes.heads * sizes.head(), {.bias = false}),
        k_(sizes.width, sizes.groups * sizes.head(), {.bias = false}),
        v_(sizes.width, sizes.groups * sizes.head(), {.bias = false}),
        out_(sizes.heads * sizes.head(), sizes.width, {.bias = false}) {
    register_module("q_proj", q_);
    register_module("k_proj", k_);
    register_module("v_proj", v_);
    register_module("o_proj", out_);
  }
  Tensor forward(const Tensor& x, const nn::RotaryEmbedding::Tables& rotary) {
    const std::int64_t b = x.dim(0), t = x.dim(1);
    const Tensor q = nn::apply_rotary(q_(x).reshape({b, t, sizes_.heads, sizes_.head()}), rotary);
    const Tensor k = nn::apply_rotary(k_(x).reshape({b, t, sizes_.groups, sizes_.head()}), rotary);
    const Tensor v = v_(x).reshape({b, t, sizes_.groups, sizes_.head()});
    return out_(nn::attend(q, k, v, {.is_causal = true}).reshape({b, t, sizes_.heads * sizes_.head()}));
  }

 private:
  Sizes sizes_;
  nn::Linear q_, k_, v_, out_;
};

class Block : public nn::Callable<Block> {
 public:
  explicit Block(const Sizes& sizes)
      : attention_(sizes), mlp_(sizes.width, sizes.inner), before_attention_(sizes.width), before_mlp_(sizes.width) {
    register_module("self_attn", attention_);
    register_module("mlp", mlp_);
    register_module("input_layernorm", before_attention_);
    register_module("post_attention_layernorm", before_mlp_);
  }
  Tensor forward(const Tensor& x, const nn::RotaryEmbedding::Tables& rotary) {
    const Tensor attended = x + attention_(before_attention_(x), rotary);
    return attended + mlp_(before_mlp_(attended));
  }

 private:
  Attention attention_;
  nn::SwiGLU mlp_;
  nn::RMSNorm before_attention_, before_mlp_;
};

class MyLlama : public nn::Callable<MyLlama> {
 public:
  explicit MyLlama(const Sizes& sizes)
      : embedding_(sizes.vocabulary, sizes.width, {.standard_deviation = 0.02}),
        norm_(sizes.width),
        head_(sizes.width, sizes.vocabulary, {.bias = false}),
        rotary_(sizes.head(), sizes.time) {
    register_module("embed_tokens", embedding_);
    for (std::int64_t i = 0; i < sizes.layers; ++i) blocks_.emplace(sizes);
    register_module("layers", blocks_);
    register_module("norm", norm_);
    register_module("lm_head", head_);
    register_module("rotary_emb", rotary_);
  }
  /// The mean loss of predicting each token from those before it.
  Tensor forward(const Tensor& tokens) {
    Tensor x = embedding_(tokens);
    const auto rotary = rotary_(tokens.dim(1), x.dtype());
    for (auto& block : blocks_) x = (*block)(x, rotary);
    const Tensor logits = head_(norm_(x)).slice(1, 0, tokens.dim(1) - 1);
    return nn::cross_entropy(logits, tokens.slice(1, 1, tokens.dim(1)));
  }

 private:
  nn::Embedding embedding_;
  nn::ModuleList<Block> blocks_;
  nn::RMSNorm norm_;
  nn::Linear head_;
  nn::RotaryEmbedding rotary_;
};

int train(int argc, char** argv) {
  const ts::Runtime runtime(argc, argv);
  std::string text_file, mesh_text = "fsdp=-1";
  std::int64_t steps = 100, batch = 12, virtual_ranks = 0;
  ts::ArgumentParser parser("my_llama", "Trains a hand-written Llama on the bytes of a text.");
  parser.flag("train_file", text_file, "text to train on")
      .flag("mesh", mesh_text, "sizes of the axes data and fsdp, as in data=2,fsdp=2")
      .flag("steps", steps, "number of updates")
      .flag("batch", batch, "rows of a batch, over all ranks")
      .flag("virtual_ranks", virtual_ranks, "run this many ranks as threads of this process");
  if (!parser.parse(argc, argv)) {
    if (runtime.is_master()) std::fputs(parser.help().c_str(), stdout);
    return 0;
  }
  ts::require(!text_file.empty(), "my_llama needs --train_file, the text to train on");
  const Sizes sizes;
  const ts::Mesh mesh = ts::Mesh::parse(mesh_text, runtime.rank_count());
  ts::set_default_mesh(mesh);
  const std::string text = ts::read_file(text_file);
  const auto rows_in_text = static_cast<std::int64_t>(text.size()) / sizes.time;

  MyLlama model(sizes);
  ts::FullyShardedDataParallel wrapped(model, {.mesh = mesh});  // units: the blocks
  ts::optim::AdamW optimizer(model.parameters(), {.learning_rate = 2e-3});
  for (std::int64_t step = 1; step <= steps; ++step) {
    std::vector<std::int32_t> tokens;
    for (std::int64_t row = 0; row < batch; ++row) {
      const std::int64_t first = (step * batch + row) * 7919 % rows_in_text * sizes.time;
      for (std::int64_t i = 0; i < sizes.time; ++i)
        tokens.push_back(static_cast<unsigned char>(text[static_cast<std::size_t>(first + i)]));
    }
    const Tensor loss = wrapped(Tensor::from<std::int32_t>({batch, sizes.time}, tokens));
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    ts::mark_step();
    const bool is_shown = step == 1 || step % 25 == 0 || step == steps;
    if (is_shown && runtime.is_master()) std::printf("step %4ld  loss %.4f\n", step, loss.item());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return tessera::launch(argc, argv, train); }
