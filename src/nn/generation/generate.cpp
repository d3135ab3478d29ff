// SPDX-License-Identifier: Apache-2.0
// The texts of a batch end in the same slot of the cache, so that one update writes the keys of all of them. Shorter
// texts begin with padding, which no token sees.
#include "tessera/nn/generation/generate.h"

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/initializers.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera::nn {
namespace {

std::int64_t length_of(const Tokens& text) { return static_cast<std::int64_t>(text.size()); }

// The last position has no label in training, so its logits are not used: as in Hugging Face's library, where prompts and
// new tokens together have at most as many tokens as the model has positions.
std::int64_t default_window(std::int64_t positions) {
  return std::max(positions - 1, std::min<std::int64_t>(positions, 2));
}

}  // namespace

void check_generation(const GenerationOptions& options) {
  require(options.max_new_tokens >= 0, "max_new_tokens must not be negative, got {}", options.max_new_tokens);
  require(options.temperature > 0,
          "the temperature must be positive, got {}; for the likeliest tokens, leave do_sample "
          "off",
          options.temperature);
  require(options.top_k >= 0, "top_k must not be negative, got {}", options.top_k);
  require(options.top_p > 0 && options.top_p <= 1, "top_p must be in (0, 1], got {}", options.top_p);
}

class Generator::State {
 public:
  State(CausalLM& model, GeneratorOptions options)
      : model_(model), options_(std::move(options)), sizes_(model.cache_sizes()) {
    const std::int64_t most = sizes_.most_positions;
    if (options_.window == 0) options_.window = default_window(most);
    require(options_.batch > 0 && options_.prompt_chunk > 0,
            "a generator needs a batch and a chunk of at least 1, got {} and {}", options_.batch,
            options_.prompt_chunk);
    require(options_.window > 1 && (most == 0 || options_.window <= most),
            "the window of a generator must have 2 to {} tokens, got {}", most, options_.window);
    options_.prompt_chunk = std::min(options_.prompt_chunk, options_.window);
    slots_ = options_.window + options_.prompt_chunk - 1;
    make_cache();
  }

  std::vector<Tokens> generate(const std::vector<Tokens>& prompts, const GenerationOptions& options) {
    check_generation(options);
    require(isize(prompts) <= options_.batch, "{} prompts for a generator with a batch of {}", prompts.size(),
            options_.batch);
    for (const Tokens& prompt : prompts) require(!prompt.empty(), "a prompt must have at least one token");
    const bool was_training = model_.is_training();
    model_.eval();
    texts_ = prompts;
    options_of_run_ = options;
    run();
    model_.train(was_training);
    return std::move(texts_);
  }

 private:
  void make_cache() {
    const Type type = Type::array(sizes_.dtype, {options_.batch, slots_, sizes_.key_heads, sizes_.head_size});
    const auto split = model_.head_sharding();
    const Mesh mesh = split ? split->mesh : options_.mesh;
    for (std::int64_t layer = 0; layer < sizes_.layers; ++layer)
      for (auto* side : {&cache_.keys, &cache_.values}) {
        side->push_back(Tensor::deferred(type, zeros(), fmt::format("cache.{}", layer)));
        if (mesh.axis_count() == 0) continue;
        const PartitionSpec::Entry heads = split ? PartitionSpec::Entry(split->axis) : PartitionSpec::Entry();
        mark_sharding(side->back(), mesh,
                      PartitionSpec({PartitionSpec::Entry(options_.batch_axes), PartitionSpec::Entry(), heads,
                                     PartitionSpec::Entry()}));
      }
  }

  void run() {
    std::vector<bool> ended(texts_.size(), false);
    std::int64_t count = 0;
    bool goes_on = count < options_of_run_.max_new_tokens;
    std::vector<std::int32_t> tokens;
    if (goes_on) tokens = read_texts();
    while (goes_on) {
      for (std::size_t b = 0; b < texts_.size(); ++b) {
        if (ended[b]) continue;
        texts_[b].push_back(tokens[b]);
        const auto& stops = options_of_run_.stop_tokens;
        ended[b] = std::find(stops.begin(), stops.end(), tokens[b]) != stops.end();
      }
      ++count;
      goes_on = count < options_of_run_.max_new_tokens && std::find(ended.begin(), ended.end(), false) != ended.end();
      if (options_of_run_.on_token) goes_on = options_of_run_.on_token(count) && goes_on;
      if (goes_on) tokens = is_full() ? read_texts() : read_chunk(last_tokens(tokens), 1);
    }
  }

  // The longest text has used the window.
  [[nodiscard]] bool is_full() const {
    const auto least = *std::min_element(padding_.begin(), padding_.begin() + isize(texts_));
    return next_slot_ - least >= options_.window;
  }
  // Texts that have ended continue with any token.
  [[nodiscard]] std::vector<std::int32_t> last_tokens(std::vector<std::int32_t> tokens) const {
    tokens.resize(static_cast<std::size_t>(options_.batch), 0);
    return tokens;
  }

  // Fills the cache from the texts, or from their last halves if they are too long. Returns the next tokens.
  std::vector<std::int32_t> read_texts() {
    std::int64_t longest = 0;
    for (const Tokens& text : texts_) longest = std::max(longest, length_of(text));
    const std::int64_t most = longest > options_.window ? options_.window / 2 : longest;
    longest = std::min(longest, most);
    const std::int64_t chunk = options_.prompt_chunk;
    const std::int64_t width = ceil_div(longest, chunk) * chunk;
    std::vector<std::int32_t> all(static_cast<std::size_t>(options_.batch * width), 0);
    padding_.assign(static_cast<std::size_t>(options_.batch), static_cast<std::int32_t>(width - 1));
    for (std::int64_t b = 0; b < isize(texts_); ++b) {
      const Tokens& text = at(texts_, b);
      const std::int64_t used = std::min(length_of(text), most);
      std::copy(text.end() - used, text.end(), all.begin() + (b + 1) * width - used);
      at(padding_, b) = static_cast<std::int32_t>(width - used);
    }
    next_slot_ = 0;
    std::vector<std::int32_t> tokens;
    for (std::int64_t first = 0; first < width; first += chunk) {
      std::vector<std::int32_t> part;
      for (std::int64_t b = 0; b < options_.batch; ++b)
        part.insert(part.end(), all.begin() + b * width + first, all.begin() + b * width + first + chunk);
      tokens = read_chunk(part, chunk, first + chunk == width);
    }
    return tokens;
  }

  std::vector<std::int32_t> read_chunk(const std::vector<std::int32_t>& ids, std::int64_t time,
                                       bool needs_tokens = true) {
    const Tensor tokens = Tensor::from<std::int32_t>({options_.batch, time}, ids);
    const Tensor start = Tensor::from<std::int32_t>({}, {static_cast<std::int32_t>(next_slot_)});
    const Tensor padding = Tensor::from<std::int32_t>({options_.batch}, padding_);
    const bool draws = options_of_run_.do_sample || options_of_run_.known_tokens > 0;
    const Tensor result = (draws ? logits_ : likeliest_)({tokens, start, padding}).front();
    next_slot_ += time;
    if (!needs_tokens) return {};
    const Literal value = result.to_host();
    metrics().count("GenerationSteps");
    if (!draws) return {value.data<std::int32_t>().begin(), value.data<std::int32_t>().end()};
    return drawn(value);
  }

  // The numbers are the same on every machine. They depend on the place in the text, not on the batch.
  std::vector<std::int32_t> drawn(const Literal& logits) const {
    std::vector<std::int32_t> out;
    const auto all = logits.data<float>();
    const auto vocabulary = static_cast<std::size_t>(logits.type().dim(1));
    for (std::size_t b = 0; b < texts_.size(); ++b) {
      const std::size_t bits = hash_mix(hash_mix(options_of_run_.seed, b), texts_[b].size());
      const double draw = static_cast<double>(hash_mix(bits, 0x5eed) >> 11) * 0x1.0p-53;
      out.push_back(draw_token(all.subspan(b * vocabulary, vocabulary), options_of_run_, draw));
    }
    return out;
  }

  // One step of the model: tokens s32 [batch, time], start s32[], padding s32 [batch] -> logits [batch, vocabulary].
  Tensor step(const std::vector<Tensor>& given) {
    const Tensor& ids = given[0];
    const Tensor padding = given[2].reshape({options_.batch, 1});
    const Type types = ids.type().with_dtype(DType::kS32);
    StepPlace place{.start = given[1]};
    place.positions = maximum(Tensor::iota(types, 1) + given[1] - padding, 0);
    const Tensor slot = Tensor::iota(Type::array(DType::kS32, {options_.batch, slots_}), 1);
    place.visible = (slot >= padding).reshape({options_.batch, 1, 1, slots_});
    KeyValueCache cache = cache_;
    Tensor logits = model_.step(ids, place, cache).to(DType::kF32);
    for (std::size_t i = 0; i < cache.keys.size(); ++i) {
      cache_.keys[i].assign(cache.keys[i]);
      cache_.values[i].assign(cache.values[i]);
    }
    return logits;
  }
  // On every device, so that reading it needs no further program.
  [[nodiscard]] Tensor everywhere(const Tensor& x) const {
    const auto split = model_.head_sharding();
    const Mesh mesh = split ? split->mesh : options_.mesh;
    if (mesh.axis_count() == 0) return x;
    return with_sharding_constraint(x, mesh, PartitionSpec(std::vector<PartitionSpec::Entry>(x.dims().size())));
  }

  CausalLM& model_;
  GeneratorOptions options_;
  CacheSizes sizes_;
  std::int64_t slots_ = 0;
  KeyValueCache cache_;
  using Given = std::vector<Tensor>;
  CompiledFunction logits_ = compile([this](const Given& given) { return Given{everywhere(step(given))}; });
  CompiledFunction likeliest_ =
      compile([this](const Given& given) { return Given{everywhere(argmax(step(given), 1))}; });

  std::vector<Tokens> texts_;
  GenerationOptions options_of_run_;
  std::vector<std::int32_t> padding_;  // the unused slots before each text
  std::int64_t next_slot_ = 0;
};

Generator::Generator(CausalLM& model, GeneratorOptions options)
    : state_(std::make_unique<State>(model, std::move(options))) {}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;

std::vector<Tokens> Generator::generate(const std::vector<Tokens>& prompts, const GenerationOptions& options) {
  return state_->generate(prompts, options);
}

std::vector<Tokens> generate(CausalLM& model, const std::vector<Tokens>& prompts, const GenerationOptions& options,
                             GeneratorOptions placement) {
  std::int64_t longest = 1;
  for (const Tokens& prompt : prompts) longest = std::max(longest, length_of(prompt));
  const std::int64_t most = model.cache_sizes().most_positions;
  const std::int64_t wanted = std::max<std::int64_t>(longest + options.max_new_tokens, 2);
  if (placement.window == 0) placement.window = most == 0 ? wanted : std::min(default_window(most), wanted);
  placement.batch = std::max<std::int64_t>(isize(prompts), 1);
  return Generator(model, std::move(placement)).generate(prompts, options);
}

}  // namespace tessera::nn
