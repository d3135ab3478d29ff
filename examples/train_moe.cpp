// SPDX-License-Identifier: Apache-2.0
// A transformer with a mixture of experts in each block, written from the layers of the library and trained on the bytes
// of a text. The experts are sharded over the axis `expert`, and tokens travel to them by all-to-all:
//
//   mpirun -np 4 train_moe --train_file build/kjv.txt --mesh data=2,expert=2 --experts 8 --top_k 2 --capacity_factor 1.25
#include <cstdio>

#include "tessera/base/argument_parser.h"
#include "tessera/base/files.h"
#include "tessera/tessera.h"

namespace ts = tessera;
namespace nn = tessera::nn;
using ts::Tensor;

namespace {

struct Flags {
  std::string train_file, mesh = "data=-1,expert=1";
  std::int64_t experts = 8, top_k = 2, steps = 100, batch = 12, block_size = 64, virtual_ranks = 0;
  std::int64_t width = 96, heads = 4, layers = 2;
  double capacity_factor = 1.25, aux_loss = 0.01, z_loss = 1e-3, learning_rate = 2e-3;
};

class Block : public nn::Callable<Block> {
 public:
  explicit Block(const Flags& flags)
      : attention_(flags.width, flags.heads, {.batch_first = true}),
        moe_(flags.width, 2 * flags.width,
             {.experts = flags.experts, .top_k = flags.top_k, .capacity_factor = flags.capacity_factor}),
        before_attention_(flags.width),
        before_moe_(flags.width) {
    register_module("attention", attention_);
    register_module("moe", moe_);
    register_module("before_attention", before_attention_);
    register_module("before_moe", before_moe_);
  }
  std::pair<Tensor, nn::Routing> forward(const Tensor& x) {
    const Tensor normal = before_attention_(x);
    const Tensor attended = x + attention_(normal, normal, normal, nn::MultiheadAttention::Masks{.is_causal = true});
    const nn::SparseMoe::Output mixed = moe_(before_moe_(attended));
    return {attended + mixed.output, mixed.routing};
  }
  nn::SparseMoe& moe() { return moe_; }

 private:
  nn::MultiheadAttention attention_;
  nn::SparseMoe moe_;
  nn::RMSNorm before_attention_, before_moe_;
};

class MoeModel : public nn::Callable<MoeModel> {
 public:
  struct Losses {
    Tensor total, text, balance;
  };
  explicit MoeModel(const Flags& flags)
      : flags_(flags),
        tokens_(256, flags.width, {.standard_deviation = 0.02}),
        positions_(flags.block_size, flags.width, {.standard_deviation = 0.02}),
        norm_(flags.width),
        head_(flags.width, 256, {.bias = false}) {
    register_module("tokens", tokens_);
    register_module("positions", positions_);
    for (std::int64_t i = 0; i < flags.layers; ++i) blocks_.emplace(flags);
    register_module("blocks", blocks_);
    register_module("norm", norm_);
    register_module("head", head_);
  }
  Losses forward(const Tensor& tokens) {
    const std::int64_t time = tokens.dim(1);
    Tensor x = tokens_(tokens) + positions_.weight();
    std::vector<nn::Routing> routing;
    for (auto& block : blocks_) {
      auto [next, decisions] = (*block)(x);
      x = next;
      routing.push_back(decisions);
    }
    Losses out;
    out.text = nn::cross_entropy(head_(norm_(x)).slice(1, 0, time - 1), tokens.slice(1, 1, time));
    out.balance = nn::load_balancing_loss(routing);
    out.total = out.text + out.balance * flags_.aux_loss + nn::router_z_loss(routing) * flags_.z_loss;
    return out;
  }
  void shard(const ts::Mesh& mesh) {
    for (auto& block : blocks_) nn::shard_experts(block->moe(), mesh, "expert");
  }

 private:
  Flags flags_;
  nn::Embedding tokens_, positions_;
  nn::ModuleList<Block> blocks_;
  nn::RMSNorm norm_;
  nn::Linear head_;
};

// Rows of the text that follow no order.
Tensor batch_of(const std::string& text, const Flags& flags, std::int64_t step) {
  const auto rows_in_text = static_cast<std::int64_t>(text.size()) / flags.block_size;
  std::vector<std::int32_t> tokens;
  for (std::int64_t row = 0; row < flags.batch; ++row) {
    const std::int64_t first = (step * flags.batch + row) * 7919 % rows_in_text * flags.block_size;
    for (std::int64_t i = 0; i < flags.block_size; ++i)
      tokens.push_back(static_cast<unsigned char>(text[static_cast<std::size_t>(first + i)]));
  }
  return Tensor::from<std::int32_t>({flags.batch, flags.block_size}, tokens);
}

int train(int argc, char** argv) {
  const ts::Runtime runtime(argc, argv);
  Flags flags;
  ts::ArgumentParser parser("train_moe", "Trains a mixture of experts on the bytes of a text, over a mesh.");
  parser.flag("train_file", flags.train_file, "text to train on")
      .flag("mesh", flags.mesh, "sizes of the axes data and expert, as in data=2,expert=2")
      .flag("experts", flags.experts, "number of experts in each block")
      .flag("top_k", flags.top_k, "number of experts for each token")
      .flag("capacity_factor", flags.capacity_factor,
            "most tokens that an expert takes, as a multiple of the mean; 0: no limit")
      .flag("steps", flags.steps, "number of updates")
      .flag("batch", flags.batch, "rows of a batch, over all ranks")
      .flag("learning_rate", flags.learning_rate, "learning rate of AdamW")
      .flag("virtual_ranks", flags.virtual_ranks, "run this many ranks as threads of this process");
  if (!parser.parse(argc, argv)) {
    if (runtime.is_master()) std::fputs(parser.help().c_str(), stdout);
    return 0;
  }
  const ts::Mesh mesh = ts::Mesh::parse(flags.mesh, runtime.rank_count());
  const std::string text = ts::read_file(flags.train_file);
  MoeModel model(flags);
  model.shard(mesh);
  ts::optim::AdamW optimizer(model.parameters(), {.learning_rate = flags.learning_rate});
  for (std::int64_t step = 1; step <= flags.steps; ++step) {
    const Tensor tokens = batch_of(text, flags, step);
    ts::mark_sharding(tokens, mesh, {ts::PartitionSpec::Entry(ts::SpecEntry{"data", "expert"}), {}});
    const MoeModel::Losses losses = model(tokens);
    losses.total.backward();
    optimizer.step();
    optimizer.zero_grad();
    ts::mark_step();
    if ((step == 1 || step % 25 == 0 || step == flags.steps) && runtime.is_master())
      std::printf("step %4ld  loss %.4f  balance %.3f (even: %ld)\n", step, losses.text.item(), losses.balance.item(),
                  flags.top_k);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return tessera::launch(argc, argv, train); }
