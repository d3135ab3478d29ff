// SPDX-License-Identifier: Apache-2.0
// Computes layers with given parameters and inputs, and their gradients. layers.py compares the values with PyTorch.
//
//   layer_values INPUTS.safetensors OUTPUTS.safetensors
//
// The metadata of INPUTS has an entry CASE for each case: a JSON object with `layer`, the name of a class in torch.nn,
// and the arguments of this class by their names. The tensors of the case are CASE/parameter.NAME,
// CASE/input.ARGUMENT, and CASE/output_gradient.N for each output N. OUTPUTS contains CASE/output.N,
// CASE/gradient.NAME and CASE/input_gradient.ARGUMENT. A gradient that is absent is zero.
#include <fmt/format.h>

#include <map>

#include "tessera/base/json_object.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/nn/images.h"
#include "tessera/nn/layers.h"
#include "tessera/tensor/safetensors.h"

namespace tessera {
namespace {

class Case {
 public:
  Case(const SafetensorsFile& file, const std::string& name, const std::string& options)
      : options_(JsonObject::parse(options, name)) {
    for (const auto& [tensor, literal] : file.tensors)
      if (tensor.starts_with(name + "/")) tensors_.emplace(tensor.substr(name.size() + 1), Tensor::from_host(literal));
    for (auto& [tensor, value] : tensors_)
      if (tensor.starts_with("input.") && value.dtype() != DType::kPred) value.set_requires_grad();
  }

  /// The argument `key`, or `fallback` if it is absent.
  template <class T>
  [[nodiscard]] T get(std::string_view key, T fallback) const {
    options_.read(key, fallback);
    return fallback;
  }
  [[nodiscard]] std::int64_t size(std::string_view key) const { return get<std::int64_t>(key, 0); }
  [[nodiscard]] Dims sizes(std::string_view key) const {
    const auto values = get<std::vector<std::int64_t>>(key, {});
    return {values.begin(), values.end()};
  }
  [[nodiscard]] DType dtype() const { return tensors_.at("output_gradient.0").dtype(); }
  [[nodiscard]] Tensor output_gradient(std::size_t i) const {
    return tensors_.at(fmt::format("output_gradient.{}", i));
  }
  /// Null if it is absent.
  [[nodiscard]] Tensor input(const std::string& name) const {
    const auto found = tensors_.find("input." + name);
    return found == tensors_.end() ? Tensor() : found->second;
  }
  /// The tensors whose names begin with `prefix`, without the prefix.
  [[nodiscard]] StateDict named(const std::string& prefix) const {
    StateDict out;
    for (const auto& [name, tensor] : tensors_)
      if (name.starts_with(prefix)) out.add({name.substr(prefix.size()), tensor, {}});
    return out;
  }

 private:
  JsonObject options_;
  std::map<std::string, Tensor> tensors_;
};

struct Layer {
  std::shared_ptr<nn::Module> module;
  std::function<std::vector<Tensor>()> run;
};
using MakeLayer = std::function<Layer(const Case&)>;
using Layers = std::map<std::string, MakeLayer>;

template <class L, class... Arguments>
Layer unary(const Case& one, Arguments&&... arguments) {
  const auto module = std::make_shared<L>(std::forward<Arguments>(arguments)...);
  return {module, [module, one] { return std::vector<Tensor>{(*module)(one.input("input"))}; }};
}

template <class L>
typename L::Options cell_options(const Case& one) {
  typename L::Options out;
  out.bias = one.get("bias", out.bias);
  out.dtype = one.dtype();
  if constexpr (requires { out.nonlinearity; }) out.nonlinearity = one.get("nonlinearity", out.nonlinearity);
  return out;
}

template <class L>
typename L::Options recurrent_options(const Case& one) {
  auto out = cell_options<L>(one);
  out.num_layers = one.get("num_layers", out.num_layers);
  out.batch_first = one.get("batch_first", out.batch_first);
  out.bidirectional = one.get("bidirectional", out.bidirectional);
  return out;
}

std::vector<Tensor> as_list(const Tensor& h) { return {h}; }
std::vector<Tensor> as_list(const nn::LSTMState& state) { return {state.first, state.second}; }
template <class State>
std::vector<Tensor> as_list(const std::pair<Tensor, State>& result)
  requires(!std::is_same_v<State, Tensor>)
{
  return {result.first, result.second.first, result.second.second};
}

// L takes an input and a state, and is created with input_size, hidden_size and options.
template <class L>
MakeLayer recurrent(typename L::Options (*options)(const Case&)) {
  return [options](const Case& one) -> Layer {
    const auto module = std::make_shared<L>(one.size("input_size"), one.size("hidden_size"), options(one));
    return {module, [module, one] {
              const Tensor x = one.input("input"), h = one.input("h_0");
              if constexpr (requires { module->forward(x, nn::LSTMState{}); })
                return as_list((*module)(x, nn::LSTMState{h, one.input("c_0")}));
              else
                return as_list((*module)(x, h));
            }};
  };
}

void add_recurrent(Layers& out) {
  out["RNN"] = recurrent<nn::RNN>(recurrent_options<nn::RNN>);
  out["LSTM"] = recurrent<nn::LSTM>(recurrent_options<nn::LSTM>);
  out["GRU"] = recurrent<nn::GRU>(recurrent_options<nn::GRU>);
  out["RNNCell"] = recurrent<nn::RNNCell>(cell_options<nn::RNNCell>);
  out["LSTMCell"] = recurrent<nn::LSTMCell>(cell_options<nn::LSTMCell>);
  out["GRUCell"] = recurrent<nn::GRUCell>(cell_options<nn::GRUCell>);
}

nn::TransformerOptions transformer_options(const Case& one) {
  nn::TransformerOptions out;
  out.dim_feedforward = one.get("dim_feedforward", out.dim_feedforward);
  out.dropout = one.get("dropout", out.dropout);
  out.activation = one.get("activation", out.activation);
  out.layer_norm_eps = one.get("layer_norm_eps", out.layer_norm_eps);
  out.batch_first = one.get("batch_first", out.batch_first);
  out.norm_first = one.get("norm_first", out.norm_first);
  out.bias = one.get("bias", out.bias);
  out.dtype = one.dtype();
  return out;
}

// With the argument final_norm: the norm after the last layer.
std::shared_ptr<nn::LayerNorm> final_norm(const Case& one) {
  if (!one.get("final_norm", false)) return nullptr;
  return std::make_shared<nn::LayerNorm>(one.size("d_model"), nn::LayerNorm::Options{.dtype = one.dtype()});
}

Layer run_encoder(const auto& module, const Case& one) {
  return {module, [module, one] {
            const nn::EncoderMasks masks{.src_mask = one.input("src_mask"),
                                         .src_key_padding_mask = one.input("src_key_padding_mask"),
                                         .is_causal = one.get("is_causal", false)};
            return as_list((*module)(one.input("src"), masks));
          }};
}

Layer run_decoder(const auto& module, const Case& one) {
  return {module, [module, one] {
            const nn::DecoderMasks masks{.tgt_mask = one.input("tgt_mask"),
                                         .memory_mask = one.input("memory_mask"),
                                         .tgt_key_padding_mask = one.input("tgt_key_padding_mask"),
                                         .memory_key_padding_mask = one.input("memory_key_padding_mask"),
                                         .tgt_is_causal = one.get("tgt_is_causal", false),
                                         .memory_is_causal = one.get("memory_is_causal", false)};
            return as_list((*module)(one.input("tgt"), one.input("memory"), masks));
          }};
}

Layer transformer(const Case& one) {
  const auto module =
      std::make_shared<nn::Transformer>(one.size("d_model"), one.size("nhead"), one.size("num_encoder_layers"),
                                        one.size("num_decoder_layers"), transformer_options(one));
  return {module, [module, one] {
            const nn::TransformerMasks masks{.src_mask = one.input("src_mask"),
                                             .tgt_mask = one.input("tgt_mask"),
                                             .memory_mask = one.input("memory_mask"),
                                             .src_key_padding_mask = one.input("src_key_padding_mask"),
                                             .tgt_key_padding_mask = one.input("tgt_key_padding_mask"),
                                             .memory_key_padding_mask = one.input("memory_key_padding_mask"),
                                             .src_is_causal = one.get("src_is_causal", false),
                                             .tgt_is_causal = one.get("tgt_is_causal", false),
                                             .memory_is_causal = one.get("memory_is_causal", false)};
            return as_list((*module)(one.input("src"), one.input("tgt"), masks));
          }};
}

void add_transformers(Layers& out) {
  out["TransformerEncoderLayer"] = [](const Case& one) {
    return run_encoder(
        std::make_shared<nn::TransformerEncoderLayer>(one.size("d_model"), one.size("nhead"), transformer_options(one)),
        one);
  };
  out["TransformerDecoderLayer"] = [](const Case& one) {
    return run_decoder(
        std::make_shared<nn::TransformerDecoderLayer>(one.size("d_model"), one.size("nhead"), transformer_options(one)),
        one);
  };
  out["TransformerEncoder"] = [](const Case& one) {
    return run_encoder(
        std::make_shared<nn::TransformerEncoder>(one.size("d_model"), one.size("nhead"), one.size("num_layers"),
                                                 transformer_options(one), final_norm(one)),
        one);
  };
  out["TransformerDecoder"] = [](const Case& one) {
    return run_decoder(
        std::make_shared<nn::TransformerDecoder>(one.size("d_model"), one.size("nhead"), one.size("num_layers"),
                                                 transformer_options(one), final_norm(one)),
        one);
  };
  out["Transformer"] = transformer;
}

template <class L>
Layer instance_norm(const Case& one) {
  const nn::InstanceNorm::Options options{
      .epsilon = one.get("eps", 1e-5), .affine = one.get("affine", false), .dtype = one.dtype()};
  return unary<L>(one, one.size("num_features"), options);
}

Layer bilinear(const Case& one) {
  const auto module =
      std::make_shared<nn::Bilinear>(one.size("in1_features"), one.size("in2_features"), one.size("out_features"),
                                     nn::Bilinear::Options{.bias = one.get("bias", true), .dtype = one.dtype()});
  return {module, [module, one] { return as_list((*module)(one.input("input1"), one.input("input2"))); }};
}

template <class L>
Layer pool1d(const Case& one) {
  Pool1dOptions options;
  options.kernel_size = one.size("kernel_size");
  options.stride = one.size("stride");
  options.padding = one.size("padding");
  options.ceil_mode = one.get("ceil_mode", false);
  options.count_include_pad = one.get("count_include_pad", true);
  return unary<L>(one, options);
}

void add_shaping(Layers& out) {
  out["InstanceNorm1d"] = instance_norm<nn::InstanceNorm1d>;
  out["InstanceNorm2d"] = instance_norm<nn::InstanceNorm2d>;
  out["Bilinear"] = bilinear;
  out["MaxPool1d"] = pool1d<nn::MaxPool1d>;
  out["AvgPool1d"] = pool1d<nn::AvgPool1d>;
  out["AdaptiveAvgPool1d"] = [](const Case& one) { return unary<nn::AdaptiveAvgPool1d>(one, one.size("output_size")); };
  out["PixelShuffle"] = [](const Case& one) { return unary<nn::PixelShuffle>(one, one.size("upscale_factor")); };
  out["Upsample"] = [](const Case& one) { return unary<nn::Upsample>(one, Size2d(one.sizes("scale_factor"))); };
  out["ZeroPad2d"] = [](const Case& one) {
    const Dims padding = one.sizes("padding");
    return padding.size() == 1 ? unary<nn::ZeroPad2d>(one, padding[0]) : unary<nn::ZeroPad2d>(one, padding);
  };
}

void add_activations(Layers& out) {
  out["ReLU"] = [](const Case& one) { return unary<nn::ReLU>(one); };
  out["GELU"] = [](const Case& one) {
    return unary<nn::GELU>(one, one.get<std::string>("approximate", "none") == "tanh");
  };
  out["SiLU"] = [](const Case& one) { return unary<nn::SiLU>(one); };
  out["Tanh"] = [](const Case& one) { return unary<nn::Tanh>(one); };
  out["Sigmoid"] = [](const Case& one) { return unary<nn::Sigmoid>(one); };
  out["LeakyReLU"] = [](const Case& one) { return unary<nn::LeakyReLU>(one, one.get("negative_slope", 0.01)); };
  out["ELU"] = [](const Case& one) { return unary<nn::ELU>(one, one.get("alpha", 1.0)); };
  out["SELU"] = [](const Case& one) { return unary<nn::SELU>(one); };
  out["Softplus"] = [](const Case& one) { return unary<nn::Softplus>(one, one.get("beta", 1.0)); };
  out["Hardsigmoid"] = [](const Case& one) { return unary<nn::Hardsigmoid>(one); };
  out["Hardswish"] = [](const Case& one) { return unary<nn::Hardswish>(one); };
  out["Mish"] = [](const Case& one) { return unary<nn::Mish>(one); };
  out["Softmax"] = [](const Case& one) { return unary<nn::Softmax>(one, one.get("dim", 0)); };
  out["LogSoftmax"] = [](const Case& one) { return unary<nn::LogSoftmax>(one, one.get("dim", 0)); };
  out["Identity"] = [](const Case& one) { return unary<nn::Identity>(one); };
}

// Tensors under their names in OUTPUTS, without CASE/.
std::vector<NamedTensor> values_of(const Case& one, const Layers& layers) {
  const Layer layer = layers.at(one.get<std::string>("layer", ""))(one);
  layer.module->load_state_dict(one.named("parameter."));
  std::vector<NamedTensor> out;
  Tensor loss;
  for (const Tensor& output : layer.run()) {
    const Tensor term = sum(output * one.output_gradient(out.size()));
    loss = loss.is_null() ? term : loss + term;
    out.push_back({fmt::format("output.{}", out.size()), output, {}});
  }
  loss.backward();
  const auto add_gradients = [&](const std::string& prefix, const std::vector<NamedTensor>& variables) {
    for (const NamedTensor& each : variables)
      if (const Tensor gradient = each.tensor.grad(); !gradient.is_null())
        out.push_back(
            {prefix + each.name, each.exported_dims.empty() ? gradient : gradient.reshape(each.exported_dims), {}});
  };
  add_gradients("gradient.", layer.module->named_parameters());
  add_gradients("input_gradient.", one.named("input.").entries());
  mark_step();
  return out;
}

int run(int argc, char** argv) {
  const Runtime runtime(argc, argv);
  require(argc == 3, "usage: layer_values INPUTS.safetensors OUTPUTS.safetensors");
  Layers layers;
  add_recurrent(layers);
  add_transformers(layers);
  add_shaping(layers);
  add_activations(layers);
  const SafetensorsFile file = read_safetensors(argv[1]);
  SafetensorsFile results;
  for (const auto& [name, options] : file.metadata) {
    const auto values = values_of(Case(file, name, options), layers);
    std::vector<Tensor> tensors;
    for (const auto& value : values) tensors.push_back(value.tensor);
    const auto literals = read_all(tensors);
    for (std::size_t i = 0; i < values.size(); ++i)
      results.tensors.emplace_back(name + "/" + values[i].name, literals[i]);
  }
  write_safetensors(argv[2], results);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::launch(argc, argv, tessera::run); }
