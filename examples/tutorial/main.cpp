// SPDX-License-Identifier: Apache-2.0
// The program of docs/tutorial.md: a small transformer that learns to continue a text, byte by byte.
#include <cstdio>
#include <string>
#include <vector>

#include "tessera/base/argument_parser.h"
#include "tessera/base/files.h"
#include "tessera/tessera.h"

namespace ts = tessera;
namespace nn = tessera::nn;
using ts::Tensor;

namespace {

constexpr std::int64_t kBytes = 256, kWidth = 48, kHeads = 4, kBlocks = 2, kTime = 32;

class Block : public nn::Callable<Block> {
 public:
  Block() {
    register_module("norm1", norm1_);
    register_module("attention", attention_);
    register_module("norm2", norm2_);
    register_module("mlp", mlp_);
  }
  Tensor forward(const Tensor& x) {  // [rows, time, width]
    const Tensor h = norm1_(x);
    const Tensor y = x + attention_(h, h, h, nn::MultiheadAttention::Masks{.is_causal = true});
    return y + mlp_(norm2_(y));
  }
  nn::MLP& mlp() { return mlp_; }

 private:
  nn::LayerNorm norm1_{kWidth}, norm2_{kWidth};
  nn::MultiheadAttention attention_{kWidth, kHeads, {.batch_first = true}};
  nn::MLP mlp_{kWidth, 4 * kWidth};
};

class Model : public nn::Callable<Model> {
 public:
  Model() {
    register_module("bytes", bytes_);
    register_module("places", places_);
    for (int i = 0; i < kBlocks; ++i) blocks_.emplace();
    register_module("blocks", blocks_);
    register_module("norm", norm_);
    register_module("head", head_);
  }
  Tensor forward(const Tensor& text) {  // s32 [rows, time] -> [rows, time, 256]
    Tensor x = bytes_(text) + places_(ts::arange(kTime));
    for (auto& block : blocks_) x = (*block)(x);
    return head_(norm_(x));
  }
  nn::ModuleList<Block>& blocks() { return blocks_; }

 private:
  nn::Embedding bytes_{kBytes, kWidth}, places_{kTime, kWidth};
  nn::ModuleList<Block> blocks_;
  nn::LayerNorm norm_{kWidth};
  nn::Linear head_{kWidth, kBytes};
};

// Rows of the text, and for each byte the one that follows it.
struct Batch {
  Tensor text, next;
};
Batch batch_of(const std::string& text, std::int64_t step, std::int64_t rows) {
  std::vector<std::int32_t> now, next;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto start = static_cast<std::size_t>((step * rows + row) * 7919) % (text.size() - kTime - 1);
    for (std::size_t i = start; i < start + kTime; ++i) {
      now.push_back(static_cast<unsigned char>(text[i]));
      next.push_back(static_cast<unsigned char>(text[i + 1]));
    }
  }
  return {Tensor::from(now, {rows, kTime}), Tensor::from(next, {rows, kTime})};
}

void shard(Model& model, const ts::Mesh& mesh) {
  for (auto& block : model.blocks()) {
    ts::mark_sharding(block->mlp().fc1().weight(), mesh, {"model", {}});  // [inner, width]: by rows
    ts::mark_sharding(block->mlp().fc2().weight(), mesh, {{}, "model"});  // [width, inner]: by columns
  }
}

void train(Model& model, const ts::Mesh& mesh, const std::string& text, std::int64_t steps, bool is_master) {
  ts::FullyShardedDataParallel wrapped(model, {.mesh = mesh, .axis = "data"});
  ts::optim::AdamW optimizer(model.parameters(), {.learning_rate = 3e-3});
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Batch batch = batch_of(text, step, 16);  // the complete batch, on every rank
    const Tensor loss = nn::cross_entropy(wrapped(batch.text), batch.next);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    ts::mark_step();  // the program of the step runs
    if (is_master && (step == 1 || step % 50 == 0)) std::printf("step %3ld  loss %.2f\n", step, loss.item());
  }
}

std::string continued(Model& model, std::string text, int count) {
  auto likeliest = ts::compile([&](const Tensor& bytes) { return ts::argmax(model(bytes), -1); }, {.name = "generate"});
  for (int i = 0; i < count; ++i) {
    const std::string seen = text.size() > kTime ? text.substr(text.size() - kTime) : text;
    std::vector<std::int32_t> bytes(kTime, 0);
    for (std::size_t k = 0; k < seen.size(); ++k) bytes[k] = static_cast<unsigned char>(seen[k]);
    const auto next = likeliest(Tensor::from(bytes, {1, kTime})).to_vector<std::int32_t>();
    text += static_cast<char>(next[seen.size() - 1]);
  }
  return text;
}

int run(int argc, char** argv) {
  const ts::Runtime runtime(argc, argv);
  std::string text_file, mesh_text = "data=-1,model=1", save_to, load_from, prompt;
  std::int64_t steps = 0, virtual_ranks = 0;
  ts::ArgumentParser parser("tutorial", "Trains a small transformer on the bytes of a text, and continues a text.");
  parser.flag("text", text_file, "text to train on")
      .flag("steps", steps, "number of updates")
      .flag("mesh", mesh_text,
            "sizes of the axes data and model, as in data=2,model=2; one size may be -1, which stands for all "
            "remaining ranks")
      .flag("save", save_to, "write the weights to this file")
      .flag("load", load_from, "start from the weights in this file")
      .flag("prompt", prompt, "text to continue")
      .flag("virtual_ranks", virtual_ranks, "run this many ranks as threads of this process");
  if (!parser.parse(argc, argv)) {
    if (runtime.is_master()) std::fputs(parser.help().c_str(), stdout);
    return 0;
  }
  const ts::Mesh mesh = ts::Mesh::parse(mesh_text, runtime.rank_count());
  ts::set_default_mesh(mesh);
  Model model;
  shard(model, mesh);
  if (!load_from.empty()) model.load_state_dict(ts::load(load_from));
  if (steps > 0) train(model, mesh, ts::read_file(text_file), steps, runtime.is_master());
  if (!save_to.empty()) ts::save(model.state_dict(), save_to);
  if (prompt.empty()) return 0;
  const std::string text = continued(model, prompt, 40);
  if (runtime.is_master()) std::printf("%s\n", text.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return ts::launch(argc, argv, run); }
