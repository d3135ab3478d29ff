// SPDX-License-Identifier: Apache-2.0
// Generates text. The text stays on the device until it is complete, so that no step waits until a token is read.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/trainer/clm.h"

namespace tessera::trainer {
namespace {

constexpr double kTemperature = 0.8;
constexpr std::int64_t kLikeliest = 40;
constexpr float kNever = -1e30F;  // the logit of a token that must not be drawn

// Draws numbers in [0, 1) that are the same on every machine.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  double next() { return static_cast<double>(hash_mix(seed_, ++count_) >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

// Returns Gumbel noise for the ids that the tokenizer has: the id with the largest sum of logit / temperature and noise
// is a draw from the softmax.
std::vector<float> make_noise(Draws& draws, std::int64_t known, std::int64_t vocabulary) {
  constexpr double kLeast = 0x1.0p-54;
  std::vector<float> out(static_cast<std::size_t>(vocabulary), kNever);
  for (std::int64_t id = 0; id < known; ++id)
    at(out, id) = static_cast<float>(-std::log(-std::log(std::max(kLeast, draws.next()))));
  return out;
}

// Returns the id drawn from the `count` largest logits, s32[].
Tensor draw_token(const Tensor& logits, const Tensor& noise, std::int64_t count) {
  const Tensor possible = where(noise > kNever, logits, kNever);
  Tensor rest = possible;
  Tensor least = max(rest);
  for (std::int64_t i = 1; i < count; ++i) {
    rest = where(rest < least, rest, kNever);
    least = max(rest);
  }
  return argmax(where(possible >= least, possible / kTemperature + noise, kNever), 0);
}

class Writer {
 public:
  Writer(ClmModel& setup, const std::vector<std::int32_t>& prompt, std::int64_t tokens, std::int64_t known)
      : setup_(setup),
        size_(isize(prompt)),
        capacity_(size_ + tokens),
        known_(std::min(known, setup.model->shape().vocabulary)) {
    std::vector<std::int32_t> text = prompt;
    text.resize(static_cast<std::size_t>(capacity_), 0);
    text_ = Tensor::from<std::int32_t>({capacity_}, text);
  }

  void write_next(Draws& draws) {
    const std::int64_t vocabulary = setup_.model->shape().vocabulary;
    const Tensor noise = Tensor::from<float>({vocabulary}, make_noise(draws, known_, vocabulary));
    const Tensor token = draw_token(next_logits(), noise, std::min(kLikeliest, known_));
    const Tensor place = Tensor::from<std::int32_t>({1}, {static_cast<std::int32_t>(size_)});
    text_ = where(Tensor::iota(text_.type(), 0) == place, token, text_);
    ++size_;
    mark_step();
  }

  [[nodiscard]] std::vector<std::int32_t> text() const {
    const Literal all = text_.to_host();
    const auto ids = all.data<std::int32_t>();
    return {ids.begin(), ids.begin() + size_};
  }

 private:
  // Returns the logits for the token after the text, f32[v]. The window has the block size of the training, so that
  // there is one program. The label shift leaves the last position of a block without a label, so training never
  // reaches it: position block_size - 2 is the last one that is read, even for longer texts.
  Tensor next_logits() {
    const std::int64_t width = setup_.block_size;
    const std::int64_t used = std::min(size_, width - 1);
    std::vector<std::int32_t> places(static_cast<std::size_t>(width));
    for (std::int64_t i = 0; i < width; ++i)
      at(places, i) = static_cast<std::int32_t>(std::min(size_ - used + i, capacity_ - 1));
    const Tensor window = embedding(text_.reshape({capacity_, 1}), Tensor::from<std::int32_t>({width}, places));
    const Tensor all = setup_.model->logits(window.reshape({1, width})).select(0, 0);  // [t, v]
    const Tensor last = Tensor::from<std::int32_t>({1}, {static_cast<std::int32_t>(used) - 1});
    const Tensor logits = embedding(all, last).select(0, 0).to(DType::kF32);
    if (setup_.mesh.device_count() == 1) return logits;
    return with_sharding_constraint(logits, setup_.mesh, {PartitionSpec::Entry()});  // one gather, not one per maximum
  }

  ClmModel& setup_;
  std::int64_t size_;      // tokens so far
  std::int64_t capacity_;  // tokens at the end
  std::int64_t known_;
  Tensor text_;  // s32[capacity_]
};

}  // namespace

std::string sample_text(ClmModel& setup, const data::Tokenizer& tokenizer, const std::string& prompt,
                        std::int64_t tokens, std::uint64_t seed, const OnProgress& on_progress) {
  setup.model->eval();
  std::vector<std::int32_t> start = tokenizer.encode(prompt);
  if (start.empty()) start.push_back(tokenizer.end_of_text().value_or(tokenizer.encode("\n").front()));
  Draws draws(seed);
  Writer writer(setup, start, tokens, tokenizer.vocab_size());
  for (std::int64_t i = 0; i < tokens && (!on_progress || on_progress(i, tokens)); ++i) writer.write_next(draws);
  setup.model->train();
  return tokenizer.decode(writer.text());
}

}  // namespace tessera::trainer
