// SPDX-License-Identifier: Apache-2.0
// Recurrent networks train alike on every mesh, and their files do not depend on the layout.
#include <gtest/gtest.h>

#include "nn/layer_checks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/nn/linear.h"
#include "tessera/nn/recurrent/recurrent.h"

namespace tessera::nn {
namespace {

// Odd sizes: 5 rows over 2 devices, and 4 hidden units over 3.
class RecurrentNet : public Callable<RecurrentNet> {
 public:
  RecurrentNet() {
    register_module("lstm", lstm_);
    register_module("gru", gru_);
    register_module("rnn", rnn_);
    register_module("head", head_);
  }
  Tensor forward(const Tensor& x) {
    const Tensor first = lstm_(x).first;
    const Tensor second = gru_(first).first;
    const auto [third, end] = rnn_(second);
    return mean(square(head_(third))) + mean(square(end));
  }
  void shard(const Mesh& mesh) {
    for (const auto& [name, parameter] : named_parameters()) {
      if (parameter.ndim() == 3) mark_sharding(parameter, mesh, {{}, "model", {}});
      if (name.find("bias_ih") != std::string::npos) mark_sharding(parameter, mesh, {{}, "model"});
    }
  }

 private:
  LSTM lstm_{3, 4, {.num_layers = 2, .batch_first = true, .dropout = 0.2, .bidirectional = true, .dtype = kF64}};
  GRU gru_{8, 4, {.batch_first = true, .dtype = kF64}};
  RNN rnn_{4, 5, {.batch_first = true, .dtype = kF64}};
  Linear head_{5, 2, {.dtype = kF64}};
};

Numbers trained_recurrent_net(const std::string& mesh_text, const std::string& rows) {
  const Mesh mesh = Mesh::parse(mesh_text);
  RecurrentNet net;
  if (mesh.size() > 1) net.shard(mesh);
  return trained_values(net, [&](int step) {
    const Tensor x = varied({5, 7, 3}, step);
    mark_sharding(x, mesh, PartitionSpec::parse(rows));
    return net(x);
  });
}

TEST(RecurrentLayouts, TrainAsOneRank) {
  Numbers expected;
  {
    const FreshRank rank;
    expected = trained_recurrent_net("data=1,model=1", "data,-,-");
  }
  for (const auto& [mesh, rows] :
       {std::pair{"data=2,model=3", "data,-,-"}, std::pair{"data=6,model=1", "data,-,-"},
        std::pair{"data=2,model=3", "-,data,-"}, std::pair{"data=3,model=2", "data,-,model"}})
    on_ranks(6, [&, mesh = mesh, rows = rows](int) {
      expect_close(trained_recurrent_net(mesh, rows), expected, std::string(mesh) + " " + rows);
    });
}

TEST(RecurrentLayouts, AStateDictGivesAnotherModuleTheSameResults) {
  const FreshRank rank;
  LSTM first(3, 4, {.bidirectional = true, .dtype = kF64}), second(3, 4, {.bidirectional = true, .dtype = kF64});
  const Tensor x = varied({7, 5, 3});
  EXPECT_NE(values_of(first(x).first), values_of(second(x).first));
  second.load_state_dict(first.state_dict());
  EXPECT_EQ(values_of(first(x).first), values_of(second(x).first));
}

}  // namespace
}  // namespace tessera::nn
